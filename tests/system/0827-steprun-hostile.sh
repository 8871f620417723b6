#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A host that means harm: its output does not steer the user's terminal. What tasks write is theirs
# and goes through as it is.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

control() { LC_ALL=C tr -d '\n' | LC_ALL=C grep -c "$(printf '[\001-\037\177\233]')"; }

cat >"$tmpdir/host" <<'END'
#!/bin/sh
printf '\033]0;owned\007 \233%dm \302\233%dm text \344\n' 31 32
printf '@stepd 0 hello version=1 node=\033[2Jn1 port=1\n'
printf '@stepd 0 say %s\n' "$(printf '\033[31mred\nstepd: a line' | base64 -w 0)"
END
chmod 755 "$tmpdir/host"
"$steprun" --job "$job" --hosts n1 -n 1 --launcher "exec:$tmpdir/host %c" -- true >"$tmpdir/out" 2>"$tmpdir/err"
is $? 125 "a host that sends rubbish gives 125"
like "$(cat "$tmpdir/err")" 'x1b]0;owned.x07 .x9b31m .xc2.x9b32m text .xe4' \
	"a hostile host's output is shown escaped"
is "$(control <"$tmpdir/err")" 0 "a hostile host's output has no control character"
is "$(grep -vc '^steprun: ' "$tmpdir/err")" 0 "each line of a hostile host's output begins with steprun's name"

srun_here -n 1 -- printf '\033[1mbold\033[0m\n' >"$tmpdir/out" 2>"$tmpdir/err"
is "$(control <"$tmpdir/out")" 1 "a task's escape sequences are passed on"
done_testing
