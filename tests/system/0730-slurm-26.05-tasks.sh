#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 and what is done for their tasks: accounting, binding, prologs, MPI: what
# 0712-slurm-tasks.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0712-slurm-tasks.sh
. "${top_srcdir:?}/tests/system/0712-slurm-tasks.sh"
