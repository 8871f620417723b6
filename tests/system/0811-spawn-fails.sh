#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A spawn of which something can't be had: all of it ends, the requester gets the reason, and the step goes
# on as if nothing had been.
. "${top_srcdir:?}/tests/lib/step.sh"
. "$top_srcdir/tests/lib/spawn.sh"

group() { # RANK COUNT ARGV
	printf '{"argv":%s,"count":%s,"appnum":0,"rank":%s}' "$3" "$2" "$1"
}
two() { # COUNT ARGV COUNT ARGV: a message with two commands
	printf '{"do":"spawn","number":1,"first_rank":1,"size":%s,"groups":[%s,%s]}' $(($1 + $3)) \
		"$(group 0 "$1" "$2")" "$(group "$1" "$3" "$4")"
}
request_spawn() { # MESSAGE: $out has the reply to it, and that to another spawn
	out=$(spawning --proctrack "$tracker" -n 1 --result "$tmpdir/r" --kill-on-bad-exit sh -c "$requests"'
		request "$0"; echo "$answer"; one 9 50 1 "[\"true\"]"; echo "$answer"' "$1" 2>"$tmpdir/err")
	status=$?
}

first_reply() { # EXPRESSION of the reply to the first spawn
	printf '%s\n' "$out" | json_get - "$1"
}

for tracker in $(backends); do
	request_spawn "$(two 2 '["sleep","99"]' 1 '["/nonexistent/program"]')"
	is "$status" 0 "$tracker: a spawn of a missing program does not end the step"
	is "$(first_reply '[error, errors, id, tell]')" '[2, [0, 0, 2], 0, "spawned"]' \
		"$tracker: the reply to a spawn of a missing program has each task's error"
	like "$(first_reply why)" "^task 3 can.t execute ./nonexistent/program.: No such file" \
		"$tracker: the reply to a spawn of a missing program has the reason"
	is "$(printf '%s\n' "$out" | json_get - '[docs[-1]["error"], docs[-1]["locals"]]')" "[0, [4]]" \
		"$tracker: a spawn succeeds after a failed one"
	is "$(json_get "$tmpdir/r" '[exit_code, [t["exit_code"] for t in tasks]]')" "[0, [0, 137, 137, 127, 0]]" \
		"$tracker: the other tasks of a failed spawn are killed"
	nothing_left "$tracker: the job leaves no cgroup, process or file behind"
done

request_spawn "$(two 1 '["sleep","99"]' 1 '["/"]')"
is "$(first_reply '[error, errors]')" "[13, [0, 13]]" "a spawn of a directory fails with EACCES"
request_spawn '{"do":"spawn","number":1,"first_rank":1,"size":1,"groups":[{"argv":["true"],"count":1,"appnum":0,"rank":0,"cwd":"/nonexistent"}]}'
like "$(first_reply 'f"{error} {why}"')" '^2 .*change to the directory ./nonexistent' \
	"a spawn in a missing directory fails with the reason"

# What is no request is refused, in one sentence.
refused() { # REGEX MESSAGE NAME
	request_spawn "$2"
	like "$(first_reply why)" "^$1" "a spawn with $3 is refused with the reason"
	is "$status" 0 "the step goes on after a spawn with $3"
}
whole() { # GROUP...
	printf '{"do":"spawn","number":1,"first_rank":1,"size":2,"groups":[%s]}' "$1"
}
refused 'spawn: argv names no program' "$(whole '{"argv":[],"count":1,"appnum":0,"rank":0}')" "no program"
refused 'spawn: argv must be an array of texts' "$(whole '{"argv":["a",1],"count":1,"appnum":0,"rank":0}')" "an argument that is none"
refused 'spawn: count must be a number from 1 to 16384' "$(whole '{"argv":["a"],"count":0,"appnum":0,"rank":0}')" "no task"
refused 'spawn: env must have texts of the form NAME=VALUE' \
	"$(whole '{"argv":["a"],"count":1,"appnum":0,"rank":0,"env":["x"]}')" "an environment that is none"
refused 'spawn: environ must have an array for each task' \
	"$(whole '{"argv":["a"],"count":2,"appnum":0,"rank":0,"environ":[[]]}')" "too few environments"
refused 'spawn: size is less than what its groups have' "$(whole '{"argv":["a"],"count":2,"appnum":0,"rank":1}')" "more tasks than its size"
refused 'spawn: rank must be above' "$(whole '{"argv":["a"],"count":1,"appnum":0,"rank":1},{"argv":["a"],"count":1,"appnum":0,"rank":1}')" \
	"two groups of one rank"
refused 'spawn: groups must be an array' '{"do":"spawn","number":1,"first_rank":1,"size":1}' "no groups"
refused 'spawn: first_rank is 0, and ranks below 1' '{"do":"spawn","number":1,"first_rank":0,"size":1,"groups":[{"argv":["a"],"count":1,"appnum":0,"rank":0}]}' \
	"a rank of the step's own"
out=$(spawning -n 1 sh -c "$requests"'one 3 5 1 "[\"true\"]"; one 3 8 1 "[\"true\"]"; echo "$answer"; one 4 5 1 "[\"true\"]"; echo "$answer"' 2>/dev/null)
like "$out" 'spawn: there was a spawn 3 before' "a spawn with a used number is refused"
like "$out" "spawn: rank 5 is another task's" "a spawn with a used rank is refused"
nothing_left "refused spawns leave no cgroup, process or file behind"
# The service gets to it only after its task has ended.
: >"$tmpdir/service"
# shellcheck disable=SC2016 # for the task's shell
spawning -n 1 --result "$tmpdir/r" sh -c 'pid=$(pgrep -P $PPID stepd-mpi); kill -STOP "$pid"
	echo "{\"do\":\"abort\",\"code\":9,\"text\":\"last words\"}" >&9; echo "$PPID $pid" >"$0"' "$tmpdir/service" 2>"$tmpdir/err" &
alone() { # the agent with its service
	[ -s "$tmpdir/service" ] && [ "$(pgrep -P "$(cut -d' ' -f1 "$tmpdir/service")" | wc -l)" -eq 1 ]
}
eventually alone
kill -CONT "$(cut -d' ' -f2 "$tmpdir/service")"
wait $!
is $? 9 "a task's last request, an abort, ends the step with its code"
like "$(cat "$tmpdir/err")" 'last words' "a task's last request, an abort, is reported"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
