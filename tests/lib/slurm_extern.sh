# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# On top of local_slurm.sh, for what is done to extern steps within both Slurms; in $tmpdir/functions, so that
# scripts have:
#	allocate NAME OPTION...      a job without steps of its own, whose extern step runs: its number is in
#	                             NAME.id; $as is a command before salloc
#	socket_of JOB                of its extern step
#	request JOB VERB ARGUMENT... slurm_step.py at that socket

PYTHONPATH=${top_srcdir:?}/tests/lib
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
# shellcheck disable=SC2154 # of tap.sh
cat >>"$tmpdir/functions" <<'S'

pause=0.2
node=$(ls "$at/spool" 2>/dev/null)
id_of() { # NAME
	squeue -h -n "$1" -o %A
}
socket_of() { # JOB: of its extern step, whose number that is
	echo "$at/spool/$node/${node}_$1.4294967292"
}
request() { # JOB VERB ARGUMENT...
	of_job=$1
	shift
	python3 "$PYTHONPATH/slurm_step.py" "$(socket_of "$of_job")" "$STEPD_TEST_PROTOCOL" "$@"
}
has_state() { # JOB
	[ "$(request "$1" state 2>/dev/null)" = 2 ]
}
allocate() { # NAME OPTION...
	$as salloc -Q --no-shell -n 1 -J "$@" >"$1.err" 2>&1
	id_of "$1" >"$1.id"
	until_true test -S "$(socket_of "$(cat "$1.id")")"
	until_true has_state "$(cat "$1.id")"
}
as=
S
