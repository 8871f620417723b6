#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 that are extern ones: what
# 0719-slurm-extern.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0719-slurm-extern.sh
. "${top_srcdir:?}/tests/system/0719-slurm-extern.sh"
