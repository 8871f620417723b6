/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent as a service of Type=notify (sd_notify(3)): ready once the tasks have been released, a
 * status with every change of the step's state, and how long its ending may take, so that
 * "systemctl stop" waits for the kill sequence, whatever the unit's TimeoutStopSec= is. And its
 * messages in the journal, by their step.
 */
#ifndef STEPD_STEP_SERVICE_H
#define STEPD_STEP_SERVICE_H

struct agent;
struct log;
struct spec;

/* Sends the log's lines to systemd's journal with STEPD_STEP= and their priority, if its descriptor
 * is a stream to the journal. The step is what log->ident names behind its blank,
 * without the node. */
void service_use_journal(struct log *log);

/* The log's lines begin with the step, "stepd 7.0", and in one of several nodes with this one's
 * name, "stepd n3/7.0". */
void service_name_log(struct log *log, const struct spec *spec);

/* Tells the state that the agent is in now. */
void service_notify_state(const struct agent *a);

/* Tells how it ended, or why the step could not be started. */
void service_notify_end(const struct agent *a);

#endif
