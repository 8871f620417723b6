#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# jobctl, and its other names, against a scripted jobd: what is sent, and what becomes of replies,
# refusals and nonsense.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

jobctl=${top_builddir:?}/contrib/jobd/cli/jobctl
[ -x "$jobctl" ] || skip_all "jobd is not built"
command -v python3 >/dev/null || skip_all "needs python3"

# shellcheck disable=SC2154 # of tap.sh
bin=$tmpdir/bin
mkdir "$bin"
for name in sbatch salloc squeue sinfo scancel; do
	ln -s "$(cd "$top_builddir" && pwd)/contrib/jobd/cli/jobctl" "$bin/$name"
done
TZ=UTC
JOBD_SOCKET=$tmpdir/socket
export TZ JOBD_SOCKET
service=

# begin_service: standard input has the replies.
begin_service() {
	end_service
	cat >"$tmpdir/replies"
	rm -f "$tmpdir/service" # which says "ready" of the one before
	python3 "$top_srcdir/tests/lib/jobd_service.py" "$JOBD_SOCKET" "$tmpdir/replies" "$tmpdir/log" >"$tmpdir/service" &
	service=$!
	eventually grep -q ready "$tmpdir/service" || bail "no scripted jobd"
}

end_service() {
	[ -z "$service" ] || end_child TERM "$service"
	[ -z "$service" ] || wait "$service" 2>/dev/null
	service=
	rm -f "$JOBD_SOCKET"
}
at_exit end_service

status() {
	"$@" >"$tmpdir/out" 2>"$tmpdir/err"
	echo $?
}

nth_call() { # N: that line of the log
	sed -n "$1p" "$tmpdir/log" >"$tmpdir/call"
}

# ---- sbatch

printf '#!/bin/sh\n#SBATCH -N2 --mem=1G --nice=3\necho hi\n' >"$tmpdir/job.sh"
begin_service <<'END'
{"Submit": [{"parameters": {"job_id": 42}},
	{"error": "org.stepd.jobs.Invalid", "parameters": {"message": "Requested node configuration is not available"}}],
 "Wait": [{"parameters": {"job": {"job_id": 42, "job_state": "FAILED", "exit_code": 768}}}]}
END
is "$(cd "$tmpdir" && ONE_OF_MINE=1 status "$bin/sbatch" -n 4 job.sh a "b c")" 0 "sbatch submits a script"
is "$(cat "$tmpdir/out")" "Submitted batch job 42" "sbatch prints the job's number as Slurm's does"
like "$(cat "$tmpdir/err")" '^sbatch: --nice: .*, ignoring$' "an option that is ignored is named"
nth_call 1
json_is "$tmpdir/call" method org.stepd.jobs.Submit "sbatch calls Submit"
json_is "$tmpdir/call" 'p["request"]["script"]' "$(cat "$tmpdir/job.sh")" "the script's text is in the request"
json_is "$tmpdir/call" '[p["request"][m] for m in ("name","ntasks","min_nodes","memory_per_node_mb","argv")]' \
	'["job.sh", 4, 2, 1024, ["a", "b c"]]' "options of the script and of the command line are in the request"
json_is "$tmpdir/call" 'p["request"]["command"]' "$tmpdir/job.sh" "the script's file is in the request"
json_is "$tmpdir/call" 'p["request"]["work_dir"]' "$tmpdir" "the working directory is in the request"
json_is "$tmpdir/call" '"ONE_OF_MINE=1" in p["request"]["env"]' true "the environment is in the request"
is "$(status "$bin/sbatch" "$tmpdir/job.sh")" 1 "a refused submission is a failure of sbatch"
is "$(grep -c . "$tmpdir/err") $(tail -n 1 "$tmpdir/err")" \
	"2 sbatch: error: Requested node configuration is not available" "sbatch prints jobd's sentence"
echo echo >"$tmpdir/bare.sh"
is "$(status "$bin/sbatch" "$tmpdir/bare.sh") $(grep -c Submit "$tmpdir/log")" "1 2" \
	"a file without an interpreter's name is not submitted"

begin_service <<'END'
{"Submit": [{"parameters": {"job_id": 42}}],
 "Wait": [{"parameters": {"job": {"job_id": 42, "job_state": "FAILED", "exit_code": 768}}}]}
END
is "$(status "$bin/sbatch" --parsable -W --wrap false) $(cat "$tmpdir/out")" "3 42" \
	"sbatch --wait ends with the job's exit status"
nth_call 1
json_is "$tmpdir/call" '"command" in p["request"]' false "a wrapped command has no script's file"

# ---- salloc

begin_service <<'END'
{"Submit": [{"parameters": {"job_id": 7}}],
 "Wait": [{"parameters": {"job": {"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-2]", "node_count": 2}}}],
 "Cancel": [{"parameters": {}}]}
END
# shellcheck disable=SC2016 # for the shell inside
is "$(status "$bin/salloc" -N2 sh -c 'echo "$SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURM_NNODES"; exit 5') $(cat "$tmpdir/out")" \
	"5 7 n[1-2] 2" "salloc runs a command in the allocation, and ends as it does"
nth_call 1
# shellcheck disable=SC2016
json_is "$tmpdir/call" 'p["request"]["command"]' 'sh -c echo "$SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURM_NNODES"; exit 5' \
	"an allocation's command is in the request"
nth_call 3
json_is "$tmpdir/call" '[method, p["job"]]' '["org.stepd.jobs.Cancel", "7"]' "the allocation ends with salloc's command"

# ---- squeue and scancel

begin_service <<'END'
{"ListJobs": [
	{"parameters": {"time": 1795453967, "next": 2, "jobs": [
		{"job_id": 1, "job_state": "RUNNING", "name": "a", "partition": "p", "user_id": 0, "nodes": "n1",
		 "node_count": 1, "start_time": 1795453962}]}},
	{"parameters": {"time": 1795453967, "jobs": [
		{"job_id": 2, "job_state": "PENDING", "state_reason": "Resources", "name": "b", "partition": "p",
		 "user_id": 0, "node_count": 4}]}},
	{"parameters": {"time": 1795453967, "next": 1, "jobs": []}}],
 "Cancel": [{"error": "org.stepd.jobs.NoSuchJob", "parameters": {"job": "9", "message": "there is no job 9"}},
	{"parameters": {}}]}
END
is "$(status "$bin/squeue") $(cat "$tmpdir/out")" \
	"0              JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                 2         p        b     root PD       0:00      4 (Resources)
                 1         p        a     root  R       0:05      1 n1" "squeue prints a list that comes in pieces"
is "$(status "$bin/squeue") $(cat "$tmpdir/err")" "1 squeue: error: the replies to ListJobs have no end" \
	"a list that makes no progress between its pieces is an error"
is "$(status "$bin/scancel" 9 10) $(cat "$tmpdir/err")" "1 scancel: error: job 9: there is no job 9" \
	"scancel reports a job that does not exist"
json_is "$tmpdir/log" '[c["parameters"]["job"] for c in docs if c["method"].endswith("Cancel")]' '["9", "10"]' \
	"scancel goes on to the next job"

# ---- replies that are not valid, and no jobd

begin_service <<'END'
{"ListJobs": ["nonsense", null], "Stats": ["{\"parameters\": 3}"]}
END
is "$(status "$bin/squeue")" 1 "squeue fails where the reply is not JSON"
like "$(cat "$tmpdir/err")" "is not jobd; its reply to ListJobs: it is not JSON" "a reply that is not JSON is reported with its reason"
is "$(status "$bin/squeue")" 1 "squeue fails where the connection ends before the reply"
like "$(cat "$tmpdir/err")" "has ended the connection before the reply to ListJobs" "the end of a connection is reported"
is "$(status "$jobctl" stats)" 1 "a reply whose parameters are not an object is an error"
end_service
is "$(status "$bin/squeue")" 1 "squeue fails without a jobd"
like "$(cat "$tmpdir/err")" "start it, or name its socket in .JOBD_SOCKET" "without a jobd the remedy is named"

# ---- where jobd listens --------------------------------------------------------------------------

socket=$JOBD_SOCKET
runtime=${XDG_RUNTIME_DIR-}
if [ -e /run/jobd/socket ]; then
	skip 3 "a jobd of this machine listens"
else
	export XDG_RUNTIME_DIR="$tmpdir/runtime"
	unset JOBD_SOCKET
	is "$(status "$bin/squeue")" 1 "squeue fails where neither root nor the user has a jobd"
	like "$(cat "$tmpdir/err")" "neither at '/run/jobd/socket' nor at '$tmpdir/runtime/jobd/socket': start it" \
		"both sockets that were tried are named"
	mkdir -p "$tmpdir/runtime/jobd"
	JOBD_SOCKET=$tmpdir/runtime/jobd/socket
	begin_service <<'END'
{"ListJobs": [{"parameters": {"jobs": [], "time": 1}}]}
END
	is "$(unset JOBD_SOCKET && status "$bin/squeue" -h)" 0 "a user's own jobd is found by XDG_RUNTIME_DIR"
	end_service
fi
# A socket that root's jobd has left behind, in a /run of this test.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	export XDG_RUNTIME_DIR="$tmpdir/runtime"
	mkdir -p "$tmpdir/runtime/jobd"
	JOBD_SOCKET=$tmpdir/runtime/jobd/socket
	begin_service <<'END'
{"ListJobs": [{"parameters": {"jobs": [], "time": 1}}]}
END
	ok "a user's own jobd is found where root's has ended" unshare -m sh -c 'mount -t tmpfs none /run && mkdir /run/jobd &&
		python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\"/run/jobd/socket\")" &&
		unset JOBD_SOCKET && exec "$1" -h' - "$(cd "$bin" && pwd)/squeue"
	end_service
else
	skip 1 "needs root and a mount namespace"
fi
export JOBD_SOCKET="$socket" XDG_RUNTIME_DIR="$runtime"
if [ "$(id -u)" = 0 ]; then
	mkdir -m 777 "$tmpdir/theirs"
	chmod 777 "$tmpdir/theirs"
	chmod 711 "$tmpdir"
	printf '{"ListJobs": [{"parameters": {"jobs": [], "time": 1}}]}\n' >"$tmpdir/theirs/replies"
	chmod 644 "$tmpdir/theirs/replies"
	JOBD_SOCKET=$tmpdir/theirs/socket
	# python3 and its modules may be where only root gets to
	python3 -B -c 'import json, os, socket, sys, threading
del sys.argv[0]
with open(sys.argv[0], encoding="utf-8") as f:
    program = compile(f.read(), sys.argv[0], "exec")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
exec(program)' "$top_srcdir/tests/lib/jobd_service.py" \
		"$JOBD_SOCKET" "$tmpdir/theirs/replies" "$tmpdir/theirs/log" >"$tmpdir/their-service" &
	service=$!
	eventually grep -q ready "$tmpdir/their-service" || bail "no scripted jobd of another user"
	is "$(status "$bin/squeue")" 1 "another user's process is not taken for jobd"
	like "$(cat "$tmpdir/err")" "a process of user 65534 \(pid $service\) listens at '$JOBD_SOCKET'" \
		"another user's process at the socket is named"
	is "$(cat "$tmpdir/theirs/log" 2>/dev/null)" "" "nothing is sent to another user's process"
	end_service
	JOBD_SOCKET=$socket
else
	skip 3 "needs root"
fi
begin_service <<'END'
{"ListJobs": [{"parameters": {"jobs": [], "time": 1}}]}
END
if [ -w /dev/full ]; then
	is "$("$bin/squeue" >/dev/full 2>"$tmpdir/err" || echo $?) $(grep -c . "$tmpdir/err")" "1 1" \
		"a standard output that can't be written is a failure, reported once"
fi
end_service
{
	printf '{"ListJobs": [{"parameters": {"jobs": ['
	seq -s, 1 20000 | sed 's/[0-9]\{1,\}/{"job_id": &, "job_state": "PENDING"}/g' | tr -d '\n'
	printf '], "time": 1}}]}\n'
} | begin_service
is "$({ "$bin/squeue" --json 2>"$tmpdir/err"; echo "$?" >"$tmpdir/status"; } | head -c 1)$(cat "$tmpdir/err")" "{" \
	"a reader that closes the pipe ends the output of JSON without a message"

done_testing
