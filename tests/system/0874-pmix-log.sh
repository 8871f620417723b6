#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: PMIx_Log: what comes to syslog, with which priority, and from whom; what is reported where
# nobody listens there, and of channels that are not served. It runs in a mount namespace of its
# own, where /dev is another one.

if [ -z "${STEPD_TEST_APART-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	export STEPD_TEST_APART=yes
	exec unshare -m --propagation private sh "$0"
fi

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

logs() { # RANKS CHANNEL TEXT [PRIORITY]
	pmix "$1" logs "pmix.log.$2" "$3" ${4+"$4"}
}

# ---- what is not served ----

for channel in email gstore jrec nonsense; do
	logs 2 $channel "a word"
	lines 2 "^logs [01]: pmix.log.$channel NOT-SUPPORTED\$" "$channel is refused as not supported"
	lines 2 '^served [01]: on$' "the step goes on after PMIx_Log to $channel"
done

# ---- syslog ----

other_dev() {
	mkdir "$tmpdir/dev" && mount -t tmpfs none "$tmpdir/dev" || return 1
	mkdir -m 1777 "$tmpdir/dev/shm"
	for device in null zero full random urandom tty; do
		[ ! -c /dev/$device ] || {
			: >"$tmpdir/dev/$device" && mount --bind /dev/$device "$tmpdir/dev/$device"
		} || return 1
	done
	mount --move "$tmpdir/dev" /dev
}
if [ -z "${STEPD_TEST_APART-}" ] || ! command -v python3 >/dev/null || ! other_dev; then
	skip 12 "needs root, a mount namespace and python3"
	done_testing
fi

logs 2 syslog "a word"
lines 2 '^logs [01]: pmix.log.syslog NOT-AVAILABLE$' "PMIx_Log to syslog is not available where nobody listens"
lines 2 '^served [01]: on$' "the step goes on where nobody listens to syslog"

cat >"$tmpdir/syslogd" <<'END'
import socket
import sys

kind, to = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, getattr(socket, "SOCK_" + kind))
if to == "-":
    s.connect("/dev/log")
    s.send(b"last\0")
    sys.exit()
s.bind("/dev/log")
if kind == "STREAM":
    s.listen(8)
with open(to, "w") as out:
    data = ""
    while not data.startswith("last"):
        data = (s if kind == "DGRAM" else s.accept()[0]).recv(70000).decode()
        print(data.replace("\0", "\\0").replace("\n", "\\n"), file=out, flush=True)
END

listen() { # KIND
	rm -f /dev/log
	timeout 300 python3 "$tmpdir/syslogd" "$1" "$tmpdir/heard" &
	listener=$!
	eventually test -S /dev/log
}

# All that was sent before.
heard() { # KIND
	timeout 900 python3 "$tmpdir/syslogd" "$1" -
	wait "$listener"
	heard=$(grep -v '^last' "$tmpdir/heard")
}

listen DGRAM
logs 2 syslog "a word"
lines 2 '^logs [01]: pmix.log.syslog SUCCESS$' "PMIx_Log to syslog succeeds"
logs 1 lsys "two
lines" 6
lines 1 ' SUCCESS$' "PMIx_Log to the local syslog with a priority succeeds"
logs 1 gsys "for all" 2
lines 1 ' SUCCESS$' "PMIx_Log to the global syslog succeeds"
heard DGRAM
is "$(printf '%s\n' "$heard" | wc -l)" 4 "syslog gets each message once"
from='[A-Z][a-z]{2} [ 123][0-9] [0-9:]{8} stepd-pmix\[[0-9]+\]'
for rank in 0 1; do
	like "$heard" "^<11>$from: rank $rank of stepd\.$job\.0: a word\$" \
		"syslog gets an error of facility user from rank $rank"
done
like "$heard" "^<14>$from: rank 0 of stepd\.$job\.0: two\\\\nlines\$" \
	"syslog gets a message with the priority info"
like "$heard" "^<10>$from: rank 0 of stepd\.$job\.0: for all\$" \
	"syslog gets a message with the priority critical"

listen STREAM
logs 1 syslog "a word"
lines 1 ' SUCCESS$' "PMIx_Log to a syslog that reads a stream succeeds"
heard STREAM
like "$heard" "^<11>$from: rank 0 of stepd\.$job\.0: a word\\\\0\$" \
	"a message to a syslog that reads a stream ends with a zero byte"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
