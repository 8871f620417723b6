#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of Slurm 26.05 in jobs with a /tmp of their own: what 0736-slurm-namespace.sh has for 22.05, and settings
# that came later.
STEPD_TEST_SLURM=sid
export STEPD_TEST_SLURM
# shellcheck source=tests/system/0736-slurm-namespace.sh
. "${top_srcdir:?}/tests/system/0736-slurm-namespace.sh"
