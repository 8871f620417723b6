/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/options.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

#include "stepd/api/env.h"
#include "stepd/base/fs.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"

#define OWN(member_)      offsetof(struct steprun_options, member_)
#define HOSTFILE_MAX      (16u << 20) /* bytes */
#define LAUNCH_TIMEOUT_MS 60000u

void steprun_options_clear(struct steprun_options *o)
{
	run_options_clear(&o->run);
	free(o->found_program);
	free(o->attach.step);
	strv_clear(&o->nodes);
	layout_clear(&o->layout);
	*o = (struct steprun_options)STEPRUN_OPTIONS_INIT;
}

/* ---- the table ----------------------------------------------------------------------------- */

static struct steprun_options *own(const struct run_build *build)
{
	return (struct steprun_options *)build->options; /* its first member */
}

static int take_count(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint32_t *count = (uint32_t *)((char *)own(into) + o->offset);

	return parse_u32(arg, 1, SPEC_NODES_MAX, count) < 0
		? err_set_text(err, -EINVAL, "'%.200s' is not a number from 1 to %u", arg,
			  SPEC_NODES_MAX)
		: 0;
}

static int take_timeout(
	_unused_ const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return parse_duration_ms(arg, &own(into)->launch_timeout_ms) < 0
		? err_set_text(
			  err, -EINVAL, "'%.200s' is not a duration such as 90, 30s or 5m", arg)
		: 0;
}

/* clang-format off */
static const struct cli_option own_rows[] = {
	{.heading = "Nodes and tasks",
	 .name = "nodes", .letter = 'N', .arg = "N", .take = take_count, .offset = OWN(nodes_requested),
	 .doc = "nodes of the step (all that are given; 1 if none are)"},
	{.name = "ntasks", .letter = 'n', .arg = "N", .take = run_take_number, .path = "ntasks",
	 .doc = "tasks of the whole step (one for each node)"},
	{.name = "ntasks-per-node", .arg = "N", .take = take_count, .offset = OWN(per_node),
	 .doc = "tasks of each node; with --ntasks, at most"},
	{.name = "hosts", .letter = 'w', .arg = "HOST,...", .take = run_take_own_text, .offset = OWN(hosts),
	 .doc = "the nodes, as n1,n2 or n[1-4]; with an arbitrary distribution, the node of each task"},
	{.name = "nodelist", .arg = "HOST,...", .take = run_take_own_text, .offset = OWN(hosts),
	 .doc = "the same"},
	{.name = "hostfile", .arg = "FILE", .take = run_take_own_text, .offset = OWN(hostfile),
	 .doc = "the same, a line each"},
	{.name = "distribution", .letter = 'm', .arg = "block|cyclic|plane=N|arbitrary[:block|cyclic|plane=N]", .take = run_take_own_text, .offset = OWN(distribution),
	 .doc = "how tasks are distributed over nodes, and behind the colon over the sockets of a node (block:block)"},
	{.name = "overcommit", .letter = 'O', .take = run_take_own_flag, .offset = OWN(overcommit),
	 .doc = "allow more tasks than CPUs on a node, in an allocation of Slurm"},
	{.name = "launcher", .arg = "local|ssh[:OPTIONS]|slurm|exec:TEMPLATE", .take = run_take_own_text, .offset = OWN(launcher_text),
	 .doc = "how agents are started on their nodes (slurm in an allocation, ssh if hosts "
		"are given, else local)"},
	{.name = "launch-timeout", .arg = "DURATION", .take = take_timeout,
	 .doc = "how long that may take (60s)"},
	{.name = "stepd", .arg = "FILE", .take = run_take_own_text, .offset = OWN(program),
	 .doc = "the agent's program on the nodes (that of this installation)"},
};

/* Options for one node, or with another row above. */
static const char *const other_rows[] = {
	"ntasks", "distribution", "batch", "extern", "node-name", "node-id", "node-count", "node-list",
	"node-ranks", "tasks-per-node", "local-ntasks", "first-rank", "ranks", "wire-addresses",
	"wire-listen-fd", "wire-secret-fd", "keep-result",
};
/* clang-format on */

static bool is_taken(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(other_rows) && strcmp(other_rows[i], name) != 0; i++)
		;
	return i == ARRAY_SIZE(other_rows);
}

static size_t steprun_make_rows(struct cli_option rows[CLI_OPTIONS_MAX])
{
	const char *heading = NULL;
	const struct cli_option *table;
	size_t n = ARRAY_SIZE(own_rows), count, i;

	memcpy(rows, own_rows, sizeof(own_rows));
	table = run_option_table(&count);
	for (i = 0; i < count && n < CLI_OPTIONS_MAX - 1; i++) {
		heading = table[i].heading ?: heading;
		if (!is_taken(table[i].name))
			continue;
		rows[n] = table[i];
		rows[n++].heading = heading; /* the id of a row that was left out */
		heading = NULL;
	}
	return n;
}

static int take_since(
	_unused_ const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t since;

	if (parse_u64(arg, 0, INT64_MAX, &since) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a number", arg);
	own(into)->attach.since = (int64_t)since;
	return 0;
}

static int take_stream(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	if (strcmp(arg, "stdout") != 0 && strcmp(arg, "stderr") != 0 && strcmp(arg, "both") != 0)
		return err_set_text(
			err, -EINVAL, "'%.200s' is not one of stdout, stderr and both", arg);
	return run_take_own_text(o, arg, into, err);
}

/* clang-format off */
static const struct cli_option attach_rows[] = {
	{.heading = "What is shown",
	 .name = "stdin", .take = run_take_own_flag, .offset = OWN(attach.input),
	 .doc = "standard input goes to the tasks' standard input, too"},
	{.name = "since", .arg = "N", .take = take_since,
	 .doc = "from byte N of each stream on (from now on)"},
	{.name = "tail", .take = run_take_own_flag, .offset = OWN(attach.tail),
	 .doc = "from what the agents hold of each stream"},
	{.name = "stream", .arg = "stdout|stderr|both", .take = take_stream, .offset = OWN(attach.stream),
	 .doc = "only this stream (both)"},
	{.name = "label", .letter = 'l', .take = run_take_own_flag, .offset = OWN(attach.label),
	 .doc = "begin each line with its task's rank"},
	{.name = "detach-keys", .arg = "KEYS", .take = run_take_own_text, .offset = OWN(attach.detach_keys),
	 .doc = "keys that detach from a task's terminal; none if empty (ctrl-p,ctrl-q)"},
};
/* clang-format on */

static bool is_for_attach(const struct cli_option *row)
{
	static const char *const names[] = {"nodes", "hosts", "nodelist", "hostfile", "launcher",
		"launch-timeout", "stepd", "runtime-dir", "help"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names) && strcmp(names[i], row->name) != 0; i++)
		;
	return i < ARRAY_SIZE(names);
}

static size_t attach_make_rows(struct cli_option rows[CLI_OPTIONS_MAX])
{
	struct cli_option all[CLI_OPTIONS_MAX];
	size_t count = steprun_make_rows(all), n = ARRAY_SIZE(attach_rows), i;

	memcpy(rows, attach_rows, sizeof(attach_rows));
	for (i = 0; i < count; i++) {
		if (!is_for_attach(&all[i]))
			continue;
		rows[n] = all[i];
		rows[n++].heading = strcmp(all[i].name, "nodes") == 0 ? "Where it runs" : NULL;
	}
	return n;
}

void steprun_attach_print_help(FILE *out)
{
	struct cli_option rows[CLI_OPTIONS_MAX];

	fputs("Usage: steprun attach [OPTION...] STEP[/RANKS]\nShows the output of a step's tasks on "
	      "all its nodes while it comes, and types. STEP is\nJOB.STEP; the step needs "
	      "--attachable. Defaults are in parentheses.\n",
		out);
	cli_options_print(rows, attach_make_rows(rows), out);
}

void steprun_options_print_help(FILE *out)
{
	struct cli_option rows[CLI_OPTIONS_MAX];

	fputs("Usage: steprun [OPTION...] [--] PROGRAM [ARG...]\nRuns PROGRAM as the tasks "
	      "of a step, on this node or on several. Defaults are in parentheses.\n"
	      "steprun attach --help: the streams of a step that runs.\n",
		out);
	cli_options_print(rows, steprun_make_rows(rows), out);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* From the options, and in an allocation of Slurm from its variables. */
struct nodes_found {
	uint32_t count;
	uint32_t ntasks;    /* of the allocation; 0: not known */
	uint32_t *cpus;     /* of each node in the allocation; NULL: not known */
	uint32_t *on_nodes; /* with LAYOUT_ARBITRARY: the node of each rank */
	uint32_t on_nodes_count;
};

static void nodes_found_clear(struct nodes_found *found)
{
	free(found->cpus);
	free(found->on_nodes);
}

static int steprun_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "list the nodes");
}

static void drop_nodes_from(struct strv *nodes, size_t count)
{
	while (nodes->n > count) {
		free(nodes->v[--nodes->n]);
		nodes->v[nodes->n] = NULL;
	}
}

static int steprun_add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int add_list(const char *source, const char *text, struct strv *names, struct err *err)
{
	int r = hostlist_each(text, SPEC_NTASKS_MAX, steprun_add_name, names);

	if (r == -ENOMEM)
		return steprun_no_memory(err);
	return r < 0 ? err_set_text(err, -EINVAL,
			       "%s: '%.200s' is not a list of hosts such as n1,n2 or n[1-4]",
			       source, text)
		     : 0;
}

/* One host or list per line; "#" begins a comment. */
static int add_file(const char *file, struct strv *names, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char *line, *end, *rest;
	int r = fs_read(AT_FDCWD, file, HOSTFILE_MAX, &text, NULL);

	if (r < 0)
		return err_set(err, r, "--hostfile: read '%s'", file);
	for (rest = text; r == 0 && (line = strsep(&rest, "\n"));) {
		line[strcspn(line, "#\r")] = '\0';
		line += strspn(line, " \t");
		end = line + strcspn(line, " \t");
		if (end[strspn(end, " \t")])
			return err_set_text(err, -EINVAL,
				"--hostfile: '%s' has more than a host, or a list, in the line '%.200s'",
				file, line);
		*end = '\0';
		if (*line)
			r = add_list(file, line, names, err);
	}
	if (r == 0 && names->n == 0)
		return err_set_text(err, -EINVAL, "--hostfile: '%s' names no host", file);
	return r;
}

/* The nodes of a list that may repeat some: each once, in the order of their first entries;
 * ret_on_nodes has the node of each entry. */
static int make_unique(struct strv *names, uint32_t **ret_on_nodes, struct err *err)
{
	_cleanup_free_ uint32_t *on = calloc(names->n + 1, sizeof(*on));
	_cleanup_strv_ struct strv unique = {0};
	json_t *known = json_object(), *index;
	int r = on && known ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; r == 0 && i < names->n; i++) {
		index = json_object_get(known, names->v[i]);
		on[i] = index ? (uint32_t)json_integer_value(index) : (uint32_t)unique.n;
		if (!index) {
			r |= strv_add(&unique, names->v[i]);
			r |= json_object_set_new_nocheck(known, names->v[i], json_integer(on[i]));
		}
	}
	json_decref(known);
	if (r < 0)
		return steprun_no_memory(err);
	strv_clear(names);
	*names = unique;
	unique = (struct strv){0};
	*ret_on_nodes = take_ptr(on);
	return 0;
}

/* Agents on this machine, one for each node: "host-0", "host-1". */
static int make_local_names(uint32_t count, struct strv *names, struct err *err)
{
	char host[HOST_NAME_MAX + 1] = "";
	uint32_t i;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return err_set(err, -errno, "read the host's name");
	host[strcspn(host, ".")] = '\0';
	for (i = 0; i < count; i++) {
		if (strv_addf(names, count > 1 ? "%s-%u" : "%s", host, i) < 0)
			return steprun_no_memory(err);
	}
	return 0;
}

/* ---- an allocation ------------------------------------------------------------------------- */

static bool has_srun(const char *path)
{
	_cleanup_free_ char *copy = path ? strdup(path) : NULL;
	char *rest = copy, *dir, file[PATH_MAX];

	while ((dir = strsep(&rest, ":"))) {
		(void)snprintf(
			file, sizeof(file), "%s/srun", dir); /* a truncated name is not there */
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* Both: stepd's own tasks have SLURM_JOB_ID, too. */
static const char *allocation_nodes(char **env)
{
	const char *list = stepd_env_get(env, "SLURM_JOB_NODELIST");

	return list && stepd_env_get(env, "SLURM_JOB_ID") ? list : NULL;
}

/* "4(x2),8" */
static int parse_cpus(const char *text, struct nodes_found *found)
{
	uint32_t n = 0, cpus, times;
	char *end;

	found->cpus = calloc(found->count, sizeof(*found->cpus));
	if (!found->cpus)
		return -ENOMEM;
	while (n < found->count) {
		cpus = (uint32_t)strtoul(text, &end, 10);
		times = 1;
		if (strncmp(end, "(x", 2) == 0) {
			times = (uint32_t)strtoul(end + 2, &end, 10);
			end += *end == ')';
		}
		if (end == text || cpus == 0 || times == 0)
			return -EINVAL;
		for (; times > 0 && n < found->count; times--)
			found->cpus[n++] = cpus;
		if (n < found->count && *end != ',')
			return -EINVAL;
		text = end + 1;
	}
	return 0;
}

/* An unreadable value is unknown. */
static void read_allocation(struct steprun_options *o, char **env, struct nodes_found *found)
{
	const char *cpus = stepd_env_get(env, "SLURM_JOB_CPUS_PER_NODE");
	const char *ntasks = stepd_env_get(env, "SLURM_NTASKS");

	if (ntasks && parse_u32(ntasks, 1, SPEC_NTASKS_MAX, &found->ntasks) < 0)
		found->ntasks = 0;
	if (cpus && !o->hosts && !o->hostfile && parse_cpus(cpus, found) < 0) {
		free(found->cpus);
		found->cpus = NULL;
	}
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* The owner of an allocation, such as jobd(8), names in the environment the launcher that reaches
 * its nodes. */
static int choose_launcher(struct steprun_options *o, char **env, struct err *err)
{
	const char *given = stepd_env_get(env, "STEPRUN_LAUNCHER"), *text = o->launcher_text;
	const bool by_env = !text && given && *given;

	if (by_env)
		text = given;
	if (!text && allocation_nodes(env) && has_srun(stepd_env_get(env, "PATH")))
		text = "slurm";
	if (!text)
		text = o->hosts || o->hostfile ? "ssh" : "local";
	o->here = !o->launcher_text && strcmp(text, "local") == 0 && o->nodes_requested <= 1;
	if (launcher_parse(text, &o->launcher) < 0)
		return err_set_text(err, -EINVAL,
			"%s: '%.200s' is not one of local, ssh[:OPTIONS], slurm and exec:TEMPLATE, "
			"where the template has a %%c",
			by_env ? "STEPRUN_LAUNCHER" : "--launcher", text);
	o->allocated = allocation_nodes(env) && (by_env || o->launcher.kind == LAUNCHER_SLURM);
	return 0;
}

static int list_nodes(struct steprun_options *o, char **env, struct err *err)
{
	static const char *const kinds[LAUNCHER_MAX] = {
		[LAUNCHER_SSH] = "ssh", [LAUNCHER_SLURM] = "slurm", [LAUNCHER_EXEC] = "exec"};

	if (o->hosts && o->hostfile)
		return err_set_text(
			err, -EINVAL, "--hosts and --hostfile conflict; give one of them");
	if (o->hosts)
		return add_list("--hosts", o->hosts, &o->nodes, err);
	if (o->hostfile)
		return add_file(o->hostfile, &o->nodes, err);
	if (o->allocated)
		return add_list("SLURM_JOB_NODELIST", allocation_nodes(env), &o->nodes, err);
	if (o->launcher.kind == LAUNCHER_LOCAL)
		return make_local_names(o->nodes_requested ?: 1, &o->nodes, err);
	if (o->launcher.kind == LAUNCHER_SSH || strstr(o->launcher.text, "%h"))
		return err_set_text(err, -EINVAL, "--launcher=%s needs nodes: give --hosts",
			kinds[o->launcher.kind]);
	return o->launcher.at_once ? 0 : make_local_names(o->nodes_requested ?: 1, &o->nodes, err);
}

static int limit_nodes(struct steprun_options *o, uint32_t *ret_count, struct err *err)
{
	if (o->nodes.n > SPEC_NODES_MAX)
		return err_set_text(err, -E2BIG, "%zu nodes are more than a step can have (%u)",
			o->nodes.n, SPEC_NODES_MAX);
	if (o->nodes.n > 0 && o->nodes_requested > o->nodes.n)
		return err_set_text(err, -EINVAL,
			"--nodes: %u nodes are requested, but only %zu are given",
			o->nodes_requested, o->nodes.n);
	if (o->nodes_requested)
		drop_nodes_from(&o->nodes, o->nodes_requested);
	*ret_count = o->nodes.n ? (uint32_t)o->nodes.n : o->nodes_requested ?: 1;
	return 0;
}

static int find_nodes(struct steprun_options *o, enum layout_kind kind, char **env,
	struct nodes_found *found, struct err *err)
{
	_cleanup_free_ uint32_t *on_nodes = NULL;
	size_t entries;
	int r = choose_launcher(o, env, err);

	if (r == 0)
		r = list_nodes(o, env, err);
	if (r < 0)
		return r;
	entries = o->nodes.n;
	if (kind == LAYOUT_ARBITRARY && !o->hosts && !o->hostfile)
		return err_set_text(err, -EINVAL,
			"--distribution=arbitrary needs the node of each task: give --hosts or --hostfile");
	if (o->nodes.n > 0) {
		r = make_unique(&o->nodes, &on_nodes, err);
		if (r < 0)
			return r;
	}
	if (kind == LAYOUT_ARBITRARY) {
		found->on_nodes = take_ptr(on_nodes);
		found->on_nodes_count = (uint32_t)entries;
		found->count = (uint32_t)o->nodes.n;
		return 0;
	}
	r = limit_nodes(o, &found->count, err);
	if (r == 0 && o->allocated)
		read_allocation(o, env, found);
	o->here = o->here && found->count == 1;
	return r;
}

/* ---- tasks --------------------------------------------------------------------------------- */

/* How many tasks there are if none is given; 0: the document of --spec may have it. */
static uint32_t default_ntasks(const struct steprun_options *o, const struct nodes_found *found,
	const struct run_build *build)
{
	if (o->per_node)
		return o->per_node * found->count;
	if (found->on_nodes)
		return found->on_nodes_count;
	if (build->spec_file && !o->nodes_requested)
		return 0;
	if (found->ntasks && !o->nodes_requested)
		return found->ntasks;
	return found->count;
}

static int set_ntasks(struct steprun_options *o, const struct nodes_found *found,
	struct run_build *build, struct err *err)
{
	uint32_t n = default_ntasks(o, found, build);

	if (json_object_get(build->overlay, "ntasks") || n == 0)
		return 0;
	return run_set(build, "ntasks", json_integer(n), err);
}

/* As srun, no more nodes than tasks. */
static void drop_idle_nodes(struct steprun_options *o, struct nodes_found *found, uint32_t ntasks)
{
	uint32_t used = ntasks, i;

	if (found->on_nodes) /* they are numbered in the order in which they connect */
		for (used = 0, i = 0; i < ntasks; i++)
			used = found->on_nodes[i] >= used ? found->on_nodes[i] + 1 : used;
	if (found->count <= used)
		return;
	if (o->nodes_requested && o->run.verbosity >= 0)
		fprintf(stderr, "steprun: %u task%s can't be on %u nodes: %u of them are used\n",
			ntasks, ntasks == 1 ? "" : "s", found->count, used);
	drop_nodes_from(&o->nodes, used);
	found->count = used;
}

/* How many tasks each node may have: by the allocation's CPUs, unless overcommitted, and by
 * --ntasks-per-node. NULL: there is no limit. */
static int make_counts(const struct steprun_options *o, const struct nodes_found *found,
	uint32_t **ret_counts, struct err *err)
{
	uint32_t cpus_per_task = o->run.spec->cpus_per_task ?: 1, i, most;
	uint32_t *counts;

	*ret_counts = NULL;
	if (!o->per_node && (o->overcommit || !found->cpus))
		return 0;
	counts = calloc(found->count, sizeof(*counts));
	if (!counts)
		return err_set(err, -ENOMEM, "lay out the tasks");
	for (i = 0; i < found->count; i++) {
		most = o->overcommit || !found->cpus ? SPEC_TASKS_MAX
						     : found->cpus[i] / cpus_per_task;
		counts[i] = o->per_node && o->per_node < most ? o->per_node : most;
	}
	*ret_counts = counts;
	return 0;
}

static int distribute(struct steprun_options *o, struct nodes_found *found, enum layout_kind kind,
	uint32_t plane, struct err *err)
{
	_cleanup_free_ uint32_t *counts = NULL;
	uint32_t i;
	int r;

	if (found->on_nodes && o->run.spec->ntasks > found->on_nodes_count)
		return err_set_text(err, -EINVAL,
			"--ntasks: %u tasks need as many hosts with --distribution=arbitrary, but %u are given",
			o->run.spec->ntasks, found->on_nodes_count);
	drop_idle_nodes(o, found, o->run.spec->ntasks);
	r = make_counts(o, found, &counts, err);
	if (r == 0)
		r = layout_make(&(const struct layout_request){.kind = kind,
					.plane = plane,
					.nodes = found->count,
					.ntasks = o->run.spec->ntasks,
					.counts = counts,
					.on_nodes = found->on_nodes},
			&o->layout, err);
	for (i = 0; r == 0 && i < o->layout.nodes; i++) {
		if (o->layout.counts[i] == 0)
			r = err_set_text(err, -EINVAL,
				"node %u of %u would get none of the %u tasks; request fewer nodes",
				i, o->layout.nodes, o->layout.ntasks);
	}
	return r;
}

/* ---- the document -------------------------------------------------------------------------- */

static int set_distribution(struct steprun_options *o, struct run_build *build,
	enum layout_kind *ret_kind, uint32_t *ret_plane, struct err *err)
{
	const char *text = o->distribution ?: "block", *sockets = strchr(text, ':');

	*ret_plane = 0;
	if (layout_parse(text, ret_kind, ret_plane) < 0)
		return err_set_text(err, -EINVAL,
			"--distribution: '%.200s' is not one of block, cyclic, plane=N and arbitrary",
			text);
	return sockets ? run_set(build, "distribution", json_string(sockets + 1), err) : 0;
}

/* The variables that srun leaves for the tasks. */
static int set_variables(json_t *doc, const struct steprun_options *o, enum layout_kind kind,
	uint32_t plane, struct err *err)
{
	static const char *const names[LAYOUT_KIND_MAX] = {
		[LAYOUT_BLOCK] = "block",
		[LAYOUT_CYCLIC] = "cyclic",
		[LAYOUT_PLANE] = "plane",
		[LAYOUT_ARBITRARY] = "arbitrary",
	};
	json_t *env = json_object_get(doc, "env");
	int r = 0;

	if (!env)
		return 0;
	if (o->distribution)
		r |= json_object_set_new(env, "SLURM_DISTRIBUTION", json_string(names[kind]));
	if (plane)
		r |= json_object_set_new(env, "SLURM_DIST_PLANESIZE", json_sprintf("%u", plane));
	if (o->per_node)
		r |= json_object_set_new(
			env, "SLURM_NTASKS_PER_NODE", json_sprintf("%u", o->per_node));
	return r < 0 ? err_set(err, -ENOMEM, "read the options") : 0;
}

/* A document is UTF-8: a variable that is not can't be sent to an agent. */
static void drop_foreign(json_t *doc, int verbosity)
{
	json_t *env = json_object_get(doc, "env"), *value;
	const char *name;
	char *text;
	void *next;

	json_object_foreach_safe(env, next, name, value)
	{
		text = json_dumps(value, JSON_ENCODE_ANY);
		if (text) {
			free(text);
			continue;
		}
		if (verbosity >= 0)
			fprintf(stderr,
				"steprun: the variable %s is not UTF-8 text: tasks don't get it\n",
				name);
		(void)json_object_del(env, name); /* it is there */
	}
}

static int check_doc(struct steprun_options *o, const struct cli_options *options,
	const struct run_build *build, struct err *err)
{
	int r = spec_from_json(o->run.doc, &o->run.spec, err);

	return r < 0 ? run_name_source(options, build, err) : 0;
}

static int make_doc(struct steprun_options *o, const struct cli_options *options,
	struct run_build *build, struct nodes_found *found, char **environment, char **args,
	struct err *err)
{
	enum layout_kind kind;
	uint32_t plane;
	int r = set_distribution(o, build, &kind, &plane, err);

	if (r == 0)
		r = find_nodes(o, kind, environment, found, err);
	if (r == 0)
		r = set_ntasks(o, found, build, err);
	/* srun's default is all; MPI programs read on rank 0, if at all. All that have a
	 * pseudo-terminal read what is typed. */
	if (r == 0 && !json_object_get(build->overlay, "stdin") &&
		!json_object_get(build->overlay, "pty") && !build->spec_file)
		r = run_set(
			build, "stdin", json_pack("{s:s, s:i}", "mode", "rank", "rank", 0), err);
	if (r == 0)
		r = run_make_doc(build, environment, args, &o->run.doc, err);
	if (r < 0)
		return r;
	drop_foreign(o->run.doc, o->run.verbosity);
	if (json_object_get(o->run.doc, "node") || json_object_get(o->run.doc, "ranks"))
		return err_set_text(err, -EINVAL,
			"%s: node and ranks are for one agent; steprun lays the tasks out itself",
			build->spec_file ?: "--spec");
	r = check_doc(o, options, build, err);
	if (r == 0 && o->run.spec->kind != STEPD_STEP_NORMAL)
		return err_set_text(err, -EINVAL, "only normal steps are run by steprun");
	if (r == 0)
		r = distribute(o, found, kind, plane, err);
	return r < 0 ? r : set_variables(o->run.doc, o, kind, plane, err);
}

static void build_clear(struct run_build *build)
{
	json_decref(build->overlay);
}

int steprun_options_parse(
	int argc, char **argv, char **environment, struct steprun_options *o, struct err *err)
{
	_cleanup_(build_clear) struct run_build build = {
		.options = &o->run, .command = "steprun", .overlay = json_object()};
	_cleanup_(nodes_found_clear) struct nodes_found found = {0};
	struct cli_option rows[CLI_OPTIONS_MAX];
	struct cli_options options = {
		.rows = rows, .n = steprun_make_rows(rows), .command = "steprun", .most = -1};
	int rest = argc, r;

	if (!build.overlay)
		return err_set(err, -ENOMEM, "read the options");
	o->launch_timeout_ms = LAUNCH_TIMEOUT_MS;
	r = cli_options_parse(&options, argc, argv, &build, &rest, err);
	if (r < 0 || o->run.help || o->run.mpi_list)
		return r;
	build.program = argv[rest];
	return make_doc(o, &options, &build, &found, environment, argv + rest, err);
}

/* ---- steprun attach ------------------------------------------------------------------------ */

static int check_rank(_unused_ uint32_t rank, _unused_ void *userdata)
{
	return 0;
}

/* STEP[/RANKS] */
static int take_step(struct steprun_options *o, const char *text, struct err *err)
{
	const char *slash = strchr(text, '/'), *dot = strchr(text, '.');
	size_t size = slash ? (size_t)(slash - text) : strlen(text);
	size_t job = strspn(text, "0123456789");
	size_t step = dot ? strspn(dot + 1, "0123456789abcdefghijklmnopqrstuvwxyz") : 0;

	if (job == 0 || text + job != dot || step == 0 || job + 1 + step != size)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not a step and its ranks, such as 7.0 or 7.0/0-3", text);
	o->attach.ranks = slash ? slash + 1 : NULL;
	if (slash && parse_ranges(slash + 1, SPEC_NTASKS_MAX, check_rank, NULL) < 0)
		return err_set_text(
			err, -EINVAL, "'%.200s' are not ranks such as 0-3,7", slash + 1);
	o->attach.step = strndup(text, size);
	return o->attach.step ? 0 : steprun_no_memory(err);
}

/* Those that have the step, of this machine, are looked up later. */
static int find_attach_nodes(struct steprun_options *o, char **env, struct err *err)
{
	_cleanup_free_ uint32_t *on_nodes = NULL;
	int r = choose_launcher(o, env, err);

	if (r < 0 ||
		(o->launcher.kind == LAUNCHER_LOCAL && !o->hosts && !o->hostfile && !o->allocated))
		return r;
	r = list_nodes(o, env, err);
	if (r == 0 && o->nodes.n > 0)
		r = make_unique(&o->nodes, &on_nodes, err);
	return r < 0 ? r : limit_nodes(o, &o->attach.nodes, err);
}

int steprun_attach_parse(
	int argc, char **argv, char **environment, struct steprun_options *o, struct err *err)
{
	struct run_build build = {.options = &o->run, .command = "steprun attach"};
	struct cli_option rows[CLI_OPTIONS_MAX];
	struct cli_options options = {.rows = rows,
		.n = attach_make_rows(rows),
		.command = "steprun attach",
		.anywhere = true,
		.most = 1};
	int rest = argc;
	int r;

	o->launch_timeout_ms = LAUNCH_TIMEOUT_MS;
	r = cli_options_parse(&options, argc, argv, &build, &rest, err);
	if (r < 0 || o->run.help)
		return r;
	if (rest == argc)
		return err_set_text(err, -EINVAL, "no step is given, such as 7.0");
	if (o->attach.tail && o->attach.since >= 0)
		return err_set_text(
			err, -EINVAL, "--tail conflicts with --since: give one of them");
	r = take_step(o, argv[rest], err);
	return r < 0 ? r : find_attach_nodes(o, environment, err);
}
