#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The same as 0728 for Slurm 26.05, in a tree of sid.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/lib/slurm_release.sh
. "${top_srcdir:?}/tests/lib/slurm_release.sh"
