/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The holder: a child of the agent, "stepd-hold", with a second descriptor of each task's stream
 * that passes through the agent, and of each place where it goes. So neither the tasks' pipes nor
 * their terminals end with an agent that is killed: an adopter takes them from the holder, with a
 * document of what each is, as at a re-exec (handover.h), and counts of what the dead agent had
 * read and not written (tally.h). Nothing passes through the holder.
 *
 * It runs as the agent's user, in the agent's cgroup, in a session of its own, and waits for one
 * of two descriptors: the agent's socket, and the agent's end. Only then does it accept at the
 * socket "holder" in the step's directory, one adopter of its own user at a time.
 *
 * It ends when the agent says so, at the step's end. Without an agent it ends once no process can
 * write to the streams any more and nothing is lost by that; else HOLD_PATIENCE_S later.
 */
#ifndef STEPD_STDIO_HOLD_H
#define STEPD_STDIO_HOLD_H

#include <stdbool.h>

#include "stepd/base/err.h"

#define HOLD_SOCKET     "holder"
#define HOLD_PATIENCE_S 600

struct handover;
struct hold;
struct json_t;
struct log;

/* Starts a holder for the step in the directory of dir_fd; it has nothing yet. */
int hold_start(int dir_fd, const char *label, struct hold **ret_hold, struct err *err) _must_check_;

/* If it is this process's child; else 0. */
pid_t hold_get_child(const struct hold *hold);

/* A handover for hold_give(), with the step's name: NULL without memory. */
struct handover *hold_document(const struct hold *hold);

/* Gives the holder all descriptors that h names, and the counts, in place of what it had. */
int hold_give(struct hold *hold, struct handover *h, int counts_fd, struct err *err) _must_check_;

/* The agent closes a descriptor of hold_give() whose other end is to notice that. */
void hold_drop(struct hold *hold, int fd);

/* Takes over what the holder of a dead agent has: the caller frees *ret_document, whose descriptors
 * are open here, and closes *ret_counts_fd. The holder has them until the next hold_give().
 * -ENOENT: there is no holder. -EPERM: it is another user's, or could be. */
int hold_take(int dir_fd, const char *label, struct hold **ret_hold, struct handover **ret_document,
	int *ret_counts_fd, struct err *err) _must_check_;

/* At a re-exec (handover.h). restore: NULL without memory, or without a holder. */
void hold_save(const struct hold *hold, struct handover *h, struct json_t *object);
struct hold *hold_restore(const struct handover *h, const struct json_t *object);

/* Ends the holder and does not wait, which hold_end() does: meanwhile it gives its memory back. */
void hold_begin_end(struct hold *hold);

/* Ends the holder, and returns once it has ended. NULL is allowed. Returns NULL. */
struct hold *hold_end(struct hold *hold);
DEFINE_CLEANUP(struct hold *, hold_end);
#define _cleanup_hold_ _cleanup_(hold_end_p)

#endif
