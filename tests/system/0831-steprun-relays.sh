#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun with relays and launchers that do what they should not: scripted ones, which send what
# the test has for them.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

# relay NUMBER FILE: sends hello, then on each verb the lines that FILE has behind "VERB: ".
cat >"$tmpdir/relay" <<'S'
n=$1 script=$2
sed -n 's/^hello: //p' "$script"
while read -r mark to verb rest; do
	[ "$mark" = @stepd ] && { [ "$to" = '*' ] || [ "$to" = "$n" ]; } || continue
	sed -n "s/^$verb: //p" "$script"
	! grep -q "^$verb: @stepd [0-9]* end " "$script" || exit 0
done
S
played() { # ARG...: node N is played by $tmpdir/N
	begin --launcher "exec:echo %c >/dev/null; exec sh $tmpdir/relay %n $tmpdir/%n" "$@"
	finish
}
result() { # NODE REASON TASK...: lines of a result
	result_node=$1
	shift
	printf '@stepd %s result %s\n' "$result_node" "$(printf '%s' "$1" | base64 -w 0)"
}
task() { # RANK WAIT_STATUS ON_REQUEST
	printf '{"rank":%s,"wait_status":%s,"on_request":%s}' "$1" "$2" "$3"
}

# ---- the status --------------------------------------------------------------------------------
# Node 0 fails, and is requested to end before its agent has judged that itself; so is node 1.
{
	echo "hello: @stepd 0 hello version=1 node=n0 port=1"
	echo "go: @stepd 0 task 0 768"
	echo "terminate: $(result 0 "{\"reason\":\"signal\",\"tasks\":[$(task 0 768 false),$(task 1 15 true)]}")"
	echo "terminate: @stepd 0 end 143"
} >"$tmpdir/0"
{
	echo "hello: @stepd 1 hello version=1 node=n1 port=1"
	echo "terminate: $(result 1 "{\"reason\":\"signal\",\"tasks\":[$(task 2 15 true),$(task 3 15 true)]}")"
	echo "terminate: @stepd 1 end 143"
} >"$tmpdir/1"
played -w n0,n1 -n 4 -K -- true
is "$status" 3 "the status is that of the task which failed, not of those that were ended"

sed -i 's/ task 0 768/ task 0 9/; s/^terminate: .* result .*/terminate: R/' "$tmpdir/0"
sed -i "s|^terminate: R|terminate: $(result 0 "{\"reason\":\"signal\",\"tasks\":[$(task 0 9 false),$(task 1 512 false)]}")|" "$tmpdir/0"
played -w n0,n1 -n 4 -K -- true
is "$status" 137 "a signal counts before a status in the results of relays"

# ---- the output of relays ------------------------------------------------------------------------
{
	echo "hello: @stepd 1 hello version=1 node=other"
	echo "hello: @stepd 7 end 0"
	echo "hello: @stepd 4294967295 end 0"
	echo "hello: @stepd 0 nonsense"
	echo "hello: @stepd 0 hello version=1 node=n0 port=99999 addr=rubbish addr=1.2.3.4/99"
	echo "hello: @stepd 0 hello version=9 node=n0"
	echo "go: @stepd 0 out !!!!"
	echo "go: @stepd 0 out aGVsbG8K"
	echo "go: @stepd 0 ack -5"
	echo "go: @stepd 0 ack x"
	echo "go: @stepd 0 task 99999999999 0"
	echo "go: @stepd 0 task 0"
	echo "go: @stepd 0 result e30"
	echo "go: @stepd 0 end 256"
	echo "go: @stepd 0 end x"
	echo "go: @stepd 0 end 6"
} >"$tmpdir/0"
played -w n0 -n 1 -- true
is "$status $(cat "$tmpdir/out")" "6 hello" "lines of a relay that make no sense are ignored"
echo "hello: @stepd 0 hello version=2 node=n0 port=1" >"$tmpdir/0"
echo "terminate: @stepd 0 end 143" >>"$tmpdir/0"
played -w n0,n1 -n 2 -- true
is "$status" 125 "a node whose stepd is of another version fails the launch"
like "$(cat "$tmpdir/err")" "node n0: its stepd speaks another version of the channel \(2, not 1\)" \
	"a node whose stepd is of another version is named"

# ---- launchers -----------------------------------------------------------------------------------
begin -w n1 --launcher 'exec:printf "Welcome, no newline"; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "0 ran" "a greeting without a newline does not disturb the step"
begin -w n1 --launcher 'exec:head -c 3000 /dev/zero | tr "\0" x; printf "@stepd 0 end 9\n"; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "0 ran" "a long greeting does not disturb the step, whatever it ends with"
begin -w n1,n2 --launch-timeout 1s --launcher 'exec:if [ %n = 1 ]; then trap "" TERM; while :; do sleep 0.2; done; fi; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "125 " "a launcher that hangs and ignores SIGTERM is killed"
like "$(cat "$tmpdir/err")" "node n2 has not answered within 1 s \(--launch-timeout\)" \
	"the node of a launcher that hangs is named"
begin -w 'n[1-3]' --launch-timeout 1s --launcher 'exec:[ %n = 0 ] || exec sleep 300; %c' -- echo ran
finish
like "$(cat "$tmpdir/err")" "nodes n\[2-3\] have not answered within 1 s" \
	"several nodes that do not answer are named in one line"
begin -w 'n[1-64]' --launcher 'exec:[ %n != 40 ] || exit 9; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "125 " "no task runs where one node of 64 can't be reached"
like "$(cat "$tmpdir/err")" "node n41 can't be reached: its launcher exited with status 9" \
	"one node of 64 that can't be reached is named"
is "$(grep -c "can't be reached\|is lost" "$tmpdir/err")" 1 "no other node of 64 is reported"
begin -w 'n[1-70]' --launcher 'exec:[ %n != 3 ] || exit 9; %c' -- echo ran
finish
is "$status $(cat "$tmpdir/out")" "125 " \
	"no task runs where one node of 70, more than are started at once, can't be reached"
is "$(srun_here -w 'n[1-70]' --launcher local -- sh -c 'echo $SLURM_NODEID' | sort -n | uniq | wc -l)" 70 \
	"70 nodes are all started"

# ---- lists ---------------------------------------------------------------------------------------
printf '# ours\r\nn1 # one\n\n  n[2-3]\t\n' >"$tmpdir/hosts"
is "$(srun_here --hostfile "$tmpdir/hosts" --launcher local -- sh -c 'echo $SLURMD_NODENAME' | sort | tr '\n' ' ')" \
	"n1 n2 n3 " "a host file with comments and lists is read"
printf 'n1 slots=4\n' >"$tmpdir/hosts"
out=$(srun_here --hostfile "$tmpdir/hosts" --launcher local -- true 2>&1)
is "$? $out" "125 steprun: --hostfile: '$tmpdir/hosts' has more than a host, or a list, in the line 'n1 slots=4'" \
	"a host file with several names in a line is refused"
printf '# none\n' >"$tmpdir/hosts"
like "$(srun_here --hostfile "$tmpdir/hosts" -- true 2>&1)" "names no host" \
	"a host file without a host is refused"
like "$(srun_here --hostfile "$tmpdir/none" -- true 2>&1)" "--hostfile: read '$tmpdir/none': No such file" \
	"a missing host file is refused"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
