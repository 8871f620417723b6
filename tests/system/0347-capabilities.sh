#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Securebits under which root keeps its capabilities as another user leave none of them with a step
# of another user: neither while the agent opens that user's files nor in its tasks.
# shellcheck disable=SC2016 # single quotes are for awk
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
setpriv --securebits +no_setuid_fixup true 2>/dev/null || skip_all "can't set securebits"

user=65533 group=65530
mkdir "$tmpdir/private" "$tmpdir/theirs"
chmod 700 "$tmpdir/private"
chown $user "$tmpdir/theirs"
echo secret >"$tmpdir/private/file"
echo kept >"$tmpdir/private/log"
cp "$tmpdir/private/file" "$tmpdir/mine"
chmod 600 "$tmpdir/mine"

lax() { # SECUREBITS ARG...
	lax_bits=$1
	shift
	timeout 900 setpriv --securebits "$lax_bits" "$stepd" run -q --job "$job" --proctrack "$tracker" --chdir / \
		--uid $user --gid $group "$@" 2>"$tmpdir/err" </dev/null
}

# shellcheck disable=SC2043 # others need more than setpriv can set
for bits in +no_setuid_fixup; do
	for tasks in 1 8; do
		for file in "$tmpdir/private/out" "$tmpdir/private/log" "$tmpdir/private/out.%t" "$tmpdir/mine"; do
			lax $bits -n $tasks --output "$file" -- echo "more of a user"
			isnt $? 0 "$bits: $tasks tasks don't write to $file"
		done
		lax $bits -n $tasks --label --output "$tmpdir/private/label.%t" -- true
		isnt $? 0 "$bits: $tasks tasks get no labelled file where the user may not write"
		is "$(lax $bits -n $tasks --input "$tmpdir/mine" -- cat)" "" \
			"$bits: $tasks tasks don't read root's file"
		lax $bits -n $tasks --chdir "$tmpdir/private" -- true
		isnt $? 0 "$bits: $tasks tasks don't begin in a directory that the user may not enter"
		lax $bits -n $tasks --output "$tmpdir/theirs/out" -- true
		is "$?/$(stat -c %u "$tmpdir/theirs/out")" "0/$user" "$bits: $tasks tasks write to the user's own file"
		is "$(lax $bits -n $tasks -- awk '/^Cap(Inh|Prm|Eff|Amb)/ { print $2 }' /proc/self/status | sort -u)" \
			0000000000000000 "$bits: $tasks tasks have no capability"
		is "$(lax $bits -n $tasks -- setpriv --dump | awk '/^Securebits/ { print $2 }' | sort -u)" \
			"[none]" "$bits: $tasks tasks have securebits that leave nobody a capability"
	done
done
is "$(ls "$tmpdir/private")" "$(printf 'file\nlog')" "no file is created where the user may not write"
is "$(cat "$tmpdir/private/log" "$tmpdir/mine")" "$(printf 'kept\nsecret')" \
	"no file is written that the user may not write"

lax +no_setuid_fixup,+no_setuid_fixup_locked -- true
is $? 125 "a step of another user is refused where securebits are locked"
like "$(cat "$tmpdir/err")" "uid: .* securebits 0xc.*user $user" \
	"the refusal of a step for locked securebits names them"
ok "root's own step runs under locked securebits" timeout 900 setpriv --securebits +no_setuid_fixup,+no_setuid_fixup_locked \
	"$stepd" run -q --job "$job" --proctrack "$tracker" -- true
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
