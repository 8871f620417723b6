/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent as a service of Type=notify (sd_notify(3)): ready once the tasks have been released, a
 * status with every change of the step's state, and how long its ending may take, so that
 * "systemctl stop" waits for the kill sequence, whatever the unit's TimeoutStopSec= is.
 */
#ifndef STEPD_AGENT_SERVICE_H
#define STEPD_AGENT_SERVICE_H

struct agent;

/* Tells the state that the agent is in now. */
void service_tell_state(const struct agent *a);

/* Tells how it ended, or why the step could not be started. */
void service_tell_end(const struct agent *a);

#endif
