/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a step is reported: its state while it lives, the ready line once it serves requests, and the
 * result at its end. All are JSON; stepd(8) describes their fields.
 */
#ifndef STEPD_STEP_RESULT_H
#define STEPD_STEP_RESULT_H

#include "stepd/step/agent_impl.h"

/* The step's result: a new reference, or NULL. */
struct json_t *result_pack(const struct agent *a);

/* Writes state.json: all that an adopter needs. */
int result_publish(struct agent *a, const char *state, struct err *err) _must_check_;

/* Rewrites state.json with that state; a failure is a warning in the log. */
void result_publish_state(struct agent *a, const char *state);

/* One line to options->ready_fd, which is then closed. A reader that went away is no error, one
 * that takes its time is not waited for: the loop goes on meanwhile. */
void result_send_ready(struct agent *a);

/* The step is over: what is left is written now, unless the reader takes nothing for seconds. */
void result_end_ready(struct agent *a);

/* In a new program in the agent's place: what the reader has not taken, NULL where all is written.
 * 0 or -ENOMEM. */
int result_restore_ready(struct agent *a, const char *text, size_t size) _must_check_;

/* Closes it, with what is not written yet. */
void result_drop_ready(struct agent *a);

/* That the files of the result, the samples and the trace can be written, as far as that can be
 * known before. */
int result_check_files(const struct agent *a, struct err *err) _must_check_;

/* Makes sure of result_keep()'s blocks, before anything runs: a file system that fills up meanwhile
 * costs no result. */
int result_reserve(struct agent *a, struct err *err) _must_check_;

/* result.json into the step's directory, if options->keep_result_ms says so: on the disk before
 * this returns, and before anybody is notified that the step has ended. */
int result_keep(struct agent *a, struct err *err) _must_check_;

/* Of a step that was taken over: whether a result of it stands in its directory already, which then
 * stays, and goes to options->result_file. */
bool result_hand_on(struct agent *a);

/* The same document to options->result_file, replaced whole and on the disk before this returns; to
 * standard output for "-". */
int result_write(const struct agent *a, struct err *err) _must_check_;

#endif
