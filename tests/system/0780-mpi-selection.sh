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
like "$out" '^  none +tasks start without PMI' "--mpi=list has a line for a plugin"
out=$("$stepd" run --mpi list --plugin-dir "$trials")
is $? 0 "--mpi list with --plugin-dir succeeds"
like "$out" '^  trial ' "--mpi list has the plugins of --plugin-dir"
like "$out" "^  misspelt +can't be loaded: " "--mpi list has a plugin that can't be loaded, with the reason"
fails "--mpi=list of a missing directory fails" "$stepd" run --mpi=list --plugin-dir "$tmpdir/nosuch"
out=$(step --config "$conf" --mpi nosuch -- true 2>&1)
is $? 125 "an unknown MPI plugin is refused"
like "$out" "there is no plugin mpi/nosuch in .*; the plugin files there are: .*none" \
	"the refusal of an unknown MPI plugin lists the installed ones"

# The tasks' environment.
SLURM_MPI_TYPE=stale
export SLURM_MPI_TYPE
type=$(step --config "$conf" -- sh -c 'echo "${SLURM_MPI_TYPE-unset}"')
is "$type" unset "a task without an MPI plugin has no SLURM_MPI_TYPE"
type=$(step --config "$conf" --mpi mpi/none -- sh -c 'echo "${SLURM_MPI_TYPE-unset}"')
is "$type" unset "a task with mpi/none has no SLURM_MPI_TYPE"
# A line is one write, which no other task's can come into; what env writes is not.
out=$(step --config "$conf" -n 3 --mpi none -- sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS"' | sort)
like "$out" '^2 of 3$' "a task without an MPI plugin has its rank in Slurm's variables"
out=$(step --config "$conf" --mpi none -- env)
unlike "$out" '^PMI' "a task without an MPI plugin has no variable of PMI"
type=$(step --config "$conf" --mpi trial --plugin-dir "$trials" --proctrack pgid -- \
	sh -c 'echo "${SLURM_MPI_TYPE-unset}"' 2>"$tmpdir/err")
is "$type" trial "a task with an MPI plugin has its name in SLURM_MPI_TYPE"
printf 'mpi_default = mpi/none\n' >"$conf"
ok "mpi_default accepts a plugin's whole name" step --config "$conf" -- true

# Batch and extern steps have no hooks: their plugin is not even loaded.
printf 'mpi_default = misspelt\n' >"$conf"
printf '#!/bin/sh\necho "${SLURM_MPI_TYPE-unset}"\n' >"$tmpdir/script"
is "$(step --config "$conf" --batch "$tmpdir/script")" unset "a batch step does not load the default plugin"
out=$(step --config "$conf" --mpi pmi2 --batch "$tmpdir/script" 2>&1)
is $? 125 "a batch step with --mpi is refused"
like "$out" "--mpi: 'pmi2' is not for a step of kind 'batch'" \
	"the refusal of --mpi for a batch step has the reason"
"$stepd" run --config "$conf" --job "$job" --extern 2>"$tmpdir/err" &
agent=$!
eventually running extern
ok "an extern step does not load the default plugin" test -d "/proc/$agent"
kill -TERM "$agent"
wait "$agent"
is $? 143 "an extern step ends by SIGTERM to its agent"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
