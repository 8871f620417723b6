/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/options.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/cli/values.h"
#include "stepd/base/parse.h"
#include "stepd/cli/options.h"

/* The structure that the take functions fill. Offsets of rows are those of struct options, its
 * first member. */
struct build {
	struct options options;
	time_t now;
};

/* ---- takers -----------------------------------------------------------------------------------
 */

static int set_text(char **into, const char *text, struct err *err)
{
	char *copy = strdup(text);

	if (!copy)
		return err_set(err, -ENOMEM, "read the options");
	free(*into);
	*into = copy;
	return 0;
}

static int take_text(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	if (!*arg)
		return err_set_text(err, -EINVAL, "its value is empty");
	return set_text((char **)((char *)into + o->offset), arg, err);
}

static int take_count(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return value_parse_count(arg, (uint32_t *)((char *)into + o->offset), err);
}

static int take_limit(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return value_parse_limit(arg, (uint32_t *)((char *)into + o->offset), err);
}

static int take_nodes(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_request *request = &((struct build *)into)->options.request;

	(void)o;
	return value_parse_range(arg, &request->min_nodes, &request->max_nodes, err);
}

static int take_nodelist(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	int r = value_check_nodes(arg, err);

	return r < 0 ? r : take_text(o, arg, into, err);
}

static int take_array(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	int r = value_check_array(arg, err);

	return r < 0 ? r : take_text(o, arg, into, err);
}

/* value: "cpu" for that of each CPU. */
static int take_memory(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_request *request = &((struct build *)into)->options.request;
	uint64_t mb;
	int r = value_parse_memory(arg, &mb, err);

	if (r == 0)
		request->memory_mb = mb | (o->value ? MEM_PER_CPU : 0);
	return r;
}

static int take_begin(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct build *build = into;

	(void)o;
	return value_parse_begin(arg, build->now, &build->options.request.begin_time, err);
}

static int take_dependency(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	return value_parse_dependencies(arg, &((struct build *)into)->options.request, err);
}

static int take_exclusive(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_request *request = &((struct build *)into)->options.request;

	(void)o;
	if (arg)
		return err_set_text(err, -EINVAL,
			"'%.100s': jobd shares nodes with all jobs or none; leave the value out",
			arg);
	request->exclusive = true;
	request->oversubscribe = false;
	return 0;
}

static int take_oversubscribe(
	const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_request *request = &((struct build *)into)->options.request;

	(void)o;
	(void)arg;
	(void)err;
	request->oversubscribe = true;
	request->exclusive = false;
	return 0;
}

/* value: "yes" or NULL. */
static int take_requeue(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	(void)err;
	((struct build *)into)->options.request.requeue = o->value != NULL;
	return 0;
}

static int take_signal(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_warning warning;
	int r = request_parse_signal(arg, &warning, err);

	return r < 0 ? r : take_text(o, arg, into, err);
}

static int take_open_mode(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct job_request *request = &((struct build *)into)->options.request;

	(void)o;
	if (strcasecmp(arg, "append") != 0 && strcasecmp(arg, "truncate") != 0 &&
		strcasecmp(arg, "a") != 0 && strcasecmp(arg, "t") != 0)
		return err_set_text(
			err, -EINVAL, "'%.100s' is neither \"append\" nor \"truncate\"", arg);
	request->append = tolower((unsigned char)*arg) == 'a';
	return 0;
}

static int take_priority(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	if (parse_u32(arg, 0, NO_VAL - 1, &((struct build *)into)->options.request.priority) < 0)
		return err_set_text(err, -EINVAL, "'%.100s' is not a number from 0 up", arg);
	return 0;
}

/* The offset of the part of a distribution that is ignored: the distribution over threads of a
 * core, and "Pack" or "NoPack". */
static size_t served_size(const char *text)
{
	size_t size = strcspn(text, ":,");

	if (text[size] == ':')
		size += 1 + strcspn(text + size + 1, ":,");
	return size;
}

static int note_unserved(
	struct build *build, const struct cli_option *o, const char *part, const char *why)
{
	return strv_addf(&build->options.notes, "--%s: '%.100s': %s, ignoring", o->name, part, why);
}

static int take_distribution(
	const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct build *build = into;
	const size_t size = served_size(arg);
	const bool arbitrary = strncasecmp(arg, "arbitrary", 9) == 0;
	_cleanup_free_ char *text = arbitrary ? NULL : strndup(arg, size);
	uint32_t dist;
	uint16_t plane;
	size_t i;
	int r = arbitrary || text ? 0 : -ENOMEM;

	if (arbitrary)
		r = note_unserved(build, o, arg, "jobd has no host files");
	else if (r == 0 && arg[size])
		r = note_unserved(build, o, arg + size,
			"jobd packs tasks, and gives cores with all their threads");
	if (r < 0)
		return err_set(err, -ENOMEM, "read the options");
	for (i = 0; text && i < size; i++)
		text[i] = (char)tolower((unsigned char)text[i]);
	if (text && request_parse_distribution(text, &dist, &plane, err) < 0)
		return -EINVAL;
	free(build->options.request.distribution);
	build->options.request.distribution = take_ptr(text);
	return 0;
}

static int take_ignored(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct build *build = into;

	(void)arg;
	if (strv_addf(&build->options.notes, "--%s: %s, ignoring", o->name, o->doc) < 0)
		return err_set(err, -ENOMEM, "read the options");
	return 0;
}

static int take_refused(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	(void)into;
	return err_set_text(err, -EOPNOTSUPP, "%s", o->doc);
}

/* ---- the table --------------------------------------------------------------------------------
 */

#define IN(member_)   offsetof(struct options, member_)
#define JOB(member_)  offsetof(struct options, request.member_)
#define SBATCH        (1u << OPTIONS_SBATCH)
#define SALLOC        (1u << OPTIONS_SALLOC)
#define BOTH          (SBATCH | SALLOC)
#define NOT_PLACED    "jobd's select plugins place tasks by nodes, CPUs and memory alone"
#define NOT_COUNTED   "jobd has no such resource; leave the option out"
#define NOT_DONE      "jobd has no use for it"
#define NOT_ACCOUNTED "jobd keeps no accounts"

struct row {
	unsigned commands;
	struct cli_option option;
};

/* clang-format off */
static const struct row rows[] = {
	{BOTH, {.heading = "Resources",
	 .name = "nodes", .letter = 'N', .arg = "MIN[-MAX]", .take = take_nodes,
	 .doc = "nodes"}},
	{BOTH, {.name = "ntasks", .letter = 'n', .arg = "N", .take = take_count, .offset = JOB(ntasks),
	 .doc = "tasks"}},
	{BOTH, {.name = "cpus-per-task", .letter = 'c', .arg = "N", .take = take_count, .offset = JOB(cpus_per_task),
	 .doc = "CPUs of each task (1)"}},
	{BOTH, {.name = "ntasks-per-node", .arg = "N", .take = take_count, .offset = JOB(ntasks_per_node),
	 .doc = "tasks on a node, at most"}},
	{BOTH, {.name = "ntasks-per-socket", .arg = "N", .take = take_count, .offset = JOB(ntasks_per_socket),
	 .doc = "tasks on a socket, at most"}},
	{BOTH, {.name = "ntasks-per-core", .arg = "N", .take = take_count, .offset = JOB(ntasks_per_core),
	 .doc = "tasks on a core, at most"}},
	{BOTH, {.name = "distribution", .letter = 'm', .arg = "NODES[:SOCKETS]", .take = take_distribution, .offset = JOB(distribution),
	 .doc = "tasks over nodes: block, cyclic, plane=N; over sockets: block, cyclic, fcyclic"}},
	{BOTH, {.name = "spread-job", .take = cli_take_flag, .offset = JOB(spread_job),
	 .doc = "as many nodes as possible, and evenly many tasks on them"}},
	{BOTH, {.name = "use-min-nodes", .take = cli_take_flag, .offset = JOB(use_min_nodes),
	 .doc = "of a range of nodes the least, rather than the most"}},
	{BOTH, {.name = "mincpus", .arg = "N", .take = take_count, .offset = JOB(min_cpus_per_node),
	 .doc = "CPUs on each node, at least"}},
	{BOTH, {.name = "mem", .arg = "SIZE", .take = take_memory,
	 .doc = "memory on each node, in MB or with K, M, G, T; 0: all"}},
	{BOTH, {.name = "mem-per-cpu", .arg = "SIZE", .take = take_memory, .value = "cpu",
	 .doc = "memory for each CPU"}},
	{BOTH, {.name = "time", .letter = 't', .arg = "TIME", .take = take_limit, .offset = JOB(time_limit_min),
	 .doc = "time limit: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED"}},
	{BOTH, {.name = "nodelist", .letter = 'w', .arg = "NODES", .take = take_nodelist, .offset = JOB(nodelist),
	 .doc = "nodes that must be among the job's"}},
	{BOTH, {.name = "exclude", .letter = 'x', .arg = "NODES", .take = take_nodelist, .offset = JOB(exclude),
	 .doc = "nodes that must not"}},
	{BOTH, {.name = "constraint", .letter = 'C', .arg = "FEATURES", .take = take_text, .offset = JOB(features),
	 .doc = "features that its nodes have, a&b"}},
	{BOTH, {.name = "contiguous", .take = cli_take_flag, .offset = JOB(contiguous),
	 .doc = "consecutive nodes"}},
	{BOTH, {.name = "exclusive", .arg = "KIND", .arg_optional = true, .take = take_exclusive,
	 .doc = "share nodes with no other job"}},
	{BOTH, {.name = "oversubscribe", .letter = 's', .take = take_oversubscribe,
	 .doc = "share CPUs with other jobs, where the partition allows it"}},
	{BOTH, {.name = "share", .take = take_oversubscribe, .doc = "the same, by an older name"}},
	{BOTH, {.name = "reservation", .arg = "NAME", .take = take_text, .offset = JOB(reservation),
	 .doc = "run in this reservation"}},
	{BOTH, {.name = "network", .arg = "TEXT", .take = take_text, .offset = JOB(network),
	 .doc = "for a select plugin of the site"}},

	{BOTH, {.heading = "Queue and time",
	 .name = "partition", .letter = 'p', .arg = "NAME", .take = take_text, .offset = JOB(partition),
	 .doc = "the partition"}},
	{BOTH, {.name = "qos", .letter = 'q', .arg = "NAME", .take = take_text, .offset = JOB(qos),
	 .doc = "the quality of service"}},
	{BOTH, {.name = "begin", .letter = 'b', .arg = "TIME", .take = take_begin,
	 .doc = "earliest start: now+N[UNIT], HH:MM, YYYY-MM-DD[THH:MM]"}},
	{BOTH, {.name = "dependency", .letter = 'd', .arg = "LIST", .take = take_dependency,
	 .doc = "start only after other jobs: after:ID, afterany:ID, afterok:ID, afternotok:ID, singleton"}},
	{BOTH, {.name = "hold", .letter = 'H', .take = cli_take_flag, .offset = JOB(hold),
	 .doc = "hold the job until it is released"}},
	{BOTH, {.name = "priority", .arg = "N", .take = take_priority, .doc = "its priority; for root alone"}},
	{SBATCH, {.name = "array", .letter = 'a', .arg = "INDEXES", .take = take_array, .offset = JOB(array),
	 .doc = "an array of jobs: 0-15, 1,3,7, 0-15:4; with %N, N at a time"}},
	{SBATCH, {.name = "signal", .arg = "[B:]SIGNAL[@SECONDS]", .take = take_signal, .offset = JOB(signal),
	 .doc = "a signal to the steps, B: to the script alone, so long before the job's end (60)"}},
	{SBATCH, {.name = "requeue", .take = take_requeue, .value = "yes",
	 .doc = "the job may be queued again after it has started"}},
	{SBATCH, {.name = "no-requeue", .take = take_requeue, .doc = "it may not"}},

	{BOTH, {.heading = "Program",
	 .name = "job-name", .letter = 'J', .arg = "NAME", .take = take_text, .offset = JOB(name),
	 .doc = "its name (the script's)"}},
	{BOTH, {.name = "comment", .arg = "TEXT", .take = take_text, .offset = JOB(comment), .doc = "for people"}},
	{BOTH, {.name = "chdir", .letter = 'D', .arg = "DIRECTORY", .take = take_text, .offset = JOB(work_dir),
	 .doc = "its working directory (this one)"}},
	{SBATCH, {.name = "workdir", .arg = "DIRECTORY", .take = take_text, .offset = JOB(work_dir),
	 .doc = "the same, by an older name"}},
	{SBATCH, {.name = "input", .letter = 'i', .arg = "FILE", .take = take_text, .offset = JOB(stdin_file),
	 .doc = "the script's standard input (/dev/null)"}},
	{SBATCH, {.name = "output", .letter = 'o', .arg = "FILE", .take = take_text, .offset = JOB(stdout_file),
	 .doc = "its standard output, with %j, %A, %a, %x, %u, %N (slurm-%j.out)"}},
	{SBATCH, {.name = "error", .letter = 'e', .arg = "FILE", .take = take_text, .offset = JOB(stderr_file),
	 .doc = "its standard error (where its output goes)"}},
	{SBATCH, {.name = "open-mode", .arg = "append|truncate", .take = take_open_mode,
	 .doc = "how files that exist are opened (truncate)"}},
	{SBATCH, {.name = "export", .arg = "NAMES", .take = take_text, .offset = IN(export_names),
	 .doc = "variables that it gets: ALL, NONE, or NAME,NAME=VALUE"}},
	{SBATCH, {.name = "wrap", .arg = "COMMAND", .take = take_text, .offset = IN(wrap),
	 .doc = "a command of the shell in place of a script"}},

	{BOTH, {.heading = "Command",
	 .name = "quiet", .letter = 'Q', .take = cli_take_flag, .offset = IN(quiet), .doc = "print errors only"}},
	{SBATCH, {.name = "parsable", .take = cli_take_flag, .offset = IN(parsable),
	 .doc = "print the job's number only"}},
	{SBATCH, {.name = "test-only", .take = cli_take_flag, .offset = IN(test_only),
	 .doc = "submit nothing, print when the job would start"}},
	{SBATCH, {.name = "wait", .letter = 'W', .take = cli_take_flag, .offset = IN(wait),
	 .doc = "wait for the job's end, and exit with its status"}},
	{SALLOC, {.name = "no-shell", .take = cli_take_flag, .offset = IN(no_shell),
	 .doc = "run no command: the allocation outlives this one"}},
	{BOTH, {.name = "help", .letter = 'h', .take = cli_take_help, .offset = IN(help), .doc = "print this"}},
	{BOTH, {.name = "version", .letter = 'V', .take = cli_take_help, .offset = IN(version),
	 .doc = "print the version"}},

	/* Without these a job runs as well. An optional value is allowed where Slurm has one. */
	{BOTH, {.heading = "Ignored",
	 .name = "account", .letter = 'A', .arg = "NAME", .take = take_ignored, .doc = NOT_ACCOUNTED}},
	{BOTH, {.name = "acctg-freq", .arg = "LIST", .take = take_ignored, .doc = NOT_ACCOUNTED}},
	{SBATCH, {.name = "batch", .arg = "FEATURES", .take = take_ignored, .doc = "the script runs on the first node"}},
	{SALLOC, {.name = "bell", .take = take_ignored, .doc = NOT_DONE}},
	{SALLOC, {.name = "no-bell", .take = take_ignored, .doc = NOT_DONE}},
	{BOTH, {.name = "cores-per-socket", .arg = "N", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "core-spec", .letter = 'S', .arg = "N", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "cpu-freq", .arg = "P", .take = take_ignored, .doc = "jobd sets no frequency"}},
	{BOTH, {.name = "deadline", .arg = "TIME", .take = take_ignored, .doc = "jobs have no deadline"}},
	{BOTH, {.name = "delay-boot", .arg = "TIME", .take = take_ignored, .doc = "jobd boots no node"}},
	{BOTH, {.name = "extra-node-info", .letter = 'B', .arg = "S[:C[:T]]", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "get-user-env", .arg = "TIME", .arg_optional = true, .take = take_ignored,
	 .doc = "the environment is this command's"}},
	{BOTH, {.name = "hint", .arg = "H", .take = take_ignored, .doc = NOT_PLACED}},
	{SBATCH, {.name = "ignore-pbs", .take = take_ignored, .doc = "#PBS lines are comments"}},
	{SALLOC, {.name = "kill-command", .letter = 'K', .arg = "SIGNAL", .arg_optional = true, .take = take_ignored,
	 .doc = NOT_DONE}},
	{SBATCH, {.name = "kill-on-invalid-dep", .arg = "yes|no", .take = take_ignored,
	 .doc = "such a job waits with DependencyNeverSatisfied"}},
	{BOTH, {.name = "mail-type", .arg = "LIST", .take = take_ignored, .doc = "jobd sends no mail"}},
	{BOTH, {.name = "mail-user", .arg = "USER", .take = take_ignored, .doc = "jobd sends no mail"}},
	{BOTH, {.name = "mcs-label", .arg = "L", .take = take_ignored, .doc = NOT_ACCOUNTED}},
	{BOTH, {.name = "mem-bind", .arg = "B", .take = take_ignored, .doc = NOT_DONE}},
	{BOTH, {.name = "nice", .arg = "N", .arg_optional = true, .take = take_ignored,
	 .doc = "a job's priority follows from its partition and its age"}},
	{BOTH, {.name = "no-kill", .letter = 'k', .arg = "off", .arg_optional = true, .take = take_ignored,
	 .doc = "a job ends when one of its nodes fails"}},
	{BOTH, {.name = "overcommit", .letter = 'O', .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "power", .arg = "F", .take = take_ignored, .doc = NOT_DONE}},
	{BOTH, {.name = "prefer", .arg = "FEATURES", .take = take_ignored, .doc = "see --constraint"}},
	{BOTH, {.name = "profile", .arg = "P", .take = take_ignored, .doc = NOT_ACCOUNTED}},
	{SBATCH, {.name = "propagate", .arg = "LIMITS", .arg_optional = true, .take = take_ignored,
	 .doc = "limits are those of the node"}},
	{BOTH, {.name = "reboot", .take = take_ignored, .doc = "jobd boots no node"}},
	{SALLOC, {.name = "signal", .arg = "S", .take = take_ignored, .doc = "an allocation's processes are its command's"}},
	{BOTH, {.name = "sockets-per-node", .arg = "N", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "switches", .arg = "N[@TIME]", .take = take_ignored, .doc = "jobd knows no topology"}},
	{BOTH, {.name = "thread-spec", .arg = "N", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "threads-per-core", .arg = "N", .take = take_ignored, .doc = NOT_PLACED}},
	{BOTH, {.name = "time-min", .arg = "TIME", .take = take_ignored, .doc = "a time limit is not shortened"}},
	{BOTH, {.name = "tmp", .arg = "SIZE", .take = take_ignored, .doc = "jobd counts no disks"}},
	{BOTH, {.name = "verbose", .letter = 'v', .take = take_ignored, .doc = "there is nothing more to print"}},
	{BOTH, {.name = "wait-all-nodes", .arg = "0|1", .take = take_ignored, .doc = "a job starts on all its nodes at once"}},
	{BOTH, {.name = "wckey", .arg = "KEY", .take = take_ignored, .doc = NOT_ACCOUNTED}},

	/* A job that runs without these is another one. */
	{BOTH, {.heading = "Refused",
	 .name = "bb", .arg = "SPEC", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "bbf", .arg = "FILE", .take = take_refused, .doc = NOT_COUNTED}},
	{SBATCH, {.name = "cluster-constraint", .arg = "LIST", .take = take_refused, .doc = "there is only one cluster"}},
	{BOTH, {.name = "clusters", .letter = 'M', .arg = "LIST", .take = take_refused, .doc = "there is only one cluster"}},
	{BOTH, {.name = "container", .arg = "PATH", .take = take_refused, .doc = "jobd runs no containers"}},
	{BOTH, {.name = "cpus-per-gpu", .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gid", .arg = "GROUP", .take = take_refused, .doc = "a job runs as the user who submits it"}},
	{BOTH, {.name = "gpu-bind", .arg = "T", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gpu-freq", .arg = "F", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gpus", .letter = 'G', .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gpus-per-node", .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gpus-per-socket", .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gpus-per-task", .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gres", .arg = "LIST", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "gres-flags", .arg = "F", .take = take_refused, .doc = NOT_COUNTED}},
	{SALLOC, {.name = "immediate", .letter = 'I', .arg = "SECONDS", .arg_optional = true, .take = take_refused,
	 .doc = "an allocation waits for its turn"}},
	{BOTH, {.name = "licenses", .letter = 'L', .arg = "LIST", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "mem-per-gpu", .arg = "SIZE", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "nodefile", .letter = 'F', .arg = "FILE", .take = take_refused, .doc = "name the nodes by --nodelist"}},
	{BOTH, {.name = "ntasks-per-gpu", .arg = "N", .take = take_refused, .doc = NOT_COUNTED}},
	{BOTH, {.name = "uid", .arg = "USER", .take = take_refused, .doc = "a job runs as the user who submits it"}},
	{SALLOC, {.name = "x11", .arg = "NODES", .arg_optional = true, .take = take_refused, .doc = "jobd forwards no display"}},
};
/* clang-format on */

static const char *const command_names[OPTIONS_COMMAND_MAX] = {
	[OPTIONS_SBATCH] = "sbatch",
	[OPTIONS_SALLOC] = "salloc",
};

/* The rows of a command: how many. */
static size_t choose_rows(enum options_command command, struct cli_option *chosen)
{
	size_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].commands & (1u << command))
			chosen[n++] = rows[i].option;
	}
	return n;
}

void options_print(enum options_command command, FILE *out)
{
	struct cli_option chosen[ARRAY_SIZE(rows)];

	cli_options_print(chosen, choose_rows(command, chosen), out);
}

/* ---- a line as an argument vector --------------------------------------------------------------
 */

/* Copies the word that text begins with to word, without its quotes: where it ends. *ret_open: the
 * quote that has no end, NUL for none. */
static const char *copy_word(const char *text, char *word, char *ret_open)
{
	char quote = '\0';

	for (; *text && (quote || (!isspace((unsigned char)*text) && *text != '#')); text++) {
		if (*text == '\\' && text[1])
			*word++ = *++text;
		else if (quote ? *text == quote : *text == '"' || *text == '\'')
			quote = quote ? '\0' : *text;
		else
			*word++ = *text;
	}
	*word = '\0';
	*ret_open = quote;
	return text;
}

int options_split(const char *line, struct strv *argv, struct err *err)
{
	_cleanup_free_ char *word = malloc(strlen(line) + 1);
	char open;

	if (!word)
		return err_set(err, -ENOMEM, "read options");
	for (line += strspn(line, " \t\r\n\v\f"); *line && *line != '#';
		line += strspn(line, " \t\r\n\v\f")) {
		line = copy_word(line, word, &open);
		if (open)
			return err_set_text(err, -EINVAL,
				"the quotation mark %c is not closed: %.100s", open, word);
		if (strv_add(argv, word) < 0)
			return err_set(err, -ENOMEM, "read options");
	}
	return 0;
}

/* ---- the sources ------------------------------------------------------------------------------
 */

/* Takes options from argv; *ret_rest: the first argument that is none. */
static int parse_argv(struct build *build, enum options_command command, int argc, char **argv,
	int *ret_rest, struct err *err)
{
	struct cli_option chosen[ARRAY_SIZE(rows)];
	struct cli_options options = {.rows = chosen,
		.n = choose_rows(command, chosen),
		.command = command_names[command],
		.most = -1};

	return cli_options_parse(&options, argc, argv, build, ret_rest, err);
}

/* argv[0] is not read. Nothing but options may be among them. */
static int parse_source(
	struct build *build, enum options_command command, struct strv *argv, struct err *err)
{
	int rest = 0, r = parse_argv(build, command, (int)argv->n, argv->v, &rest, err);

	if (r == 0 && rest < (int)argv->n)
		r = err_set_text(err, -EINVAL, "'%.200s' is not an option", argv->v[rest]);
	return r;
}

/* A line with a command is the first that is neither empty nor a comment. */
static bool ends_directives(const char *line, size_t size)
{
	size_t blanks = strspn(line, " \t\r");

	return blanks < size && line[blanks] != '#';
}

static int parse_directive(struct build *build, enum options_command command, const char *line,
	size_t size, unsigned number, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	_cleanup_free_ char *copy = strndup(line, size);
	int r = copy && strv_add(&argv, "#SBATCH") == 0
		? options_split(copy, &argv, err)
		: err_set(err, -ENOMEM, "read the script's options");

	if (r == 0)
		r = parse_source(build, command, &argv, err);
	return r < 0 ? err_prefix(err, "line %u of the script", number) : 0;
}

/* "#SBATCH hetjob": what comes is another component's. "packjob" is Slurm's older word. */
static bool is_component_line(const char *line, size_t size)
{
	size_t blanks = strspn(line, " \t");

	line += blanks;
	size -= blanks;
	while (size > 0 && isspace((unsigned char)line[size - 1]))
		size--;
	return (size == 6 && strncmp(line, "hetjob", size) == 0) ||
		(size == 7 && strncmp(line, "packjob", size) == 0);
}

/* The lines of this component; the number of the last one that the script has is *ret_last. */
static int parse_script(struct build *build, enum options_command command, const char *script,
	size_t component, size_t *ret_last, struct err *err)
{
	static const char mark[] = "#SBATCH";
	const size_t mark_size = sizeof(mark) - 1;
	unsigned number = 1;
	size_t size, at = 0;
	int r = 0;

	for (; r == 0 && *script; script += size + (script[size] == '\n'), number++) {
		size = strcspn(script, "\n");
		if (ends_directives(script, size))
			break;
		if (size <= mark_size || strncmp(script, mark, mark_size) != 0 ||
			!isblank((unsigned char)script[mark_size]))
			continue;
		if (is_component_line(script + mark_size, size - mark_size))
			at++;
		else if (at == component)
			r = parse_directive(
				build, command, script + mark_size, size - mark_size, number, err);
	}
	*ret_last = at;
	return r;
}

/* Behind "SBATCH_" or "SALLOC_". One without a value is a flag, given unless it is "0" or "no". */
static const struct {
	const char *variable, *option;
	bool flag;
} variables[] = {
	{"ARRAY_INX", "array", false},
	{"CONSTRAINT", "constraint", false},
	{"DISTRIBUTION", "distribution", false},
	{"EXCLUSIVE", "exclusive", true},
	{"EXPORT", "export", false},
	{"JOB_NAME", "job-name", false},
	{"MEM_PER_CPU", "mem-per-cpu", false},
	{"MEM_PER_NODE", "mem", false},
	{"NO_REQUEUE", "no-requeue", true},
	{"OPEN_MODE", "open-mode", false},
	{"OVERSUBSCRIBE", "oversubscribe", true},
	{"PARTITION", "partition", false},
	{"PRIORITY", "priority", false},
	{"QOS", "qos", false},
	{"REQUEUE", "requeue", true},
	{"RESERVATION", "reservation", false},
	{"SIGNAL", "signal", false},
	{"SPREAD_JOB", "spread-job", true},
	{"TIMELIMIT", "time", false},
	{"USE_MIN_NODES", "use-min-nodes", true},
	{"WAIT", "wait", true},
};

static bool has_option(enum options_command command, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].option.name, name) == 0)
			return rows[i].commands & (1u << command);
	}
	return false;
}

static const char *find_variable(
	char *const *env, enum options_command command, const char *variable)
{
	const char *prefix = command == OPTIONS_SBATCH ? "SBATCH_" : "SALLOC_";
	const size_t prefix_size = strlen(prefix), size = strlen(variable);
	size_t i;

	for (i = 0; env && env[i]; i++) {
		if (strncmp(env[i], prefix, prefix_size) == 0 &&
			strncmp(env[i] + prefix_size, variable, size) == 0 &&
			env[i][prefix_size + size] == '=')
			return env[i] + prefix_size + size + 1;
	}
	return NULL;
}

static int parse_variables(
	struct build *build, enum options_command command, char *const *env, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	const char *value;
	size_t i;
	int r = strv_add(&argv, "environment");

	for (i = 0; r == 0 && i < ARRAY_SIZE(variables); i++) {
		value = find_variable(env, command, variables[i].variable);
		if (!value || !*value || !has_option(command, variables[i].option))
			continue;
		if (!variables[i].flag)
			r = strv_addf(&argv, "--%s=%s", variables[i].option, value);
		else if (strcmp(value, "0") != 0 && strcasecmp(value, "no") != 0)
			r = strv_addf(&argv, "--%s", variables[i].option);
	}
	if (r < 0)
		return err_set(err, r, "read the environment's options");
	r = parse_source(build, command, &argv, err);
	return r < 0 ? err_prefix(err, "the environment's %s_ variables",
			       command == OPTIONS_SBATCH ? "SBATCH" : "SALLOC")
		     : 0;
}

/* Whether the script, or the command, stands before this word: then all behind it is for that. */
static bool has_rest_before(const struct options_input *input, int first, int word)
{
	struct build build = {.now = input->now};
	struct err ignored = ERR_INIT;
	int rest = 0, r;

	request_init(&build.options.request);
	r = parse_argv(&build, input->command, word - first, input->argv + first, &rest, &ignored);
	options_clear(&build.options);
	return r == 0 && rest < word - first;
}

/* The end of a component's arguments, which begin after first: a ":", or the last argument. */
static int component_end(const struct options_input *input, int first)
{
	int i;

	for (i = first + 1; i < input->argc; i++) {
		if (strcmp(input->argv[i], ":") == 0)
			return has_rest_before(input, first, i) ? input->argc : i;
	}
	return input->argc;
}

/* Those behind *first, which is then where the next component's begin. */
static int parse_command_line(
	struct build *build, const struct options_input *input, int *first, struct err *err)
{
	int end = component_end(input, *first), i, rest = 0;
	int r = parse_argv(build, input->command, end - *first, input->argv + *first, &rest, err);

	for (i = *first + rest; r == 0 && i < end; i++) {
		if (strv_add(&build->options.rest, input->argv[i]) < 0)
			r = err_set(err, -ENOMEM, "read the command line");
	}
	*first = end;
	return r;
}

static int parse_component(struct build *build, const struct options_input *input, size_t component,
	int *first, size_t *ret_last, struct err *err)
{
	int r = input->script
		? parse_script(build, input->command, input->script, component, ret_last, err)
		: 0;

	if (r == 0)
		r = parse_variables(build, input->command, input->env, err);
	if (r == 0 && *first < input->argc)
		r = parse_command_line(build, input, first, err);
	return r;
}

/* The request is the next component's, and another one begins. */
static int add_component(struct options *options, struct err *err)
{
	struct job_request *grown =
		reallocarray(options->components, options->components_count + 1, sizeof(*grown));

	if (!grown)
		return err_set(err, -ENOMEM, "read the options");
	options->components = grown;
	grown[options->components_count++] = options->request;
	request_init(&options->request);
	return 0;
}

/* The first of all was added like the others. */
static void take_first(struct options *options)
{
	request_clear(&options->request);
	options->request = options->components[0];
	options->components_count--;
	memmove(options->components, options->components + 1,
		options->components_count * sizeof(*options->components));
}

static int parse_components(struct build *build, const struct options_input *input, struct err *err)
{
	size_t last = 0, component = 0;
	int first = 0, r;

	do {
		r = parse_component(build, input, component++, &first, &last, err);
		if (r < 0)
			return component > 1 ? err_prefix(err, "component %zu", component - 1) : r;
		r = add_component(&build->options, err);
	} while (r == 0 && (first < input->argc || component <= last));
	if (r == 0)
		take_first(&build->options);
	return r;
}

int options_parse(struct options *out, const struct options_input *input, struct err *err)
{
	struct build build = {.now = input->now};
	int r;

	request_init(&build.options.request);
	r = parse_components(&build, input, err);
	if (r == 0 && build.options.wrap && build.options.rest.n)
		r = err_set_text(err, -EINVAL,
			"--wrap replaces the script: '%.200s' is one argument too many",
			build.options.rest.v[0]);
	if (r < 0)
		options_clear(&build.options);
	else
		*out = build.options;
	return r;
}

void options_clear(struct options *options)
{
	size_t i;

	for (i = 0; i < options->components_count; i++)
		request_clear(&options->components[i]);
	free(options->components);
	request_clear(&options->request);
	free(options->wrap);
	free(options->export_names);
	strv_clear(&options->rest);
	strv_clear(&options->notes);
	*options = (struct options){0};
	request_init(&options->request);
}

/* ---- --export ---------------------------------------------------------------------------------
 */

/* The value of a name, in env, which is added. */
static int add_named(struct strv *into, const char *name, char *const *env)
{
	const size_t size = strlen(name);
	size_t i;

	for (i = 0; env && env[i]; i++) {
		if (strncmp(env[i], name, size) == 0 && env[i][size] == '=')
			return strv_env_put(into, env[i]);
	}
	return 0;
}

/* Variables that a job gets even with NONE. */
static int add_slurm(struct strv *into, char *const *env)
{
	int r = 0;
	size_t i;

	for (i = 0; r == 0 && env && env[i]; i++) {
		if (strncmp(env[i], "SLURM_", 6) == 0 || strncmp(env[i], "SPANK_", 6) == 0)
			r = strv_env_put(into, env[i]);
	}
	return r;
}

static int add_all(struct strv *into, char *const *env)
{
	size_t n = 0;

	while (env && env[n])
		n++;
	return strv_env_put_all(into, env, n);
}

/* Cuts "A,B='x,y'" at the next comma that is not quoted, and takes the quotes away. */
static char *next_name(char **rest)
{
	char *begin = *rest, *from, *to, quote = '\0';

	if (!begin || !*begin)
		return NULL;
	for (from = to = begin; *from && (quote || *from != ','); from++) {
		if (quote ? *from == quote : *from == '\'' || *from == '"')
			quote = quote ? '\0' : *from;
		else
			*to++ = *from;
	}
	*rest = *from ? from + 1 : from;
	*to = '\0';
	return begin;
}

static int add_names(struct strv *into, char *names, char *const *env)
{
	const char *name;
	int r = 0;

	while (r == 0 && (name = next_name(&names))) {
		if (strcasecmp(name, "ALL") == 0)
			r = add_all(into, env);
		else if (*name && *name != '=')
			r = strchr(name, '=') ? strv_env_put(into, name)
					      : add_named(into, name, env);
	}
	return r;
}

int options_export(const char *export_names, char *const *env, char ***ret_env, struct err *err)
{
	const char *names = export_names ? export_names : "ALL";
	_cleanup_free_ char *copy = strdup(names);
	_cleanup_strv_ struct strv made = {0};
	int r = copy ? 0 : -ENOMEM;

	if (r == 0 && strcasecmp(names, "NIL") != 0)
		r = add_slurm(&made, env);
	if (r == 0 && strcasecmp(names, "NIL") != 0 && strcasecmp(names, "NONE") != 0)
		r = add_names(&made, copy, env);
	if (r == 0 && !made.v)
		made.v = calloc(1, sizeof(*made.v));
	if (r < 0 || !made.v)
		return err_set(err, -ENOMEM, "--export");
	*ret_env = take_struct(made).v;
	return 0;
}
