#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 with terminals, unbuffered output and several programs: what
# 0711-slurm-terminal.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0711-slurm-terminal.sh
. "${top_srcdir:?}/tests/system/0711-slurm-terminal.sh"
