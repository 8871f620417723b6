#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix once the agent has been killed: the service process goes on for as long as a task lives
# that could speak with it, and no longer; then its session directory is gone, too.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

sessions=$tmpdir/sessions
mkdir -m 700 "$sessions"

# Its tasks run the script; each writes its pid to $tmpdir/pid.RANK.
begin() { # TASKS SCRIPT
	begin_tasks=$1
	rm -f "$tmpdir"/pid.*
	# shellcheck disable=SC2016 # for the tasks' shell
	TMPDIR=$sessions tmpdir=$tmpdir client=$client "$stepd" run -q --job "$job" --proctrack "$tracker" \
		--mpi pmix -n "$begin_tasks" --input none -- sh -c \
		'echo $$ >"$tmpdir/new.$PMIX_RANK"; mv "$tmpdir/new.$PMIX_RANK" "$tmpdir/pid.$PMIX_RANK"; '"$2" \
		>"$tmpdir/out" 2>&1 &
	agent=$!
	eventually all_there
	# shellcheck disable=SC2046 # a word each
	set -- $(cat "/proc/$agent"/task/*/children)
	for child; do
		[ "$(cat "/proc/$child/comm" 2>/dev/null)" != stepd-mpi ] || service=$child
	done
}

all_there() {
	set -- "$tmpdir"/pid.*
	[ $# -eq "$begin_tasks" ]
}

idle() {
	[ "$(grep -c '^orphan' "$tmpdir/out")" -eq "$begin_tasks" ]
}

kill_tasks() {
	# shellcheck disable=SC2046 # a word each
	kill -KILL $(cat "$tmpdir"/pid.*)
}

service_gone() {
	! kill -0 "$service" 2>/dev/null
}

no_session() {
	[ -z "$(ls "$sessions")" ]
}

clean_up() {
	timeout 900 "$stepd" adopt -q "$job.0" >/dev/null 2>&1
	"$stepctl" clean >/dev/null 2>&1
}

# ---- tasks that are connected ----

# shellcheck disable=SC2016 # for the tasks' shell
begin 4 'exec "$client" orphan'
ok "four ranks connect before their agent dies" eventually idle
kill_agent
ok "the service process outlives its agent" kill -0 "$service"
kill_tasks
ok "the service process ends when its tasks have been killed" eventually service_gone
ok "the session directory of killed tasks is removed" eventually no_session
clean_up

# ---- tasks that could connect ----

# shellcheck disable=SC2016
begin 2 'until [ -e "$tmpdir/go" ]; do sleep 0.1; done; "$client" init'
kill_agent
: >"$tmpdir/go"
tasks_done() {
	[ "$(grep -c '^init [01]: of 2$' "$tmpdir/out")" -eq 2 ]
}
ok "tasks that call PMIx_Init after their agent has died are served" eventually tasks_done
ok "the service process ends with the last task that connected late" eventually service_gone
ok "the session directory of tasks that connected late is removed" eventually no_session
clean_up

# ---- one that is requested to end ----

# shellcheck disable=SC2016
begin 2 'exec "$client" orphan'
ok "two ranks connect before their agent dies" eventually idle
kill_agent
kill -TERM "$service"
ok "a service process without an agent ends by SIGTERM" eventually service_gone
ok "a service process that ends by SIGTERM removes its session directory" no_session
kill_tasks
clean_up

# ---- an adopted step ----

# shellcheck disable=SC2016
begin 3 'exec "$client" orphan'
ok "three ranks connect before their agent dies" eventually idle
kill_agent
timeout 900 "$stepd" adopt -q "$job.0" >/dev/null 2>&1 &
adopter=$!
ok "the step of a dead agent with PMIx is adopted" eventually adopted 0
ok "the service process of an adopted step goes on" kill -0 "$service"
kill_tasks
wait "$adopter"
is $? 137 "the adopted step ends with its tasks"
ok "the service process of an adopted step ends with it" eventually service_gone
ok "the session directory of an adopted step is removed" eventually no_session
"$stepctl" clean >/dev/null 2>&1

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
