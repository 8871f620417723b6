#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PMIx over the nodes of the steps of Slurm 24.11: what 0724-slurm-pmix-nodes.sh has for 22.05.
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0724-slurm-pmix-nodes.sh
. "${top_srcdir:?}/tests/system/0724-slurm-pmix-nodes.sh"
