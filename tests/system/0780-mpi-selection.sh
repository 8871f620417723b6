#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which MPI plugin a step has: --mpi, the site's default, and the list of those that are installed.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

conf=$tmpdir/stepd.conf
: >"$conf"
trials=$tmpdir/plugins
mkdir -m 755 "$trials"
cp -L "${top_builddir:?}"/tests/lib/plugins/mpi_*.so "$top_builddir/stepd/cli/plugins/proctrack_pgid.so" "$trials"

# The list.
out=$("$stepd" run --mpi=list)
is $? 0 "--mpi=list needs no program"
like "$out" '^  none +tasks start without PMI' "it has a line on each plugin"
out=$("$stepd" run --mpi list --plugin-dir "$trials")
is $? 0 "a list of other plugins"
like "$out" '^  trial ' "has those"
like "$out" "^  misspelt +can't be loaded: " "and those that can't be loaded"
fails "a directory that is none" "$stepd" run --mpi=list --plugin-dir "$tmpdir/nosuch"
out=$(step --config "$conf" --mpi nosuch -- true 2>&1)
is $? 125 "an unknown plugin starts nothing"
like "$out" "there is no plugin mpi/nosuch in .*; the plugin files there are: .*none" "and those that are installed are listed"

# The tasks' environment.
SLURM_MPI_TYPE=stale
export SLURM_MPI_TYPE
type=$(step --config "$conf" -- sh -c 'echo "${SLURM_MPI_TYPE-unset}"')
is "$type" unset "with none a task has no SLURM_MPI_TYPE"
type=$(step --config "$conf" --mpi mpi/none -- sh -c 'echo "${SLURM_MPI_TYPE-unset}"')
is "$type" unset "nor with its whole name"
# A line is one write, which no other task's can come into; what env writes is not.
out=$(step --config "$conf" -n 3 --mpi none -- sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS"' | sort)
like "$out" '^2 of 3$' "ranks are in Slurm's variables"
out=$(step --config "$conf" --mpi none -- env)
unlike "$out" '^PMI' "and nothing of PMI is there"
type=$(step --config "$conf" --mpi trial --plugin-dir "$trials" --proctrack pgid -- \
	sh -c 'echo "${SLURM_MPI_TYPE-unset}"' 2>"$tmpdir/err")
is "$type" trial "a plugin's tasks have its name there"
printf 'mpi_default = mpi/none\n' >"$conf"
ok "the site's default may have its whole name" step --config "$conf" -- true

# Batch and extern steps have no hooks: their plugin is not even asked for.
printf 'mpi_default = misspelt\n' >"$conf"
printf '#!/bin/sh\necho "${SLURM_MPI_TYPE-unset}"\n' >"$tmpdir/script"
is "$(step --config "$conf" --batch "$tmpdir/script")" unset "a batch step has no plugin but none"
out=$(step --config "$conf" --mpi pmi2 --batch "$tmpdir/script" 2>&1)
is $? 125 "and refuses another"
like "$out" "--mpi: 'pmi2' is not for a step of kind 'batch'" "with the reason"
"$stepd" run --config "$conf" --job "$job" --extern 2>"$tmpdir/err" &
agent=$!
eventually running extern
ok "an extern step starts" test -d "/proc/$agent"
kill -TERM "$agent"
wait "$agent"
is $? 143 "and ends"
nothing_left "nothing is left"
done_testing
