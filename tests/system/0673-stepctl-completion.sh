#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Completion in bash: verbs, options and living steps, as the programs tell them.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v bash >/dev/null || skip_all "needs bash"

: >"$tmpdir/out"
"$stepd" run -q --job "$job" --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300' >"$tmpdir/out" &
agent=$!
eventually test -s "$tmpdir/out"
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

is "$(offered su)" "suspend " "a verb is completed"
like "$(offered '')" "add clean events find .* wait " "all verbs are offered"
is "$(offered signal --le)" "--leader " "an option of the verb is completed"
is "$(offered usage --le)" "" "an option of another verb is not offered"
like "$(offered set-limits --cpus)" "--cpus --cpuset --cpuset-mems " "the options of set-limits are completed"
is "$(offered show "")" "$job.0 " "a living step is completed"
is "$(offered signal -s TERM "")" "$job.0 " "a step is completed behind an option and its value"
is "$(offered show "$(printf %.1s "$node")")" "$node/$job.0 " "a step is completed with its node, if that was begun"
is "$(offered show --runtime-dir "$tmpdir/none" "")" "" "the steps are those of --runtime-dir"
is "$(offered signal -s TER)" "TERM " "a signal is completed"
is "$(offered top --sort m)" "mem " "a sort key is completed"
is "$(offered show --timeout "")" "" "nothing is offered for a duration"
is "$(offered list "")" "" "nothing is offered where there is no argument"
is "$(offered_by_stepd ser)" "serve " "stepd: a command"
is "$(offered_by_stepd run --time-l)" "--time-limit " "stepd: an option"
is "$(offered_by_stepd run -- --time-l)" "" "stepd: not of the program that is run"
# Values, as bash splits its words: "--mpi", "=", "pm".
installed() { # KIND: those of this machine
	"$stepd" plugins | sed -n "s|^$1/\([a-z0-9]*\) .*|\1|p"
}
mpi=$({ installed mpi && echo list; } | sort | tr '\n' ' ')
trackers=$({ installed proctrack && echo auto; } | sort | tr '\n' ' ')
like "$mpi$trackers" '^list none pmi2 .*auto .*linuxproc ' "there are plugins"
for what in "stepd run" steprun; do
	offers=offered_by_${what%% *}
	[ "$what" = steprun ] && first= || first=run
	# shellcheck disable=SC2086 # a word or none
	{
		is "$($offers $first --proctrack "")" "$trackers" "$what: --proctrack has the trackers"
		is "$($offers $first --mpi =)" "$mpi" "$what: --mpi= has the MPI plugins"
		is "$($offers $first --mpi = pmi2)" "pmi2 " "$what: and what was begun of one"
		is "$($offers $first --cpu-bind core)" "cores " "$what: --cpu-bind has its types"
		is "$($offers $first -m cy)" "cyclic " "$what: a short option has them, too"
		is "$($offers $first --signal USR)" "USR1 USR2 " "$what: --signal has signals"
		is "$($offers $first --chdir --m)" "$($offers $first --m)" "$what: others leave it to the shell"
	}
done
for file in stepctl stepd steprun; do
	ok "$file passes bash -n" bash -n "$top_srcdir/contrib/completion/$file"
	# As bash itself loads it.
	is "$(bash -c "source '$top_srcdir/contrib/completion/$file'; complete -p $file")" "complete -F _$file $file" \
		"$file is registered"
done
if command -v shellcheck >/dev/null; then
	# SC2207: COMPREPLY is made of words, none of which has blanks.
	is "$(shellcheck -s bash -S warning -e SC2207 -f gcc "$top_srcdir"/contrib/completion/* 2>&1)" "" "they pass shellcheck"
else
	skip 1 "shellcheck is not installed"
fi
if [ "$tracker" = cgroup ]; then
	pid=$("$stepctl" pids "$job.0")
	kill -9 $agent
	wait $agent 2>/dev/null
	eventually sh -c "'$stepctl' list | grep -q died"
	is "$(offered_by_stepd adopt "")" "$job.0 " "stepd adopt: a step whose agent died"
	kill -9 "$pid"
	eventually sh -c "! kill -0 $pid"
	step -- true
else
	skip 1 "needs proctrack/cgroup"
	kill $agent
	wait $agent
fi
nothing_left "nothing is left"
done_testing
