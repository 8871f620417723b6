#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps and scripts of Slurm 24.11, in a tree of trixie, that stepd-slurmstepd serves, beside those of that
# Slurm's own slurmstepd.
# shellcheck disable=SC2034 # all of it is for the script
debian=trixie origin='slurmstepd-bench[-0-9]+:' cancelled=
# shellcheck source=tests/lib/slurm_release.sh
. "${top_srcdir:?}/tests/lib/slurm_release.sh"
