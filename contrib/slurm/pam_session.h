/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A session of PAM for a step's user, by the service "slurm", for sites with UsePAM: its modules
 * run in this process, as those of slurmstepd do, before the agent is started. What they set here,
 * such as limits or the audit's login uid, the agent inherits, and the tasks have it. The library
 * is loaded when it is needed; pam(3).
 */
#ifndef SLURM_PAM_SESSION_H
#define SLURM_PAM_SESSION_H

#include "stepd/base/err.h"

struct log;
struct pam_session;

/* host is this node, as Slurm has it. -EOPNOTSUPP: there is no such library here; -EACCES: a module
 * refuses. Waits for the modules. */
int pam_session_open(const char *user, const char *host, struct pam_session **ret_session,
	struct err *err) _must_check_;

/* What modules object to is logged. NULL is fine. Returns NULL. */
struct pam_session *pam_session_close(struct pam_session *session, const struct log *log);

#endif
