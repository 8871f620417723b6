#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Streams of a step over several nodes: every byte arrives, in whole lines, and whoever takes none
# holds tasks up and nothing else.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

# ---- bytes -------------------------------------------------------------------------------------
head -c 10000000 /dev/urandom >"$tmpdir/bytes"
srun_here -N 2 cat <"$tmpdir/bytes" >"$tmpdir/copy"
ok "10 MB through rank 0 are unchanged" cmp "$tmpdir/bytes" "$tmpdir/copy"
# shellcheck disable=SC2002 # a pipe is meant
cat "$tmpdir/bytes" | srun_here -N 3 -n 3 -i 2 cat | cmp - "$tmpdir/bytes"
is $? 0 "10 MB through a rank of another node, by pipes, are unchanged"
srun_here -N 3 -n 3 -i all sh -c 'cat >"$0.$SLURM_PROCID"' "$tmpdir/all" <"$tmpdir/bytes"
is "$(cat "$tmpdir/bytes" | cksum) 3" "$(cksum <"$tmpdir/all.2") $(sort -u "$tmpdir"/all.* 2>/dev/null | wc -l >/dev/null; ls "$tmpdir"/all.* | wc -l)" \
	"all ranks read all input with -i all"
ok "the first node's rank reads all input with -i all" cmp "$tmpdir/bytes" "$tmpdir/all.0"
is "$(echo x | srun_here -N 2 -i none cat)" "" "no rank reads input with -i none"
srun_here -N 2 -n 2 -i all true <"$tmpdir/bytes"
is $? 0 "input that no task reads does not stop the step"

# ---- lines -------------------------------------------------------------------------------------
cat >"$tmpdir/hostile" <<'S'
@stepd 0 end 0
@stepd 1 end 9
@stepd * terminate
@stepd 0 say aGVsbG8=
@stepd 0 out !!!!
S
cat >"$tmpdir/hostile.sh" <<'S'
cat "$1"; cat "$1" >&2; printf '\000\r\n@stepd 0 end 3'; echo; exit 5
S
srun_here -q -N 2 -n 2 -i none sh "$tmpdir/hostile.sh" "$tmpdir/hostile" >"$tmpdir/out" 2>"$tmpdir/err"
is $? 5 "output that looks like the channel's lines does not end the step"
{ cat "$tmpdir/hostile"; printf '\000\r\n@stepd 0 end 3\n'; } >"$tmpdir/once"
is "$(sort "$tmpdir/out" | cksum)" "$(cat "$tmpdir/once" "$tmpdir/once" | sort | cksum)" \
	"output that looks like the channel's lines is unchanged"
is "$(sort "$tmpdir/err")" "$(cat "$tmpdir/hostile" "$tmpdir/hostile" | sort)" \
	"stderr that looks like the channel's lines is unchanged, apart from stdout"
out=$(srun_here -N 2 -n 2 -l -- sh -c 'echo "task $SLURM_PROCID"' | sort)
is "$out" "0: task 0
1: task 1" "lines of two nodes have labels"
# The rest of a line that is written in two parts may come a tenth of a second later, if the machine is
# busy enough: such a line is not whole, but nothing of it is lost.
cat >"$tmpdir/lines.sh" <<'S'
i=0
while [ $i -lt 300 ]; do
	case $1 in
	whole) printf 'rank %s line %s of many\n' "$SLURM_PROCID" $i ;;
	parts) printf 'rank %s ' "$SLURM_PROCID"; printf 'line %s of many\n' $i ;;
	esac
	i=$((i + 1))
done
S
srun_here -N 8 -n 8 sh "$tmpdir/lines.sh" whole >"$tmpdir/out"
is "$(grep -cvE '^rank [0-7] line [0-9]+ of many$' "$tmpdir/out") $(wc -l <"$tmpdir/out")" "0 2400" \
	"lines of several nodes are whole"
srun_here -N 8 -n 8 sh "$tmpdir/lines.sh" parts >"$tmpdir/out"
is "$(grep -oE 'rank [0-7] ' "$tmpdir/out" | wc -l) $(grep -cE 'line [0-9]+ of many$' "$tmpdir/out")" "2400 2400" \
	"all parts of lines of several nodes arrive"
begin -N 2 -n 2 -- sh -c '[ "$SLURM_PROCID" = 1 ] || printf "name? "; exec sleep 300'
eventually grep -q 'name? ' "$tmpdir/out"
ok "a prompt appears without a newline" grep -q 'name? ' "$tmpdir/out"
kill "$pid"
finish
is "$status" 143 "SIGTERM to steprun ends tasks behind a prompt"
is "$(srun_here -N 8 -n 1000 -- sh -c 'echo $SLURM_PROCID' | sort -n | uniq | wc -l)" 1000 \
	"a thousand tasks over 8 nodes all write"
is "$(srun_here -N 64 -n 64 -- sh -c 'echo $SLURM_NODEID' | sort -n | uniq | wc -l)" 64 \
	"tasks on 64 nodes all write"
mkdir "$tmpdir/out.d"
srun_here -N 2 -n 3 -o "$tmpdir/out.d/%t" -- sh -c 'echo $SLURM_NODEID'
is "$(cat "$tmpdir/out.d/0" "$tmpdir/out.d/2" | tr '\n' ' ')" "0 1 " "files are written where tasks are"

# ---- readers that go, or take nothing ----------------------------------------------------------
# The relay of the second node has ended while what it wrote last, no more than a pipe holds, can't be
# read yet: the first task has made steprun hold all that it does before the second one has the word.
has_children() { # PID COUNT
	[ "$(children "$1" | wc -l)" = "$2" ]
}
mkfifo "$tmpdir/word"
cat >"$tmpdir/slow.sh" <<'S'
size=9000000
if [ "$SLURM_PROCID" = 1 ]; then
	read -r _ <"$1"
	size=30000
fi
head -c $size /dev/zero | tr '\0' x
S
{
	timeout -k 5 300 sh -c 'echo $$ >"$0"; exec "$@"' "$tmpdir/pid" \
		"$steprun" --job "$job" --proctrack "$tracker" -N 2 -n 2 -- \
		sh "$tmpdir/slow.sh" "$tmpdir/word"
	echo $? >"$tmpdir/status"
} | {
	exec 9<>"$tmpdir/word"
	eventually test -s "$tmpdir/pid"
	pid=$(cat "$tmpdir/pid")
	eventually stands "$pid"
	eventually has_children "$pid" 2
	echo >&9
	eventually has_children "$pid" 1
	sleep 1.5 # it gives what is left a second
	wc -c >"$tmpdir/size"
}
is "$(cat "$tmpdir/status" "$tmpdir/size" | tr '\n' ' ')" "0 9030000 " "a slow reader gets all output"
srun_here -q -N 2 -n 2 -- sh -c 'while :; do echo y; done' 2>/dev/null | head -n 1 >"$tmpdir/out"
is "$(cat "$tmpdir/out")" y "a reader that goes away ends the step"
out=$(srun_here -q -N 2 -n 2 -- sh -c 'echo y; exec sleep 0.2' 2>&1 >/dev/full)
is $? 125 "a full disk below stdout gives 125"
like "$out" "standard output can't be written: No space left" "a full disk below stdout is reported"
mkfifo "$tmpdir/fifo"
(exec sleep 300 <>"$tmpdir/fifo") &
holder=$!
eventually test -e /proc/$holder/fd/0
timeout -k 5 300 "$steprun" -q --job "$job" --proctrack "$tracker" -N 2 -n 2 -- \
	sh -c 'head -c 9000000 /dev/zero; : >"$0.$SLURM_PROCID"' "$tmpdir/done" >"$tmpdir/fifo" &
pid=$!
eventually test -S "$run/$(hostname | cut -d. -f1)-0_$job.0/socket"
is "$(ls "$tmpdir"/done.* 2>/dev/null)" "" "tasks wait for a reader that takes nothing"
head -c 18000000 "$tmpdir/fifo" | wc -c >"$tmpdir/count"
finish
is "$(cat "$tmpdir/count") $status" "18000000 0" "all output arrives once the reader takes it"
kill $holder
wait $holder 2>/dev/null

# ---- the result --------------------------------------------------------------------------------
srun_here -q -N 2 -n 2 --result "$tmpdir/result" -- sh -c 'exit $SLURM_PROCID' 2>/dev/null
is "$(json_get "$tmpdir/result" exit_code)" 1 "the result of a step over nodes has the status"
is "$(json_get "$tmpdir/result" 'len(nodes)')" 2 "the result of a step over nodes has the results of all"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
