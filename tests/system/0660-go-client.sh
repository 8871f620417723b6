#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A client that this project did not write talks to a step: the Varlink implementation in Go of
# Debian's golang-github-varlink-go-dev, behind tests/lib/goclient/main.go.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

interface=$top_srcdir/stepd/control/io.stepd.Step.varlink
command -v go >/dev/null || skip_all "go is not installed"
[ -d /usr/share/gocode/src/github.com/varlink/go/varlink ] ||
	skip_all "golang-github-varlink-go-dev is not installed"
GO111MODULE=off
GOPATH=/usr/share/gocode
GOCACHE=$tmpdir/cache
GOFLAGS=
GOTOOLCHAIN=local
export GO111MODULE GOPATH GOCACHE GOFLAGS GOTOOLCHAIN
ok "the Go client builds" go build -o "$tmpdir/goclient" "$top_srcdir/tests/lib/goclient/main.go"

cat >"$tmpdir/task" <<'END'
#!/bin/sh
sleep 600 &
echo "$!" >"$1/child.$SLURM_PROCID"
echo "$$" >"$1/task.$SLURM_PROCID.new"
mv "$1/task.$SLURM_PROCID.new" "$1/task.$SLURM_PROCID"
exec sleep 600
END
chmod 755 "$tmpdir/task"
step -n 3 --step 0 -- "$tmpdir/task" "$tmpdir" 2>"$tmpdir/err" &
agent_shell=$!
ready() {
	running 0 && [ -f "$tmpdir/task.0" ] && [ -f "$tmpdir/task.1" ] && [ -f "$tmpdir/task.2" ]
}
ok "a step runs for the Go client" eventually ready
socket=$(step_dir 0)/socket

go_client() {
	timeout 300 "$tmpdir/goclient" "$socket" "$@"
}
answer() { # WORD...: what the client prints, and its status
	status=0
	out=$(go_client "$@") || status=$?
}

# ---- what the service is -----------------------------------------------------------------------
answer info
is "$status" 0 "GetInfo answers"
like "$out" "^stepd\|$("$stepd" --version | grep -oE '[0-9]+\.[0-9.]+')\|.*\|.*\bio\.stepd\.Step\b" \
	"GetInfo has the product, its version and its interface"
like "$out" '\|.*\borg\.varlink\.service\b' "GetInfo has the interface org.varlink.service"
go_client description >"$tmpdir/description"
ok "GetInterfaceDescription has the interface file, byte for byte" cmp "$tmpdir/description" "$interface"
answer idl
is "$(echo "$out" | awk '$1 == "method" { print $2 }')" \
	"$(sed -n 's/^method \([A-Za-z]*\)(.*/\1/p' "$interface")" "the Go client's parser finds each method of the interface"
is "$(echo "$out" | awk '$1 == "error" { print $2 }')" \
	"$(sed -n 's/^error \([A-Za-z]*\) .*/\1/p' "$interface")" "the Go client's parser finds each error of the interface"

# ---- queries -----------------------------------------------------------------------------------
answer describe
node=${socket%/socket}
node=${node##*/}
agent=$(state_of 0 agent_pid)
is "$out" "${node%_*}/$job.0 running 3 3 $agent" "Describe has the step, its state, tasks and agent"
for rank in 0 1 2; do
	echo "$(cat "$tmpdir/task.$rank") $rank"
	echo "$(cat "$tmpdir/child.$rank") $rank"
done | sort >"$tmpdir/wanted"
answer pids
is "$(echo "$out" | cut -d' ' -f1,2 | sort)" "$(cat "$tmpdir/wanted")" "ListPids has each process with its rank"
while read -r pid _ ticks; do
	[ "$ticks" = "$(start_ticks "$pid")" ] || echo "$pid"
done >"$tmpdir/unlike" <<END
$out
END
is "$(cat "$tmpdir/unlike")" "" "ListPids has the start of each process"
answer pids 2
is "$(echo "$out" | cut -d' ' -f1 | sort)" "$(cat "$tmpdir/task.2" "$tmpdir/child.2" | sort)" \
	"ListPids with ranks has the processes of one rank"
child=$(cat "$tmpdir/child.1")
answer find "$child"
is "$out" "$child $job.0 1" "FindPid has the step and the rank of a process"

# ---- errors, with their parameters -------------------------------------------------------------
answer find 1
is "$status $out" '1 io.stepd.Step.NoSuchProcess {"pid":1}' \
	"FindPid of a process that is not the step's is refused"
answer signal TERM 7
is "$status $out" '1 io.stepd.Step.NoSuchTask {"rank":7}' "Signal to a missing rank is refused"
answer FindPid
is "$status $out" '1 org.varlink.service.InvalidParameter {"parameter":"pid"}' \
	"FindPid without a pid is refused"
answer Fly
is "$status" 1 "an unknown method fails"
like "$out" '^org\.varlink\.service\.MethodNotFound \{"method":"(io\.stepd\.Step\.)?Fly"\}$' \
	"the error of an unknown method names it"
answer Events
is "$status" 1 "Events without more fail"
like "$out" '^org\.varlink\.service\.ExpectedMore' "the error of Events without more is ExpectedMore"

# ---- following, while others call ---------------------------------------------------------------
go_client events 1 >"$tmpdir/events" 2>&1 &
follower=$!
go_client wait >"$tmpdir/wait" 2>&1 &
waiter=$!
answer signal USR1 1
is "$status" 0 "Signal with ranks succeeds"
has_event() { # REGEX
	grep -Eq "^[0-9]+ $1\$" "$tmpdir/events"
}
ok "a follower gets the event of a task's end" eventually has_event 'task_exit - 1 138'
answer describe
like "$out" ' running 3 2 ' "the other tasks run on after Signal with ranks"
answer signal SIGKILL
is "$status" 0 "Signal to all tasks succeeds"
wait "$waiter"
is "$? $(cat "$tmpdir/wait")" "0 ended 138" "Wait returns at the end of the step with its result"
wait "$follower"
is $? 0 "Events end with the step"
cut -d' ' -f1 "$tmpdir/events" >"$tmpdir/sequence"
is "$(cat "$tmpdir/sequence")" "$(seq 1 "$(wc -l <"$tmpdir/sequence")")" "the events are numbered without a gap"
is "$(grep -c ' task_start ' "$tmpdir/events")" 3 "the events have each task's start"
is "$(grep -c ' task_exit ' "$tmpdir/events")" 3 "the events have each task's end"
ok "the events have the end of the step" has_event 'state ended - -'
wait "$agent_shell"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
