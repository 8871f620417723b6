/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/parse.h"
#include "stepd/cli/relay/channel.h"

#define INDEX_FROM "PMIX_RANK,FLUX_TASK_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK,SLURM_PROCID"

enum {
	OPT_INDEX = 256,
	OPT_INDEX_FROM,
	OPT_NODE,
	OPT_IFNAME
};

static const struct option long_options[] = {
	{"index", required_argument, NULL, OPT_INDEX},
	{"index-from", required_argument, NULL, OPT_INDEX_FROM},
	{"node", required_argument, NULL, OPT_NODE},
	{"ifname", required_argument, NULL, OPT_IFNAME},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const char relay_help_text[] =
	"Usage: stepd relay [OPTION...]\n"
	"steprun's hand on a node, which it starts through a launcher: carries a step's streams,\n"
	"signals and result over standard input and output. Not for people.\n\n"
	"  --index N           this is relay number N\n"
	"  --index-from NAME,...\n"
	"                      the first of these variables that is set has the number\n"
	"                      (" INDEX_FROM ")\n"
	"  --node NAME         this node's name (SLURMD_NODENAME, or the host's)\n"
	"  --ifname NAME       the network interface that other nodes reach this one by\n"
	"  -h, --help          show this\n";

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
		"the launcher did not say which relay this is: none of the variables %s is set; give --index",
		names);
}

static int take_option(struct relay_options *o, int opt, const char **index_from, struct err *err)
{
	switch (opt) {
	case OPT_INDEX:
		*index_from = NULL;
		return parse_u32(optarg, 0, CHANNEL_ALL - 1, &o->index) < 0
			? err_say(err, -EINVAL, "--index: '%s' is no number", optarg)
			: 0;
	case OPT_INDEX_FROM:
		*index_from = optarg;
		return 0;
	case OPT_NODE:
		(void)snprintf(o->node, sizeof(o->node), "%s", optarg);
		return 0;
	case OPT_IFNAME:
		o->ifname = optarg;
		return 0;
	case 'h':
		o->help = true;
		return 0;
	default:
		return err_say(err, -EINVAL, "wrong option (see stepd relay --help)");
	}
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
	const char *index_from = INDEX_FROM;
	int opt, r = 0;

	*o = (struct relay_options){0};
	while (r == 0 && (opt = getopt_long(argc, argv, "+h", long_options, NULL)) != -1)
		r = take_option(o, opt, &index_from, err);
	if (r < 0 || o->help)
		return r;
	if (optind < argc)
		return err_say(
			err, -EINVAL, "'%s' is no option (see stepd relay --help)", argv[optind]);
	name_node(o);
	return index_from ? find_index(index_from, &o->index, err) : 0;
}
