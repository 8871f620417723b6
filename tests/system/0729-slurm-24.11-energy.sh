#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The energy of steps with Slurm 24.11: what 0739-slurm-energy.sh has for 22.05.
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0739-slurm-energy.sh
. "${top_srcdir:?}/tests/system/0739-slurm-energy.sh"
