# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests that talk to a step's socket, on top of step.sh:
#	agent ARG...            runs a step of $job in the background, $agent is its pid, once a task
#	                        has said "up"; its output is in $tmpdir/out and $tmpdir/err
#	extern_agent            the same of an extern step of $job on node n1, with tracker $b
#	socket                  of step 0 of $job
#	ask METHOD [PARAMETERS] one call to that: the answer's JSON
#	follow METHOD [PARAMETERS]  the same with "more", an answer a line
#	field EXPRESSION        of the JSON on standard input, as Python has it: a["parameters"]["pids"]
#	answer EXPRESSION METHOD [PARAMETERS]   both, of the answer's parameters, p
#	tree PID...             these processes and all that descend from them, a pid a line
#	refused METHOD [PARAMETERS]     the error's name and parameters
# $as may hold options of varlink.py, such as --uid 65534.

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

varlink=$top_srcdir/tests/lib/varlink.py
as=

command -v python3 >/dev/null || skip_all "python3 is missing"

# shellcheck disable=SC2034 # $agent is the tests'
agent() { # ARG...
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q up "$tmpdir/out"
}

# shellcheck disable=SC2034,SC2154 # $agent and $b are the tests'
extern_agent() {
	printf '{"job": %s, "kind": "extern", "node": {"name": "n1"}, "proctrack": "%s"}\n' "$job" "$b" \
		>"$tmpdir/spec"
	"$stepd" serve -q --keep-result 0 --spec "$tmpdir/spec" 2>"$tmpdir/err" &
	agent=$!
	eventually running extern
}

socket() {
	echo "$run"/*_"$job.0"/socket
}

ask() {
	# shellcheck disable=SC2086 # $as is words
	python3 "$varlink" $as call "$(socket)" "$@"
}

follow() {
	# shellcheck disable=SC2086 # $as is words
	python3 "$varlink" $as more "$(socket)" "$@"
}

# shellcheck disable=SC2016 # Python's
field() {
	python3 -c 'import json, sys
a = json.load(sys.stdin)
p = a["parameters"]
r = eval(sys.argv[1])
print(r if isinstance(r, str) else json.dumps(r))' "$1"
}

answer() {
	answer_expression=$1
	shift
	ask "$@" | field "$answer_expression"
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

refused() {
	ask "$@" | field 'a.get("error", "no error").split(".")[-1] + " " + json.dumps(p, sort_keys=True)'
}
