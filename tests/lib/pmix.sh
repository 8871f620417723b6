# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of mpi/pmix, on top of step.sh:
#	$client             tests/lib/pmixclient.c, where every user can reach it
#	pmix N VERB ARG...  runs it as N tasks; $out is what comes, sorted, $status the exit status
#	pmix_nodes NODES TASKS PROGRAM ARG...  runs it by steprun over so many nodes, agents on this machine
#	$options            further options of the step
#	pids_agree NAME     checks the table of processes that "query" shows
#	lines COUNT REGEX NAME   checks that so many lines of $out match

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

[ -x "${top_builddir:?}/tests/lib/pmixclient" ] ||
	skip_all "built without mpi/pmix: configure found no libpmix"

client=$tmpdir/pmixclient
cp "$top_builddir/tests/lib/pmixclient" "$client"
chmod 755 "$client"
options=
unset TMPDIR # the steps' session directories follow it

# shellcheck disable=SC2086 # $options: several words
pmix() {
	pmix_tasks=$1
	shift
	out=$(step --mpi pmix -n "$pmix_tasks" $options -- "$client" "$@" 2>&1)
	# shellcheck disable=SC2034 # of those who read this
	status=$?
	out=$(printf '%s\n' "$out" | sort)
}

# shellcheck disable=SC2086 # $options: several words
pmix_nodes() {
	pmix_nodes=$1
	pmix_tasks=$2
	shift 2
	out=$(timeout 900 "$top_builddir/stepd/cli/steprun" --launcher=local --job "$job" --mpi=pmix \
		-N "$pmix_nodes" -n "$pmix_tasks" $options "$@" 2>&1)
	# shellcheck disable=SC2034 # of those who read this
	status=$?
	out=$(printf '%s\n' "$out" | sort)
}

# Whether the table of processes has for each rank what that reports of itself.
pids_agree() { # NAME
	agree=$(printf '%s\n' "$out" | awk '
		/^pid [0-9]+: / { pid[$2 + 0] = $3 }
		/^table [0-9]+: / { seen[++n] = $3 " " $5; state[n] = $0 }
		END {
			for (i = 1; i <= n; i++) {
				split(seen[i], s, " ")
				bad += s[2] + 0 != pid[s[1] + 0] || state[i] !~ /CONNECTED/
			}
			for (r in pid)
				ranks++
			print (n == ranks * ranks && n && !bad) ? "yes" : "no"
		}')
	if [ "$agree" = yes ]; then
		ok "$1"
	else
		not_ok "$1" "$out"
	fi
}

lines() {
	lines_got=$(printf '%s\n' "$out" | grep -Ec "$2")
	if [ "$lines_got" -eq "$1" ]; then
		ok "$3"
	else
		not_ok "$3" "$lines_got lines match $2 in:
$out"
	fi
}
