#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of several components and the scripts of heterogeneous jobs of Slurm 26.05: what
# 0725-slurm-het.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0725-slurm-het.sh
. "${top_srcdir:?}/tests/system/0725-slurm-het.sh"
