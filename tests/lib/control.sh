# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests that call a step's socket, on top of step.sh:
#	start_extern            an extern step of $job on node n1 with tracker $b, in the background; $agent
#	socket                  of step $step_name of $job (0)
#	request METHOD [PARAMETERS]  a call of that: the reply's JSON
#	follow METHOD [PARAMETERS]  the same with "more", a reply a line
#	reply EXPRESSION METHOD [PARAMETERS]  what json_get makes of the reply; p are its parameters
#	refused METHOD [PARAMETERS]  the error's name and parameters
#	tree PID...             these processes and all that descend from them, a pid a line
# $as may hold options of varlink.py, such as --uid 65534.

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

as=
step_name=0

command -v python3 >/dev/null || skip_all "python3 is missing"

# shellcheck disable=SC2034,SC2154 # $agent and $b are the tests'
start_extern() {
	printf '{"job": %s, "kind": "extern", "node": {"name": "n1"}, "proctrack": "%s"}\n' "$job" "$b" \
		>"$tmpdir/spec"
	"$stepd" serve -q --keep-result 0 --spec "$tmpdir/spec" 2>"$tmpdir/err" &
	agent=$!
	eventually running extern
}

socket() {
	echo "$(step_dir "$step_name")/socket"
}

request() {
	# shellcheck disable=SC2086 # $as is options
	varlink $as call "$(socket)" "$@"
}

follow() {
	# shellcheck disable=SC2086 # $as is options
	varlink $as more "$(socket)" "$@"
}

reply() {
	reply_expression=$1
	shift
	request "$@" | json_get - "$reply_expression"
}

refused() {
	reply 'd.get("error", "no error").split(".")[-1] + " " + json.dumps(p, sort_keys=True)' "$@"
}

tree() {
	python3 -c 'import glob, sys
parents = {}
for name in glob.glob("/proc/[0-9]*/stat"):
	try:
		text = open(name, errors="replace").read()
	except OSError:
		continue
	parents[int(text.split()[0])] = int(text.rpartition(")")[2].split()[1])
def has(pid):
	while pid and pid not in wanted:
		pid = parents.get(pid)
	return pid
wanted = set(map(int, sys.argv[1:]))
print("\n".join(str(pid) for pid in parents if has(pid)))' "$@"
}
