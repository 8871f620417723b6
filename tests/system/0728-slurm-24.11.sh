#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps and scripts of Slurm 24.11, in a tree of trixie, or of the one that STEPD_TEST_SLURM names, that
# stepd-slurmstepd serves, beside those of that Slurm's own slurmstepd.
STEPD_TEST_SLURM=${STEPD_TEST_SLURM:-trixie}
export STEPD_TEST_SLURM
# shellcheck source=tests/lib/slurm_release.sh
. "${top_srcdir:?}/tests/lib/slurm_release.sh"
