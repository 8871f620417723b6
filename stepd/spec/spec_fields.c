/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fields of the spec's document, a row each. A new field is a row here, and "make
 * regenerate-docs", which brings it into the schema and into stepd-spec(5).
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
#define TIME_MS_MAX   3153600000000             /* a century */
#define JOB_ID_MAX    0xfffffffd                /* the two above mean "none" and "all" in Slurm */
#define STEP_ID_MAX   STEPD_STEP_ID_INTERACTIVE /* batch and extern steps have larger numbers */
#define NODE_NAME_MAX 64
#define NORMAL        SPEC_KINDS_NORMAL
#define WITH_TASKS    (SPEC_KINDS_NORMAL | SPEC_KINDS_BATCH)
#define BATCH         SPEC_KINDS_BATCH

/* ---- forms of texts ------------------------------------------------------------------------ */

static const char *path_problem(const char *text)
{
	if (text[0] != '/')
		return "is not an absolute path";
	return strlen(text) >= PATH_MAX ? "is too long for a path" : NULL;
}

/* The text becomes part of file names. */
static const char *node_name_problem(const char *text)
{
	const char *p;

	for (p = text; isalnum((unsigned char)*p) || *p == '-' || *p == '_' || *p == '.'; p++)
		;
	if (*p || text[0] == '.' || text[0] == '-')
		return "is not a node's name (letters, digits, '-', '_' and '.', none of '-' and '.' "
		       "first)";
	return NULL;
}

static const char *node_list_problem(const char *text)
{
	int r = hostlist_each(text, SPEC_NODES_MAX, NULL, NULL);

	if (r == -E2BIG)
		return "names more nodes than a step can have";
	return r < 0 ? "is not a list of nodes such as \"n[01-04,7],login\"" : NULL;
}

/* Only loading the plugin shows whether it exists. */
static const char *proctrack_problem(const char *text)
{
	return parse_plugin_name(text, "proctrack")
		? NULL
		: "is not the name of a proctrack plugin (\"auto\", \"cgroup\" or \"proctrack/cgroup\")";
}

static const char *mpi_problem(const char *text)
{
	return parse_plugin_name(text, "mpi")
		? NULL
		: "is not the name of an mpi plugin (\"none\" or \"mpi/none\")";
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Names in the order of their enums. */
const char *const spec_kind_names[STEPD_STEP_KIND_MAX + 1] = {
	[STEPD_STEP_NORMAL] = "normal",
	[STEPD_STEP_BATCH] = "batch",
	[STEPD_STEP_EXTERN] = "extern",
};

static const char *const background_names[SPEC_BACKGROUND_MAX + 1] = {
	[SPEC_BACKGROUND_KILL] = "kill",
	[SPEC_BACKGROUND_WAIT] = "wait",
};

const char *const spec_scope_names[SPEC_SCOPE_MAX + 1] = {
	[SPEC_SCOPE_AUTO] = "auto",
	[SPEC_SCOPE_YES] = "yes",
	[SPEC_SCOPE_NO] = "no",
};

static const char *const lock_names[SPEC_LOCK_MAX + 1] = {
	[SPEC_LOCK_NONE] = "none",
	[SPEC_LOCK_CURRENT] = "current",
	[SPEC_LOCK_ALL] = "all",
};

const char *const spec_signal_to_names[SPEC_SIGNAL_TO_MAX + 1] = {
	[SPEC_SIGNAL_STEP] = "step",
	[SPEC_SIGNAL_TASKS] = "tasks",
};

static const char *const session_names[SPEC_SESSION_MAX + 1] = {
	[SPEC_SESSION_AUTO] = "auto",
	[SPEC_SESSION_TASK] = "task",
	[SPEC_SESSION_AGENT] = "agent",
};

static const char *const mode_names[SPEC_STREAM_MODE_MAX + 1] = {
	[SPEC_STREAM_INHERIT] = "inherit",
	[SPEC_STREAM_NONE] = "none",
	[SPEC_STREAM_ALL] = "all",
	[SPEC_STREAM_RANK] = "rank",
	[SPEC_STREAM_FILE] = "file",
	[SPEC_STREAM_STDOUT] = "stdout",
	[SPEC_STREAM_TOOL] = "tool",
	[SPEC_STREAM_ATTACH] = "attach",
};

static const char *const overflow_names[SPEC_OVERFLOW_MAX + 1] = {
	[SPEC_OVERFLOW_SPILL] = "spill",
	[SPEC_OVERFLOW_DROP] = "drop",
	[SPEC_OVERFLOW_WAIT] = "wait",
};

static const char *const limits_mode_names[LIMITS_MODE_MAX + 1] = {
	[LIMITS_STRICT] = "strict",
	[LIMITS_BEST_EFFORT] = "best-effort",
};

static const struct spec_field step_fields[] = {
	{.name = "version",
		.parse = spec_row_version,
		.phase = SPEC_PHASE_KIND,
		.form = "version",
		.doc = "The version of this format: 1.",
		.unset = "1"},
	{.name = "kind",
		.parse = spec_row_choice,
		.phase = SPEC_PHASE_KIND,
		.offset = STEP(kind),
		.choices = spec_kind_names,
		.doc = "The kind of step. A `normal` step runs tasks in parallel. A `batch` step "
		       "runs one task, the script that the document holds; it gets no MPI hooks. An "
		       "`extern` step runs no program: it holds the processes that are added to its "
		       "container, until it is ended.",
		.unset = "`normal`"},
	{.name = "job",
		.parse = spec_row_u32,
		.offset = STEP(job_id),
		.least = 1,
		.most = JOB_ID_MAX,
		.doc = "The job id.",
		.unset = "the agent's pid"},
	{.name = "step",
		.parse = spec_row_u32,
		.offset = STEP(step_id),
		.most = STEP_ID_MAX,
		.kinds = NORMAL,
		.doc = "The step id. A batch step is called `batch` and an extern step "
		       "`extern` where others have this number, and 4294967290, the shell of an "
		       "salloc, is called `interactive`; its `SLURM_NTASKS` and the like are those of `env`.",
		.unset = "0"},
	{.name = "name",
		.parse = spec_row_text,
		.offset = STEP(job_name),
		.form = "text",
		.doc = "The name of the job, for `$SLURM_JOB_NAME` and `%x` in file names.",
		.unset = "the file name of the program of the step, or of the first entry of "
			 "`tasks` if the step has none; `batch` or `extern` for those kinds"},
	{.name = "node",
		.parse = spec_row_object,
		.table = SPEC_TABLE_NODE,
		.form = "node",
		.doc = "This node among those of the step; see [NODE].",
		.unset = "the only one"},
	{.name = "ntasks",
		.parse = spec_row_u32,
		.offset = STEP(ntasks),
		.least = 1,
		.most = SPEC_NTASKS_MAX,
		.kinds = WITH_TASKS,
		.doc = "The number of tasks of the whole step, on all its nodes. A batch step "
		       "has 1.",
		.unset = "the sum of `node.tasks_per_node`, else the number of tasks of this "
			 "node"},
	{.name = "local_ntasks",
		.parse = spec_row_u32,
		.offset = STEP(local_ntasks),
		.least = 1,
		.most = SPEC_TASKS_MAX,
		.kinds = WITH_TASKS,
		.doc = "The number of tasks of this node. A step of several nodes must have "
		       "this field, `ranks` or `node.tasks_per_node`.",
		.unset = "the length of `ranks`, else the entry of this node in "
			 "`node.tasks_per_node`, else, if the step has one node, `ntasks` or 1"},
	{.name = "first_rank",
		.parse = spec_row_u32,
		.offset = offsetof(struct spec_draft, first_rank),
		.most = SPEC_NTASKS_MAX - 1,
		.kinds = NORMAL,
		.doc = "The rank of this node's first task; the others follow. Without "
		       "`node.tasks_per_node`, a node whose `node.id` is not 0 must give "
		       "`first_rank` or `ranks`.",
		.unset = "the sum of `node.tasks_per_node` over the nodes before this one, "
			 "else 0"},
	{.name = "ranks",
		.parse = spec_row_ranks,
		.kinds = NORMAL,
		.form = "ranks",
		.doc = "The ranks of this node's tasks in the order of their local ids, such as "
		       "`[4, 5, 9]` or `\"4-5,9\"`. Each is below `ntasks` and occurs once; at most "
		       "65536. Not together with `first_rank`."},
	{.name = "argv",
		.parse = spec_row_argv,
		.offset = STEP(argv),
		.kinds = WITH_TASKS,
		.form = "argv",
		.doc = "The program and its arguments. A program without a slash is searched for in "
		       "the `$PATH` of the task's environment; it is never given to a shell. In a "
		       "batch step: the arguments of the script. A normal step may omit it if each "
		       "of its tasks on this node has a program in `tasks`."},
	{.name = "env",
		.parse = spec_row_env,
		.offset = STEP(env),
		.form = "env",
		.doc = "The environment of the tasks, by names of variables. The kernel executes no "
		       "program with more than 6 MiB of them, or with more than a quarter of the "
		       "limit of the stack; a document with more than the first is refused. Nothing "
		       "is taken from the agent's environment. The agent adds the variables that "
		       "stepd(8) lists, and `$PATH` and `$TMPDIR` if they are not here.",
		.unset = "empty"},
	{.name = "env_complete",
		.parse = spec_row_bool,
		.offset = STEP(env_complete),
		.kinds = WITH_TASKS,
		.doc = "Whether `env` is the whole environment of the tasks, made by a caller that "
		       "knows a step's variables. Then the agent adds only `$SLURM_PROCID`, "
		       "`$SLURM_LOCALID`, `$SLURM_TASK_PID` and what the MPI plugin or a binding "
		       "needs.",
		.unset = "false"},
	{.name = "cwd",
		.parse = spec_row_text,
		.offset = STEP(cwd),
		.problem = path_problem,
		.form = "path",
		.doc = "The working directory of the tasks, entered as their user.",
		.unset = "the agent's own"},
	{.name = "script",
		.parse = spec_row_script,
		.kinds = BATCH,
		.form = "script",
		.doc = "The script of a batch step, at most 16 MiB. Its first line must be "
		       "`#!` and the absolute path of an interpreter, with at most one "
		       "argument, 255 bytes in all. A batch step needs this field, "
		       "`script_base64` or `script_file`."},
	{.name = "script_base64",
		.parse = spec_row_script_base64,
		.kinds = BATCH,
		.form = "base64",
		.doc = "The same in base64 (RFC 4648, padded, in one line), for a script that "
		       "is not UTF-8 text. Not together with `script`."},
	{.name = "script_file",
		.parse = spec_row_text,
		.offset = STEP(script_file),
		.kinds = BATCH,
		.problem = path_problem,
		.form = "path",
		.doc = "A file that is the script of a batch step, instead of one that the document "
		       "holds. The step's user must be able to execute it. The agent does not "
		       "remove it."},
	{.name = "tasks",
		.parse = spec_row_tasks,
		.phase = SPEC_PHASE_RANKS,
		.kinds = NORMAL,
		.form = "tasks",
		.doc = "Differences for some ranks; see [ENTRY OF TASKS]."},
	{.name = "uid",
		.parse = spec_row_account,
		.offset = STEP(user),
		.form = "account",
		.doc = "The user of the tasks. Only root can name a user other than the agent's.",
		.unset = "the agent's user, with the agent's group and groups"},
	{.name = "gid",
		.parse = spec_row_account,
		.offset = STEP(group),
		.form = "account",
		.doc = "The group of the tasks. A `uid` that is not in the user database needs "
		       "a `gid`.",
		.unset = "the group that the user database gives to `uid`"},
	{.name = "groups",
		.parse = spec_row_accounts,
		.offset = STEP(groups),
		.given = STEP(groups_given),
		.form = "accounts",
		.doc = "The supplementary groups of the tasks, at most 65536. An empty array "
		       "is none.",
		.unset = "those that the group database gives to `uid`"},
	{.name = "umask",
		.parse = spec_row_umask,
		.offset = STEP(umask),
		.given = STEP(umask_given),
		.form = "umask",
		.doc = "The file mode creation mask, 0 to 0777, such as `\"0022\"`.",
		.unset = "the agent's"},
	{.name = "rlimits",
		.parse = spec_row_rlimits,
		.form = "rlimits",
		.doc = "Resource limits of the tasks, setrlimit(2), by name: `as`, `core`, "
		       "`cpu`, `data`, `fsize`, `locks`, `memlock`, `msgqueue`, `nice`, "
		       "`nofile`, `nproc`, `rss`, `rtprio`, `rttime`, `sigpending`, `stack`. A "
		       "value is a number (soft and hard limit), the text `unlimited`, or an "
		       "object; see [LIMIT].",
		.unset = "the agent's limits"},
	{.name = "nice",
		.parse = spec_row_u32,
		.offset = STEP(nice),
		.given = STEP(nice_given),
		.least = -20,
		.most = 19,
		.doc = "The nice value of the tasks.",
		.unset = "the agent's"},
	{.name = "oom_score_adj",
		.parse = spec_row_u32,
		.offset = STEP(oom_score_adj),
		.given = STEP(oom_score_adj_given),
		.least = -1000,
		.most = 1000,
		.doc = "How readily the kernel kills a task when memory is short, proc(5).",
		.unset = "the value that the agent was started with"},
	{.name = "no_new_privs",
		.parse = spec_row_bool,
		.offset = STEP(no_new_privs),
		.doc = "Whether no program of the tasks gains privileges by its execution, for "
		       "example as a set-user-ID program.",
		.unset = "false"},
	{.name = "mount_namespace",
		.parse = spec_row_text,
		.offset = STEP(mount_namespace),
		.kinds = WITH_TASKS,
		.problem = path_problem,
		.form = "path",
		.doc = "A file that stands for a mount namespace, `/proc/PID/ns/mnt` or one that "
		       "such a file is bound to, mount_namespaces(7): the tasks enter it as root "
		       "before anything is done as their user, and so does the process of their "
		       "MPI. Directories and programs are found in it; files of their streams are "
		       "those of the agent. Only root's agent can do that.",
		.unset = "the agent's own"},
	{.name = "limits",
		.parse = spec_row_limits,
		.offset = STEP(limits),
		.form = "limits",
		.doc = "Limits of the whole step on this node; see [LIMITS OF USE].",
		.unset = "nothing is limited"},
	{.name = "task_limits",
		.parse = spec_row_limits,
		.offset = STEP(task_limits),
		.kinds = WITH_TASKS,
		.form = "limits",
		.doc = "Limits of each task, with all processes that it starts; see [LIMITS OF USE].",
		.unset = "nothing is limited"},
	{.name = "limits_mode",
		.parse = spec_row_choice,
		.offset = STEP(limits_mode),
		.choices = limits_mode_names,
		.doc = "The effect of a limit that can't be set here: `strict`, an error before "
		       "anything starts; `best-effort`, a warning for each, and the step runs with "
		       "the others.",
		.unset = "`strict`"},
	{.name = "cpu_bind",
		.parse = spec_row_cpu_bind,
		.offset = STEP(cpu_bind),
		.kinds = WITH_TASKS,
		.form = "cpu_bind",
		.doc = "The CPUs that the tasks are bound to, by the names of srun(1) `--cpu-bind`; "
		       "see stepd-binding(7).",
		.unset = "none, and no variable describes it to the tasks"},
	{.name = "mem_bind",
		.parse = spec_row_mem_bind,
		.offset = STEP(mem_bind),
		.kinds = WITH_TASKS,
		.form = "mem_bind",
		.doc = "The NUMA nodes that the tasks' memory is bound to, by the names of srun(1) "
		       "`--mem-bind`; see stepd-binding(7).",
		.unset = "none"},
	{.name = "distribution",
		.parse = spec_row_distribution,
		.kinds = WITH_TASKS,
		.form = "distribution",
		.doc = "How a computed `cpu_bind` distributes tasks over sockets: `block`, `cyclic` "
		       "or `plane=N`. A distribution over nodes may precede it, as in "
		       "`block:cyclic`; it only appears in the tasks' environment.",
		.unset = "`block`"},
	{.name = "cpus_per_task",
		.parse = spec_row_u32,
		.offset = STEP(cpus_per_task),
		.least = 1,
		.most = SPEC_CPUS_MAX,
		.kinds = WITH_TASKS,
		.doc = "The number of CPUs that a computed `cpu_bind` chooses for each task.",
		.unset = "1"},
	{.name = "topology",
		.parse = spec_row_text,
		.offset = STEP(topology),
		.problem = path_problem,
		.kinds = WITH_TASKS,
		.form = "path",
		.doc = "A regular file of hwloc's XML that describes the machine. It is read as the "
		       "tasks' user, who must be able to read it, if `cpu_bind` or `mem_bind` needs "
		       "it.",
		.unset = "hwloc probes the machine"},
	{.name = "stdin",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(in),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(ALL) | MODE(RANK) | MODE(FILE) |
			MODE(TOOL) | MODE(ATTACH),
		.doc = "The tasks' standard input; see [STREAM].",
		.unset = "`none`"},
	{.name = "input_overflow",
		.parse = spec_row_choice,
		.offset = STEP(input_overflow),
		.choices = overflow_names,
		.kinds = WITH_TASKS,
		.doc = "What becomes of standard input for a task that is more than 1 MiB behind "
		       "others that read it: `spill`, it is kept in a file; `drop`, it is left out "
		       "for this task; `wait`, the others wait for it. See stepd-stdio(7).",
		.unset = "`spill`"},
	{.name = "input_spill_max",
		.parse = spec_row_u64,
		.offset = STEP(input_spill_max),
		.most = INT64_MAX / 4,
		.kinds = WITH_TASKS,
		.doc = "With `spill`: the largest size of that file in bytes, after which the "
		       "others wait. 0 is no limit.",
		.unset = "1073741824"},
	{.name = "stdout",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(out),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(RANK) | MODE(FILE),
		.doc = "The tasks' standard output; see [STREAM].",
		.unset = "`inherit`"},
	{.name = "stderr",
		.parse = spec_row_stream,
		.phase = SPEC_PHASE_RANKS,
		.offset = STEP(err),
		.kinds = WITH_TASKS,
		.modes = MODE(INHERIT) | MODE(NONE) | MODE(RANK) | MODE(FILE) | MODE(STDOUT),
		.doc = "The tasks' standard error; see [STREAM].",
		.unset = "`inherit`"},
	{.name = "label",
		.parse = spec_row_bool,
		.offset = STEP(label),
		.kinds = WITH_TASKS,
		.doc = "Whether each line of output has its task's rank before it.",
		.unset = "false"},
	{.name = "forward",
		.parse = spec_row_bool,
		.offset = STEP(forward),
		.kinds = WITH_TASKS,
		.doc = "Whether the tasks' output passes through the agent unchanged, so that PMIx "
		       "tools can have a copy of it; mpi_pmix(7). With `label` it does so anyway.",
		.unset = "false"},
	{.name = "pty",
		.parse = spec_row_pty,
		.phase = SPEC_PHASE_RANKS,
		.kinds = WITH_TASKS,
		.form = "ranks",
		.doc = "The ranks that have a pseudo-terminal as standard input, output and error, "
		       "such as `[0]` or `\"0-3,8\"`: each below `ntasks`, and once; they may be "
		       "other nodes'. They read the agent's standard input as `stdin` has it, which "
		       "is `all`, `rank`, `none` or `attach` in such a step; the others read none. `stdout` "
		       "and `stderr` go to the agent's own, or, by `rank`, those of one of these ranks "
		       "alone. Each task of the step leads a session. "
		       "See stepd-stdio(7).",
		.unset = "none"},
	{.name = "unbuffered",
		.parse = spec_row_bool,
		.offset = STEP(unbuffered),
		.kinds = WITH_TASKS,
		.doc = "Whether output is written to pseudo-terminals, from which the agent carries "
		       "it unchanged, so that programs write each line when it is complete; "
		       "stepd-stdio(7).",
		.unset = "false"},
	{.name = "attachable",
		.parse = spec_row_bool,
		.offset = STEP(attachable),
		.kinds = WITH_TASKS,
		.doc = "Whether clients may be attached to the tasks' streams while the step runs "
		       "(`stepctl attach`): these then pass through the agent, unchanged. See "
		       "stepd-stdio(7).",
		.unset = "false"},
	{.name = "attach_ring",
		.parse = spec_row_u64,
		.offset = STEP(attach_ring_bytes),
		.least = SPEC_ATTACH_RING_MIN,
		.most = SPEC_ATTACH_RING_MAX,
		.kinds = WITH_TASKS,
		.doc = "With `attachable` only: how many bytes of each stream's last output the "
		       "agent holds for clients, once there is output. A client that is further "
		       "behind is told what it lacks.",
		.unset = "65536"},
	{.name = "proctrack",
		.parse = spec_row_text,
		.offset = STEP(proctrack),
		.problem = proctrack_problem,
		.form = "proctrack",
		.doc = "The plugin that tracks the processes, with or without `proctrack/`; "
		       "proctrack(7).",
		.unset = "`auto`"},
	{.name = "mpi",
		.parse = spec_row_text,
		.offset = STEP(mpi),
		.problem = mpi_problem,
		.form = "mpi",
		.doc = "The plugin that serves the tasks' MPI, with or without `mpi/`. Batch and "
		       "extern steps can only have `none`.",
		.unset = "`mpi_default` of stepd.conf(5), else `none`"},
	{.name = "pmi",
		.parse = spec_row_object,
		.table = SPEC_TABLE_PMI,
		.kinds = NORMAL,
		.form = "pmi",
		.doc = "How collective operations of the tasks are served; see [PMI]."},
	{.name = "wire",
		.parse = spec_row_object,
		.table = SPEC_TABLE_WIRE,
		.kinds = NORMAL,
		.form = "wire",
		.doc = "How the MPI services of the step's nodes reach each other; see [WIRE]. A "
		       "step on one node does not need it."},
	{.name = "cgroup_root",
		.parse = spec_row_text,
		.offset = STEP(cgroup_root),
		.problem = path_problem,
		.form = "path",
		.doc = "The directory of a cgroup2 file system below which proctrack/cgroup creates "
		       "its groups.",
		.unset = "found as proctrack(7) describes"},
	{.name = "scope",
		.parse = spec_row_choice,
		.offset = STEP(scope),
		.choices = spec_scope_names,
		.doc = "Whether the step gets a transient scope of systemd, stepd-systemd(7): "
		       "`auto`, where systemd is the init and no group is delegated to the agent, "
		       "and if it can't be created the step runs without it; `yes`, always, or the "
		       "step does not start; `no`, never. With `cgroup_root` there is no scope.",
		.unset = "`auto`"},
	{.name = "session",
		.parse = spec_row_choice,
		.offset = STEP(session),
		.choices = session_names,
		.kinds = WITH_TASKS,
		.doc = "The session of the tasks: `task`, each leads a session and a process group "
		       "of its own; `agent`, that of the agent, in one process group for all tasks "
		       "of the step on this node; `auto`, `agent` if the agent has a controlling "
		       "terminal and the tasks run as its own user, or if the tracker needs the "
		       "common group (proctrack/pgid, and a site's plugin that does not declare "
		       "otherwise), else `task`. `task` with such a tracker is an error. In a step "
		       "with `pty` it is `task`. See SESSIONS AND TERMINALS in stepd(8).",
		.unset = "`auto`"},
	{.name = "hold",
		.parse = spec_row_bool,
		.offset = STEP(hold),
		.doc = "Whether no task is executed before all tasks are in the container. Only "
		       "proctrack/cgroup can do without; other trackers always hold.",
		.unset = "true"},
	{.name = "time_limit_ms",
		.parse = spec_row_u64,
		.offset = STEP(time_limit_ms),
		.most = TIME_MS_MAX,
		.doc = "The step is ended this long after its tasks were released. 0 is no "
		       "limit.",
		.unset = "0"},
	{.name = "time_limit_signal",
		.parse = spec_row_signal,
		.offset = STEP(time_limit_signal),
		.form = "signal",
		.doc = "A signal that is sent once before `time_limit_ms`, which must be "
		       "given, is reached.",
		.unset = "none"},
	{.name = "time_limit_signal_ms",
		.parse = spec_row_u64,
		.offset = STEP(time_limit_signal_ms),
		.most = TIME_MS_MAX,
		.doc = "With `time_limit_signal` only: the time before the limit at which it is "
		       "sent. If the limit is nearer than that from the beginning, it is sent when "
		       "the tasks are released.",
		.unset = "60000"},
	{.name = "time_limit_signal_to",
		.parse = spec_row_choice,
		.offset = STEP(time_limit_signal_to),
		.choices = spec_signal_to_names,
		.doc = "With `time_limit_signal` only: to all processes of the step, or to the "
		       "first process of each task alone.",
		.unset = "`step`"},
	{.name = "kill_on_bad_exit",
		.parse = spec_row_bool,
		.offset = STEP(kill_on_bad_exit),
		.given = STEP(kill_on_bad_exit_given),
		.kinds = WITH_TASKS,
		.doc = "Whether the step is ended when a task fails: ends by a signal or with a "
		       "status other than 0. If it is not given, only a task that dies between "
		       "MPI_Init and MPI_Finalize ends the step; see THE DEATH OF A RANK in mpi(7).",
		.unset = "as stepd.conf(5) has it"},
	{.name = "kill_on_bad_exit_grace_ms",
		.parse = spec_row_u64,
		.offset = STEP(kill_on_bad_exit_grace_ms),
		.most = TIME_MS_MAX,
		.kinds = WITH_TASKS,
		.doc = "With `kill_on_bad_exit` only: how long after the failure.",
		.unset = "0"},
	{.name = "oom_kill_step",
		.parse = spec_row_bool,
		.offset = STEP(oom_kill_step),
		.doc = "Whether the step is ended when the kernel kills one of its processes for "
		       "lack of memory, as far as the tracker reports it; see OUT OF MEMORY in "
		       "stepd(8).",
		.unset = "false"},
	{.name = "wait_ms",
		.parse = spec_row_u64,
		.offset = STEP(wait_ms),
		.given = STEP(wait_given),
		.most = TIME_MS_MAX,
		.kinds = WITH_TASKS,
		.doc = "The step is ended this long after its first task's end. 0 is at once.",
		.unset = "never"},
	{.name = "kill_sequence",
		.parse = spec_row_kill_sequence,
		.form = "kill_sequence",
		.doc = "How a step is ended, 1 to 16 entries; see [ENTRY OF KILL_SEQUENCE].",
		.unset = "CONT, then TERM and 30 seconds, then KILL"},
	{.name = "background",
		.parse = spec_row_choice,
		.offset = STEP(background),
		.choices = background_names,
		.kinds = WITH_TASKS,
		.doc = "Whether processes that remain in the container when the last task has ended "
		       "are killed or awaited.",
		.unset = "`kill`"},
	{.name = "unkillable_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(unkillable_timeout_ms),
		.most = TIME_MS_MAX,
		.doc = "The time after KILL for which the agent waits for the processes' end before "
		       "it gives the step up.",
		.unset = "60000"},
	{.name = "suspend_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(suspend_timeout_ms),
		.most = 3600000, /* an hour */
		.doc = "The time in which the step's processes must stop when it is suspended; if "
		       "some still run then, all are resumed and the suspension fails.",
		.unset = "10000"},
	{.name = "lock_memory",
		.parse = spec_row_choice,
		.offset = STEP(lock_memory),
		.choices = lock_names,
		.doc = "Whether the agent's memory stays out of swap, mlockall(2): what it has once "
		       "the tasks run, or also what it gets later. An agent that can't lock it says "
		       "so in its log. The tasks' memory is not locked, nor that of the MPI service.",
		.unset = "`none`"},
};

static const struct spec_field node_fields[] = {
	{.name = "name",
		.parse = spec_row_text,
		.offset = STEP(node_name),
		.most = NODE_NAME_MAX,
		.problem = node_name_problem,
		.form = "node_name",
		.doc = "The name of this node: letters, digits, `-`, `_` and `.`, the first "
		       "neither `-` nor `.`.",
		.unset = "the host's name up to its first dot"},
	{.name = "id",
		.parse = spec_row_u32,
		.offset = STEP(node_id),
		.most = SPEC_NODES_MAX - 1,
		.doc = "The index of this node in the step, below `count`.",
		.unset = "0"},
	{.name = "count",
		.parse = spec_row_u32,
		.offset = STEP(node_count),
		.least = 1,
		.most = SPEC_NODES_MAX,
		.doc = "The number of nodes of the step.",
		.unset = "1"},
	{.name = "cpus",
		.parse = spec_row_u32,
		.offset = STEP(node_cpus),
		.least = 1,
		.most = SPEC_CPUS_MAX,
		.doc = "The number of processors of this node that the step has, for "
		       "`$SLURM_CPUS_ON_NODE`.",
		.unset = "those that the agent may use, as nproc(1) counts them"},
	{.name = "list",
		.parse = spec_row_text,
		.offset = STEP(node_list),
		.problem = node_list_problem,
		.form = "hostlist",
		.doc = "The names of the step's nodes as a hostlist of Slurm, such as "
		       "`n[01-04,7]`, for `$SLURM_STEP_NODELIST` and for MPI plugins: `count` "
		       "of them, in the order of their ids. Numbers have at most 9 digits; "
		       "those of a range have the width of its first. Of several brackets in a "
		       "name the last one counts fastest.",
		.unset = "unknown; the node's own name where `count` is 1"},
	{.name = "ranks",
		.parse = spec_row_node_ranks,
		.form = "node_ranks",
		.doc = "The ranks of each node's tasks, in the order of their local ids, such as "
		       "`[\"0-3,8\", \"4-7\"]`: `count` of them, each rank of the step once; an "
		       "empty text stands for a node without tasks. `ntasks`, `tasks_per_node` and "
		       "the document's `ranks` are derived from it if they are not given, and must "
		       "agree with it if they are. MPI plugins learn from it the node of each rank; "
		       "without it they know this for a step on one node, and if `tasks_per_node` "
		       "is given and each node's ranks follow those of the node before. For normal "
		       "steps only.",
		.unset = "unknown"},
	{.name = "tasks_per_node",
		.parse = spec_row_tasks_per_node,
		.form = "tasks_per_node",
		.doc = "The number of tasks of each node, 0 to 65536: `count` of them. Their sum is "
		       "`ntasks`, and this node's is not 0. For normal steps only.",
		.unset = "unknown"},
};

static const struct spec_field task_fields[] = {
	{.name = "rank",
		.parse = spec_row_task_rank,
		.most = SPEC_NTASKS_MAX - 1,
		.doc = "The rank that the entry is for, below `ntasks`."},
	{.name = "ranks",
		.parse = spec_row_task_ranks,
		.form = "ranks",
		.doc = "The ranks that the entry is for, such as `\"0-3,8\"`. An entry has either "
		       "`rank` or `ranks`, and a rank has one entry at most. Ranks of other nodes "
		       "are ignored, so that all nodes may get the same array."},
	{.name = "argv",
		.parse = spec_row_argv,
		.offset = TASK(argv),
		.form = "program",
		.doc = "The program and its arguments, instead of the step's; not empty."},
	{.name = "cwd",
		.parse = spec_row_text,
		.offset = TASK(cwd),
		.problem = path_problem,
		.form = "path",
		.doc = "The working directory, instead of the step's."},
	{.name = "env",
		.parse = spec_row_env,
		.offset = TASK(env),
		.form = "env",
		.doc = "Variables that are added to the step's environment, or replace those of the "
		       "same name. Those that the agent sets must not be given."},
	{.name = "limits",
		.parse = spec_row_limits,
		.offset = TASK(limits),
		.form = "limits",
		.doc = "Limits of each task of the entry, in place of those of the same name in "
		       "`task_limits`; see [LIMITS OF USE]."},
};

static const struct spec_field stream_fields[] = {
	{.name = "mode",
		.parse = spec_row_choice,
		.required = true,
		.choices = mode_names,
		.offset = offsetof(struct spec_stream, mode),
		.doc = "`inherit`: the agent's own stream, shared. `none`: `/dev/null`. `all` "
		       "(stdin only): each task of this node reads all of the agent's standard "
		       "input. `rank`: one task has the agent's stream, the others `/dev/null`. "
		       "`file`: a file. `stdout` (stderr only): the destination of standard output. "
		       "`attach` (stdin only): attached clients alone type, which needs "
		       "`attachable`; stepd-stdio(7). "
		       "`tool` (stdin only): each task has a pipe, which a PMIx tool fills and "
		       "ends; mpi_pmix(7)."},
	{.name = "rank",
		.parse = spec_row_u32,
		.offset = offsetof(struct spec_stream, rank),
		.most = SPEC_NTASKS_MAX - 1,
		.doc = "With mode `rank`, and required there: the rank that has the stream, below "
		       "`ntasks`. It may be another node's."},
	{.name = "path",
		.parse = spec_row_text,
		.offset = offsetof(struct spec_stream, pattern),
		.most = PATH_MAX - 1,
		.form = "text",
		.doc = "With mode `file`, and required there: its name, with the patterns that "
		       "stepd-stdio(7) describes. It is opened as the tasks' user. A relative name is "
		       "below the task's directory, or below the step's directory for an output "
		       "file that all tasks share, which is one without `%t`. A stream's own name, "
		       "such as `/dev/stdout` for `stdout`, means the agent's own as `inherit` "
		       "does, and `/dev/stdout` for `stderr` the same as mode `stdout`. Other links "
		       "of `/proc` to open files of a process, as below `/dev/fd`, are not "
		       "followed, and no file of `/proc` is opened."},
	{.name = "append",
		.parse = spec_row_bool,
		.offset = offsetof(struct spec_stream, append),
		.doc = "With mode `file`, not for stdin: whether the contents of the file are retained.",
		.unset = "false, the file is emptied"},
};

static const struct spec_field rlimit_fields[] = {
	{.name = "soft",
		.parse = spec_row_limit,
		.required = true,
		.offset = offsetof(struct rlimit, rlim_cur),
		.form = "limit",
		.doc = "The limit in force, not above `hard`."},
	{.name = "hard",
		.parse = spec_row_limit,
		.offset = offsetof(struct rlimit, rlim_max),
		.form = "limit",
		.doc = "The bound up to which the tasks may raise it.",
		.unset = "the same as `soft`"},
};

static const struct spec_field kill_fields[] = {
	{.name = "signal",
		.parse = spec_row_signal,
		.required = true,
		.offset = offsetof(struct spec_kill, signal),
		.form = "signal",
		.doc = "A signal by its name, with or without `SIG` and in any case, or by its "
		       "number; also `RTMIN+1`."},
	{.name = "wait_ms",
		.parse = spec_row_u64,
		.offset = offsetof(struct spec_kill, wait_ms),
		.most = TIME_MS_MAX,
		.doc = "The time that the step has to end before the next entry. Not for the last "
		       "entry: after KILL `unkillable_timeout_ms` counts.",
		.unset = "0"},
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
	int i = strv_index(limits_mode_names, LIMITS_MODE_MAX, text);

	if (i < 0)
		return -EINVAL;
	*ret_mode = (enum limits_mode)i;
	return 0;
}

const char *spec_node_name_problem(const char *name)
{
	return strlen(name) > NODE_NAME_MAX ? "is too long for a node's name"
					    : node_name_problem(name);
}
