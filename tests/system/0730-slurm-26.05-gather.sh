#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Sites with Slurm 26.05 that gather more than usage: what 0739-slurm-gather.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0739-slurm-gather.sh
. "${top_srcdir:?}/tests/system/0739-slurm-gather.sh"
