/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process tracking plugin: plugin_type "proctrack/...". The first six functions are those of
 * Slurm's "Process Tracking Plugin API" guide and mandatory. The others are stepd's, optional;
 * the host has a generic way for each that is missing.
 *
 * Integer functions return SLURM_SUCCESS, or SLURM_ERROR with errno set; an errno value is never
 * returned. A container id is a uint64_t, 0 means "none". What the number is belongs to the
 * plugin, but it must mean something to another process of the machine too, so that signal,
 * find and get_pids need no table of the agent: the cgroup's id, a process group, the agent's pid.
 *
 * The agent has one thread and sets PR_SET_CHILD_SUBREAPER: what a task leaves behind becomes the
 * agent's child. No function may block for longer than it takes to do its work; _wait alone waits.
 */
#ifndef STEPD_API_PROCTRACK_H
#define STEPD_API_PROCTRACK_H

#include "limits.h"
#include "plugin.h"
#include "step.h"
#include "usage.h"

/* The environment variable that names to a cgroup tracker the directory of its containers, set by
 * the host or the caller: init() takes no argument. */
#define STEPD_CGROUP_ROOT_ENV "STEPD_CGROUP_ROOT"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the container, empty, and puts its id into job->cont_id. job stays valid until
 * proctrack_p_destroy(). EEXIST: a container of this step already stands and has living
 * processes. A failure leaves nothing behind. */
STEPD_EXPORT int proctrack_p_create(stepd_step_rec_t *job);

/* Makes a process that already runs a member. ESRCH: no such process. Adding a member again is no
 * error. Calls by the process that created the container; a cgroup takes any of its callers. */
STEPD_EXPORT int proctrack_p_add(stepd_step_rec_t *job, pid_t pid);

/* Sends a signal to every member, those forked meanwhile included. Signal 0 only tests whether
 * the container has any. ESRCH: it has none, or there is no such container. EINVAL: not a signal.
 */
STEPD_EXPORT int proctrack_p_signal(uint64_t id, int signal);

/* Removes the container. Members are left alone. EBUSY: it can't be removed while it has members;
 * what remains can be destroyed again. ESRCH: no such container. */
STEPD_EXPORT int proctrack_p_destroy(uint64_t id);

/* The container that a process is in, or 0. errno stays as it was, or has the reason. */
STEPD_EXPORT uint64_t proctrack_p_find(pid_t pid);

/* Lists the members, in no order, each once; zombies are left out where the mechanism shows the
 * difference. *pids is from malloc() and the caller's to free, NULL if there are none. ESRCH: no
 * such container. SLURM_SUCCESS or SLURM_ERROR in spite of the type, as in the guide. */
STEPD_EXPORT uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids);

/* ---- optional ------------------------------------------------------------------------------ */

/* Decides where the container of this step will be; called once, before proctrack_p_create(), by
 * an agent that is about to create it. scope: whether it shall be in a scope that is requested of
 * systemd, "auto", "yes" (in one or nowhere) or "no"; this process is then moved into it. On
 * success text is empty or a warning, on failure it has in one sentence what is wrong; at most
 * size bytes with its NUL. job->cont_id is not set yet. */
STEPD_EXPORT int proctrack_p_place(
	const stepd_step_rec_t *job, const char *scope, char *text, size_t size);

/* Waits until the container is empty. timeout_ms < 0: for ever. ETIMEDOUT: it was not. */
STEPD_EXPORT int proctrack_p_wait(uint64_t id, int timeout_ms);

/* Whether a process is a member. (A bool in all but the type.) */
STEPD_EXPORT int proctrack_p_has_pid(uint64_t id, pid_t pid);

/* Stops, or continues, every member. Success means that all of them stand still. Stopping what is
 * stopped is no error. ETIMEDOUT, after a fraction of a second: some still run, all have been
 * signalled to stop; the host calls again until its own deadline, and _resume() to undo it.
 * EOPNOTSUPP: not on this machine; the host then stops them by signals. Continuing leaves those
 * alone that were stopped by something else. EBUSY, of _resume(): something above the container,
 * which is not the plugin's to change, leaves all of them stopped; nothing was changed. */
STEPD_EXPORT int proctrack_p_suspend(uint64_t id);
STEPD_EXPORT int proctrack_p_resume(uint64_t id);

/* Whether the container is suspended now, by the kernel's state: whether this process did it or
 * an operator by hand; except what _signal() stops for a moment. *suspended is a bool. text, of
 * at most size bytes with its NUL, is "" or, where _resume() would fail with EBUSY, names what
 * holds it and what to do. EAGAIN: it can't be found out. EOPNOTSUPP, or no such function: the
 * host reads the members' states. */
STEPD_EXPORT int proctrack_p_is_suspended(uint64_t id, int *suspended, char *text, size_t size);

/* A descriptor of the cgroup that a task is to be born in (CLONE_INTO_CGROUP), made on demand:
 * the caller closes it. local_id is the task's. EOPNOTSUPP: the kernel or the position of the
 * container does not allow it; the host forks and calls proctrack_p_add(). The answer may be
 * untested: where the first birth of a launch fails, or SIGKILL is pending in what was born, the
 * host does the same. */
STEPD_EXPORT int proctrack_p_clone_fd(const stepd_step_rec_t *job, uint32_t local_id);

/* A descriptor of the cgroup of the step's MPI service process: under the step's limits, its
 * threads and processes counted for themselves, and no member: it may live on when the container
 * is empty. It ends with the container. Called right after proctrack_p_create(), where there will
 * be such a process; the caller closes it. *may_clone: whether it is to be born there
 * (CLONE_INTO_CGROUP); else it moves there itself. The first answer may be untested: where the
 * birth fails, or SIGKILL is pending in what was born, the host lets another one move there, and
 * calls again before proctrack_p_clone_fd(). Without this function it is outside. */
STEPD_EXPORT int proctrack_p_service_fd(const stepd_step_rec_t *job, int *may_clone);

/* Whether members may lead sessions and process groups of their own, also while they are added:
 * false, or no such function, where the container rests on their process group, which the host
 * then leaves the same for all tasks of a step. (A bool in all but the type.) */
STEPD_EXPORT int proctrack_p_spans_sessions(void);

/* The task of this local id has ended and been reaped: what is there for it alone can be removed
 * now, so that the step's end has less to remove. Processes that it left remain members; what
 * they use stays until proctrack_p_destroy(). */
STEPD_EXPORT void proctrack_p_task_ended(const stepd_step_rec_t *job, uint32_t local_id);

/* A descriptor that shows an exceptional condition (EPOLLPRI) whenever the container may have
 * become empty or populated; the caller closes it. Before each wait it must be read from its
 * start. EOPNOTSUPP: there is none; read the container at every SIGCHLD instead. */
STEPD_EXPORT int proctrack_p_event_fd(uint64_t id);

/* The directory of this process's containers, for another process that is to find them: a cgroup
 * tracker that has this in STEPD_CGROUP_ROOT knows the same ids. After proctrack_p_create().
 * ENAMETOOLONG: size is too small. */
STEPD_EXPORT int proctrack_p_get_root(char *path, size_t size);

/* What the container's members, past ones too where the mechanism counts them, have used; with a
 * rank those of that task only. The caller has zeroed *usage. ESRCH: no such container or task. */
STEPD_EXPORT int proctrack_p_usage(uint64_t id, const uint32_t *rank, stepd_usage_t *usage);

/* Limits the container, or with a rank that task's part of it, at any time of its life. Those
 * whose bit is not set stay as they are. On failure text has in one sentence, of at most size
 * bytes with its NUL, which limit it was and what to do; those applied before it stay.
 * EOPNOTSUPP: this machine, or this container's cgroup, can't. EINVAL, ERANGE: the kernel refuses
 * the value. */
STEPD_EXPORT int proctrack_p_set_limits(
	uint64_t id, const uint32_t *rank, const stepd_limits_t *limits, char *text, size_t size);

/* As _event_fd, for the counts of STEPD_USAGE_OOM_EVENTS and _OOM_KILLS of the whole container. Its
 * text has the second one as a line "oom_kill N", as memory.events has: it is read at each task's
 * end, where _usage would cost too much. EOPNOTSUPP: nothing counts them here. */
STEPD_EXPORT int proctrack_p_oom_fd(uint64_t id);

/* A member, and the task it descends from as far as the mechanism shows. */
#define STEPD_MEMBER_NO_RANK UINT32_MAX
typedef struct {
	pid_t pid;
	uint32_t rank; /* in the whole step, or STEPD_MEMBER_NO_RANK */
} stepd_member_t;

/* As _get_pids, with each member's task. Without it the host follows the parents. */
STEPD_EXPORT int proctrack_p_get_members(uint64_t id, stepd_member_t **members, int *n);

/* Whether a process is a member: SLURM_SUCCESS with its task's rank, or STEPD_MEMBER_NO_RANK, in
 * *rank. ESRCH: it is not. The cost does not depend on the number of members. */
STEPD_EXPORT int proctrack_p_find_member(uint64_t id, pid_t pid, uint32_t *rank);

/* As _signal, to the members of that task only, SIGKILL too. ESRCH: it has none. */
STEPD_EXPORT int proctrack_p_signal_task(uint64_t id, uint32_t rank, int signal);

/* Takes over the container that another, dead agent created: job->cont_id is what that one had,
 * and is set anew where the id is this process's. pids are members then known to live, verified
 * by the caller. A plugin whose containers do not depend on their creator leaves it out. ESRCH:
 * there is no such container. */
STEPD_EXPORT int proctrack_p_adopt(stepd_step_rec_t *job, const pid_t *pids, int n);

#ifdef __cplusplus
}
#endif

#endif
