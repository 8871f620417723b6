/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run/run_options.h"

#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "stepd/api/env.h"
#include "stepd/base/base64.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/cli/run/multi_prog.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"

/* The document that "stepd run" makes: the options over the file of --spec, the program, and the
 * inputs: the caller's environment, the batch script, the list of programs. */

#define PROGRAM_FIELD  "argv"
#define MULTI_PROG_MAX (16u << 20)

/* ---- environment --------------------------------------------------------------------------- */

/* Names and values are any bytes; of two with the same name the first counts, as for getenv(). */
static int add_variable(json_t *env, const char *variable)
{
	_cleanup_free_ char *name = NULL;
	const char *equals = strchr(variable, '=');

	if (!equals || equals == variable)
		return 0; /* not a variable that a program could read */
	name = strndup(variable, (size_t)(equals - variable));
	if (!name)
		return -ENOMEM;
	if (json_object_get(env, name))
		return 0;
	return json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1)) < 0 ? -ENOMEM
											   : 0;
}

static int add_all(json_t *env, char **environment)
{
	int r = 0;

	for (; environment && *environment && r == 0; environment++)
		r = add_variable(env, *environment);
	return r;
}

/* The variable of that name, if the caller has it. */
static int add_named(json_t *env, char **environment, const char *name)
{
	const char *entry = environment ? environment[stepd_env_index(environment, name)] : NULL;

	return entry ? add_variable(env, entry) : 0;
}

/* Returns the next item, up to a comma; a comma between single quotes is part of the value, and
 * the quotes are removed. */
static char *next_item(char **text)
{
	char *item = *text, *to = item, *from = item;
	bool quoted = false;

	for (; *from && (quoted || *from != ','); from++) {
		if (*from == '\'')
			quoted = !quoted;
		else
			*to++ = *from;
	}
	*text = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}

static int add_item(json_t *env, char **environment, const char *item, struct err *err)
{
	const char *equals = strchr(item, '=');
	_cleanup_free_ char *name = NULL;
	int r;

	if (!*item || equals == item)
		return err_set_text(err, -EINVAL, "holds a variable without a name");
	if (strcmp(item, "ALL") == 0)
		r = add_all(env, environment);
	else if (!equals)
		r = add_named(env, environment, item);
	else {
		name = strndup(item, (size_t)(equals - item));
		r = name ? json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1))
			 : -ENOMEM;
	}
	return r < 0 ? run_no_memory(err) : 0;
}

static int make_env(char **environment, const char *text, json_t **ret_env, struct err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	json_auto_t *env = json_object();
	char *rest = strcmp(text, "NONE") == 0 ? NULL : copy;
	int r = copy && env ? 0 : run_no_memory(err);

	while (r == 0 && rest)
		r = add_item(env, environment, next_item(&rest), err);
	if (r == 0)
		*ret_env = take_ptr(env);
	return r;
}

/* ---- script -------------------------------------------------------------------------------- */

static json_t *base64_json(const char *bytes, size_t size)
{
	_cleanup_free_ char *text = malloc(BASE64_SIZE(size) + 1);

	if (!text)
		return NULL;
	base64_encode(bytes, size, text);
	return json_string(text);
}

static int set_script(struct run_build *build, const char *bytes, size_t size, struct err *err)
{
	json_auto_t *text = memchr(bytes, '\0', size) ? NULL : json_stringn(bytes, size);
	/* A field of --spec that conflicts is removed. */
	int r = run_set(build, text ? "script_base64" : "script", json_null(), err);

	if (r < 0)
		return r;
	if (text)
		return run_set(build, "script", take_ptr(text), err);
	return run_set(build, "script_base64", base64_json(bytes, size), err);
}

/* ---- the document -------------------------------------------------------------------------- */

static int read_base(const char *file, json_t **ret_doc, struct err *err)
{
	_cleanup_close_ int fd = cli_open_file(file, err);

	return fd < 0 ? fd : spec_json_load_fd(fd, ret_doc, err);
}

/* The base for the options; an empty document without a file. */
static int load_base(const char *file, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = NULL;
	int r;

	if (!file) {
		*ret_doc = json_object();
		return *ret_doc ? 0 : run_no_memory(err);
	}
	r = read_base(file, &doc, err);
	if (r == 0)
		r = spec_check_object(SPEC_TABLE_MAX, NULL, doc, err);
	if (r < 0)
		return err_prefix(err, "%s", file);
	*ret_doc = take_ptr(doc);
	return 0;
}

/* A stream is one value; of other objects options set one member each. */
static bool is_stream(const char *name)
{
	const struct spec_field *fields;
	size_t n, i;

	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && strcmp(fields[i].name, name) != 0; i++)
		;
	return i < n && fields[i].modes;
}

static int merge(json_t *doc, json_t *overlay)
{
	const char *name;
	json_t *value, *old;
	int r = 0;

	json_object_foreach (overlay, name, value) {
		old = json_object_get(doc, name);
		if (json_is_null(value))
			(void)json_object_del(doc, name); /* -1: it was not there */
		else if (json_is_object(old) && json_is_object(value) && !is_stream(name))
			r |= json_object_update(old, value);
		else
			r |= json_object_set_nocheck(doc, name, value);
	}
	return r;
}

static bool is_kind(const json_t *doc, const char *kind)
{
	return strcmp(json_object_get(doc, "kind") ? json_get_text(doc, "kind", "") : "normal",
		       kind) == 0;
}

static int set_argv(json_t *doc, char **args, struct err *err)
{
	json_auto_t *argv = json_array();
	int r = 0;

	for (; *args && r == 0; args++)
		r = json_array_append_new(argv, json_string_nocheck(*args));
	r |= json_object_set(doc, PROGRAM_FIELD, argv);
	return r < 0 ? run_no_memory(err) : 0;
}

/* The number of tasks for --multi-prog; 0 where the spec's check will report it. */
static int get_ntasks(const json_t *doc, uint32_t *ret_ntasks, struct err *err)
{
	const json_t *n = json_object_get(doc, "ntasks");
	json_int_t value = 1;

	if (!n &&
		(json_object_get(doc, "ranks") ||
			json_object_get(json_object_get(doc, "node"), "ranks") ||
			json_object_get(json_object_get(doc, "node"), "tasks_per_node")))
		return err_set_text(err, -EINVAL, "--multi-prog: give --ntasks too");
	if (!n)
		n = json_object_get(doc, "local_ntasks");
	if (n)
		value = json_integer_value(n);
	*ret_ntasks = value > 0 && value <= SPEC_NTASKS_MAX ? (uint32_t)value : 0;
	return 0;
}

static int set_multi_prog(json_t *doc, char **args, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *tasks = NULL;
	uint32_t ntasks = 0;
	size_t size;
	int r;

	if (!*args)
		return err_set_text(err, -EINVAL, "--multi-prog: no file given");
	r = get_ntasks(doc, &ntasks, err);
	if (r < 0 || ntasks == 0)
		return r;
	r = fs_read(AT_FDCWD, *args, MULTI_PROG_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "--multi-prog: read '%s'", *args);
	if (strlen(text) != size)
		return err_set_text(err, -EINVAL, "%s: holds a NUL byte", *args);
	r = multi_prog_parse(text, ntasks, args + 1, &tasks, err);
	if (r < 0)
		return err_prefix(err, "%s", *args);
	(void)json_object_del(doc, PROGRAM_FIELD); /* -1: it was not there */
	return json_object_set_new(doc, "tasks", tasks) < 0 ? run_no_memory(err) : 0;
}

static int set_batch(struct run_build *build, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	const char *file = build->batch_file, *slash;
	size_t size;
	int r;

	if (!file)
		return 0;
	r = fs_read(AT_FDCWD, file, SPEC_SCRIPT_MAX, &bytes, &size);
	if (r < 0)
		return err_set(err, r, "--batch: read '%s'", file);
	slash = strrchr(file, '/');
	if (!json_object_get(build->overlay, "name"))
		r = run_set(build, "name", json_string_nocheck(slash ? slash + 1 : file), err);
	if (r == 0 && json_object_get(build->overlay, "kind"))
		r = err_set_text(err, -EINVAL, "--batch and --extern conflict; give one of them");
	if (r == 0)
		r = run_set(build, "kind", json_string("batch"), err);
	return r < 0 ? r : set_script(build, bytes, size, err);
}

/* srun sends errors where --output goes. */
static int set_streams(const struct run_build *build, json_t *doc, struct err *err)
{
	static const char *const outputs[] = {"stdout", "stderr"};
	const json_t *out = json_object_get(build->overlay, "stdout");
	const char *mode = json_string_value(out);
	json_t *stream;
	size_t i;
	int r = 0;

	if (!json_object_get(doc, "stdin") && is_kind(doc, "normal"))
		r |= json_object_set_new(doc, "stdin", json_string("all"));
	if (out && !json_object_get(doc, "stderr") && (!mode || strcmp(mode, "inherit") != 0))
		r |= json_object_set_new(doc, "stderr", json_string("stdout"));
	for (i = 0; build->open_mode && i < ARRAY_SIZE(outputs); i++) {
		stream = json_object_get(doc, outputs[i]);
		if (json_object_get(stream, "path"))
			r |= json_object_set_new(
				stream, "append", json_boolean(build->open_mode[0] == 'a'));
	}
	return r < 0 ? run_no_memory(err) : 0;
}

static int set_env(const struct run_build *build, json_t *doc, char **environment, struct err *err)
{
	json_t *env = NULL;
	int r;

	if (!build->export && (json_object_get(doc, "env") || is_kind(doc, "extern")))
		return 0;
	r = make_env(environment, build->export ?: "ALL", &env, err);
	if (r < 0)
		return err_prefix(err, "--export");
	return json_object_set_new(doc, "env", env) < 0 ? run_no_memory(err) : 0;
}

static int fill_doc(
	struct run_build *build, json_t *doc, char **environment, char **args, struct err *err)
{
	int r = 0;

	if (build->multi_prog)
		r = set_multi_prog(doc, args, err);
	else if (*args)
		r = set_argv(doc, args, err);
	else if (is_kind(doc, "normal") && !json_object_get(doc, PROGRAM_FIELD) &&
		!json_object_get(doc, "tasks"))
		r = err_set_text(err, -EINVAL,
			"no program given: %s [OPTION...] [--] PROGRAM [ARG...]",
			build->command ?: "stepd run");
	if (r == 0)
		r = set_env(build, doc, environment, err);
	return r < 0 ? r : set_streams(build, doc, err);
}

int run_make_doc(
	struct run_build *build, char **environment, char **args, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = NULL;
	int r = set_batch(build, err);

	if (r == 0)
		r = load_base(build->spec_file, &doc, err);
	if (r == 0 && merge(doc, build->overlay) < 0)
		r = run_no_memory(err);
	if (r == 0)
		r = fill_doc(build, doc, environment, args, err);
	if (r == 0)
		*ret_doc = take_ptr(doc);
	return r;
}

/* ---- options ------------------------------------------------------------------------------- */

#define PROGRAM_FIELD "argv"

void run_options_clear(struct run_options *o)
{
	json_decref(o->doc);
	o->spec = spec_free(o->spec);
	*o = (struct run_options)RUN_OPTIONS_INIT;
}

/* ---- the table: --help and the manual are made of it --------------------------------------- */

#define OWN(member_)   offsetof(struct run_options, member_)
#define BUILD(member_) offsetof(struct run_build, member_)

/* clang-format off */
/* A limit of the step, and the same of each task; the fields are those of spec_limits.c. */
#define LIMIT(name_, arg_, take_, field_, doc_, more_)                                             \
	{.name = name_, .arg = arg_, .take = take_, .path = "limits." field_,                      \
	 .doc = doc_, .more = more_},                                                              \
	{.name = "task-" name_, .arg = arg_, .take = take_, .path = "task_limits." field_,         \
	 .doc = "the same for each task"}

static const struct cli_option rows[] = {
	{.heading = "The step",
	 .name = "ntasks", .letter = 'n', .arg = "N", .take = run_take_number, .path = "ntasks",
	 .doc = "tasks of the whole step (1)"},
	{.name = "job-name", .letter = 'J', .arg = "NAME", .take = run_take_text, .path = "name",
	 .doc = "name of the job, for %x and SLURM_JOB_NAME (the program's)"},
	{.name = "job", .arg = "ID", .take = run_take_number, .path = "job",
	 .doc = "job id (the agent's pid)"},
	{.name = "step", .arg = "ID", .take = run_take_number, .path = "step",
	 .doc = "step id (0)"},
	{.name = "multi-prog", .take = cli_take_flag, .offset = BUILD(multi_prog), .path = "tasks",
	 .doc = "PROGRAM is a file with the program of each rank, as srun reads it",
	 .more = "Its lines hold ranks (`0-3,8` or, in the last line, `*` for the rest), a program "
	         "and its arguments. `%t` is replaced by the rank, `%o` by its index among the "
	         "line's ranks. Arguments on the command line follow those of each line."},
	{.name = "batch", .arg = "SCRIPTFILE", .take = cli_take_text, .offset = BUILD(batch_file), .path = "script",
	 .doc = "run this script as a batch step; the arguments after the options are the script's",
	 .more = "The agent takes a copy of the script; see [FILES]."},
	{.name = "extern", .take = run_take_word, .value = "extern", .path = "kind",
	 .doc = "no program: hold the processes that are added until the step is ended"},
	{.name = "spec", .arg = "FILE", .take = cli_take_text, .offset = BUILD(spec_file),
	 .doc = "start from this step spec, stepd-spec(5), which the other options change; - is stdin",
	 .more = "A document without `env` gets the caller's environment, and one without `stdin` "
	         "the caller's standard input."},

	{.heading = "This node in the step",
	 .name = "node-name", .arg = "NAME", .take = run_take_text, .path = "node.name",
	 .doc = "this node's name (the host's)",
	 .more = "Default: the host's name up to the first dot; with `--bootstrap` under srun, "
	         "`$SLURMD_NODENAME`."},
	{.name = "node-id", .arg = "N", .take = run_take_number, .path = "node.id",
	 .doc = "index of this node in the step (0)"},
	{.name = "node-count", .arg = "N", .take = run_take_number, .path = "node.count",
	 .doc = "nodes of the step (1)"},
	{.name = "node-list", .arg = "HOSTLIST", .take = run_take_text, .path = "node.list",
	 .doc = "names of the step's nodes"},
	{.name = "tasks-per-node", .arg = "N,N(xTIMES),...", .take = run_take_counts, .path = "node.tasks_per_node",
	 .doc = "the number of tasks of each node",
	 .more = "They are written as in `4,4,2` or `4(x2),2`."},
	{.name = "local-ntasks", .arg = "N", .take = run_take_number, .path = "local_ntasks",
	 .doc = "tasks of this node"},
	{.name = "first-rank", .arg = "RANK", .take = run_take_number, .path = "first_rank",
	 .doc = "rank of this node's first task"},
	{.name = "ranks", .arg = "LIST", .take = run_take_text, .path = "ranks",
	 .doc = "ranks of this node's tasks, such as 0-3,8, instead of a first one"},
	{.name = "node-ranks", .arg = "LIST:LIST:...", .take = run_take_rank_lists, .path = "node.ranks",
	 .doc = "ranks of each node's tasks, such as 0-3:4-7, instead of the three above"},

	{.name = "bootstrap", .arg = "pmi|pmi1|pmi2", .take = run_take_own_text, .offset = OWN(bootstrap),
	 .doc = "get all of this from the PMI of the engine that has started one agent for "
		"each node: srun --mpi=pmi2, mpiexec.hydra -ppn 1, flux run",
	 .more = "See [BOOTSTRAP BY AN ENGINE]."},

	{.heading = "Environment of the tasks",
	 .name = "chdir", .letter = 'D', .arg = "DIR", .take = run_take_path, .path = "cwd",
	 .doc = "working directory (the current one)"},
	{.name = "export", .arg = "ALL|NONE|NAME[=VALUE],...", .take = cli_take_text, .offset = BUILD(export), .path = "env",
	 .doc = "the caller's variables that the tasks get (ALL)",
	 .more = "`ALL` is all of them, `NONE` none; otherwise the named variables. With "
		"`ALL` in a list, all of them and the listed settings. Single quotes protect "
		"a comma in a value."},
	{.name = "uid", .arg = "USER", .take = run_take_text, .path = "uid",
	 .doc = "user, name or number",
	 .more = "Needs root unless it is one's own."},
	{.name = "gid", .arg = "GROUP", .take = run_take_text, .path = "gid",
	 .doc = "group, name or number",
	 .more = "Default: the user's."},
	{.name = "groups", .arg = "GROUP,...", .take = run_take_list, .path = "groups",
	 .doc = "supplementary groups; an empty list is none",
	 .more = "Default: the user's."},
	{.name = "umask", .arg = "OCTAL", .take = run_take_text, .path = "umask",
	 .doc = "file mode creation mask",
	 .more = "Default: the agent's."},
	{.name = "rlimit", .arg = "NAME=SOFT[:HARD]", .take = run_take_rlimit, .path = "rlimits",
	 .doc = "a resource limit, such as nofile=1024:unlimited; may be repeated"},
	{.name = "nice", .arg = "N", .arg_optional = true, .take = run_take_nice, .path = "nice",
	 .doc = "nice value; 10 if N is left out"},
	{.name = "oom-score-adj", .arg = "N", .take = run_take_number, .path = "oom_score_adj",
	 .doc = "how readily the kernel ends a task when memory is short, -1000 to 1000"},
	{.name = "no-new-privs", .take = run_take_true, .path = "no_new_privs",
	 .doc = "no program gains privileges by being executed"},
	{.name = "mount-namespace", .arg = "FILE", .take = run_take_path, .path = "mount_namespace",
	 .doc = "a mount namespace for the tasks to enter, as /proc/PID/ns/mnt",
	 .more = "Needs root. Files of streams are those of the agent, outside of it."},

	{.heading = "CPUs and memory of the tasks",
	 .name = "cpus-per-task", .letter = 'c', .arg = "N", .take = run_take_number, .path = "cpus_per_task",
	 .doc = "CPUs for each task (1)"},
	{.name = "cpu-bind", .arg = "[quiet|verbose,]TYPE", .take = run_take_text, .path = "cpu_bind",
	 .doc = "bind each task to CPUs: none, threads, cores, sockets, ldoms, rank, map_cpu:N,..., mask_cpu:MASK,..., map_ldom:N,..., mask_ldom:MASK,... or rank_ldom (none)"},
	{.name = "mem-bind", .arg = "[quiet|verbose,][prefer,]TYPE", .take = run_take_text, .path = "mem_bind",
	 .doc = "bind each task's memory to NUMA nodes: none, local, map_mem:N,..., mask_mem:MASK,... or rank (none)"},
	{.name = "distribution", .letter = 'm', .arg = "block|cyclic|plane=N", .take = run_take_text, .path = "distribution",
	 .doc = "how tasks are distributed over sockets (block)"},
	{.name = "topology", .arg = "FILE", .take = run_take_path, .path = "topology",
	 .doc = "a file of hwloc's XML of the machine, instead of probing it"},

	{.heading = "Limits, see stepd-limits(7); max takes one away",
	 .name = "limits", .arg = "strict|best-effort", .take = run_take_text, .path = "limits_mode",
	 .doc = "whether a limit that can't be set is an error or a warning (strict)",
	 .more = "The error comes before anything starts; warnings are one for each limit."},
	LIMIT("mem", "SIZE", run_take_limit_mem, "memory_max_bytes",
	 "memory, in MiB or with K, M, G or T behind it; processes that need more are killed",
	 "0 is no limit, as in srun(1)."),
	LIMIT("mem-high", "SIZE", run_take_limit_mem, "memory_high_bytes",
	 "memory above which allocations are slowed down",
	 "Memory is reclaimed then, too."),
	LIMIT("mem-swap", "SIZE", run_take_limit_mem, "memory_swap_max_bytes",
	 "swap space",
	 "It is counted separately from memory; 0 is none."),
	{.name = "oom-group", .arg = "yes|no", .arg_optional = true, .take = run_take_limit_bool, .path = "limits.memory_oom_group",
	 .doc = "an OOM kill takes all processes at once; yes if the value is left out"},
	{.name = "task-oom-group", .arg = "yes|no", .arg_optional = true, .take = run_take_limit_bool, .path = "task_limits.memory_oom_group",
	 .doc = "the same for each task"},
	LIMIT("pids", "N", run_take_limit, "pids_max",
	 "processes and threads",
	 NULL),
	LIMIT("cpus", "CPUS", run_take_limit, "cpu_max",
	 "CPU time each second, in CPUs such as 1.5",
	 NULL),
	LIMIT("cpu-weight", "N", run_take_limit, "cpu_weight",
	 "share of the CPU time under contention, 1 to 10000 (100)",
	 NULL),
	LIMIT("cpuset", "LIST", run_take_text, "cpuset_cpus",
	 "CPUs to run on, such as 0-3,8",
	 NULL),
	LIMIT("cpuset-mems", "LIST", run_take_text, "cpuset_mems",
	 "NUMA nodes to get memory from",
	 NULL),
	LIMIT("io-max", "DISK,rbps|wbps|riops|wiops=N,...", run_take_limit_io, "io_max",
	 "bytes or operations a second on a disk, such as /dev/sda,rbps=10M; may be repeated",
	 "The rates are `rbps` and `wbps` (bytes a second read and written), `riops` and "
	 "`wiops` (how often a second)."),
	LIMIT("device", "DEVICE[:rwm]|default", run_take_limit_device, "devices",
	 "a device that may be opened, such as /dev/nvidia0 or 'c 195:*', besides the "
		"default ones; no others then; may be repeated",
	 "Default devices are those that stepd-limits(7) lists; `default` is these alone."),

	{.heading = "Input and output",
	 .name = "input", .letter = 'i', .arg = "all|none|tool|attach|RANK|FILE", .take = run_take_stream, .path = "stdin",
	 .doc = "the tasks' standard input; FILE may hold patterns such as %t; tool: from a "
		"PMIx tool; attach: from attached clients (all)",
	 .more = "`all`: each task reads all of the agent's standard input. `none`: nothing. A "
	         "rank: only that task reads it. See mpi_pmix(7) for `tool`, and stepd-stdio(7) for "
	         "`attach`, which needs `--attachable`. Default: `all`, for a batch step `none`."},
	{.name = "input-overflow", .arg = "spill|drop|wait", .take = run_take_text, .path = "input_overflow",
	 .doc = "what becomes of input for a task that does not read it while others do: keep it "
		"in a file, leave it out, or let the others wait (spill)",
	 .more = "It concerns a task that is more than 1 MiB behind; see stepd-stdio(7)."},
	{.name = "input-spill-max", .arg = "SIZE", .take = run_take_size, .path = "input_spill_max",
	 .doc = "the largest size of that file, as 4G; 0 is no limit (1G)",
	 .more = "The others wait when it is reached."},
	{.name = "output", .letter = 'o', .arg = "all|none|RANK|FILE", .take = run_take_stream, .path = "stdout",
	 .doc = "the tasks' standard output (all)",
	 .more = "`all`: all tasks to the agent's standard output. `none`: nowhere. A rank: only "
	         "that task there."},
	{.name = "error", .letter = 'e', .arg = "all|none|RANK|FILE", .take = run_take_stream, .path = "stderr",
	 .doc = "the tasks' standard error (as --output)",
	 .more = "Default: with `--output` other than `all`, the same as that; else the agent's "
	         "standard error."},
	{.name = "open-mode", .arg = "append|truncate", .take = run_take_open_mode,
	 .doc = "how existing output files are opened (truncate)"},
	{.name = "label", .letter = 'l', .take = run_take_true, .path = "label",
	 .doc = "begin each line of output with its task's rank"},
	{.name = "forward", .take = run_take_true, .path = "forward",
	 .doc = "let output pass through the agent, so that PMIx tools can have a copy of it",
	 .more = "See mpi_pmix(7). Tasks then write to pipes, and their output is unchanged."},

	{.name = "unbuffered", .letter = 'u', .take = run_take_true, .path = "unbuffered",
	 .doc = "programs write each line when it is complete: their output goes to "
		"pseudo-terminals, and from there through the agent, unchanged",
	 .more = "See stepd-stdio(7)."},
	{.name = "pty", .arg = "RANKS", .arg_optional = true, .take = run_take_pty, .path = "pty",
	 .doc = "these ranks, such as 0-3,8, have a pseudo-terminal; 0 if RANKS is left out",
	 .more = "What is typed at the agent's own terminal goes to all of them, or to the one of "
		"`--input`. See stepd-stdio(7)."},

	{.name = "attachable", .take = run_take_true, .path = "attachable",
	 .doc = "let 'stepctl attach' show the tasks' streams while the step runs, and type",
	 .more = "The streams then pass through the agent, unchanged. See stepd-stdio(7)."},
	{.name = "attach-ring", .arg = "SIZE", .take = run_take_size, .path = "attach_ring",
	 .doc = "the last output of each stream to hold for attached clients, 4K to 16M (64K)",
	 .more = "Needs `--attachable`."},

	{.heading = "End of the step",
	 .name = "time", .letter = 't', .arg = "TIME", .take = run_take_time, .path = "time_limit_ms",
	 .doc = "end the step after this many minutes, or minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]",
	 .more = "`infinite` and 0 are no limit."},
	{.name = "time-limit", .arg = "DURATION", .take = run_take_duration, .path = "time_limit_ms",
	 .doc = "the same as 90, 30s, 250ms, 5m, 2h"},
	{.name = "signal", .arg = "[B:|R:]SIGNAL[@SECONDS]", .take = run_take_signal, .path = "time_limit_signal",
	 .doc = "send this signal this long before the time limit; B: to the tasks' first "
		"processes alone (60 seconds)",
	 .more = "The limit is that of `--time` or `--time-limit`; if it is nearer than that "
		"when the tasks start, the signal is sent at once. All processes of the step "
		"get it; with `B:` only the first one of each task, such as the shell of a "
		"batch script; `R:` changes nothing here. It is sent once, even if the agent "
		"is upgraded or the step adopted; while the step is suspended neither this "
		"time nor the limit runs."},
	{.name = "wait", .letter = 'W', .arg = "SECONDS", .take = run_take_wait, .path = "wait_ms",
	 .doc = "end the step this long after its first task's end; 0 is never"},
	{.name = "kill-on-bad-exit", .letter = 'K', .arg = "0|1|GRACE", .arg_optional = true, .take = run_take_bad_exit, .path = "kill_on_bad_exit",
	 .doc = "end the step when a task fails, after a grace time such as 5s if one is given; 0: never (when one dies between MPI_Init and MPI_Finalize)",
	 .more = "The short form is followed directly by its value: `-K5s`. With `-K0` the "
		"others continue in any case; see THE DEATH OF A RANK in mpi(7). Default: "
		"when one dies between MPI_Init and MPI_Finalize, unless stepd.conf(5) has "
		"another default."},
	{.name = "no-kill", .take = run_take_no_kill, .path = "kill_on_bad_exit",
	 .doc = "the same as --kill-on-bad-exit=0",
	 .more = "Unlike srun's it does not concern nodes that are lost."},
	{.name = "oom-kill-step", .take = run_take_true, .path = "oom_kill_step",
	 .doc = "end the step when a task runs out of memory",
	 .more = "See [OUT OF MEMORY]."},
	{.name = "kill-sequence", .arg = "SIGNAL[:WAIT],...", .take = run_take_kill_sequence, .path = "kill_sequence",
	 .doc = "how the step is ended (CONT,TERM:30s,KILL)",
	 .more = "The last signal is KILL."},
	{.name = "unkillable-timeout", .arg = "DURATION", .take = run_take_duration, .path = "unkillable_timeout_ms",
	 .doc = "how long after KILL to wait for processes to end (60s)"},
	{.name = "suspend-timeout", .arg = "DURATION", .take = run_take_duration, .path = "suspend_timeout_ms",
	 .doc = "how long processes may take to stop when the step is suspended (10s)",
	 .more = "See [SUSPENDING A STEP]."},
	{.name = "wait-background", .take = run_take_word, .value = "wait", .path = "background",
	 .doc = "wait for processes that tasks leave behind instead of killing them"},

	{.heading = "How it is run",
	 .name = "proctrack", .arg = "NAME", .take = run_take_text, .path = "proctrack",
	 .doc = "plugin that tracks the processes: auto, cgroup, cray_aries, linuxproc, pgid (auto)",
	 .more = "A site's own plugin is named likewise."},
	{.name = "mpi", .arg = "NAME", .take = run_take_mpi, .path = "mpi",
	 .doc = "plugin that serves the tasks' MPI; list shows the installed ones "
		"(stepd.conf's mpi_default, else none)",
	 .more = "The list describes what each offers here. Default: `mpi_default` of "
		"stepd.conf(5), else `none`."},
	{.name = "pmi-timeout", .arg = "DURATION", .take = run_take_duration, .path = "pmi.timeout_ms",
	 .doc = "deadline of a fence and of other waits of a rank for another; 0 is none (5m)",
	 .more = "Default: `pmi_timeout` of stepd.conf(5), else 5m."},
	{.name = "pmi-tcp", .take = run_take_true, .path = "pmi.tcp",
	 .doc = "tasks reach their PMI server over TCP",
	 .more = "They find it by `$PMI_PORT` and `$PMI_ID`."},
	{.name = "pmi-memory", .arg = "SIZE", .take = run_take_size, .path = "pmi.memory_bytes",
	 .doc = "how far the MPI service process may grow, as 4G; 0 is no limit (a quarter of the machine's memory)",
	 .more = "Default: `pmi_memory` of stepd.conf(5), else a quarter of the machine's memory."},
	{.name = "wire-addresses", .arg = "HOST:PORT,...", .take = run_take_list, .path = "wire.addresses",
	 .doc = "addresses at which the step's nodes listen for each other",
	 .more = "An IPv6 address is written in brackets."},
	{.name = "wire-listen-fd", .arg = "FD", .take = run_take_number, .path = "wire.listen_fd",
	 .doc = "the listening socket of this node's address, inherited"},
	{.name = "wire-auth", .arg = "secret|munge|none", .take = run_take_text, .path = "wire.auth",
	 .doc = "how nodes authenticate each other (secret if there is one, else munge)",
	 .more = "See stepd-spec(5)."},
	{.name = "wire-secret-fd", .arg = "FD", .take = run_take_number, .path = "wire.secret_fd",
	 .doc = "descriptor with the secret of the step's nodes, inherited"},
	{.name = "wire-fanout", .arg = "N", .take = run_take_number, .path = "wire.fanout",
	 .doc = "fanout of the tree of nodes (16)"},
	{.name = "wire-ifname", .arg = "NAME", .take = run_take_text, .path = "wire.ifname",
	 .doc = "network interface whose address is used (any)"},
	{.name = "wire-timeout", .arg = "DURATION", .take = run_take_duration, .path = "wire.connect_timeout_ms",
	 .doc = "how long the other nodes may take to connect (60s)"},
	{.name = "cgroup-root", .arg = "DIR", .take = run_take_text, .path = "cgroup_root",
	 .doc = "directory of a cgroup2 file system to work below (found automatically)",
	 .more = "Default: found as proctrack(7) describes."},
	{.name = "scope", .arg = "auto|yes|no", .take = run_take_text, .path = "scope",
	 .doc = "put the step into a scope of systemd (auto: where systemd runs and no group is delegated to the agent)",
	 .more = "See stepd-systemd(7)."},
	{.name = "session", .arg = "auto|task|agent", .take = run_take_text, .path = "session",
	 .doc = "each task leads a session of its own, or all run in the agent's (auto: the agent's where that is a terminal's, else task)",
	 .more = "See [SESSIONS AND TERMINALS]. Default: `auto`, the agent's if it has a "
		"terminal and the tasks are of its own user, else one for each task."},
	{.name = "lock-memory", .arg = "none|current|all", .take = run_take_text, .path = "lock_memory",
	 .doc = "keep the agent's memory out of swap: what it has once the tasks run, or all (none)",
	 .more = "That of the tasks is not locked, nor that of the MPI service."},
	{.name = "no-hold", .take = run_take_false, .path = "hold",
	 .doc = "start each task when it has been forked, not when all are in the container"},
	{.name = "plugin-dir", .arg = "DIR", .take = run_take_own_text, .offset = OWN(plugin_dir),
	 .doc = "load plugins from here"},
	{.name = "runtime-dir", .arg = "DIR", .take = run_take_own_text, .offset = OWN(runtime_dir),
	 .doc = "directory of the step's state"},
	{.name = "trace", .arg = "FILE", .take = run_take_own_text, .offset = OWN(trace),
	 .doc = "write the launch's phases with their times, for a browser's trace viewer",
	 .more = "See [THE TRACE]. The file is treated as that of `--result`."},
	{.name = "result", .arg = "FILE", .take = run_take_own_text, .offset = OWN(result),
	 .doc = "write the step's outcome, as JSON",
	 .more = "See [THE RESULT]. `-` is standard output. A regular file is replaced "
		"atomically, and is on the disk before the agent ends; a device or a pipe is "
		"written to, and its reader has two seconds to read some. A file that can't "
		"be written is refused before the step is started."},
	{.name = "keep-result", .arg = "DURATION", .take = run_take_keep_result,
	 .doc = "how long result.json stays in the step's directory (0)",
	 .more = "See [FILES]."},
	{.name = "config", .arg = "FILE", .take = run_take_config, .offset = OWN(config),
	 .doc = "the site's configuration, stepd.conf(5)"},
	{.name = "usage", .take = run_take_own_flag, .offset = OWN(usage),
	 .doc = "print the usage of the step and its tasks at the end",
	 .more = "It goes to standard error; see [USAGE]. Nothing is printed for a step that "
		"could not be started."},
	{.name = "sample", .arg = "INTERVAL", .arg_second = "FILE", .take = run_take_sample, .take_second = run_take_own_text, .offset = OWN(sample),
	 .doc = "write the step's usage to this file, over time: CSV, or lines of JSON if "
		"FILE ends in .json",
	 .more = "See [THE SAMPLES]. The interval is a duration from 100 milliseconds to a day."},
	{.name = "verbose", .letter = 'v', .take = run_take_verbose,
	 .doc = "log more; may be repeated",
	 .more = "The first one adds actions on the step and the ends of processes."},
	{.name = "quiet", .letter = 'q', .take = run_take_quiet,
	 .doc = "log less; may be repeated",
	 .more = "The first one leaves errors only."},
	{.name = "print-spec", .take = run_take_own_flag, .offset = OWN(print_spec),
	 .doc = "print the step spec that the options make, and run nothing"},
	{.name = "help", .letter = 'h', .take = run_take_own_flag, .offset = OWN(help),
	 .doc = "show this"},
};
/* clang-format on */

const struct cli_option *run_option_table(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(rows);
	return rows;
}

/* ---- errors -------------------------------------------------------------------------------- */

static bool begins_with_path(const char *text, const char *path)
{
	size_t len = path ? strlen(path) : 0;

	return len > 0 && strncmp(text, path, len) == 0 && text[len] && strchr(":.[", text[len]);
}

/* Prefixes the text with the source, which replaces the path if that is the whole path. */
static int name_source(const char *source, const char *path, struct err *err)
{
	char text[ERR_TEXT_SIZE];
	size_t len = strlen(path);

	if (err->text[len] != ':')
		return err_prefix(err, "%s", source);
	memcpy(text, err->text, sizeof(text));
	return err_set_text(err, err->code, "%s%s", source, text + len);
}

const struct cli_option *run_find_option(
	const struct cli_options *options, bool or_missing, const struct err *err)
{
	const struct cli_option *found = NULL;
	unsigned latest = 0;
	size_t i;

	for (i = 0; i < options->n; i++) {
		if (!begins_with_path(err->text, options->rows[i].path))
			continue;
		if (options->at[i] > latest || (!found && or_missing)) {
			latest = options->at[i];
			found = &options->rows[i];
		}
	}
	return found;
}

int run_name_option(const struct cli_option *option, struct err *err)
{
	char source[64];

	(void)snprintf(source, sizeof(source), "--%s", option->name);
	return name_source(source, option->path, err);
}

int run_name_source(
	const struct cli_options *options, const struct run_build *build, struct err *err)
{
	const struct cli_option *option = run_find_option(options, !build->spec_file, err);

	if (option)
		return run_name_option(option, err);
	if (build->program && begins_with_path(err->text, PROGRAM_FIELD))
		return name_source("PROGRAM", PROGRAM_FIELD, err);
	return build->spec_file ? err_prefix(err, "%s", build->spec_file) : err->code;
}

/* ---- entry points -------------------------------------------------------------------------- */

static void build_clear(struct run_build *build)
{
	json_decref(build->overlay);
}

static int parse_into(
	int argc, char **argv, char **environment, struct run_options *o, struct err *err)
{
	_cleanup_(build_clear) struct run_build build = {.options = o, .overlay = json_object()};
	struct cli_options options = {
		.rows = rows, .n = ARRAY_SIZE(rows), .command = "stepd run", .most = -1};
	int rest = argc, r;

	if (!build.overlay)
		return run_no_memory(err);
	r = cli_options_parse(&options, argc, argv, &build, &rest, err);
	if (r < 0 || o->help || o->mpi_list)
		return r;
	build.program = argv[rest];
	r = run_make_doc(&build, environment, argv + rest, &o->doc, err);
	if (r < 0 || o->bootstrap)
		return r;
	r = spec_from_json(o->doc, &o->spec, err);
	return r < 0 ? run_name_source(&options, &build, err) : 0;
}

int run_options_parse(
	int argc, char **argv, char **environment, struct run_options *ret_options, struct err *err)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	struct err own = ERR_INIT;
	int r;

	/* run_name_source() reads the text, so there must be one. */
	r = parse_into(argc, argv, environment, &o, err ? err : &own);
	if (r < 0)
		return r;
	*ret_options = o;
	o = (struct run_options)RUN_OPTIONS_INIT;
	return 0;
}

int run_options_print_spec(const struct run_options *o, FILE *out, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(o->doc, JSON_INDENT(2));

	if (!text)
		return err_set_text(err, -EILSEQ,
			"--print-spec: an argument or a variable is not UTF-8 text, which JSON can't hold");
	if (fprintf(out, "%s\n", text) < 0 || fflush(out) != 0)
		return err_set(err, errno ? -errno : -EIO, "--print-spec: write");
	return 0;
}

void run_options_print_help(FILE *out)
{
	fputs("Usage: stepd run [OPTION...] [--] PROGRAM [ARG...]\nRuns PROGRAM as the "
	      "tasks of a step. Defaults are in parentheses.\n",
		out);
	cli_options_print(rows, ARRAY_SIZE(rows), out);
}
