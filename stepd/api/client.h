/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libstepd: queries and controls the steps of this node, through the control sockets of their
 * agents (io.stepd.Step.varlink defines the methods), and reads the files that agents leave when
 * they have gone. Link with pkg-config --libs libstepd.
 *
 * Functions return 0 or more, or -errno with the reason in *error, which may be NULL. A struct
 * stepd_client is one connection, for one thread at a time; nothing here is shared between two of
 * them, no signal is caught, and no descriptor is inherited over an exec. Texts are UTF-8. What a
 * function returns through a ret_... pointer is the caller's and freed as its comment describes.
 */
#ifndef STEPD_API_CLIENT_H
#define STEPD_API_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEPD_CLIENT_EXPORT __attribute__((visibility("default")))

#define STEPD_NO_RANK ((int64_t)-1)

struct stepd_client;

/* One sentence for people, and for programs the code and the name of the agent's error
 * ("io.stepd.Step.NoSuchProcess"), "" without a reply. The codes:
 * -ENOENT       there is no such step on this node
 * -ENOTUNIQ     the name is the beginning of several
 * -ECONNREFUSED its agent is gone
 * -EPERM        PermissionDenied, or the listener is not the step's agent
 * -ESRCH        NoSuchProcess, NoSuchTask
 * -EBUSY        WrongState, TooManyConnections
 * -ETIMEDOUT    no reply in time, or SuspendFailed
 * -EOPNOTSUPP   NotSupported, or an older agent without this method
 * -EINVAL       a wrong request: a name, a parameter, the order of calls
 * -EIO          Failed: the system refused it to the agent; text has the reason
 * -ECONNRESET   the connection ended before the reply
 * -EPROTO       what was received is no reply */
struct stepd_error {
	int code;
	char name[96];
	char text[1024];
};

/* ---- the steps of this node ---------------------------------------------------------------- */

/* Whether a step has an agent. */
enum stepd_presence {
	STEPD_LIVES,  /* it has */
	STEPD_ORPHAN, /* its agent has died; "stepd adopt" can take it over */
	STEPD_ENDED,  /* result.json has its outcome */
};

/* Valid while the function that is called with it runs. */
struct stepd_step {
	const char *step;      /* "7.0" */
	const char *node;      /* "n1" */
	const char *directory; /* absolute; the socket is in it */
	const char *user;
	const char *state; /* as in the interface */
	const char *proctrack;
	uint32_t uid;
	uint64_t container_id;
	pid_t agent_pid; /* 0 with STEPD_ENDED */
	enum stepd_presence presence;
};

/* Calls fn for each step, in no order, until it returns other than 0, which is returned.
 * runtime_dir NULL: $STEPD_RUNTIME_DIR, or /run/stepd (for root) or the user's. No directory: no
 * steps. */
typedef int (*stepd_step_fn)(const struct stepd_step *step, void *userdata);
STEPD_CLIENT_EXPORT int stepd_each_step(
	const char *runtime_dir, stepd_step_fn fn, void *userdata, struct stepd_error *error);

/* The directory of the one step that name means: "7.0", "n1/7.0", or an unambiguous beginning of
 * either, whose numbers are complete: 7.1 is not the beginning of 7.10. -ENOENT; -ENOTUNIQ, with
 * the steps it could mean in error. free() it. */
STEPD_CLIENT_EXPORT int stepd_find_step(
	const char *runtime_dir, const char *name, char **ret_directory, struct stepd_error *error);

/* The text of result.json in a step's directory: free() it. -ENOENT: it has not ended, or the
 * retention time of the result is over. */
STEPD_CLIENT_EXPORT int stepd_read_result(
	const char *directory, char **ret_json, struct stepd_error *error);

/* ---- a connection -------------------------------------------------------------------------- */

/* As long as a user waits. */
#define STEPD_TIMEOUT_MS 30000

/* Connects to the agent of the step that name means, as stepd_find_step() does. Nothing is sent to
 * a peer that runs neither as root nor as the directory's owner. timeout_ms is how long this waits,
 * and from then on each function for a reply; 0: not at all, -1: for ever. */
STEPD_CLIENT_EXPORT int stepd_connect(const char *runtime_dir, const char *name, int timeout_ms,
	struct stepd_client **ret_client, struct stepd_error *error);

/* The same by the step's directory. */
STEPD_CLIENT_EXPORT int stepd_connect_directory(const char *directory, int timeout_ms,
	struct stepd_client **ret_client, struct stepd_error *error);

/* NULL is allowed. Returns NULL. */
STEPD_CLIENT_EXPORT struct stepd_client *stepd_disconnect(struct stepd_client *client);

/* How long each function below waits for a reply from now on, as in stepd_connect().
 * stepd_suspend() and stepd_resume(), which wait for the step itself, have a minute at least. A
 * reply that was too late may still come: the connection is unusable then. */
STEPD_CLIENT_EXPORT void stepd_set_timeout(struct stepd_client *client, int timeout_ms);

/* ---- any method ---------------------------------------------------------------------------- */

enum stepd_call_flags {
	STEPD_CALL_MORE = 1u << 0,   /* several replies; stepd_next() has them */
	STEPD_CALL_ONEWAY = 1u << 1, /* none */
};

/* Calls a method ("ListPids" of io.stepd.Step, or with a dot a full name) with a JSON object, NULL
 * for none, and waits for its one reply: the JSON object of its parameters. free() it. */
STEPD_CLIENT_EXPORT int stepd_call(struct stepd_client *client, const char *method,
	const char *parameters, char **ret_reply, struct stepd_error *error);

/* Only sends it. */
STEPD_CLIENT_EXPORT int stepd_start_call(struct stepd_client *client, const char *method,
	const char *parameters, unsigned flags, struct stepd_error *error);

/* Waits for the next reply to the started call. *ret_continues: more will come. -EAGAIN with
 * timeout_ms 0 where none is here yet: wait for stepd_get_fd() to become readable (or writable,
 * where stepd_wants_write() is true) in a loop of your own, and call this until -EAGAIN. */
STEPD_CLIENT_EXPORT int stepd_next(struct stepd_client *client, int timeout_ms, char **ret_reply,
	bool *ret_continues, struct stepd_error *error);

STEPD_CLIENT_EXPORT int stepd_get_fd(const struct stepd_client *client);
STEPD_CLIENT_EXPORT bool stepd_wants_write(const struct stepd_client *client);

/* ---- queries ------------------------------------------------------------------------------- */

struct stepd_process {
	pid_t pid;
	int64_t rank;         /* STEPD_NO_RANK: of no task */
	uint64_t start_ticks; /* 0: not requested */
};

/* Any number. ranks NULL: of all tasks. free() *ret_processes; NULL if there are none. */
STEPD_CLIENT_EXPORT int stepd_list_pids(struct stepd_client *client, const char *ranks,
	bool start_ticks, struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error);

/* Which of the pids, any number of them, belong to the step. pid_namespace 0: they are numbers of
 * the agent's pid namespace; else of the one of this inode (stat(2) of /proc/PID/ns/pid). */
STEPD_CLIENT_EXPORT int stepd_find_pids(struct stepd_client *client, const pid_t *pids,
	size_t count, uint64_t pid_namespace, struct stepd_process **ret_processes,
	size_t *ret_count, struct stepd_error *error);

/* ---- actions ------------------------------------------------------------------------------- */

/* All zero but signal: to every process of the step. */
struct stepd_signal_target {
	const char *ranks;    /* to those of these tasks */
	pid_t pid;            /* to this process of the step and its descendants */
	uint64_t start_ticks; /* of pid, 0: any */
	bool leader;          /* to the tasks' first processes, or to pid, alone */
};

/* signal is a name ("TERM", "SIGTERM", "RTMIN+3") or a number. target NULL: the whole step. */
STEPD_CLIENT_EXPORT int stepd_signal(struct stepd_client *client, const char *signal,
	const struct stepd_signal_target *target, struct stepd_error *error);

/* They return when all processes have stopped, or continue. */
STEPD_CLIENT_EXPORT int stepd_suspend(struct stepd_client *client, struct stepd_error *error);
STEPD_CLIENT_EXPORT int stepd_resume(struct stepd_client *client, struct stepd_error *error);

/* Begins the end. kill_sequence NULL: the step's own. grace_ms -1: as the sequence has it. */
STEPD_CLIENT_EXPORT int stepd_terminate(struct stepd_client *client, const char *kill_sequence,
	int64_t grace_ms, struct stepd_error *error);

/* Waits for the end of the step, and has result.json's text: free() it. After -ETIMEDOUT, or
 * -EAGAIN with timeout_ms 0, it may be called again to wait on; no other call can be made
 * meanwhile. */
STEPD_CLIENT_EXPORT int stepd_wait(
	struct stepd_client *client, int timeout_ms, char **ret_result, struct stepd_error *error);

/* start_ticks 0: the process that has the pid now. */
STEPD_CLIENT_EXPORT int stepd_add_pid(
	struct stepd_client *client, pid_t pid, uint64_t start_ticks, struct stepd_error *error);

STEPD_CLIENT_EXPORT int stepd_notify(
	struct stepd_client *client, const char *message, struct stepd_error *error);

/* version, of the agent's new program: free() it; may be NULL. */
STEPD_CLIENT_EXPORT int stepd_reexec(
	struct stepd_client *client, char **ret_version, struct stepd_error *error);

/* ---- following ----------------------------------------------------------------------------- */

struct stepd_event {
	uint64_t sequence;
	uint64_t time_usec; /* since the epoch */
	char kind[16];      /* "task_exit" */
	char state[16];     /* "" where it has none, as the others are -1 */
	int64_t rank, pid, wait_status, exit_code, count;
	char text[256];
};

/* From event number from on, 0: only new ones. No other call can be made on this client then. */
STEPD_CLIENT_EXPORT int stepd_follow(
	struct stepd_client *client, uint64_t from, struct stepd_error *error);

/* 1: *ret_event is set. 0: the step has ended, there are no more. -EAGAIN as stepd_next(). */
STEPD_CLIENT_EXPORT int stepd_next_event(struct stepd_client *client, int timeout_ms,
	struct stepd_event *ret_event, struct stepd_error *error);

#ifdef __cplusplus
}
#endif

#endif
