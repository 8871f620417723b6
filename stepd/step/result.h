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

/* The agent as a service of Type=notify (sd_notify(3)): ready once the tasks have been released,
 * a status with every change of the step's state, and the longest duration of its ending, so that
 * "systemctl stop" waits for the kill sequence, whatever the unit's TimeoutStopSec= is. Also its
 * messages in the journal, by step. */

/* Sends the log's lines to systemd's journal with STEPD_STEP= and their priority, if its
 * descriptor is a stream to the journal. The step is the part of log->ident after its blank,
 * without the node. */
void service_use_journal(struct log *log);

/* The log's lines begin with the step, "stepd 7.0", and in one of several nodes with this one's
 * name, "stepd n3/7.0". */
void service_name_log(struct log *log, const struct spec *spec);

/* Notifies the service manager of the agent's state. */
void service_notify_state(const struct agent *a);

/* Notifies it of the step's outcome, or of the reason why it could not be started. */
void service_notify_end(const struct agent *a);

/* ---- the supervisor ------------------------------------------------------------------------ */

/* The line to the program that supervises the step, steprun or a relay: a connected socket, whose
 * other end only the supervisor holds. When it hangs up, the step is ended; the result is written
 * to it. Unlike PR_SET_PDEATHSIG it survives a change of the agent's identity, and an upgrade. */

typedef void (*supervisor_line_fn)(void *userdata);

struct supervisor_line {
	int fd; /* -1: no supervisor */
	struct ev_loop *loop;
	ev_io io;
	supervisor_line_fn gone;
	void *userdata;
};

/* Calls gone once, when the other end hangs up. Does nothing without a descriptor. */
void supervisor_line_watch(struct supervisor_line *line, struct ev_loop *loop,
	supervisor_line_fn gone, void *userdata);

/* Delays the call of gone until it is called with false. */
void supervisor_line_pause(struct supervisor_line *line, bool pause);

void supervisor_line_close(struct supervisor_line *line);

/* ---- state, ready line and result ---------------------------------------------------------- */

/* The step's result: a new reference, or NULL. */
struct json_t *result_pack(const struct agent *a);

/* Writes state.json with the state for an adopter. */
int result_publish(struct agent *a, const char *state, struct err *err) _must_check_;

/* Rewrites state.json with that state; a failure is a warning in the log. */
void result_publish_state(struct agent *a, const char *state);

/* Writes one line to options->ready_fd, and closes it. A reader that went away is not an error; a
 * slow one does not block the loop. */
void result_send_ready(struct agent *a);

/* The step is over: writes the rest now, unless the reader does not read for seconds. */
void result_end_ready(struct agent *a);

/* At a re-exec, in the new program: rest is the unwritten part, NULL if all is written. 0 or
 * -ENOMEM. */
int result_restore_ready(struct agent *a, const char *text, size_t size) _must_check_;

/* Closes it, and drops the unwritten part. */
void result_drop_ready(struct agent *a);

/* Checks that the files of the result, the samples and the trace can be written, as far as that
 * can be checked before. */
int result_check_files(const struct agent *a, struct err *err) _must_check_;

/* Reserves result_store()'s disk blocks before anything runs, so that the result survives a full
 * file system. */
int result_reserve(struct agent *a, struct err *err) _must_check_;

/* Writes result.json to the step's directory, if options->keep_result_ms is not 0: on the disk
 * before this returns, and before anybody is notified that the step has ended. */
int result_store(struct agent *a, struct err *err) _must_check_;

/* For an adopted step: whether its directory already has a result, which then stays, and is
 * written to options->result_file. */
bool result_forward(struct agent *a);

/* Writes the same document to options->result_file, replaced atomically and on the disk before
 * this returns; to standard output for "-". */
int result_write(const struct agent *a, struct err *err) _must_check_;

#endif
