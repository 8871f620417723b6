#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Who may not, or may less, floods a step's socket: root and the owner are served all the same, and
# the time limit keeps its moment. Each flood is compared with the load that it is for the machine:
# the same flood at the socket of another step is what is compared with. The agents and who is to be
# served run at real-time priority, so that what else the machine does counts in neither; in turn (SCHED_RR), so
# that one that is flooded leaves its processor to others, those of another suite among them.
# shellcheck source=tests/lib/control.sh disable=SC2317 # what eventually calls is reached
. "${top_srcdir:?}/tests/lib/control.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be other users"
command -v setpriv >/dev/null || skip_all "setpriv is missing"
chrt -r 2 true 2>/dev/null || skip_all "needs real-time priority"

owner=65533 one=65532 another=65531
rounds=$(rounds 5 9)
hostile="python3 $top_srcdir/tests/lib/hostile_clients.py"
chmod 755 "$run"

# A path that fits an address, wherever the tests run.
socket_of() { # STEP
	ln -sfn "$(step_dir "$1")" "$tmpdir/step$1"
	echo "$tmpdir/step$1/socket"
}

begin_step() { # STEP ARG...
	step=$1
	shift
	start_agent "$step" --proctrack "$tracker" --uid $owner --gid $owner "$@"
	chrt -a -r -p 1 "$agent" || exit 1
}

# Two users, 450 connections each, until end_flood.
begin_flood() { # SOCKET UID UID
	$hostile --uid "$2" flood "$1" 600 &
	flood_one=$!
	$hostile --uid "$3" flood "$1" 600 &
	flood_another=$!
	eventually flooded "$1"
}

# The flood has come when the queue of its socket has been full of it.
flooded() { # SOCKET
	[ "$(cpu_ticks "$flood_one")" -gt 50 ] && [ "$(cpu_ticks "$flood_another")" -gt 50 ]
}

end_flood() {
	kill $flood_one $flood_another
	wait $flood_one $flood_another 2>/dev/null
}
flood_one=''
flood_another=''

# UID: the median and the greatest time in ms that this user's "stepctl ps" of step 0 takes; none, if
# one fails.
serve_ms() { # UID
	timeout 300 chrt -r 2 python3 - "$1" $rounds "$stepctl" "$job.0" <<'END'
import subprocess, sys, time
uid, rounds = int(sys.argv[1]), int(sys.argv[2])
times = []
for _ in range(rounds):
    begin = time.monotonic()
    subprocess.run([sys.argv[3], "ps", sys.argv[4]], check=True, stdout=subprocess.DEVNULL,
                   user=uid, group=uid, extra_groups=[])
    times.append((time.monotonic() - begin) * 1e3)
times.sort()
print("%.1f %.1f" % (times[rounds // 2], times[-1]))
END
}

# No more than so many times what the same machine needs while another step is flooded; what is below
# 10 ms there counts as 10.
compare() { # MS OTHER_MS NAME
	diag "$3: $1 ms, $2 ms where another step is flooded"
	ok "$3" awk "BEGIN { other = $2 > 10 ? $2 : 10; exit !(\"$1\" != \"\" && $1 + 0 <= 10 * other) }"
}

begin_step 0 -- sleep 600
begin_step 1 -- sleep 600
target=$(socket_of 0)
other=$(socket_of 1)

measure() { # NAME SOCKET UID UID CLIENT_UID...
	name=$1
	begin_flood "$2" "$3" "$4"
	shift 4
	for uid; do
		serve_ms "$uid" >"$tmpdir/$uid-$name"
	done
	end_flood
}
figure() { # FILE
	cut -d' ' -f1 "$tmpdir/$1"
}

measure elsewhere "$other" $one $another 0 $owner
measure here "$target" $one $another 0 $owner
compare "$(figure 0-here)" "$(figure 0-elsewhere)" "root is served while strangers flood"
compare "$(figure $owner-here)" "$(figure $owner-elsewhere)" "the owner is served while strangers flood"

# His tasks are his, and may do all that he may; root is not theirs to delay.
measure own-elsewhere "$other" $owner $owner 0
measure own-here "$target" $owner $owner 0
compare "$(figure 0-own-here)" "$(figure 0-own-elsewhere)" \
	"root is served while tasks of the owner flood"

# ---- the time limit ------------------------------------------------------------------------------
# So long after the launch, by the step's own events.
limit_ms=3000
late_ms() { # STEP: how long after its moment the limit of this step was seen, once it has ended
	python3 - "$1" $limit_ms <<'END'
import json, sys
times = {}
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["kind"] == "state":
        times[e["state"]] = e["time_usec"]
print((times["ending"] - times["running"]) / 1e3 - int(sys.argv[2]))
END
}

limited() { # STEP FLOODED_STEP: runs into its limit
	begin_step "$1" --time-limit "${limit_ms}ms" -- sleep 600
	limited_agent=$!
	exec 9<"$(step_dir "$1")/events.jsonl"
	begin_flood "$(socket_of "$2")" $one $another
	wait $limited_agent
	end_flood
	cat <&9 >"$tmpdir/events-$1"
	exec 9<&-
}

limited 2 1
limited 3 3
compare "$(late_ms "$tmpdir/events-3")" "$(late_ms "$tmpdir/events-2")" \
	"the time limit keeps its moment while strangers flood"

# ---- what the flood has left ---------------------------------------------------------------------
is "$(request Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "the step is ended through its socket"
ok "the other step is ended by stepctl" "$stepctl" terminate --grace 0 "$job.1"
wait
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
