#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Completion in bash: verbs, options and living steps, as the programs list them.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v bash >/dev/null || skip_all "needs bash"

start_step --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300'
node=$(hostname | cut -d. -f1)

cat >"$tmpdir/complete" <<'X'
# PROGRAM WORD...: what the last word can become.
source "$1" || exit 1
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; } # only in a completion of bash itself
"_${1##*/}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
X
offered() { # WORD...: of stepctl
	bash "$tmpdir/complete" "$top_srcdir/contrib/completion/stepctl" "$stepctl" "$@" | sort | tr '\n' ' '
}
offered_by_steprun() {
	PATH=$top_builddir/stepd/cli:$PATH bash "$tmpdir/complete" "$top_srcdir/contrib/completion/steprun" \
		"$top_builddir/stepd/cli/steprun" "$@" | sort | tr '\n' ' '
}
offered_by_stepd() {
	PATH=$top_builddir/stepd/cli:$PATH bash "$tmpdir/complete" "$top_srcdir/contrib/completion/stepd" "$stepd" "$@" | sort | tr '\n' ' '
}

is "$(offered su)" "suspend " "stepctl su completes to a verb"
like "$(offered '')" "add attach clean events find .* wait " "stepctl completes to all verbs"
is "$(offered signal --le)" "--leader " "stepctl signal --le completes to an option of the verb"
is "$(offered usage --le)" "" "stepctl usage --le completes to no option of another verb"
like "$(offered set-limits --cpus)" "--cpus --cpuset --cpuset-mems " \
	"stepctl set-limits --cpus completes to its limits"
is "$(offered show "")" "$job.0 " "stepctl show completes to a living step"
is "$(offered signal -s TERM "")" "$job.0 " "a step is completed behind an option and its value"
is "$(offered show "$(printf %.1s "$node")")" "$node/$job.0 " \
	"a step is completed with its node, if that was begun"
is "$(offered show --runtime-dir "$tmpdir/none" "")" "" \
	"a step is completed from the directory of --runtime-dir"
is "$(offered signal -s TER)" "TERM " "signal -s completes to a signal"
is "$(offered top --sort m)" "mem " "top --sort completes to a key"
is "$(offered show --timeout "")" "" "--timeout completes to nothing"
is "$(offered list "")" "" "list completes to no argument"
is "$(offered_by_stepd ser)" "serve " "stepd ser completes to a command"
is "$(offered_by_stepd run --time-l)" "--time-limit " "stepd run --time-l completes to an option"
is "$(offered_by_stepd run -- --time-l)" "" "stepd run completes no option of the program that it runs"
# Values, as bash splits its words: "--mpi", "=", "pm".
installed() { # KIND: those of this machine
	"$stepd" plugins | sed -n "s|^$1/\([a-z0-9_]*\) .*|\1|p"
}
mpi=$({ installed mpi && echo list; } | sort | tr '\n' ' ')
trackers=$({ installed proctrack && echo auto; } | sort | tr '\n' ' ')
like "$mpi$trackers" '^list none pmi2 .*auto .*linuxproc ' "the build has plugins to complete"
is "$(offered_by_steprun attach --det)" "--detach-keys " "steprun attach --det completes to its option"
is "$(offered_by_steprun attach --stream st)" "stderr stdout " "steprun attach --stream completes to the streams"
for what in "stepd run" steprun; do
	offers=offered_by_${what%% *}
	[ "$what" = steprun ] && first= || first=run
	# shellcheck disable=SC2086 # a word or none
	{
		is "$($offers $first --proctrack "")" "$trackers" "$what --proctrack completes to the trackers"
		is "$($offers $first --mpi =)" "$mpi" "$what --mpi= completes to the MPI plugins"
		is "$($offers $first --mpi = pmi2)" "pmi2 " "$what --mpi=pmi2 completes to that plugin"
		is "$($offers $first --cpu-bind core)" "cores " "$what --cpu-bind completes to its types"
		is "$($offers $first -m cy)" "cyclic " "$what -m completes to the distributions"
		is "$($offers $first --signal USR)" "USR1 USR2 " "$what --signal completes to signals"
		is "$($offers $first --chdir --m)" "$($offers $first --m)" \
			"$what --chdir leaves the completion to the shell"
	}
done
for file in stepctl stepd steprun; do
	ok "the completion of $file passes bash -n" bash -n "$top_srcdir/contrib/completion/$file"
	# As bash itself loads it.
	is "$(bash -c "source '$top_srcdir/contrib/completion/$file'; complete -p $file")" "complete -F _$file $file" \
		"the completion of $file is registered in bash"
done
if command -v shellcheck >/dev/null; then
	# SC2207: COMPREPLY is made of words, none of which has blanks.
	is "$(shellcheck -s bash -S warning -e SC2207 -f gcc "$top_srcdir"/contrib/completion/* 2>&1)" "" \
		"the completions pass shellcheck"
else
	skip 1 "shellcheck is not installed"
fi
if [ "$tracker" = cgroup ]; then
	pid=$("$stepctl" pids "$job.0")
	kill_agent
	eventually sh -c "'$stepctl' list | grep -q died"
	is "$(offered_by_stepd adopt "")" "$job.0 " "stepd adopt completes to a step whose agent died"
	kill -9 "$pid"
	eventually sh -c "! kill -0 $pid"
	step -- true
else
	skip 1 "needs proctrack/cgroup"
	kill $agent
	wait $agent
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
