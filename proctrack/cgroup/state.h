/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the plugin remembers from one call to the next. The functions of the plugin ABI get an id or
 * a step record and no state of ours: so it has to be here, once per process. The agent has one
 * thread.
 */
#ifndef PROCTRACK_CGROUP_STATE_H
#define PROCTRACK_CGROUP_STATE_H

#include "proctrack/cgroup/container.h"
#include "stepd/base/err.h"

struct place;

/* 0 or more into SLURM_SUCCESS, -errno into SLURM_ERROR and errno. */
int state_answer(int r);

/* The place for what the environment asks now. */
int state_get_place(const struct place **ret_place, struct err *err) _must_check_;

/* Another in its stead, from now on the state's own. */
void state_set_place(struct place *place);

/* probe_place() of it. A group that this makes stays for the step that comes next, and is removed
 * with the place, if it is not used: making and removing one takes some 0.1 ms. */
int state_probe_place(char *text, size_t size, struct err *err) _must_check_;

/* The directory of any container of the machine. found holds it if it isn't one of ours. -ESRCH:
 * there is none of that id. */
int state_get_dir(
	uint64_t id, struct step_dir *found, const struct step_dir **ret_dir) _must_check_;

/* The same for a signal that is to be sent there, 0 too; -EINVAL: it is none. */
int state_get_dir_for(int signal, uint64_t id, struct step_dir *found,
	const struct step_dir **ret_dir) _must_check_;

/* One that this process made or took over, or NULL. */
struct container *state_get_container(uint64_t id);

/* As container_keep(), container_drop(). */
int state_keep_container(struct step_dir *dir, struct container **ret_container) _must_check_;
void state_drop_container(uint64_t id);

/* One of ours, or another's that becomes ours now: an agent that took over a step. */
int state_take_container(uint64_t id, struct container **ret_container) _must_check_;

void state_clear(void);

#endif
