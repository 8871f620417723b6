#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 with SPANK plugins that were made for it: what 0723-slurm-spank.sh has for
# 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0723-slurm-spank.sh
. "${top_srcdir:?}/tests/system/0723-slurm-spank.sh"
