#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PMIx over several nodes of Slurm 24.11 with AuthType=auth/slurm, by which its step daemons know each other:
# what 0735-slurm-24.11-pmix-nodes.sh has for munge.
BENCH_SLURM_AUTH=slurm
export BENCH_SLURM_AUTH
# shellcheck source=tests/system/0735-slurm-24.11-pmix-nodes.sh
. "${top_srcdir:?}/tests/system/0735-slurm-24.11-pmix-nodes.sh"
