#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A spawn of which something can't be had: all of it ends, who asked is told why, and the step goes
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
asked() { # MESSAGE: what the answer to it is, and then whether another spawn works
	out=$(spawning --proctrack "$tracker" -n 1 --result "$tmpdir/r" --kill-on-bad-exit sh -c "$asks"'
		ask "$0"; echo "$answer"; one 9 50 1 "[\"true\"]"; echo "$answer"' "$1" 2>"$tmpdir/err")
	status=$?
}

for tracker in $(backends); do
	asked "$(two 2 '["sleep","99"]' 1 '["/nonexistent/program"]')"
	is "$status" 0 "$tracker: a program that is not there does not end the step"
	like "$out" '"error":2,"errors":\[0,0,2\],"id":0,"tell":"spawned","why":"task 3 can.t execute ./nonexistent/program.: No such file' \
		"$tracker: who asked is told which task and why"
	like "$out" '"error":0,.*"locals":\[4\]' "$tracker: and may ask again"
	ok "$tracker: the others have ended with it" holds "$tmpdir/r" '[
		t["exit_code"] for t in r["tasks"]] == [0, 137, 137, 127, 0] and r["exit_code"] == 0'
	nothing_left "$tracker: nothing is left"
done

asked "$(two 1 '["sleep","99"]' 1 '["/"]')"
like "$out" '"error":13,"errors":\[0,13\]' "one that can't be executed"
asked '{"do":"spawn","number":1,"first_rank":1,"size":1,"groups":[{"argv":["true"],"count":1,"appnum":0,"rank":0,"cwd":"/nonexistent"}]}'
like "$out" '"error":2,.*change to the directory ./nonexistent' "a directory that is not there"

# What is no request is refused, in one sentence.
refused() { # REGEX MESSAGE NAME
	asked "$2"
	like "$out" "\"error\":[0-9]+,.*\"why\":\"$1" "$3"
	is "$status" 0 "and the step goes on"
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
refused 'spawn: size is less than what its groups have' "$(whole '{"argv":["a"],"count":2,"appnum":0,"rank":1}')" "more than there are"
refused 'spawn: rank must be above' "$(whole '{"argv":["a"],"count":1,"appnum":0,"rank":1},{"argv":["a"],"count":1,"appnum":0,"rank":1}')" \
	"two of one rank"
refused 'spawn: groups must be an array' '{"do":"spawn","number":1,"first_rank":1,"size":1}' "nothing"
refused 'spawn: first_rank is 0, and ranks below 1' '{"do":"spawn","number":1,"first_rank":0,"size":1,"groups":[{"argv":["a"],"count":1,"appnum":0,"rank":0}]}' \
	"a rank of the step's own"
out=$(spawning -n 1 sh -c "$asks"'one 3 5 1 "[\"true\"]"; one 3 8 1 "[\"true\"]"; echo "$answer"; one 4 5 1 "[\"true\"]"; echo "$answer"' 2>/dev/null)
like "$out" 'spawn: there was a spawn 3 before' "a number that was used"
like "$out" "spawn: rank 5 is another task's" "a rank that was used"
nothing_left "nothing is left"
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
is $? 9 "a task's last word may be an abort"
like "$(cat "$tmpdir/err")" 'last words' "which is told"
nothing_left "nothing is left"
done_testing
