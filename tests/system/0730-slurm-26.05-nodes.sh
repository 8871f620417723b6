#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps of Slurm 26.05 of several nodes, and the tree of those with seven and more: what
# 0710-slurm-nodes.sh has for 22.05.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0710-slurm-nodes.sh
. "${top_srcdir:?}/tests/system/0710-slurm-nodes.sh"
