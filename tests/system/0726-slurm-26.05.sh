#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The same as 0728 for Slurm 26.05, in a tree of sid.
# shellcheck disable=SC2034 # all of it is for the script
debian=sid
origin='\[[-0-9]+T[0-9:]+\.[0-9]{3}\]'
cancelled=' DUE (to SIGNAL (Terminated|Killed)|TO TASK FAILURE)'
# shellcheck source=tests/lib/slurm_release.sh
. "${top_srcdir:?}/tests/lib/slurm_release.sh"
