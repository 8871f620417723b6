/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/parse.h"
#include "stepd/cli/options.h"
#include "stepd/cli/relay/channel.h"

#define INDEX_FROM "PMIX_RANK,FLUX_TASK_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK,SLURM_PROCID"

static int find_index(const char *names, uint32_t *ret_index, struct err *err)
{
	_cleanup_free_ char *copy = strdup(names);
	char *save = NULL, *name;
	const char *value;

	if (!copy)
		return err_set(err, -ENOMEM, "read the options");
	for (name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		value = secure_getenv(name);
		if (!value)
			continue;
		if (parse_u32(value, 0, CHANNEL_ALL - 1, ret_index) < 0)
			return err_say(err, -EINVAL,
				"the variable %s is '%.64s', which is no number", name, value);
		return 0;
	}
	return err_say(err, -EINVAL,
		"the launcher does not name this relay's number: none of the variables %s is set; give --index",
		names);
}

static int take_index(const struct cli_option *option, const char *arg, void *into, struct err *err)
{
	struct relay_options *o = into;

	(void)option;
	o->index_from = NULL;
	return parse_u32(arg, 0, CHANNEL_ALL - 1, &o->index) < 0
		? err_say(err, -EINVAL, "'%s' is no number", arg)
		: 0;
}

static int take_node(const struct cli_option *option, const char *arg, void *into, struct err *err)
{
	struct relay_options *o = into;

	(void)option;
	(void)err;
	(void)snprintf(o->node, sizeof(o->node), "%s", arg);
	return 0;
}

#define AT(member_) offsetof(struct relay_options, member_)

/* clang-format off */
static const struct cli_option rows[] = {
	{.name = "index", .arg = "N", .take = take_index,
	 .doc = "this is relay number N"},
	{.name = "index-from", .arg = "NAME,...", .take = cli_take_text, .offset = AT(index_from),
	 .doc = "the first of these variables that is set has the number (" INDEX_FROM ")"},
	{.name = "node", .arg = "NAME", .take = take_node,
	 .doc = "this node's name (SLURMD_NODENAME, or the host's)"},
	{.name = "ifname", .arg = "NAME", .take = cli_take_text, .offset = AT(ifname),
	 .doc = "the network interface that other nodes reach this one by"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help), .doc = "show this"},
};
/* clang-format on */

void relay_options_print_help(void)
{
	puts("Usage: stepd relay [OPTION...]\n"
	     "steprun's relay on a node, which it starts through a launcher: carries a step's streams,\n"
	     "signals and result over standard input and output. Not for people.\n");
	cli_options_print(rows, ARRAY_SIZE(rows), stdout);
}

static void name_node(struct relay_options *o)
{
	const char *name = secure_getenv("SLURMD_NODENAME");

	if (*o->node)
		return;
	if (name)
		(void)snprintf(o->node, sizeof(o->node), "%s", name);
	else if (gethostname(o->node, sizeof(o->node)) < 0)
		(void)snprintf(o->node, sizeof(o->node), "localhost");
	o->node[sizeof(o->node) - 1] = '\0';
	if (!name)
		o->node[strcspn(o->node, ".")] = '\0';
}

int relay_options_parse(int argc, char **argv, struct relay_options *o, struct err *err)
{
	struct cli_options options = {
		.rows = rows, .n = ARRAY_SIZE(rows), .command = "stepd relay"};
	int rest, r;

	*o = (struct relay_options){.index_from = INDEX_FROM};
	r = cli_options_parse(&options, argc, argv, o, &rest, err);
	if (r < 0 || o->help)
		return r;
	name_node(o);
	return o->index_from ? find_index(o->index_from, &o->index, err) : 0;
}
