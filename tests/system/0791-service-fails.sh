#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A service process that fails: at its beginning no task runs, later the step goes on without it.
. "${top_srcdir:?}/tests/lib/attendant.sh"

fails_to_start() { # MOOD REGEX NAME
	out=$(STEP_ATTENDANT=$1 attended -n 2 -- touch "$tmpdir/ran" 2>&1)
	is $? 125 "$3: the step is refused"
	like "$out" "$2" "$3: the refusal has the reason"
	[ ! -e "$tmpdir/ran" ]
	is $? 0 "$3: no task ran"
	nothing_left "$3: the job leaves no cgroup, process or file behind"
}

fails_to_start fail "plugin mpi/attendant: the MPI service process can't serve this step: it rains.x07" \
	"a service that reports a failure"
fails_to_start mute "can't serve this step: it has ended" "a service that ends at once"
fails_to_start rubbish "hands out an environment for no task of this node" "a service that hands out rubbish"

out=$(step --mpi pmi2 -n 2 -o "$tmpdir/none/out" -- true 2>&1)
is $? 125 "an output file that can't be opened fails the launch beside a service"
unlike "$out" "does not end" "the service of a launch that fails ends by itself"
nothing_left "a launch that fails beside a service leaves no cgroup, process or file behind"

out=$(attended -n 1025 -- true 2>&1)
is $? 125 "a prefork hook that refuses gives 125"
like "$out" 'p_mpi_hook_slurmstepd_prefork\(\) failed: Argument list too long' \
	"a prefork hook that refuses is reported with its errno"

out=$(attended -n 2 -- bash -c "$requests"'
	[ $SLURM_PROCID -eq 0 ] || { cat <&$ATTEND_FD; exit 0; } # until the service is gone
	request die; answer; echo "hung up"
	until events=$('"$stepctl events $job.0"'); echo "$events" | grep -q mpi_lost || [ $SECONDS -gt 100 ]; do sleep 0.05; done
	echo "$events"; exit 4' 2>&1)
is $? 4 "a service that dies later does not end the step"
like "$out" '^hung up' "tasks find the descriptors of a dead service closed"
like "$out" 'the MPI service process \(pid [0-9]+\) exited with status 7: MPI calls' \
	"the log reports the dead service"
like "$out" 'mpi_lost.*exited with status 7' "the events have the dead service"
nothing_left "a step whose service dies leaves no cgroup, process or file behind"

# shellcheck disable=SC2016 # for the task's shell
out=$(attended -n 1 -- bash -c 'pid=${ATTEND_STANDING#pid=}; kill -9 "${pid%% *}"; cat <&$ATTEND_FD; exit 5' 2>&1)
is $? 5 "the step goes on after its user killed the service"
like "$out" 'ended by signal 9' "the log reports the service that its user killed"

cat >"$tmpdir/batch.json" <<END
{"kind": "batch", "job": $job, "script": "#!/bin/sh\nenv | grep -c 'ATTEND\\\\|MPI_TYPE'\n", "argv": []}
END
"$stepd" run --spec "$tmpdir/batch.json" >"$tmpdir/out" 2>&1
like "$(cat "$tmpdir/out")" '^0' "a batch step gets no hooks"

out=$(SLURM_MPI_TYPE=old step --mpi none -n 1 -- sh -c 'echo "type: ${SLURM_MPI_TYPE-unset}"' 2>&1)
is "$out" "type: unset" "--mpi none removes SLURM_MPI_TYPE"
done_testing
