#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The limits of served steps of Slurm 26.05 where they can be had, in the VM: what 0729-slurm-24.11-in-vm.sh has
# for 24.11, and a job that gets less memory while it runs.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0729-slurm-24.11-in-vm.sh
. "${top_srcdir:?}/tests/system/0729-slurm-24.11-in-vm.sh"
