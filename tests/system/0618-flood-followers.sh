#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Hundreds follow a step's events. Each event goes to all of them, but not in one turn of the agent's
# loop: there they have the share of time that callers of their class have, and the others wait for
# the next turn. Nobody misses an event, and the end comes to all.
# shellcheck source=tests/lib/control.sh disable=SC2317,SC2086 # for eventually and ok; a number
. "${top_srcdir:?}/tests/lib/control.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be other users"
command -v strace >/dev/null || skip_all "strace is missing"

owner=65533
followers=600
chmod 755 "$run"

start_step --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; sleep 600'
ln -s "$(dirname "$(socket)")" "$tmpdir/step"

# Writes how many have the event of a message, each time that it is looked; at the end what all had.
cat >"$tmpdir/follow.py" <<'P'
import json, os, select, socket, sys
uid, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
poll, everyone = select.epoll(), {}
for i in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(b'{"method":"io.stepd.Step.Events","more":true,"parameters":{"from":1}}\0')
    everyone[s.fileno()] = [s, b""]
    poll.register(s, select.EPOLLIN)
left, heard = count, set()
while left:
    for fd, _ in poll.poll():
        data = everyone[fd][0].recv(65536)
        everyone[fd][1] += data
        if not data:
            poll.unregister(fd)
            left -= 1
        elif b'"running"' in data or b'"heard' in data:
            heard.add(fd)
    if len(heard) == count:
        print("all", flush=True)
        heard.clear()
def events(data):
    answers = [json.loads(x) for x in data.split(b"\0") if x]
    return [a["parameters"]["event"] for a in answers], answers[-1].get("continues", False)
same = {json.dumps(events(data)) for _, data in everyone.values()}
all_events, goes_on = json.loads(same.pop())
numbers = [e["sequence"] for e in all_events]
print(len(same), numbers == list(range(1, len(numbers) + 1)), goes_on, all_events[-1].get("state"))
P
heard() { # N: all have had so many
	[ "$(grep -c all "$tmpdir/followers")" -ge "$1" ]
}

# The most answers between two waits of the agent's loop.
most_in_turn() {
	awk '/sendmsg\(/ { n++; if (n > most) most = n } /epoll_p?wait/ { n = 0 } END { print most + 0 }' "$tmpdir/trace"
}
turn_is_bounded() {
	[ "$most" -gt 0 ] && [ "$most" -lt $followers ]
}

python3 "$tmpdir/follow.py" $owner $followers "$tmpdir/step/socket" >"$tmpdir/followers" &
all=$!
eventually heard 1
strace -o "$tmpdir/trace" -e trace=sendmsg,epoll_wait,epoll_pwait -p "$agent" 2>"$tmpdir/strace" &
tracer=$!
if comes grep -q attached "$tmpdir/strace"; then
	request Notify '{"message": "heard"}' >/dev/null
	ok "an event reaches all of $followers followers" eventually heard 2
	most=$(most_in_turn)
	ok "no turn of the agent's loop sends to all followers ($most in one at most)" turn_is_bounded
	: >"$tmpdir/trace"
	request Terminate '{"grace_ms": 0}' >/dev/null
	wait "$agent"
	wait $all
	wait $tracer
	most=$(most_in_turn)
	ok "no turn at the step's end sends to all followers ($most in one at most)" turn_is_bounded
	is "$(tail -n 1 "$tmpdir/followers")" "0 True False ended" \
		"all followers get the same events, without a gap, to the last one"
else
	skip 4 "strace can't be used"
	request Terminate '{"grace_ms": 0}' >/dev/null
	wait "$agent" $all $tracer
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
