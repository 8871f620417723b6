/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Process tracking, the host's side: chooses a backend, loads it as a plugin, turns the guide's
 * conventions (SLURM_ERROR and errno) into the house's (0 or -errno), and does by itself what a
 * backend leaves out. The functions are those of <stepd/proctrack.h>, where the contract stands.
 *
 * A backend holds its state in the plugin, one per process: so there is one struct proctrack of
 * each backend in a process, too.
 */
#ifndef PROCTRACK_PROCTRACK_H
#define PROCTRACK_PROCTRACK_H

#include <stdbool.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/err.h"

struct generic_stopped;
struct proctrack;
struct plugin_kind;

#define PROCTRACK_AUTO "auto"

/* For code that lists plugins or loads one itself. */
const struct plugin_kind *proctrack_plugin_kind(void);

/* Opens the backend called name (NAME or proctrack/NAME), or with "auto" cgroup where it can be
 * used and else linuxproc; cgroup without an else where STEPD_CGROUP_ROOT is set. */
int proctrack_open(const char *plugin_dir, const char *name, struct proctrack **ret_pt,
	struct err *err) _must_check_;

/* The same for code that is about to create a container, and decides where: proctrack_p_place().
 * What "auto" took and can't be placed gives way to linuxproc, but not where scope is "yes". */
int proctrack_open_for_step(const char *plugin_dir, const char *name, const char *scope,
	const stepd_step_rec_t *job, struct proctrack **ret_pt, struct err *err) _must_check_;

/* The root of the containers of a cgroup tracker, for all requests from now on; NULL: it finds
 * that by itself. Goes into the environment: <stepd/proctrack.h>. */
int proctrack_set_root(const char *root) _must_check_;

struct proctrack *proctrack_close(struct proctrack *pt);
DEFINE_CLEANUP(struct proctrack *, proctrack_close);
#define _cleanup_proctrack_ _cleanup_(proctrack_close_p)

/* A warning for the log: why "auto" did not take cgroup, or the step does not hang where it should.
 * NULL: there is none. */
const char *proctrack_get_note(const struct proctrack *pt);

/* "proctrack/cgroup" */
const char *proctrack_get_type(const struct proctrack *pt);

int proctrack_create(struct proctrack *pt, stepd_step_rec_t *job) _must_check_;
int proctrack_add(struct proctrack *pt, stepd_step_rec_t *job, pid_t pid) _must_check_;
int proctrack_signal(struct proctrack *pt, uint64_t id, int signal) _must_check_;

/* Whether the container that was created or adopted here was sent SIGKILL through pt. */
bool proctrack_was_killed(const struct proctrack *pt);

int proctrack_destroy(struct proctrack *pt, uint64_t id) _must_check_;
uint64_t proctrack_find(struct proctrack *pt, pid_t pid);
int proctrack_get_pids(
	struct proctrack *pt, uint64_t id, pid_t **ret_pids, int *ret_count) _must_check_;

/* true while the container has members, and where it can't be read: nothing is taken for ended
 * that was not seen to be. */
bool proctrack_is_populated(struct proctrack *pt, uint64_t id);

/* Optional in a plugin; done here where it has none, but for the descriptors: these then give
 * -EOPNOTSUPP. The caller closes the descriptors. */
int proctrack_wait(struct proctrack *pt, uint64_t id, int timeout_ms) _must_check_;
bool proctrack_has_pid(struct proctrack *pt, uint64_t id, pid_t pid);
int proctrack_usage(struct proctrack *pt, uint64_t id, const uint32_t *rank,
	stepd_usage_t *ret_usage) _must_check_;

/* The same of the container and, in ret_tasks, of each of the n tasks, now. What the backend does
 * not count comes from /proc, for the container's processes and those of tasks that have a pid:
 * procusage.h has how far. A task that is not known has no value. */
int proctrack_usage_tasks(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n, stepd_usage_t *ret_step, stepd_usage_t *ret_tasks) _must_check_;

int proctrack_clone_fd(struct proctrack *pt, const stepd_step_rec_t *job, uint32_t local_id);
int proctrack_service_fd(struct proctrack *pt, const stepd_step_rec_t *job, bool *ret_may_clone);

/* Whether a step's tasks may lead sessions of their own, or need one process group for all. */
bool proctrack_spans_sessions(const struct proctrack *pt);

void proctrack_task_ended(struct proctrack *pt, const stepd_step_rec_t *job, uint32_t local_id);
int proctrack_event_fd(struct proctrack *pt, uint64_t id);
int proctrack_oom_fd(struct proctrack *pt, uint64_t id);

/* Stops every member and returns once all stand. -ETIMEDOUT: some still move after timeout_ms; err
 * names them. Any failure but -ESRCH (there is no member) has been taken back. Blocks: see
 * stepd/loop/loop.h. */
int proctrack_suspend(
	struct proctrack *pt, uint64_t id, int timeout_ms, struct err *err) _must_check_;

/* Continues what was stopped by that; what had been stopped before stays so. */
int proctrack_resume(struct proctrack *pt, uint64_t id, struct err *err) _must_check_;

/* Whether the members stand still now by the kernel's state, whatever stopped them, but for a
 * signal that does so for a moment. text: "", or what _resume() could not change, and the remedy.
 * -EAGAIN: it is not known. Without a tracker's function for it the states of the processes count:
 * that some go on disproves a suspension only if none is stopped; and that all are stopped proves
 * none but one that is known, for the step's user may stop them, too. -ESRCH then: there is none.
 */
int proctrack_is_suspended(struct proctrack *pt, uint64_t id, bool *ret_suspended, char *text,
	size_t size) _must_check_;

/* A container that was adopted had been suspended by its creator: a process that stands in it
 * counts as stopped by that, so that a resumption continues all. */
void proctrack_adopt_suspended(struct proctrack *pt);

/* The processes that were stopped before the suspension that stands, for a program that goes on
 * with the step: its own is filled in from what the old one's was. */
struct generic_stopped *proctrack_get_stopped(struct proctrack *pt);

/* Whether the backend has a way of its own to stop its members, which a signal uses too and may
 * leave behind if it is broken off. */
bool proctrack_can_freeze(const struct proctrack *pt);

/* -EOPNOTSUPP also where the backend limits nothing; err has the sentence. */
int proctrack_set_limits(struct proctrack *pt, uint64_t id, const uint32_t *rank,
	const stepd_limits_t *limits, struct err *err) _must_check_;

/* -EOPNOTSUPP: the backend's ids are known everywhere. */
int proctrack_get_root(struct proctrack *pt, char *path, size_t size) _must_check_;

/* Each member with its task's rank, by the backend or by the line of parents that leads to a task's
 * pid. tasks: those of the step on this node. The caller frees *ret_members. */
int proctrack_get_members(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, stepd_member_t **ret_members, int *ret_count) _must_check_;

/* 0 with the rank of the member's task, or STEPD_MEMBER_NO_RANK; -ESRCH: no member. */
int proctrack_find_member(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, pid_t pid, uint32_t *ret_rank) _must_check_;

/* Signals the members of one task, those forked meanwhile included. */
int proctrack_signal_task(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, uint32_t rank, int signal) _must_check_;

/* Signals one member, with start_ticks (0: any) that very one, and with tree all members that
 * descend from it, those forked meanwhile included. -ESRCH: it is no member. */
int proctrack_signal_member(struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks,
	bool tree, int signal) _must_check_;

/* Takes over a dead agent's container; 0 also where the backend needs nothing for it. */
int proctrack_adopt(
	struct proctrack *pt, stepd_step_rec_t *job, const pid_t *pids, int n) _must_check_;

#endif
