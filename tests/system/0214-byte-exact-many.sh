#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Each byte of many ranks, of one node and of four, over every path that output can take: compared by
# SHA-256. By hand, "STEPD_TEST_SIZES='64:1024' STEPD_TEST_PATHS='forward label'" are 64 ranks with a GiB
# each, over these paths alone: nothing but the GiB that they begin at different places of is on a disk.
# shellcheck disable=SC2016 # for the tasks
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
command -v python3 >/dev/null || skip_all "needs python3"
cd "$tmpdir" || bail "no $tmpdir"

sums() {
	python3 "$top_srcdir/tests/lib/stream_sums.py" "$@"
}
of_step() { # STEP ARG...: with what the tasks run
	of_step=$1
	shift
	"$stepd" run -q --job "$job" --step "$of_step" --proctrack "$tracker" -n "$ranks" --input none "$@" -- \
		sh -c "$task" "$top_srcdir/tests/lib/stream_sums.py"
}
of_nodes() { # ARG...
	"$steprun" -q --job "$job" --proctrack "$tracker" --step 9 -N "$nodes" -n "$ranks" -i none "$@" -- \
		sh -c "$task" "$top_srcdir/tests/lib/stream_sums.py"
}
# A FIFO for each rank in the place of its file: so the bytes need no disk.
through_fifos() { # COMMAND...
	for rank in $all; do
		mkfifo "many.$rank"
	done
	sums fifos many "$ranks" >got &
	reader=$!
	eventually test -e many.read
	"$@" --output "$tmpdir/many.%t" || end_child TERM $reader
	wait $reader
	rm -f many.*
}
labelled() { # of standard input
	sums labelled "$ranks" "$size" "$@" >got
}

path_files() { through_fifos of_step 1; }
path_forward() { through_fifos of_step 2 --forward; }
path_unbuffered() { through_fifos of_step 3 --unbuffered; }
path_label() { of_step 4 --label | labelled; }
path_pty() {
	task="stty raw -echo; $task"
	of_step 5 --label --pty="0-$((ranks - 1))" | labelled
}
# What a client has not got the ring holds: a rank writes no more than that before the client has it.
path_attach() {
	for rank in $all; do
		mkfifo "ack.$rank"
	done
	task="$task ack.\$SLURM_PROCID"
	of_step 6 --attachable --attach-ring 1M --output none &
	eventually running 6
	"$stepctl" attach --tail --label "$job.6" | labelled ack
	wait $!
	rm -f ack.*
}
path_nodes() { of_nodes --label | labelled; }
path_node_files() { through_fifos of_nodes; }

name_of() { # PATH
	case $1 in
	files) echo "in the files of its ranks" ;;
	forward) echo "through the agent" ;;
	unbuffered) echo "through pseudo-terminals for output" ;;
	label) echo "behind its label" ;;
	pty) echo "through pseudo-terminals that are raw" ;;
	attach) echo "at a client that is attached" ;;
	nodes) echo "behind its label from $nodes nodes" ;;
	node_files) echo "in the files of $nodes nodes" ;;
	esac
}

for sizes in ${STEPD_TEST_SIZES:-$(rounds 4:1 '1:1024 64:16')}; do
	ranks=${sizes%:*}
	mib=${sizes#*:}
	size=$((mib * 1048576))
	all=$(seq 0 $((ranks - 1)))
	nodes=$((ranks < 4 ? ranks : 4))
	sums make "$mib" >data
	sums wanted data "$ranks" >wanted
	for path in ${STEPD_TEST_PATHS:-files forward unbuffered label pty attach nodes node_files}; do
		task="exec python3 -IS \"\$0\" write $tmpdir/data \$SLURM_PROCID"
		: >got
		begin_ms=$(now_ms)
		"path_$path"
		is "$(cksum <got)" "$(cksum <wanted)" "each byte of $ranks ranks with $mib MiB arrives $(name_of "$path")"
		diag "$path, $ranks ranks with $mib MiB: $(($(now_ms) - begin_ms)) ms"
	done
done
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
