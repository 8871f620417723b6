#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 of several nodes, with PMI-2: what
# 0721-slurm-mpi-nodes.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0721-slurm-mpi-nodes.sh
. "${top_srcdir:?}/tests/system/0721-slurm-mpi-nodes.sh"
