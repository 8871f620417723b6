#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps and scripts of Slurm 26.05 where it has AuthType=auth/slurm, and there is no munged: what
# 0726-slurm-26.05.sh has for munge.
BENCH_SLURM_AUTH=slurm
export BENCH_SLURM_AUTH
# shellcheck source=tests/system/0726-slurm-26.05.sh
. "${top_srcdir:?}/tests/system/0726-slurm-26.05.sh"
