/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/site.h"

#include "stepd/base/parse.h"
#include "stepd/cli/site_config.h"
#include "stepd/step/agent.h"

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err)
{
	if (parse_duration_ms(arg, &site->keep_result_ms) < 0)
		return err_say(err, -EINVAL,
			"'%.200s' is no duration such as 90, 30s, 5m, 2h or 1d; 0 keeps none", arg);
	site->keep_result_given = true;
	return 0;
}

int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, struct json_t *doc, struct err *err)
{
	struct site_config config = SITE_CONFIG_INIT;
	int r = site_config_read(site->config_file, &config, err);

	if (r < 0)
		return r;
	options->operator_gid = config.operator_gid;
	options->mpi_unfiltered = config.mpi_unfiltered;
	options->keep_result_ms = keep_result_ms;
	if (keep_result_ms && config.keep_result_given)
		options->keep_result_ms = config.keep_result_ms;
	if (site->keep_result_given)
		options->keep_result_ms = site->keep_result_ms;
	return doc ? site_config_fill_spec(&config, doc, err) : 0;
}
