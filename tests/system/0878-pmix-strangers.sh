#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: who may connect to a step's PMIx server. A stranger who knows port, namespace and the
# owner's uid, and claims it, gets nothing: not as a rank, not as a tool, not before the rank is
# there nor beside it. And a rank is one process, also for its owner.
# shellcheck disable=SC2016 # for other shells

# shellcheck source=tests/lib/pmixtool.sh
. "${top_srcdir:?}/tests/lib/pmixtool.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"

owner=65533 stranger=65531
raw=$tmpdir/pmix_raw.py
liar=$tmpdir/claimed_uid.so
shared=$tmpdir/shared
cp "$top_srcdir/tests/lib/pmix_raw.py" "$raw"
cp "$top_builddir/tests/lib/claimed_uid.so" "$liar"
chmod 755 "$raw" "$liar"
export client raw shared

# What a stranger would have run as the owner.
cat >"$tmpdir/loot" <<'END'
#!/bin/sh
id -u >>"$shared/loot"
exec "$client" child
END
# The rank: its environment, then one that is connected until "leave", then another program.
cat >"$tmpdir/task.sh" <<'END'
#!/bin/sh
export -p | grep PMIX >"$shared/env.new"
echo "export client=$client raw=$raw shared=$shared" >>"$shared/env.new"
chmod 644 "$shared/env.new"
mv "$shared/env.new" "$shared/env"
"$await" "$shared/connect"
"$client" hold "$shared/leave" >"$shared/held"
echo "first $?"
"$client" init
echo "second $?"
"$await" "$shared/end"
END
chmod 755 "$tmpdir/task.sh" "$tmpdir/loot"
export await

begin_victim() { # UID
	victim=$1
	rm -rf "$shared"
	mkdir -m 1777 "$shared"
	mkfifo -m 666 "$shared/connect" "$shared/leave" "$shared/end"
	step --mpi pmix --uid "$victim" --gid "$victim" -- "$tmpdir/task.sh" >"$tmpdir/out" 2>&1 &
	step=$!
	patiently test -s "$shared/env"
}

# Runs a shell command as a user who has the rank's environment, and names it $result.
as() { # UID COMMAND
	result=$(cd / && timeout 900 setpriv --reuid "$1" --regid "$1" --clear-groups env -i \
		liar="$liar" CLAIMED_UID="$victim" PATH="$PATH" HOME=/ loot="$tmpdir/loot" \
		sh -c '. "$0"; '"$2" "$shared/env" 2>&1)
}

strangers() { # WHEN
	when=$1
	as $stranger 'LD_PRELOAD=$liar "$client" init'
	unlike "$result" '^init' "a stranger who claims the owner's uid is no rank $when"
	as $stranger 'LD_PRELOAD=$liar "$client" query pmix.qry.ns'
	unlike "$result" 'SUCCESS|stepd\.' "a stranger's query is not answered $when"
	as $stranger 'LD_PRELOAD=$liar timeout 5 "$client" spawn "$loot" 1'
	fails "no program of a stranger's spawn runs $when" test -e "$shared/loot"
	as $stranger 'unset PMIX_RANK PMIX_NAMESPACE; LD_PRELOAD=$liar "$client" tool "$PMIX_SERVER_URI41"'
	unlike "$result" '^tool.*stepd\.' "a stranger who claims the owner's uid is no tool $when"
	as $stranger 'CLAIMED_UID=0 LD_PRELOAD=$liar "$client" tool "$PMIX_SERVER_URI41"'
	unlike "$result" '^tool.*stepd\.' "a stranger who claims to be root is no tool $when"
	for kind in client tool; do
		as $stranger 'python3 "$raw" "$PMIX_SERVER_URI41" '"$kind"' "$CLAIMED_UID" wait'
		is "$result" "$kind: 0 bytes" "a stranger's $kind reads not one byte $when"
	done
	as $stranger 'for i in 1 2 3 4 5; do
		python3 "$raw" "$PMIX_SERVER_URI41" client "$CLAIMED_UID" close
	done'
	is "$result" "" "a stranger who sends a name and closes gets nothing $when"
	as $stranger 'LD_PRELOAD=$liar timeout 5 "$client" abort 3'
	ok "no stranger ends the step $when" kill -0 "$step"
}

for who in $owner 0; do
	begin_victim $who
	strangers "of uid $who before the rank connects"
	kill -0 "$step" 2>/dev/null || break
	ok "the rank of uid $who connects after strangers" go shared/connect
	patiently grep -q '^hold 0: connected$' "$shared/held"
	is "$(cat "$shared/held")" "hold 0: connected" "the rank of uid $who is served after strangers"
	strangers "of uid $who beside the rank"

	as "$who" '"$client" init'
	unlike "$result" '^init 0' "another process of uid $who is not the same rank beside it"
	as "$who" 'python3 "$raw" "$PMIX_SERVER_URI41" client "$CLAIMED_UID" wait'
	is "$result" "client: 0 bytes" "another process of uid $who that claims the rank reads not one byte"
	as "$who" 'unset PMIX_RANK PMIX_NAMESPACE; "$client" tool "$PMIX_SERVER_URI41"'
	like "$result" '^tool 0: stepd\.' "the owner's own tool is accepted, of uid $who"
	as 0 'unset PMIX_RANK PMIX_NAMESPACE; "$client" tool "$PMIX_SERVER_URI41"'
	like "$result" '^tool 0: stepd\.' "root's tool is accepted in a step of uid $who"

	go shared/leave
	patiently grep -q '^second' "$tmpdir/out"
	out=$(cat "$tmpdir/out")
	lines 1 '^first 0$' "the first program of the task of uid $who succeeds"
	lines 1 '^init 0: of 1$' "the second program of the task of uid $who is the same rank"
	as "$who" 'python3 "$raw" "$PMIX_SERVER_URI41" client "$CLAIMED_UID" twice'
	# The server of a step of root's has no capability, and so can't look into root's processes.
	case $who in
	0) connects=1 refusals=3 ;;
	*) connects=2 refusals=2 ;;
	esac
	is "$(echo "$result" | grep -c '^client: 8 bytes$')" $connects \
		"one process may connect twice as a rank where its server can look into it, of uid $who"
	go shared/end
	wait "$step"
	is "$?" 0 "the step of uid $who succeeds after strangers"
	out=$(cat "$tmpdir/out")
	isnt "$(grep -c "connection to the PMIx server is refused: it is of uid $stranger" "$tmpdir/out")" 0 \
		"the log names the stranger's uid, in a step of uid $who"
	lines $refusals 'refused: a second process claims to be rank 0 of stepd\.' \
		"the log reports the rank that was claimed twice, in a step of uid $who"
done

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
