/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fields of the spec's document, a row each. A new field is a row here, a property in
 * doc/stepd-spec.schema.json and an entry in stepd-spec(5); tests hold them together.
 */
#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "stepd/base/hostlist.h"
#include "stepd/spec/spec_json.h"

#define STEP(member_) offsetof(struct spec_draft, spec.member_)
#define TASK(member_) offsetof(struct spec_task_draft, override.member_)
#define MODE(mode_)   (1u << SPEC_STREAM_##mode_)
#define TIME_MS_MAX   3153600000000 /* a century */
#define JOB_ID_MAX    0xfffffffd    /* the two above mean "none" and "all" in Slurm */
#define STEP_ID_MAX   0xfffffff0    /* those above are Slurm's special steps */
#define NODE_NAME_MAX 64
#define NORMAL        SPEC_KINDS_NORMAL
#define WITH_TASKS    (SPEC_KINDS_NORMAL | SPEC_KINDS_BATCH)
#define BATCH         SPEC_KINDS_BATCH

/* ---- forms of texts ----------------------------------------------------------------------- */

static const char *path_problem(const char *text)
{
	if (text[0] != '/')
		return "is not an absolute path";
	return strlen(text) >= PATH_MAX ? "is too long for a path" : NULL;
}

/* It becomes part of file names. */
static const char *node_name_problem(const char *text)
{
	const char *p;

	for (p = text; isalnum((unsigned char)*p) || *p == '-' || *p == '_' || *p == '.'; p++)
		;
	if (*p || text[0] == '.' || text[0] == '-')
		return "is no node's name (letters, digits, '-', '_' and '.', none of '-' and '.' "
		       "first)";
	return NULL;
}

static const char *node_list_problem(const char *text)
{
	int r = hostlist_each(text, SPEC_NODES_MAX, NULL, NULL);

	if (r == -E2BIG)
		return "names more nodes than a step can have";
	return r < 0 ? "is no list of nodes such as \"n[01-04,7],login\"" : NULL;
}

/* NAME or KIND/NAME. Whether there is such a plugin turns out when it is loaded. */
static bool is_plugin_name(const char *text, const char *kind)
{
	size_t len = strlen(kind);

	if (strncmp(text, kind, len) == 0)
		text += len;
	for (len = 0; isalnum((unsigned char)text[len]) || text[len] == '_' || text[len] == '-';
		len++)
		;
	return len > 0 && len <= 64 && !text[len];
}

static const char *proctrack_problem(const char *text)
{
	return is_plugin_name(text, "proctrack/")
		? NULL
		: "is no name of a proctrack plugin (\"auto\", \"cgroup\" or \"proctrack/cgroup\")";
}

static const char *mpi_problem(const char *text)
{
	return is_plugin_name(text, "mpi/")
		? NULL
		: "is no name of an mpi plugin (\"none\" or \"mpi/none\")";
}

/* ---- tables ------------------------------------------------------------------------------- */

/* Words in the order of their enums. */
static const char *const kind_words[STEPD_STEP_KIND_MAX + 1] = {
	[STEPD_STEP_NORMAL] = "normal",
	[STEPD_STEP_BATCH] = "batch",
	[STEPD_STEP_EXTERN] = "extern",
};

static const char *const background_words[SPEC_BACKGROUND_MAX + 1] = {
	[SPEC_BACKGROUND_KILL] = "kill",
	[SPEC_BACKGROUND_WAIT] = "wait",
};

static const char *const scope_words[SPEC_SCOPE_MAX + 1] = {
	[SPEC_SCOPE_AUTO] = "auto",
	[SPEC_SCOPE_YES] = "yes",
	[SPEC_SCOPE_NO] = "no",
};

static const char *const signal_to_words[SPEC_SIGNAL_TO_MAX + 1] = {
	[SPEC_SIGNAL_STEP] = "step",
	[SPEC_SIGNAL_TASKS] = "tasks",
};

static const char *const session_words[SPEC_SESSION_MAX + 1] = {
	[SPEC_SESSION_AUTO] = "auto",
	[SPEC_SESSION_TASK] = "task",
	[SPEC_SESSION_AGENT] = "agent",
};

static const char *const mode_words[SPEC_STREAM_MODE_MAX + 1] = {
	[SPEC_STREAM_INHERIT] = "inherit",
	[SPEC_STREAM_NONE] = "none",
	[SPEC_STREAM_ALL] = "all",
	[SPEC_STREAM_RANK] = "rank",
	[SPEC_STREAM_FILE] = "file",
	[SPEC_STREAM_STDOUT] = "stdout",
	[SPEC_STREAM_TOOL] = "tool",
};

static const char *const limits_mode_words[LIMITS_MODE_MAX + 1] = {
	[LIMITS_STRICT] = "strict",
	[LIMITS_BEST_EFFORT] = "best-effort",
};

static const struct spec_field step_fields[] = {
	{.name = "version",
		.parse = spec_row_version,
		.phase = SPEC_PHASE_KIND,
		.doc = "version of this format: 1"},
	{.name = "kind",
		.parse = spec_row_choice,
		.phase = SPEC_PHASE_KIND,
		.offset = STEP(kind),
		.choices = kind_words,
		.doc = "kind of step: normal (the default), batch (one task that runs "
		       "the script) or extern (no task, holds what is added to it)"},
	{.name = "job",
		.parse = spec_row_u32,
		.offset = STEP(job_id),
		.least = 1,
		.most = JOB_ID_MAX,
		.doc = "job id; the agent's pid if not given"},
	{.name = "step",
		.parse = spec_row_u32,
		.offset = STEP(step_id),
		.most = STEP_ID_MAX,
		.kinds = NORMAL,
		.doc = "step id of a normal step; 0 if not given"},
	{.name = "name",
		.parse = spec_row_text,
		.offset = STEP(job_name),
		.doc = "job name, for SLURM_JOB_NAME and %x; the program's file name if not given"},
	{.name = "node", .parse = spec_row_node, .doc = "this node among those of the step"},
	{.name = "ntasks",
		.parse = spec_row_u32,
		.offset = STEP(ntasks),
		.least = 1,
		.most = SPEC_NTASKS_MAX,
		.kinds = WITH_TASKS,
		.doc = "tasks of the whole step; if not given, the sum of "
		       "node.tasks_per_node, else this node's tasks, else 1"},
	{.name = "local_ntasks",
		.parse = spec_row_u32,
		.offset = STEP(local_ntasks),
		.least = 1,
		.most = SPEC_TASKS_MAX,
		.kinds = WITH_TASKS,
		.doc = "tasks of this node; may be left out where ranks, "
		       "node.tasks_per_node or ntasks on a single node say it"},
	{.name = "first_rank",
		.parse = spec_row_u32,
		.offset = offsetof(struct spec_draft, first_rank),
		.most = SPEC_NTASKS_MAX - 1,
		.kinds = NORMAL,
		.doc = "rank of this node's first task, the others follow; if not "
		       "given, as node.tasks_per_node says, else 0 on node 0"},
	{.name = "ranks",
		.parse = spec_row_ranks,
		.kinds = NORMAL,
		.doc = "ranks of this node's tasks, an array or \"0-3,8\", in the order "
		       "of their local ids; instead of first_rank"},
	{.name = "argv",
		.parse = spec_row_argv,
		.offset = STEP(argv),
		.kinds = WITH_TASKS,
		.doc = "program and arguments; of a batch step the script's arguments"},
	{.name = "env",
		.parse = spec_row_env,
		.offset = STEP(env),
		.doc = "all of the tasks' environment, by name; nothing is taken from the agent's"},
	{.name = "cwd",
		.parse = spec_row_text,
		.offset = STEP(cwd),
		.problem = path_problem,
		.doc = "working directory of the tasks, absolute; the agent's if not given"},
	{.name = "script",
		.parse = spec_row_script,
		.kinds = BATCH,
		.doc = "text of a batch step's script"},
	{.name = "script_base64",
		.parse = spec_row_script_base64,
		.kinds = BATCH,
		.doc = "bytes of a batch step's script in base64, instead of script"},
	{.name = "tasks",
		.parse = spec_row_tasks,
		.phase = SPEC_PHASE_RANKS,
		.kinds = NORMAL,
		.doc = "what differs for some ranks: an array of program, directory and "
		       "further environment"},
	{.name = "uid",
		.parse = spec_row_account,
		.offset = STEP(user),
		.doc = "user of the tasks, name or number; the agent's if not given"},
	{.name = "gid",
		.parse = spec_row_account,
		.offset = STEP(group),
		.doc = "group of the tasks, name or number; the user's if not given"},
	{.name = "groups",
		.parse = spec_row_accounts,
		.offset = STEP(groups),
		.given = STEP(groups_given),
		.doc = "supplementary groups, names or numbers; the user's if not given"},
	{.name = "umask",
		.parse = spec_row_umask,
		.offset = STEP(umask),
		.given = STEP(umask_given),
		.doc = "file mode creation mask, octal (\"0022\"); the agent's if not given"},
	{.name = "rlimits",
		.parse = spec_row_rlimits,
		.doc = "resource limits by name (\"nofile\"): a number, \"unlimited\", "
		       "or an object of soft and hard"},
	{.name = "nice",
		.parse = spec_row_int,
		.offset = STEP(nice),
		.given = STEP(nice_given),
		.least = -20,
		.most = 19,
		.doc = "nice value of the tasks, -20 to 19"},
	{.name = "oom_score_adj",
		.parse = spec_row_int,
		.offset = STEP(oom_score_adj),
		.given = STEP(oom_score_adj_given),
		.least = -1000,
		.most = 1000,
		.doc = "how readily the kernel ends a task when memory is short, -1000 to 1000"},
	{.name = "no_new_privs",
		.parse = spec_row_bool,
		.offset = STEP(no_new_privs),
		.doc = "no program of the tasks gains rights by being executed"},
	{.name = "limits",
		.parse = spec_row_limits,
		.offset = STEP(limits),
		.doc = "what the whole step on this node may use, by name (\"memory_max_bytes\")"},
	{.name = "task_limits",
		.parse = spec_row_limits,
		.offset = STEP(task_limits),
		.kinds = WITH_TASKS,
		.doc = "what each task may use, by the same names"},
	{.name = "limits_mode",
		.parse = spec_row_choice,
		.offset = STEP(limits_mode),
		.choices = limits_mode_words,
		.doc = "what becomes of a limit that can't be had: strict (the default), an error, "
		       "or best-effort, a warning"},
	{.name = "cpu_bind",
		.parse = spec_row_cpu_bind,
		.kinds = WITH_TASKS,
		.doc = "which CPUs tasks are bound to, as srun --cpu-bind: none, threads, cores, "
		       "sockets, ldoms, rank, map_cpu:0,1, mask_cpu:0x3,0xc and more"},
	{.name = "mem_bind",
		.parse = spec_row_mem_bind,
		.kinds = WITH_TASKS,
		.doc = "which NUMA nodes tasks' memory is bound to, as srun --mem-bind: none, "
		       "local, rank, map_mem:0,1, mask_mem:0x1,0x2"},
	{.name = "distribution",
		.parse = spec_row_distribution,
		.kinds = WITH_TASKS,
		.doc = "how a computed cpu_bind deals tasks out to sockets: block (the "
		       "default), cyclic or plane=N"},
	{.name = "cpus_per_task",
		.parse = spec_row_u32,
		.offset = STEP(cpus_per_task),
		.least = 1,
		.most = SPEC_CPUS_MAX,
		.kinds = WITH_TASKS,
		.doc = "CPUs that a computed cpu_bind takes for each task; 1 if not given"},
	{.name = "topology",
		.parse = spec_row_text,
		.offset = STEP(topology),
		.problem = path_problem,
		.kinds = WITH_TASKS,
		.doc = "file of hwloc's XML that describes the machine; hwloc finds it out if "
		       "not given"},
	{.name = "stdin",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(in),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(ALL) | MODE(RANK) | MODE(FILE) |
			MODE(TOOL),
		.doc = "where the tasks read: none (the default), inherit, all (each "
		       "reads all of the agent's stdin), one rank, a file, or tool (a pipe "
		       "that a PMIx tool fills)"},
	{.name = "stdout",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(out),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(RANK) | MODE(FILE),
		.doc = "where the tasks write: inherit (the default), none, only one "
		       "rank's, or a file"},
	{.name = "stderr",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(err),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(RANK) | MODE(FILE) | MODE(STDOUT),
		.doc = "where the tasks write errors: as stdout has it, or stdout, the same place"},
	{.name = "label",
		.parse = spec_row_bool,
		.offset = STEP(label),
		.kinds = WITH_TASKS,
		.doc = "put the rank before each line of output"},
	{.name = "forward",
		.parse = spec_row_bool,
		.offset = STEP(forward),
		.kinds = WITH_TASKS,
		.doc = "output passes through the agent, so that PMIx tools can have a copy of it"},
	{.name = "proctrack",
		.parse = spec_row_text,
		.offset = STEP(proctrack),
		.problem = proctrack_problem,
		.doc = "plugin that keeps track of the processes; auto if not given"},
	{.name = "mpi",
		.parse = spec_row_text,
		.offset = STEP(mpi),
		.problem = mpi_problem,
		.doc = "plugin that serves the tasks' MPI; as stepd.conf(5) says, or none, if not "
		       "given"},
	{.name = "pmi",
		.parse = spec_row_pmi,
		.kinds = NORMAL,
		.doc = "how collective operations of the tasks are served"},
	{.name = "wire",
		.parse = spec_row_wire,
		.kinds = NORMAL,
		.doc = "how the MPI services of the step's nodes reach each other"},
	{.name = "cgroup_root",
		.parse = spec_row_text,
		.offset = STEP(cgroup_root),
		.problem = path_problem,
		.doc = "directory of a cgroup2 file system to work below; found by "
		       "itself if not given"},
	{.name = "scope",
		.parse = spec_row_choice,
		.offset = STEP(scope),
		.choices = scope_words,
		.doc = "whether systemd is asked for a scope that the step hangs in: auto (the "
		       "default), yes or no"},
	{.name = "session",
		.parse = spec_row_choice,
		.offset = STEP(session),
		.choices = session_words,
		.kinds = WITH_TASKS,
		.doc = "in which session tasks run: auto (the default), task (each leads one of "
		       "its own) or agent (that of the agent)"},
	{.name = "hold",
		.parse = spec_row_bool,
		.offset = STEP(hold),
		.doc = "no task runs before all stand in the container; true if not given"},
	{.name = "time_limit_ms",
		.parse = spec_row_u64,
		.offset = STEP(time_limit_ms),
		.most = TIME_MS_MAX,
		.doc = "the step is ended after this time; 0, the default, is no limit"},
	{.name = "time_limit_signal",
		.parse = spec_row_signal,
		.offset = STEP(time_limit_signal),
		.doc = "signal that is sent some time before the time limit; none if not given"},
	{.name = "time_limit_signal_ms",
		.parse = spec_row_u64,
		.offset = STEP(time_limit_signal_ms),
		.most = TIME_MS_MAX,
		.doc = "with time_limit_signal: this long before the limit; 60000 if not given"},
	{.name = "time_limit_signal_to",
		.parse = spec_row_choice,
		.offset = STEP(time_limit_signal_to),
		.choices = signal_to_words,
		.doc = "with time_limit_signal: step, all processes (the default), or tasks, the "
		       "first process of each task alone"},
	{.name = "kill_on_bad_exit",
		.parse = spec_row_bool,
		.offset = STEP(kill_on_bad_exit),
		.given = STEP(kill_on_bad_exit_given),
		.kinds = WITH_TASKS,
		.doc = "end the step when a task fails; if not given, when one dies between "
		       "MPI_Init and MPI_Finalize"},
	{.name = "kill_on_bad_exit_grace_ms",
		.parse = spec_row_u64,
		.offset = STEP(kill_on_bad_exit_grace_ms),
		.most = TIME_MS_MAX,
		.kinds = WITH_TASKS,
		.doc = "with kill_on_bad_exit: this long after the failure; 0 if not given"},
	{.name = "oom_kill_step",
		.parse = spec_row_bool,
		.offset = STEP(oom_kill_step),
		.doc = "end the step when one of its processes is killed for want of memory"},
	{.name = "wait_ms",
		.parse = spec_row_u64,
		.offset = STEP(wait_ms),
		.given = STEP(wait_given),
		.most = TIME_MS_MAX,
		.kinds = WITH_TASKS,
		.doc = "end the step this long after its first task's end"},
	{.name = "kill_sequence",
		.parse = spec_row_kill_sequence,
		.doc = "how a step is ended: signals with a wait after each, the last "
		       "is KILL; CONT, TERM and 30 s, KILL if not given"},
	{.name = "background",
		.parse = spec_row_choice,
		.offset = STEP(background),
		.choices = background_words,
		.kinds = WITH_TASKS,
		.doc = "what becomes of processes that tasks leave behind: kill (the "
		       "default) or wait"},
	{.name = "unkillable_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(unkillable_timeout_ms),
		.most = TIME_MS_MAX,
		.doc = "how long after KILL the agent waits for processes to go; 60000 "
		       "if not given"},
	{.name = "suspend_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(suspend_timeout_ms),
		.most = 3600000, /* an hour */
		.doc = "how long a suspension may take before it is taken back; 10000 if "
		       "not given"},
};

static const struct spec_field node_fields[] = {
	{.name = "name",
		.parse = spec_row_text,
		.offset = STEP(node_name),
		.most = NODE_NAME_MAX,
		.problem = node_name_problem,
		.doc = "this node's name; the host's without its domain if not given"},
	{.name = "id",
		.parse = spec_row_u32,
		.offset = STEP(node_id),
		.most = SPEC_NODES_MAX - 1,
		.doc = "index of this node in the step; 0 if not given"},
	{.name = "count",
		.parse = spec_row_u32,
		.offset = STEP(node_count),
		.least = 1,
		.most = SPEC_NODES_MAX,
		.doc = "nodes of the step; 1 if not given"},
	{.name = "list",
		.parse = spec_row_text,
		.offset = STEP(node_list),
		.problem = node_list_problem,
		.doc = "names of the step's nodes as Slurm's hostlist, for SLURM_STEP_NODELIST"},
	{.name = "ranks",
		.parse = spec_row_node_ranks,
		.doc = "an array: the ranks of each node's tasks, \"0-3,8\", in the order of "
		       "their local ids"},
	{.name = "tasks_per_node",
		.parse = spec_row_tasks_per_node,
		.doc = "an array: the number of tasks of each node"},
};

static const struct spec_field task_fields[] = {
	{.name = "rank",
		.parse = spec_row_task_rank,
		.most = SPEC_NTASKS_MAX - 1,
		.doc = "the rank the entry is for"},
	{.name = "ranks",
		.parse = spec_row_task_ranks,
		.doc = "the ranks the entry is for, an array or \"0-3,8\", instead of rank"},
	{.name = "argv",
		.parse = spec_row_argv,
		.offset = TASK(argv),
		.doc = "program and arguments, instead of the step's"},
	{.name = "cwd",
		.parse = spec_row_text,
		.offset = TASK(cwd),
		.problem = path_problem,
		.doc = "working directory, absolute, instead of the step's"},
	{.name = "env",
		.parse = spec_row_env,
		.offset = TASK(env),
		.doc = "environment, added to the step's"},
};

static const struct spec_field stream_fields[] = {
	{.name = "mode",
		.parse = spec_row_choice,
		.required = true,
		.choices = mode_words,
		.offset = offsetof(struct spec_stream, mode),
		.doc = "inherit, none, all (stdin only), rank, file, stdout (stderr only) or tool "
		       "(stdin only)"},
	{.name = "rank",
		.parse = spec_row_u32,
		.offset = offsetof(struct spec_stream, rank),
		.most = SPEC_NTASKS_MAX - 1,
		.doc = "with mode rank: the only one that has the agent's stream"},
	{.name = "path",
		.parse = spec_row_text,
		.offset = offsetof(struct spec_stream, pattern),
		.most = PATH_MAX - 1,
		.doc = "with mode file: its name, with Slurm's patterns (%t is the "
		       "rank), relative to the task's directory"},
	{.name = "append",
		.parse = spec_row_bool,
		.offset = offsetof(struct spec_stream, append),
		.doc = "with mode file: what is in it stays; if not given it is emptied"},
};

static const struct spec_field rlimit_fields[] = {
	{.name = "soft",
		.parse = spec_row_limit,
		.required = true,
		.offset = offsetof(struct rlimit, rlim_cur),
		.doc = "the limit in force, a number or \"unlimited\""},
	{.name = "hard",
		.parse = spec_row_limit,
		.offset = offsetof(struct rlimit, rlim_max),
		.doc = "how far the tasks may raise it; as soft if not given"},
};

static const struct spec_field kill_fields[] = {
	{.name = "signal",
		.parse = spec_row_signal,
		.required = true,
		.offset = offsetof(struct spec_kill, signal),
		.doc = "the signal to send, name or number"},
	{.name = "wait_ms",
		.parse = spec_row_u64,
		.offset = offsetof(struct spec_kill, wait_ms),
		.most = TIME_MS_MAX,
		.doc = "how long the step has to end before the next entry; 0 if not given"},
};

static const struct {
	const struct spec_field *fields;
	size_t count;
} tables[SPEC_TABLE_MAX] = {
	[SPEC_TABLE_STEP] = {step_fields, ARRAY_SIZE(step_fields)},
	[SPEC_TABLE_NODE] = {node_fields, ARRAY_SIZE(node_fields)},
	[SPEC_TABLE_TASK] = {task_fields, ARRAY_SIZE(task_fields)},
	[SPEC_TABLE_STREAM] = {stream_fields, ARRAY_SIZE(stream_fields)},
	[SPEC_TABLE_RLIMIT] = {rlimit_fields, ARRAY_SIZE(rlimit_fields)},
	[SPEC_TABLE_KILL] = {kill_fields, ARRAY_SIZE(kill_fields)},
	[SPEC_TABLE_PMI] = {spec_pmi_fields, ARRAY_SIZE(spec_pmi_fields)},
	[SPEC_TABLE_WIRE] = {spec_wire_fields, ARRAY_SIZE(spec_wire_fields)},
	[SPEC_TABLE_LIMITS] = {spec_limit_fields, ARRAY_SIZE(spec_limit_fields)},
	[SPEC_TABLE_IO] = {spec_io_fields, ARRAY_SIZE(spec_io_fields)},
	[SPEC_TABLE_DEVICE] = {spec_device_fields, ARRAY_SIZE(spec_device_fields)},
};

const struct spec_field *spec_table_get(enum spec_table table, size_t *ret_count)
{
	*ret_count = tables[table].count;
	return tables[table].fields;
}

int limits_mode_parse(const char *text, enum limits_mode *ret_mode)
{
	int i;

	for (i = 0; i < LIMITS_MODE_MAX; i++) {
		if (strcmp(limits_mode_words[i], text) == 0) {
			*ret_mode = (enum limits_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *spec_kind_name(enum stepd_step_kind kind)
{
	return kind_words[kind];
}

const char *spec_signal_to_name(enum spec_signal_to to)
{
	return signal_to_words[to];
}

const char *spec_scope_name(enum spec_scope scope)
{
	return scope_words[scope];
}

const char *spec_node_name_problem(const char *name)
{
	return strlen(name) > NODE_NAME_MAX ? "is too long for a node's name"
					    : node_name_problem(name);
}
