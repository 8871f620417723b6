/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of "stepd run", a row each: --help and the manual page follow this table.
 */
#include <stddef.h>

#include "stepd/cli/run_convert.h"

#define OWN(member_)  offsetof(struct run_options, member_)
#define KEEP(member_) offsetof(struct run_build, member_)

/* A limit of the step, and the same of each task; the fields are those of spec_limits.c. */
#define LIMIT(name_, arg_, take_, field_, doc_)                                                    \
	{.name = name_, .arg = arg_, .take = take_, .path = "limits." field_, .doc = doc_},        \
	{                                                                                          \
		.name = "task-" name_, .arg = arg_, .take = take_, .path = "task_limits." field_,  \
		.doc = "the same for each task"                                                    \
	}

/* clang-format off */
static const struct run_option options[] = {
	{.heading = "The step",
	 .name = "ntasks", .letter = 'n', .arg = "N", .take = run_take_number, .path = "ntasks",
	 .doc = "tasks of the whole step (1)"},
	{.name = "job-name", .letter = 'J', .arg = "NAME", .take = run_take_text, .path = "name",
	 .doc = "name of the job, for %x and SLURM_JOB_NAME (the program's)"},
	{.name = "job", .arg = "ID", .take = run_take_number, .path = "job",
	 .doc = "job id (the agent's pid)"},
	{.name = "step", .arg = "ID", .take = run_take_number, .path = "step",
	 .doc = "step id (0)"},
	{.name = "multi-prog", .take = run_take_multi_prog, .path = "tasks",
	 .doc = "PROGRAM is a file that says which ranks run which program, as srun reads it"},
	{.name = "batch", .arg = "SCRIPTFILE", .take = run_take_keep, .offset = KEEP(batch_file), .path = "script",
	 .doc = "run this script as a batch step; what follows the options are its arguments"},
	{.name = "extern", .take = run_take_word, .word = "extern", .path = "kind",
	 .doc = "no program: hold the processes that are added until the step is ended"},
	{.name = "spec", .arg = "FILE", .take = run_take_keep, .offset = KEEP(spec_file),
	 .doc = "start from this step spec, stepd-spec(5), which the other options change; - is stdin"},

	{.heading = "Place in the step",
	 .name = "node-name", .arg = "NAME", .take = run_take_text, .path = "node.name",
	 .doc = "this node's name (the host's)"},
	{.name = "node-id", .arg = "N", .take = run_take_number, .path = "node.id",
	 .doc = "index of this node in the step (0)"},
	{.name = "node-count", .arg = "N", .take = run_take_number, .path = "node.count",
	 .doc = "nodes of the step (1)"},
	{.name = "node-list", .arg = "HOSTLIST", .take = run_take_text, .path = "node.list",
	 .doc = "names of the step's nodes"},
	{.name = "tasks-per-node", .arg = "N,N(xTIMES),...", .take = run_take_counts, .path = "node.tasks_per_node",
	 .doc = "the number of tasks of each node"},
	{.name = "local-ntasks", .arg = "N", .take = run_take_number, .path = "local_ntasks",
	 .doc = "tasks of this node"},
	{.name = "first-rank", .arg = "RANK", .take = run_take_number, .path = "first_rank",
	 .doc = "rank of this node's first task"},
	{.name = "ranks", .arg = "LIST", .take = run_take_text, .path = "ranks",
	 .doc = "ranks of this node's tasks, such as 0-3,8, instead of a first one"},

	{.heading = "Surroundings of the tasks",
	 .name = "chdir", .letter = 'D', .arg = "DIR", .take = run_take_path, .path = "cwd",
	 .doc = "working directory (the current one)"},
	{.name = "export", .arg = "ALL|NONE|NAME[=VALUE],...", .take = run_take_keep, .offset = KEEP(export), .path = "env",
	 .doc = "what of the environment the tasks get (ALL)"},
	{.name = "uid", .arg = "USER", .take = run_take_text, .path = "uid",
	 .doc = "user, name or number"},
	{.name = "gid", .arg = "GROUP", .take = run_take_text, .path = "gid",
	 .doc = "group, name or number"},
	{.name = "groups", .arg = "GROUP,...", .take = run_take_list, .path = "groups",
	 .doc = "supplementary groups; an empty list is none"},
	{.name = "umask", .arg = "OCTAL", .take = run_take_text, .path = "umask",
	 .doc = "file mode creation mask"},
	{.name = "rlimit", .arg = "NAME=SOFT[:HARD]", .take = run_take_rlimit, .path = "rlimits",
	 .doc = "a resource limit, such as nofile=1024:unlimited; may be repeated"},
	{.name = "nice", .arg = "N", .arg_optional = true, .take = run_take_nice, .path = "nice",
	 .doc = "nice value (10 if N is left out)"},
	{.name = "oom-score-adj", .arg = "N", .take = run_take_number, .path = "oom_score_adj",
	 .doc = "how readily the kernel ends a task when memory is short, -1000 to 1000"},
	{.name = "no-new-privs", .take = run_take_true, .path = "no_new_privs",
	 .doc = "no program gains rights by being executed"},

	{.heading = "CPUs and memory of the tasks",
	 .name = "cpus-per-task", .letter = 'c', .arg = "N", .take = run_take_number, .path = "cpus_per_task",
	 .doc = "CPUs for each task (1)"},
	{.name = "cpu-bind", .arg = "[quiet|verbose,]TYPE", .take = run_take_text, .path = "cpu_bind",
	 .doc = "bind each task to CPUs: none, threads, cores, sockets, ldoms, rank, map_cpu:N,..., mask_cpu:MASK,..., rank_ldom, map_ldom:N,... or mask_ldom:MASK,... (none)"},
	{.name = "mem-bind", .arg = "[quiet|verbose,][prefer,]TYPE", .take = run_take_text, .path = "mem_bind",
	 .doc = "bind each task's memory to NUMA nodes: none, local, rank, map_mem:N,... or mask_mem:MASK,... (none)"},
	{.name = "distribution", .letter = 'm', .arg = "block|cyclic|plane=N", .take = run_take_text, .path = "distribution",
	 .doc = "how tasks are dealt out to sockets (block)"},
	{.name = "topology", .arg = "FILE", .take = run_take_path, .path = "topology",
	 .doc = "hwloc's XML of the machine, instead of looking at it"},

	{.heading = "Limits, see stepd-limits(7); max takes one away",
	 .name = "limits", .arg = "strict|best-effort", .take = run_take_text, .path = "limits_mode",
	 .doc = "what becomes of a limit that can't be had: an error or a warning (strict)"},
	LIMIT("mem", "SIZE", run_take_limit_mem, "memory_max_bytes",
	 "memory, in MiB or with K, M, G or T behind it; what needs more is killed"),
	LIMIT("mem-high", "SIZE", run_take_limit_mem, "memory_high_bytes",
	 "memory above which allocations are slowed down"),
	LIMIT("mem-swap", "SIZE", run_take_limit_mem, "memory_swap_max_bytes",
	 "swap space"),
	{.name = "oom-group", .arg = "yes|no", .arg_optional = true, .take = run_take_limit_bool, .path = "limits.memory_oom_group",
	 .doc = "an OOM kill takes all processes at once (yes if left out)"},
	{.name = "task-oom-group", .arg = "yes|no", .arg_optional = true, .take = run_take_limit_bool, .path = "task_limits.memory_oom_group",
	 .doc = "the same for each task"},
	LIMIT("pids", "N", run_take_limit, "pids_max",
	 "processes and threads"),
	LIMIT("cpus", "CPUS", run_take_limit, "cpu_max",
	 "CPU time each second, in CPUs such as 1.5"),
	LIMIT("cpu-weight", "N", run_take_limit, "cpu_weight",
	 "share of CPU time among those who want it, 1 to 10000 (100)"),
	LIMIT("cpuset", "LIST", run_take_text, "cpuset_cpus",
	 "CPUs to run on, such as 0-3,8"),
	LIMIT("cpuset-mems", "LIST", run_take_text, "cpuset_mems",
	 "NUMA nodes to have memory of"),
	LIMIT("io-max", "DISK,rbps|wbps|riops|wiops=N,...", run_take_limit_io, "io_max",
	 "bytes or operations a second on a disk, such as /dev/sda,rbps=10M; may be repeated"),
	LIMIT("device", "DEVICE[:rwm]|default", run_take_limit_device, "devices",
	 "a device that may be opened, such as /dev/nvidia0 or 'c 195:*', beside the default ones; no others then; may be repeated"),

	{.heading = "Input and output",
	 .name = "input", .letter = 'i', .arg = "all|none|RANK|FILE", .take = run_take_stream, .path = "stdin",
	 .doc = "where tasks read (all); FILE may hold patterns such as %t"},
	{.name = "output", .letter = 'o', .arg = "all|none|RANK|FILE", .take = run_take_stream, .path = "stdout",
	 .doc = "where tasks write (all)"},
	{.name = "error", .letter = 'e', .arg = "all|none|RANK|FILE", .take = run_take_stream, .path = "stderr",
	 .doc = "where tasks write errors (as --output)"},
	{.name = "open-mode", .arg = "append|truncate", .take = run_take_open_mode,
	 .doc = "what becomes of output files that exist (truncate)"},
	{.name = "label", .letter = 'l', .take = run_take_true, .path = "label",
	 .doc = "put the rank before each line of output"},

	{.heading = "End of the step",
	 .name = "time", .letter = 't', .arg = "TIME", .take = run_take_time, .path = "time_limit_ms",
	 .doc = "end the step after this many minutes, or minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]"},
	{.name = "time-limit", .arg = "DURATION", .take = run_take_duration, .path = "time_limit_ms",
	 .doc = "the same as 90, 30s, 250ms, 5m, 2h"},
	{.name = "wait", .letter = 'W', .arg = "SECONDS", .take = run_take_wait, .path = "wait_ms",
	 .doc = "end the step this long after its first task's end; 0 is never"},
	{.name = "kill-on-bad-exit", .letter = 'K', .arg = "0|1|GRACE", .arg_optional = true, .take = run_take_bad_exit, .path = "kill_on_bad_exit",
	 .doc = "end the step when a task fails, after a grace time such as 5s if one is given"},
	{.name = "kill-sequence", .arg = "SIGNAL[:WAIT],...", .take = run_take_kill_sequence, .path = "kill_sequence",
	 .doc = "how the step is ended (CONT,TERM:30s,KILL)"},
	{.name = "unkillable-timeout", .arg = "DURATION", .take = run_take_duration, .path = "unkillable_timeout_ms",
	 .doc = "how long after KILL to wait for processes to go (60s)"},
	{.name = "wait-background", .take = run_take_word, .word = "wait", .path = "background",
	 .doc = "wait for processes that tasks leave behind instead of killing them"},

	{.heading = "How it is run",
	 .name = "proctrack", .arg = "NAME", .take = run_take_text, .path = "proctrack",
	 .doc = "plugin that keeps track of the processes: auto, cgroup, linuxproc, pgid (auto)"},
	{.name = "mpi", .arg = "NAME", .take = run_take_text, .path = "mpi",
	 .doc = "plugin that serves the tasks' MPI (none)"},
	{.name = "cgroup-root", .arg = "DIR", .take = run_take_text, .path = "cgroup_root",
	 .doc = "directory of a cgroup2 file system to work below (found by itself)"},
	{.name = "no-hold", .take = run_take_false, .path = "hold",
	 .doc = "tasks begin at once, not when all stand in the container"},
	{.name = "plugin-dir", .arg = "DIR", .take = run_take_own_text, .offset = OWN(plugin_dir),
	 .doc = "load plugins from here"},
	{.name = "runtime-dir", .arg = "DIR", .take = run_take_own_text, .offset = OWN(runtime_dir),
	 .doc = "keep the step's state below this directory"},
	{.name = "trace", .arg = "FILE", .take = run_take_own_text, .offset = OWN(trace),
	 .doc = "write where the time went, for a browser's trace viewer"},
	{.name = "result", .arg = "FILE", .take = run_take_own_text, .offset = OWN(result),
	 .doc = "write how the step ended, as JSON"},
	{.name = "verbose", .letter = 'v', .take = run_take_verbose,
	 .doc = "say more; may be repeated"},
	{.name = "quiet", .letter = 'q', .take = run_take_quiet,
	 .doc = "say less; may be repeated"},
	{.name = "print-spec", .take = run_take_own_flag, .offset = OWN(print_spec),
	 .doc = "run nothing, print the step spec that the options make"},
	{.name = "help", .letter = 'h', .take = run_take_own_flag, .offset = OWN(help),
	 .doc = "show this"},
};
/* clang-format on */

const struct run_option *run_option_table(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(options);
	return options;
}
