/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb attach: the streams of a step's tasks, shown and typed at while it runs.
 */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/buffer.h"
#include "stepd/base/json.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/cli/viewer.h"
#include "stepd/client/client.h"

/* NULL: no memory. */
static json_t *pack_call(const struct ctl_options *opt, const char *ranks)
{
	return json_pack("{s:s*, s:s*, s:o*, s:o*, s:o*}", "ranks", ranks, "stream", opt->stream,
		"since", opt->since >= 0 ? json_integer((json_int_t)opt->since) : NULL, "tail",
		opt->tail ? json_true() : NULL, "input", opt->input ? json_true() : NULL);
}

static int attach_failed(const struct target *target, enum viewer_end end, const struct err *err,
	struct stepd_error *error)
{
	switch (end) {
	case VIEWER_AGENT_GONE:
		return client_error(error, -ECONNREFUSED,
			"step %s: its agent is gone, and its streams with it; its tasks may still run "
			"('stepctl show %s')",
			target->label, target->label);
	case VIEWER_OUTPUT:
		return client_error_forward(error, err);
	default:
		return 0;
	}
}

static int attach_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	struct viewer_options *viewer = target->userdata;
	_cleanup_buffer_ struct buffer rest = {0};
	_cleanup_close_ int channel = -1;
	json_auto_t *reply = NULL;
	struct err err = ERR_INIT;
	enum viewer_end end;
	json_t *call = pack_call(&ctl->opt, target->ranks);
	int r;

	if (!call)
		return client_no_memory(error);
	r = client_upgrade_take(target->client, "Attach", call, &reply, &channel, &rest, error);
	if (r < 0)
		return r;
	viewer->terminal = json_get_bool(reply, "terminal", false);
	viewer->ntasks = (uint32_t)json_get_int(reply, "ntasks", 1);
	end = viewer_run(viewer, channel, &rest, &err);
	if (end == VIEWER_DETACHED)
		fprintf(stderr, "stepctl attach: detached from step %s, which runs on\n",
			target->label);
	return attach_failed(target, end, &err, error);
}

int ctl_attach(struct ctl *ctl)
{
	struct viewer_options viewer = {
		.program = "stepctl attach",
		.in_fd = STDIN_FILENO,
		.out_fd = STDOUT_FILENO,
		.err_fd = STDERR_FILENO,
		.label = ctl->opt.label,
		.input = ctl->opt.input,
	};
	const struct request request = {
		.run = attach_step, .in_turn = true, .with_ranks = true, .userdata = &viewer};
	const char *keys = ctl->opt.detach_keys ? ctl->opt.detach_keys : DETACH_KEYS_USUAL;

	if (ctl->opt.tail && ctl->opt.since >= 0)
		return err_set_text(
			&ctl->err, -EINVAL, "--tail conflicts with --since: give one of them");
	if (detach_keys_parse(keys, &viewer.keys, &ctl->err) < 0)
		return err_prefix(&ctl->err, "--detach-keys");
	return request_steps(ctl, &request);
}
