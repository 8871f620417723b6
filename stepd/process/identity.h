/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whom the tasks run as. Names are resolved once, before the first fork; the child only makes
 * system calls. Order of the calls and their check: groups, gid, uid (all of real, effective and
 * saved), then read back.
 *
 * For opening the user's files an agent of root assumes the user's effective identity for a
 * moment and takes its own back: real and saved uid stay 0, so the user can neither signal nor
 * trace it meanwhile.
 */
#ifndef STEPD_PROCESS_IDENTITY_H
#define STEPD_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct spec;

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary, sorted */
	size_t groups_count;
	char *user_name; /* the uid in digits where it has no name */
	char *home;      /* "/" where it is not known */
	char *shell;
	bool switches;   /* other than the agent's own: set by identity_resolve() */
	gid_t agent_gid; /* restored by identity_restore() */
	gid_t *agent_groups;
	size_t agent_groups_count;
};

/* Resolves spec's user, group and groups. A user other than the agent's own is refused unless the
 * agent is root's; its process then clears the securebits under which capabilities outlive a
 * change of ids. */
int identity_resolve(
	const struct spec *spec, struct identity *ret_id, struct err *err) _must_check_;

/* Fills in the agent's own ids, for an identity that was resolved before, with its groups sorted.
 */
int identity_compare_with_agent(struct identity *id, struct err *err) _must_check_;

void identity_clear(struct identity *id);
#define _cleanup_identity_ _cleanup_(identity_clear)

/* Switches to the effective uid, gid and groups, drops the effective capabilities, and checks
 * both; identity_restore() switches back to root's, and aborts the process if it can't, since no
 * safe way to continue is left. Both do nothing where !switches. */
int identity_assume(const struct identity *id, struct err *err) _must_check_;
void identity_restore(const struct identity *id);

/* In a child: becomes the user for good, drops every capability unless the user is root, and
 * checks. 0 or -errno; makes system calls only. */
int identity_become(const struct identity *id) _must_check_;

#endif
