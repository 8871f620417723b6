#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps and scripts of Slurm 24.11 where it has AuthType=auth/slurm, and there is no munged: what
# 0728-slurm-24.11.sh has for munge.
BENCH_SLURM_AUTH=slurm
export BENCH_SLURM_AUTH
# shellcheck source=tests/system/0728-slurm-24.11.sh
. "${top_srcdir:?}/tests/system/0728-slurm-24.11.sh"
