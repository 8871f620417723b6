#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun with hydra as its launcher, one mpiexec for each node. hydra writes to a process without waiting,
# ends all where it can't, and passes input to its first process alone.
# shellcheck disable=SC2016 # for the tasks
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
command -v mpiexec.hydra >/dev/null || skip_all "needs hydra"
cd "$tmpdir" || bail "no $tmpdir"

hydra='exec:mpiexec.hydra -launcher fork -hosts %h -n 1 %c'
by_hydra() { # NODES ARG...
	by_hydra_n=$1
	shift
	srun_here -w "n[1-$by_hydra_n]" --launcher "$hydra" "$@"
}

# ---- a step --------------------------------------------------------------------------------------
by_hydra 3 -n 6 -i none -- sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME"' >out 2>err
is "$? $(sort out | tr '\n' ',') $(cat err)" "0 0 n1,1 n1,2 n2,3 n2,4 n3,5 n3, " \
	"tasks run on the nodes that hydra is started for"
by_hydra 2 -n 2 -i none -- sh -c 'exit $((SLURM_PROCID * 7))' >out 2>err
is "$? $(cat out)" "7 " "the status of a task comes through hydra"

# More of a document than hydra takes at once: each quote is two bytes there.
by_large() {
	ulimit -s 65536 && by_hydra 2 -n 4 -i none -- sh -c 'echo "$SLURM_PROCID ${#LARGE_14}"'
}
for i in $(seq 14); do
	export "LARGE_$i=$(head -c 100000 /dev/zero | tr '\0' '"')"
done
(by_large >out 2>err)
is "$? $(sort out | tr '\n' ',') $(cat err)" "0 0 100000,1 100000,2 100000,3 100000, " \
	"an environment that makes a document of 2.8 MB comes through hydra"
for i in $(seq 14); do unset "LARGE_$i"; done

# ---- bytes ---------------------------------------------------------------------------------------
mib=$(rounds 4 256)
head -c $((mib * 1048576)) /dev/urandom >bytes
by_hydra 2 -n 2 -i none -- sh -c '[ "$SLURM_PROCID" = 0 ] && exec cat bytes; exec cat bytes >&2' >out 2>err
ok "$mib MiB of standard output come through hydra" cmp bytes out
ok "$mib MiB of standard error come through hydra" cmp bytes err
is "$(by_hydra 2 -n 2 -i 1 -- cat <bytes 2>err | sha256sum) $(cat err)" "$(sha256sum <bytes) " \
	"$mib MiB of input come through hydra and back"
# More than a pipe has capacity for, to a relay that has something else to do.
by_hydra 2 -n 2 -i all -- sh -c 'exec cat >"got.$SLURM_PROCID"' <bytes >out 2>err
is "$? $(cat out err) $(cat got.0 | cksum) $(cat got.1 | cksum)" "0  $(cksum <bytes) $(cksum <bytes)" \
	"all ranks read $mib MiB of input through hydra"

# ---- labels --------------------------------------------------------------------------------------
n=$(rounds 1000 20000)
by_hydra 3 -n 6 -l -i none -- sh -c 'seq -f "$SLURM_PROCID %07g begins here, and this is where it ends" "$0"' "$n" >out 2>err
is "$? $(cat err)" "0 " "labels of three nodes behind hydra succeed"
is "$(grep -cvE '^([0-5]): \1 [0-9]{7} begins here, and this is where it ends$' out) $(sort -u out | wc -l) $(wc -l <out)" \
	"0 $((6 * n)) $((6 * n))" "no line is torn behind hydra, and none is lost"
by_hydra 2 -n 2 -l -i none -- sh -c 'head -c 200000 /dev/zero | tr "\0" "$SLURM_PROCID"; echo; printf "$SLURM_PROCID end"' >out 2>err
is "$(awk '{ print length($0), substr($0, 1, 4) }' out | sort | tr '\n' ',')" "200003 0: 0,200003 1: 1,8 0: 0,8 1: 1," \
	"lines longer than what hydra moves at once are whole behind it"

# ---- what comes to a relay that has ended ----------------------------------------------------------
# A rank ends while input is under way to it, and while another node is told of a failure.
failed=
for _ in $(seq "$(rounds 2 50)"); do
	yes | by_hydra 2 -n 2 -i all -- head -c 10 >out 2>err
	is_status=$?
	[ "$is_status $(wc -c <out) $(cat err)" = "0 20 " ] || failed="$is_status $(cat out err)"
done
is "$failed" "" "input for ranks that have ended disturbs no node behind hydra"
failed=
for _ in $(seq "$(rounds 2 50)"); do
	yes | by_hydra 3 -n 3 -K -i all -- sh -c '[ "$SLURM_PROCID" != 1 ] || exit 3; echo up; exec sleep 300' >out 2>err
	is_status=$?
	[ "$is_status" = 3 ] && ! grep -qi 'lost\|assert\|error' err || failed="$is_status $(cat out err)"
done
is "$failed" "" "a step that is ended while input is under way loses no node behind hydra"

# ---- a viewer ------------------------------------------------------------------------------------
begin -w 'n[1-2]' -n 2 --launcher "$hydra" --attachable -i none -- sh -c 'echo up; until [ -e go ]; do sleep 0.02; done; echo over'
eventually has_lines out 2
"$steprun" attach --tail --hosts n1,n2 --launcher "$hydra" "$job.0" >seen 2>seen.err </dev/null &
viewer=$!
eventually has_lines seen 2
: >go
wait "$viewer"
is "$? $(sort seen | tr '\n' ',') $(cat seen.err)" "0 over,over,up,up, " "steprun attach shows a step of two nodes through hydra"
finish
is "$status $(sort out | tr '\n' ',')" "0 over,over,up,up," "a step that was started through hydra succeeds with a viewer"

# ---- foreign text --------------------------------------------------------------------------------
# hydra reports a process that is killed on its standard output, which is the channel.
begin -w 'n[1-2]' -n 2 --launcher "$hydra" -i none -- sh -c 'echo up; cat bytes; exec sleep 300'
both_wrote() {
	[ "$(wc -c <out)" -ge $((2 * mib * 1048576 + 6)) ]
}
eventually both_wrote
relay_of() { # NODE: the pid of its relay
	for relay_pid in $(all_below "$pid"); do
		if tr '\0' ' ' <"/proc/$relay_pid/cmdline" 2>/dev/null | grep -q "stepd relay .*--node=$1 \$"; then
			[ "$(tr '\0' '\n' <"/proc/$relay_pid/cmdline" | sed -n 2p)" != relay ] || echo "$relay_pid"
		fi
	done
}
kill -KILL "$(relay_of n2)"
finish
is "$status $(wc -c <out)" "125 $((2 * mib * 1048576 + 6))" "a relay that is killed behind hydra fails the step, and loses no output that had come"
like "$(cat err)" "node n2 is lost: its launcher" "a relay that is killed behind hydra is reported as a lost node"
like "$(cat err)" "n2: .*BAD TERMINATION" "what hydra prints of it is shown, and not taken for output"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
