/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd suspend and resume: asks the agents of steps by a signal, and waits until state.json has
 * their answer. Where an agent has died, its container is asked directly.
 *
 * What state.json says is believed as far as its owner could act himself: root signals an agent of
 * the file's owner only, and touches a container only on root's or its own word.
 */
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/pidref.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/query.h"

#define DEFAULT_TIMEOUT_MS 30000
#define EXIT_FAILED        1

/* A step whose agent was asked. */
struct asked {
	char label[160];
	struct pidref agent;
	int dir_fd;
	int inotify_fd;
	json_int_t answers; /* counted before */
};

struct job {
	struct query q;
	const char *command;
	bool suspend;
	uint64_t timeout_ms;
	int64_t deadline_ms;
	struct asked *asked; /* one for each argument at most */
	size_t asked_count;
	bool failed;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts); /* can't fail with this clock */
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void complain(struct job *job, const char *label, const char *why)
{
	fprintf(stderr, "stepd %s: step %s: %s\n", job->command, label, why);
	job->failed = true;
}

/* ---- a step without an agent --------------------------------------------------------------- */

static int act_on_container(struct job *job, const struct step_entry *entry, struct err *err)
{
	int r, timeout_ms = job->timeout_ms > INT_MAX ? INT_MAX : (int)job->timeout_ms;

	if (job->suspend)
		return proctrack_suspend(job->q.pt, entry->cont_id, timeout_ms, err);
	r = proctrack_resume(job->q.pt, entry->cont_id);
	return r < 0 ? err_set(err, r, "resume its container") : 0;
}

/* As long as the container means something without the agent that made it. */
static void act_without_agent(struct job *job, const struct step_entry *entry)
{
	struct err err = ERR_INIT;

	if (query_check_owner(entry, &err) < 0)
		(void)err_prefix(&err, "its agent died");
	else if (!query_can_ask(entry))
		(void)err_say(&err, -ESRCH, "its agent died, and %s can't find its processes",
			entry->proctrack);
	else if (query_use_backend(&job->q, entry) < 0)
		err = job->q.err;
	else if (act_on_container(job, entry, &err) == -ESRCH)
		(void)err_say(&err, -ESRCH,
			"its agent died, and none of its processes is left or can be found");
	if (err.code)
		complain(job, entry->step, err.text);
}

/* ---- a step with an agent ------------------------------------------------------------------ */

static void asked_clear(struct asked *asked)
{
	pidref_close(&asked->agent);
	asked->dir_fd = close_fd(asked->dir_fd);
	asked->inotify_fd = close_fd(asked->inotify_fd);
}

static int watch_dir(int dir_fd, int *ret_fd)
{
	_cleanup_close_ int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
	if (fd < 0 || inotify_add_watch(fd, path, IN_MOVED_TO) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static json_int_t count_answers(const json_t *doc)
{
	return json_integer_value(json_object_get(doc, "suspend_answers"));
}

/* The process is held: what is read of its pid is of it, or nothing any more. */
static int check_owner(const struct asked *asked, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	const char *line = NULL;
	unsigned uid = 0;
	char path[64];
	uid_t owner = 0;

	if (geteuid() != 0)
		return 0; /* the kernel checks */
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)asked->agent.pid);
	if (query_owner_of(asked->dir_fd, &owner) == 0 && owner == 0)
		return 0;
	if (fs_read(AT_FDCWD, path, 1u << 16, &text, NULL) == 0)
		line = strstr(text, "\nUid:");
	if (line && sscanf(line, "\nUid: %u", &uid) == 1 && uid == owner)
		return 0;
	return err_say(err, -EPERM,
		"pid %d is no process of the user who says that it is its agent",
		(int)asked->agent.pid);
}

static int open_asked(const struct step_entry *entry, struct asked *asked, struct err *err)
{
	json_int_t ticks = json_integer_value(json_object_get(entry->doc, "agent_start_ticks"));
	json_t *doc = NULL;
	int r;

	(void)snprintf(asked->label, sizeof(asked->label), "%s", entry->step);
	r = pidref_open(entry->agent_pid, (uint64_t)ticks, &asked->agent);
	if (r == -ESRCH)
		return err_say(err, r, "it has ended just now");
	if (r < 0)
		return err_set(err, r, "look at its agent, pid %d", (int)entry->agent_pid);
	asked->dir_fd = fcntl(entry->dir_fd, F_DUPFD_CLOEXEC, 3);
	if (asked->dir_fd < 0)
		return err_set(err, -errno, "keep its directory");
	r = check_owner(asked, err);
	if (r < 0)
		return r;
	r = watch_dir(asked->dir_fd, &asked->inotify_fd);
	if (r < 0)
		return err_set(err, r, "watch its directory");
	/* From here on nothing is missed. */
	if (steps_read_state(asked->dir_fd, &doc) < 0)
		return err_say(err, -ESRCH, "it has ended just now");
	asked->answers = count_answers(doc);
	json_decref(doc);
	return 0;
}

static void ask_agent(struct job *job, const struct step_entry *entry)
{
	struct asked *asked = &job->asked[job->asked_count];
	struct err err = ERR_INIT;
	int r;

	*asked = (struct asked){.agent = PIDREF_INIT, .dir_fd = -1, .inotify_fd = -1};
	r = open_asked(entry, asked, &err);
	if (r == 0) {
		r = pidref_signal(&asked->agent, job->suspend ? SIGTSTP : SIGCONT);
		if (r < 0)
			(void)err_set(&err, r, "signal its agent, pid %d", (int)asked->agent.pid);
	}
	if (r == 0) {
		job->asked_count++;
		return;
	}
	complain(job, entry->step, err.text);
	asked_clear(asked);
}

enum verdict {
	VERDICT_WAIT,
	VERDICT_DONE,
	VERDICT_FAILED,
};

/* An answer of before, to somebody else, may come between; an error is taken as ours. */
static enum verdict judge(const struct job *job, const struct asked *asked, struct err *err)
{
	const char *state, *error;
	enum verdict verdict = VERDICT_WAIT;
	json_t *doc = NULL;
	bool answered, suspended, ending;

	if (steps_read_state(asked->dir_fd, &doc) < 0)
		return VERDICT_WAIT; /* it ends, which the agent's end tells */
	state = json_string_value(json_object_get(doc, "state"));
	error = json_string_value(json_object_get(doc, "suspend_error"));
	answered = count_answers(doc) != asked->answers;
	suspended = state && strcmp(state, "suspended") == 0;
	ending = state && strcmp(state, "ending") == 0;
	if (answered && error) {
		(void)err_say(err, -EIO, "%s", error);
		verdict = VERDICT_FAILED;
	} else if (ending && job->suspend) {
		(void)err_say(err, -EIO, "the step is ending");
		verdict = VERDICT_FAILED;
	} else if (ending || (answered && suspended == job->suspend)) {
		verdict = VERDICT_DONE;
	}
	json_decref(doc);
	return verdict;
}

/* Until the state changes or the agent ends. */
static int await_change(const struct job *job, const struct asked *asked, struct err *err)
{
	struct pollfd p[] = {
		{.fd = asked->inotify_fd, .events = POLLIN},
		{.fd = asked->agent.fd, .events = POLLIN},
	};
	int64_t left_ms = job->deadline_ms - now_ms();
	char events[4096];

	if (left_ms <= 0)
		return err_say(err, -ETIMEDOUT,
			"its agent, pid %d, did not say within %.10g s that the step is %s "
			"(--timeout)",
			(int)asked->agent.pid, (double)job->timeout_ms / 1e3,
			job->suspend ? "suspended" : "resumed");
	if (poll(p, ARRAY_SIZE(p), left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0 &&
		errno != EINTR)
		return err_set(err, -errno, "wait for its agent");
	if (p[1].revents)
		return err_say(err, -ESRCH, "its agent has ended");
	while (read(asked->inotify_fd, events, sizeof(events)) > 0)
		; /* what has changed the state itself tells */
	return 0;
}

static void await_answer(struct job *job, struct asked *asked)
{
	struct err err = ERR_INIT;
	enum verdict verdict;

	do
		verdict = judge(job, asked, &err);
	while (verdict == VERDICT_WAIT && await_change(job, asked, &err) == 0);
	if (verdict != VERDICT_DONE)
		complain(job, asked->label, err.text);
	asked_clear(asked);
}

/* ---- the commands -------------------------------------------------------------------------- */

static int on_entry(const struct step_entry *entry, void *userdata)
{
	struct job *job = userdata;

	if (!query_names_entry(job->q.step, entry))
		return 0;
	job->q.found = true;
	if (entry->alive)
		ask_agent(job, entry);
	else
		act_without_agent(job, entry);
	return 1;
}

/* All are asked first, and stand or go on together. */
static int act(struct job *job, int count, char **steps)
{
	size_t i;
	int n, r = 0;

	job->asked = calloc((size_t)count, sizeof(*job->asked));
	if (!job->asked)
		return err_set(&job->q.err, -ENOMEM, "ask %d steps", count);
	job->deadline_ms = now_ms() + (int64_t)job->timeout_ms;
	for (n = 0; r >= 0 && n < count; n++) {
		job->q.step = steps[n];
		job->q.found = false;
		r = steps_each(job->q.runtime_dir, on_entry, job, &job->q.err);
		if (r >= 0 && !job->q.found)
			complain(job, steps[n],
				"there is no such step on this node ('stepd list' shows them)");
	}
	for (i = 0; i < job->asked_count; i++)
		await_answer(job, &job->asked[i]);
	free(job->asked);
	return r;
}

static const struct option long_options[] = {
	{"timeout", required_argument, NULL, 't'},
	{"runtime-dir", required_argument, NULL, 'r'},
	{"plugin-dir", required_argument, NULL, 'p'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void print_help(const struct job *job, FILE *out)
{
	fprintf(out,
		"Usage: stepd %s [OPTION...] [NODE/]JOB.STEP...\n\n"
		"  --timeout DURATION  how long to wait for each step's agent (30s)\n"
		"  --runtime-dir DIR   where the node's steps are registered\n"
		"  --plugin-dir DIR    where the plugins are\n"
		"  -h, --help          show this\n",
		job->command);
}

/* The index of the first argument behind the options; -1: wrong usage, 0: help was shown. */
static int parse_arguments(struct job *job, int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (opt == 'r') {
			job->q.runtime_dir = optarg;
		} else if (opt == 'p') {
			job->q.plugin_dir_given = optarg;
		} else if (opt == 't' && parse_duration_ms(optarg, &job->timeout_ms) < 0) {
			fprintf(stderr, "stepd %s: --timeout: '%s' is no duration such as 5s\n",
				job->command, optarg);
			return -1;
		} else if (opt != 't') {
			print_help(job, opt == 'h' ? stdout : stderr);
			return opt == 'h' ? 0 : -1;
		}
	}
	if (optind == argc) {
		fprintf(stderr, "stepd %s: give one step or more, such as 7.0\n", job->command);
		return -1;
	}
	return optind;
}

static int run(struct job *job, int argc, char **argv)
{
	int first = parse_arguments(job, argc, argv), r;

	if (first <= 0)
		return first == 0 ? 0 : STATUS_FAILED;
	r = act(job, argc - first, argv + first);
	query_clear(&job->q);
	if (r < 0) {
		fprintf(stderr, "stepd %s: %s\n", job->command, job->q.err.text);
		return STATUS_FAILED;
	}
	return job->failed ? EXIT_FAILED : 0;
}

int cli_suspend(int argc, char **argv)
{
	struct job job = {.command = "suspend", .suspend = true, .timeout_ms = DEFAULT_TIMEOUT_MS};

	return run(&job, argc, argv);
}

int cli_resume(int argc, char **argv)
{
	struct job job = {.command = "resume", .timeout_ms = DEFAULT_TIMEOUT_MS};

	return run(&job, argc, argv);
}
