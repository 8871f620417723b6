/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a step is reported: its state while it lives, the ready line once it serves requests, and the
 * result at its end, which are JSON (stepd(8) describes their fields); and what the service manager
 * and the program that supervises the step are notified of.
 */
#ifndef STEPD_STEP_RESULT_H
#define STEPD_STEP_RESULT_H

#include <ev.h>
#include <stdbool.h>

#include "stepd/base/err.h"

struct agent;
struct log;
struct spec;

/* ---- the service manager ------------------------------------------------------------------- */

/* The agent as a service of Type=notify (sd_notify(3)): ready once the tasks have been released, a
 * status with every change of the step's state, and how long its ending may take, so that
 * "systemctl stop" waits for the kill sequence, whatever the unit's TimeoutStopSec= is. And its
 * messages in the journal, by their step. */

/* Sends the log's lines to systemd's journal with STEPD_STEP= and their priority, if its descriptor
 * is a stream to the journal. The step is what log->ident names behind its blank,
 * without the node. */
void service_use_journal(struct log *log);

/* The log's lines begin with the step, "stepd 7.0", and in one of several nodes with this one's
 * name, "stepd n3/7.0". */
void service_name_log(struct log *log, const struct spec *spec);

/* Notifies the service manager of the agent's state. */
void service_notify_state(const struct agent *a);

/* Notifies it of how the step ended, or why it could not be started. */
void service_notify_end(const struct agent *a);

/* ---- the supervisor ------------------------------------------------------------------------ */

/* The line to the program that supervises the step, steprun or a relay: a connected socket, whose
 * other end nobody else has. When it hangs up, the step is ended; the result is written to it.
 * Unlike PR_SET_PDEATHSIG it outlasts a change of the agent's identity, and an upgrade. */

typedef void (*supervisor_line_fn)(void *userdata);

struct supervisor_line {
	int fd; /* -1: nobody supervises the step */
	struct ev_loop *loop;
	ev_io io;
	supervisor_line_fn gone;
	void *userdata;
};

/* Calls gone once, when the other end hangs up. Nothing where there is no descriptor. */
void supervisor_line_watch(struct supervisor_line *line, struct ev_loop *loop,
	supervisor_line_fn gone, void *userdata);

/* Calls nobody until it is called with false. */
void supervisor_line_pause(struct supervisor_line *line, bool pause);

void supervisor_line_close(struct supervisor_line *line);

/* ---- state, ready line and result ---------------------------------------------------------- */

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

/* At a re-exec, in the new program: what the reader has not taken, NULL where all is written. 0
 * or -ENOMEM. */
int result_restore_ready(struct agent *a, const char *text, size_t size) _must_check_;

/* Closes it, with what is not written yet. */
void result_drop_ready(struct agent *a);

/* That the files of the result, the samples and the trace can be written, as far as that can be
 * known before. */
int result_check_files(const struct agent *a, struct err *err) _must_check_;

/* Makes sure of result_store()'s blocks, before anything runs: a file system that fills up
 * meanwhile costs no result. */
int result_reserve(struct agent *a, struct err *err) _must_check_;

/* result.json into the step's directory, if options->keep_result_ms is not 0: on the disk before
 * this returns, and before anybody is notified that the step has ended. */
int result_store(struct agent *a, struct err *err) _must_check_;

/* Of a step that was taken over: whether a result of it stands in its directory already, which then
 * stays, and goes to options->result_file. */
bool result_forward(struct agent *a);

/* The same document to options->result_file, replaced whole and on the disk before this returns; to
 * standard output for "-". */
int result_write(const struct agent *a, struct err *err) _must_check_;

#endif
