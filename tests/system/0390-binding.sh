#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tasks bound to CPUs and NUMA nodes, seen by the kernel's own tables.
. "${top_srcdir:?}/tests/lib/step.sh"

# The CPUs that this test may use, the first and the last of them.
allowed=$(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status)
first=${allowed%%[,-]*}
last=${allowed##*[,-]}
mask() { # CPU
	printf '%x' $((1 << $1))
}
cpus='echo $SLURM_PROCID $(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)'
output() { # of step's tasks, in their order, in one line
	step "$@" | sort -n | tr '\n' ' '
}
hwloc=yes
"$stepd" run --cpu-bind=cores -- true 2>"$tmpdir/err" || {
	grep -q "without hwloc" "$tmpdir/err" && hwloc=
}

# ---- by number, without the machine's topology -------------------------------------------------
is "$(output -n 2 -- sh -c "$cpus")" "0 $allowed 1 $allowed " "tasks are not bound by default"
is "$(output -n 2 --cpu-bind=none -- sh -c "$cpus")" "0 $allowed 1 $allowed " \
	"--cpu-bind=none does not bind tasks"
for b in $(backends); do
	is "$(output -n 3 --proctrack "$b" --cpu-bind="map_cpu:$last,$first" -- sh -c "$cpus")" \
		"0 $last 1 $first 2 $last " "$b: map_cpu binds each task to its CPU of the list"
done
is "$(output -n 2 --cpu-bind="mask_cpu:0x$(mask "$last"),$(mask "$first")" -- sh -c "$cpus")" \
	"0 $last 1 $first " "mask_cpu binds each task to its mask of the list"
is "$(output -n 1 --cpu-bind=rank -- sh -c "$cpus")" "0 $first " \
	"--cpu-bind=rank binds a task to the CPU of its rank"
if command -v taskset >/dev/null; then
	# shellcheck disable=SC2016 # for the task's shell
	out=$(step --cpu-bind="map_cpu:$last" -- sh -c 'taskset -p $$')
	is "${out##* }" "$(mask "$last")" "taskset reports the CPUs that a task is bound to"
	out=$(taskset -c "$last" "$stepd" run --job "$job" --cpu-bind=rank -- sh -c "$cpus")
	is "$out" "0 $last" "binding stays within what the agent may use"
	if [ "$first" != "$last" ]; then
		out=$(taskset -c "$last" "$stepd" run --job "$job" --cpu-bind="map_cpu:$first" -- true 2>&1)
		like "$out" "cpu_bind: CPU $first is not one of the step's \($last\)$" \
			"a CPU that the agent may not use is refused"
	else
		skip 1 "one CPU"
	fi
else
	skip 3 "taskset is not installed"
fi
if [ "$(id -u)" = 0 ]; then
	is "$(output --uid nobody --cpu-bind="map_cpu:$last" -- sh -c "$cpus")" "0 $last " \
		"map_cpu binds a task of another user"
else
	skip 1 "needs root"
fi

# ---- memory ------------------------------------------------------------------------------------
policy() { # OPTION...: of a task's heap
	step "$@" -- cat /proc/self/numa_maps | awk '/ heap/ { sub(/=.*/, "", $2); print $2; exit }'
}
if [ -r /proc/self/numa_maps ]; then
	node=$(awk '/^Mems_allowed_list:/ { print $2 }' /proc/self/status)
	node=${node%%[,-]*}
	is "$(policy)" default "memory is not bound by default"
	is "$(policy --mem-bind="map_mem:$node")" "bind:$node" "map_mem binds memory to its node of the list"
	is "$(policy --mem-bind="mask_mem:$(mask "$node")")" "bind:$node" \
		"mask_mem binds memory to its mask of the list"
	is "$(policy --mem-bind=rank)" "bind:$node" "--mem-bind=rank binds memory to the node of the rank"
	is "$(policy --mem-bind="prefer,map_mem:$node")" "prefer:$node" "--mem-bind=prefer prefers the node"
else
	skip 5 "the kernel shows no NUMA policies"
fi

# ---- verbose -----------------------------------------------------------------------------------
out=$(step -n 2 --cpu-bind="verbose,map_cpu:$last" -- true 2>&1 >/dev/null | sort)
is "$(printf '%s\n' "$out" | sed 's/pid [0-9]*/pid N/')" \
	"cpu-bind=map_cpu - $(hostname -s), task 0 (local 0, pid N): bound to CPUs $last, mask 0x$(mask "$last")
cpu-bind=map_cpu - $(hostname -s), task 1 (local 1, pid N): bound to CPUs $last, mask 0x$(mask "$last")" \
	"verbose reports a line a task on the step's stderr"
out=$(step --cpu-bind=verbose -- true 2>&1)
like "$out" "^cpu-bind=none - .*: not bound, CPUs $allowed, mask 0x" \
	"verbose alone reports that tasks are not bound"
is "$(step --cpu-bind="quiet,map_cpu:$last" -- true 2>&1)" "" "quiet suppresses the report of binding"
step -n 2 --error "$tmpdir/err.%t" --cpu-bind=verbose -- true
like "$(cat "$tmpdir/err.1")" "task 1 " "the report of binding goes to the task's stderr"
# shellcheck disable=SC2016 # for the task's shell
out=$(step --mem-bind=verbose -- true 2>&1)
like "$out" "^mem-bind=none - .*: not bound, NUMA nodes " "verbose reports that memory is not bound"
sh -c '"$1" run --cpu-bind=verbose -- sh -c "echo \$SLURM_CPU_BIND >\"$2\"" 2>&-' sh "$stepd" "$tmpdir/bind"
is "$(cat "$tmpdir/bind")" "verbose,none" "a task is bound though stderr is closed"
mkfifo "$tmpdir/gone"
exec 5<>"$tmpdir/gone" 6>"$tmpdir/gone" 5<&-
is "$("$stepd" run -q --cpu-bind=verbose -- echo ran 2>&6)" ran \
	"a task runs though the reader of its stderr has gone"
exec 6>&-

# ---- the environment of tasks -----------------------------------------------------------------
binding_environ() {
	SLURM_CPU_BIND=stale SLURM_CPU_BIND_LIST=stale SLURM_MEM_BIND=stale \
		step "$@" -- env | grep -E '^SLURM_(CPU|MEM)_BIND|^SLURM_(CPUS_PER|DIST)' | sort | tr '\n' ' '
}
is "$(binding_environ)" "" "a task has no variables of another step's binding"
is "$(binding_environ -c 1 -m plane=2 --cpu-bind="map_cpu:$last")" \
	"SLURM_CPUS_PER_TASK=1 SLURM_CPU_BIND=quiet,map_cpu:$last SLURM_CPU_BIND_LIST=$last \
SLURM_CPU_BIND_TYPE=map_cpu: SLURM_CPU_BIND_VERBOSE=quiet SLURM_DISTRIBUTION=plane \
SLURM_DIST_PLANESIZE=2 " "a task has the variables of its binding"

# ---- with the topology -------------------------------------------------------------------------
if [ -n "$hwloc" ]; then
	is "$(output -n 1 --cpu-bind=threads -- sh -c "$cpus")" "0 $first " \
		"--cpu-bind=threads binds a task to a thread"
	is "$(output -n 1 --cpu-bind=ldoms -c 1 -- sh -c 'echo $SLURM_CPU_BIND_TYPE')" "mask_cpu: " \
		"a computed binding is exported as masks"
	if [ -r /proc/self/numa_maps ]; then
		like "$(policy --cpu-bind=threads --mem-bind=local)" "^bind:[0-9]+$" \
			"--mem-bind=local binds memory to the node of the CPU"
	else
		skip 1 "the kernel shows no NUMA policies"
	fi
	# More tasks than CPUs: more than any machine has, by hwloc's description of this one.
	n=$(($(getconf _NPROCESSORS_CONF) + 3))
	out=$(step -n "$n" --cpu-bind=cores -- true 2>&1)
	like "$out" "^stepd $job\\.0: warning: $n tasks of 1 CPU each are bound to [0-9]+ CPUs?: some share theirs \\(--cpu-bind=quiet,cores takes this for granted\\)\$" \
		"a warning reports that more tasks than cores share them"
	like "$(step -n "$n" --cpu-bind=sockets -- true 2>&1)" "warning: $n tasks of 1 CPU each " \
		"a warning reports that more tasks than sockets share them"
	is "$(step -n "$n" --cpu-bind=quiet,cores -- true 2>&1)" "" "quiet suppresses the warning of shared cores"
	is "$(step -n "$n" --cpu-bind=rank -- true 2>&1)" "" \
		"types that begin again with the first CPU give no warning"
	is "$(step -n 1 --cpu-bind=cores -- true 2>&1)" "" "enough cores give no warning"
	# A description of another machine: two sockets, which share the numbers 0 and 1.
	two=$top_srcdir/tests/data/topology/cores16.xml
	if [ "$allowed" = 0-1 ]; then
		is "$(output -n 2 --topology "$two" --cpu-bind=sockets -m cyclic -- sh -c "$cpus")" "0 0 1 1 " \
			"--topology with two sockets binds each task to a socket"
		is "$(output -n 2 --topology "$two" --cpu-bind=sockets -c 2 -- sh -c "$cpus")" "0 0-1 1 0-1 " \
			"--topology with two sockets binds a task of two CPUs to both"
		(cd "$top_srcdir/tests/data" && output --topology topology/cores16.xml --cpu-bind=cores -- sh -c "$cpus") \
			>"$tmpdir/relative"
		is "$(cat "$tmpdir/relative")" "0 0 " "--topology with a relative path is the caller's"
	else
		skip 3 "needs the CPUs 0-1"
	fi
	# shellcheck disable=SC2016 # for the task's shell
	is "$(step --cpu-bind=cores -- sh -c 'grep -c hwloc /proc/$PPID/maps')" 0 \
		"the agent unloads hwloc after the launch"
	out=$(step --cpu-bind=cores --topology /etc/passwd -- true 2>&1)
	is $? 125 "a file that is not a topology is refused"
	like "$out" "topology: '/etc/passwd' is not a topology in the XML of hwloc" \
		"the refusal of a file that is not a topology has the reason"
else
	like "$(cat "$tmpdir/err")" "cpu_bind: needs the machine's topology" \
		"a build without hwloc reports that a topology is missing"
	skip 8 "built without hwloc"
fi
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
	for options in "" "--cpu-bind=map_cpu:$first --mem-bind=rank" "--cpu-bind=rank --topology /none.xml"; do
		# shellcheck disable=SC2086 # words
		strace -f -e trace=open,openat -o "$tmpdir/strace" "$stepd" run --job "$job" $options -- true
		unlike "$(cat "$tmpdir/strace")" "hwloc|none\.xml" \
			"no process loads hwloc for the options: ${options:-none}"
	done
	# shellcheck disable=SC2086 # words
	strace -f -e trace=sched_setaffinity,set_mempolicy,sched_getaffinity,get_mempolicy \
		-o "$tmpdir/strace" "$stepd" run --job "$job" -n 3 -- true
	unlike "$(cat "$tmpdir/strace")" "set(affinity|_mempolicy)|get_mempolicy" \
		"an unbound step makes no system call for binding"
else
	skip 4 "strace can't be used"
fi

# ---- errors ------------------------------------------------------------------------------------
refused() { # TEXT OPTION...
	wanted=$1
	shift
	out=$(step "$@" -- sh -c ": >'$tmpdir/ran'" 2>&1)
	is "$? $(printf '%s\n' "$out" | grep -c "$wanted") $(ls "$tmpdir/ran" 2>/dev/null)" "125 1 " \
		"binding options are refused before a task runs: $*"
}
refused "cpu_bind: CPU 60000 is not one of the step's ($allowed)" --cpu-bind=map_cpu:60000
refused "cpu_bind: the mask 0xf*... has CPUs" --cpu-bind="mask_cpu:$(printf '%0300d' 0 | tr 0 f)"
refused "mem_bind: NUMA node 1023 is not one of" --mem-bind=map_mem:1023
refused "^stepd run: --cpu-bind: there is no type 'nope'" --cpu-bind=nope
refused "^stepd run: --mem-bind: " --mem-bind=prefer
refused "^stepd run: --distribution: 'plane=0'" --distribution=plane=0
refused "^stepd run: --cpus-per-task: 0 is not in the range 1 to 65536" -c 0
if [ -n "$hwloc" ]; then
	refused "cpus_per_task: 60000, but the step may use" -c 60000 --cpu-bind=cores
else
	skip 1 "built without hwloc"
fi
out=$(step -n 5000 --cpu-bind=cores --print-spec -- true | "$stepd" check-spec -)
like "$out" "5000 tasks" "check-spec accepts a printed spec with binding"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
