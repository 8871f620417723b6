/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Slurm's releases, as the versions of its protocol. A release is a row of release.c; what changes
 * with one is compared by >= where it matters, so that it holds for those after it:
 *	23.02  the job's times and licenses are in the credential, and its tasks' variables; a
 *	       script's tasks are counted from --ntasks-per-node, too; an abort of PMIx with
 *	       status 0 is no failure; slurmstepd makes the directories of output files; epilogs
 *	       are told of by their exit status; devices of kinds without a plugin;
 *	       slurmd sends the configuration
 *	23.11  the node above in a step's tree is known by its name; the identity of the
 *	       credential alone counts; TreeWidth is 16 if slurm.conf has none; what a SPANK plugin
 *	       fails before the tasks run is the first one's end, and an extern step's job's;
 *	       tasks are bound to devices by other rules; scripts have two variables less
 *	24.05  reports of a step's end say for whom they are; SrunPortRange holds for PMIx, too; the
 *	       password of a user is "*"; an option of SPANK is applied once
 *	24.11  a step's number in the cluster, its SLUID, precedes the job's; slurmd sends its
 *	       scope, and more on namespaces; --oom-kill-step; a key for Open MPI's networks; a
 *	       message that is sent on has the depth of the tree
 *	25.05  slurmstepd's lines to users begin with the time, and that on a cancelled step names
 *	       the signal; requests have room for certificates of TLS; an extern step has no
 *	       process of its own
 *	25.11  a script's end is reported by its step, not by its job; %N is the node's name; a task
 *	       that is alone on its node is bound to devices, too; UUIDs of MIG devices alone
 *	26.05  a step's own end is reported before that of its last tasks; SLURM_JOB_SLUID;
 *	       slurmctld knows a script's SLURM_TASKS_PER_NODE; an abort of PMI-2's is no KILL
 *	       at once
 */
#ifndef SLURM_RELEASE_H
#define SLURM_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

/* Protocol versions; each is a release. */
enum slurm_release {
	SLURM_22_05 = 38 << 8,
	SLURM_23_02 = 39 << 8,
	SLURM_23_11 = 40 << 8,
	SLURM_24_05 = 41 << 8,
	SLURM_24_11 = 42 << 8,
	SLURM_25_05 = 43 << 8,
	SLURM_25_11 = 44 << 8,
	SLURM_26_05 = 45 << 8,
	SLURM_26_11 = 46 << 8,
};

/* "23.11"; NULL: a release that is not known here. */
const char *slurm_release_name(unsigned release);

/* As a plugin's plugin_version has it, without its last number: 0x180b00; 0: it is not known here.
 */
uint32_t slurm_release_version(unsigned release);

/* Its steps have been seen beside those of its own slurmstepd. */
bool slurm_release_is_served(unsigned release);

#endif
