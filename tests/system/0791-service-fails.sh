#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A service process that fails: at its beginning no task runs, later the step goes on without it.
. "${top_srcdir:?}/tests/lib/attendant.sh"

fails_to_start() { # MOOD REGEX NAME
	out=$(STEP_ATTENDANT=$1 attended -n 2 -- touch "$tmpdir/ran" 2>&1)
	is $? 125 "$3: the step does not start"
	like "$out" "$2" "$3: and says why"
	[ ! -e "$tmpdir/ran" ]
	is $? 0 "$3: no task ran"
	nothing_left "$3: and nothing is left"
}

fails_to_start fail "plugin mpi/attendant: the MPI service process can't serve this step: it rains.x07" \
	"one that says so"
fails_to_start mute "can't serve this step: it has ended" "one that ends"
fails_to_start rubbish "hands out an environment for no task of this node" "one that hands out rubbish"

out=$(attended -n 1025 -- true 2>&1)
is $? 125 "a prefork hook that refuses"
like "$out" 'p_mpi_hook_slurmstepd_prefork\(\) failed: Argument list too long' "is told with its errno"

out=$(attended -n 2 -- bash -c "$ask"'
	[ $SLURM_PROCID -eq 0 ] || { sleep 0.5; exit 0; }
	ask die; answer; echo "hung up"; sleep 0.3
	'"$stepctl events $job.0"'; exit 4' 2>&1)
is $? 4 "one that dies later ends nothing"
like "$out" '^hung up' "its tasks find their descriptors hung up"
like "$out" 'the MPI service process \(pid [0-9]+\) exited with status 7: MPI calls' "and the log says so"
like "$out" 'mpi_lost.*exited with status 7' "and an event"
nothing_left "and nothing is left"

# shellcheck disable=SC2016 # for the task's shell
out=$(attended -n 1 -- sh -c 'pid=${ATTEND_STANDING#pid=}; kill -9 "${pid%% *}"; sleep 0.2; exit 5' 2>&1)
is $? 5 "its own user may kill it, and the step goes on"
like "$out" 'ended by signal 9' "and the log says so"

cat >"$tmpdir/batch.json" <<END
{"kind": "batch", "job": $job, "script": "#!/bin/sh\nenv | grep -c 'ATTEND\\\\|MPI_TYPE'\n", "argv": []}
END
"$stepd" run --spec "$tmpdir/batch.json" >"$tmpdir/out" 2>&1
like "$(cat "$tmpdir/out")" '^0' "a batch step gets no hooks"

out=$(SLURM_MPI_TYPE=old step --mpi none -n 1 -- sh -c 'echo "type: ${SLURM_MPI_TYPE-unset}"' 2>&1)
is "$out" "type: unset" "with none, SLURM_MPI_TYPE is removed"
done_testing
