#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Devices of single tasks of steps of Slurm 24.11: what 0732-slurm-devices.sh has for 22.05, without shared ones.
STEPD_TEST_SLURM=trixie
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0732-slurm-devices.sh
. "${top_srcdir:?}/tests/system/0732-slurm-devices.sh"
