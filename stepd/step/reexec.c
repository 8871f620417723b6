/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/reexec.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/strv.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"

extern char **environ;

#define COMMAND_LINE_MAX ((size_t)64 << 20)

/* Bytes that a tried program may write. */
#define TRIAL_TEXT_MAX 65536

/* The longest trial; requests are paused for that long at most. */
#define TRIAL_LIMIT_MS 10000

/* How long a caller may take to read a reply of many pieces before the agent goes on without it.
 */
#define PATIENCE_NS 1000000000u

/* ---- which program ------------------------------------------------------------------------- */

/* A script would be executed by another program than the one that is checked here. */
static int check_kind(int fd, const char *path, struct err *err)
{
	char magic[4];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set_text(err, -EACCES, "'%s' is not a regular file", path);
	if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return err_set_text(
			err, -ENOEXEC, "'%s' is not a program of this machine (a script?)", path);
	return 0;
}

/* As root: a user who can change it must not gain privileges. */
static int check_trusted(int fd, const char *path, struct err *err)
{
	return geteuid() == 0 ? fs_check_file(fd, path, err) : 0;
}

/* Opens the program and checks that it is one, and as root that nobody else could have changed it:
 * a descriptor, or -errno. */
static int open_program(const char *path, struct err *err)
{
	_cleanup_close_ int low = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_close_ int fd = -1;
	int r;

	if (low < 0)
		return err_set(err, -errno, "open '%s'", path);
	fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return err_set(err, -errno, "open '%s'", path);
	r = check_kind(fd, path, err);
	if (r == 0)
		r = check_trusted(fd, path, err);
	if (r == 0 && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		r = err_set(err, -errno, "execute '%s'", path);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- executing it -------------------------------------------------------------------------- */

/* This process's arguments, without "continue FD" of an earlier upgrade. */
static int add_own_arguments(struct strv *argv, const char *text, size_t size)
{
	const char *end = text + size, *p;
	size_t i = 0, skip = 1;
	int r = 0;

	for (p = text; r == 0 && p < end; p += strlen(p) + 1, i++) {
		if (i == 1 && strcmp(p, "continue") == 0)
			skip = 3;
		if (i >= skip)
			r = strv_add(argv, p);
	}
	return r;
}

static int make_arguments(struct strv *argv, int handover_fd, bool check)
{
	_cleanup_free_ char *text = NULL;
	char number[16];
	size_t size = 0;
	int r;

	(void)snprintf(number, sizeof(number), "%d", handover_fd);
	r = fs_read(AT_FDCWD, "/proc/self/cmdline", COMMAND_LINE_MAX, &text, &size);
	if (r == 0)
		r = strv_add(argv, size > 0 ? text : "stepd");
	if (r == 0)
		r = strv_add(argv, "continue");
	if (r == 0 && check)
		r = strv_add(argv, "--check");
	if (r == 0)
		r = strv_add(argv, number);
	return r < 0 || check ? r : add_own_arguments(argv, text, size);
}

/* Executes the program of program_fd with "continue FD" and this one's arguments, or with
 * "continue --check FD". Returns -errno. */
static int execute_program(int program_fd, int handover_fd, bool check, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	int r = make_arguments(&argv, handover_fd, check);

	if (r < 0)
		return err_set(err, r, "make the new program's arguments");
	(void)execveat(program_fd, "", argv.v, environ, AT_EMPTY_PATH);
	return err_set(err, -errno, "execute the new program");
}

/* ---- trying it ----------------------------------------------------------------------------- */

/* Its output is its reply, or the error, such as a missing library. */
_noreturn_ static void be_trial(int program_fd, int handover_fd, int answer_fd, pid_t parent)
{
	struct err err = ERR_INIT;
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || null_fd < 0 ||
		dup2(null_fd, STDIN_FILENO) < 0 || dup2(answer_fd, STDOUT_FILENO) < 0 ||
		dup2(answer_fd, STDERR_FILENO) < 0)
		_exit(1);
	(void)execute_program(program_fd, handover_fd, true, &err);
	(void)dprintf(STDERR_FILENO, "%s\n", err.text);
	_exit(1);
}

static int judge(int status, char *text, struct err *err)
{
	const char *line = text[0] && text[0] != '\n' ? text : "no output";

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
		strncmp(text, REEXEC_CHECKED, strlen(REEXEC_CHECKED)) == 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	if (WIFSIGNALED(status))
		return err_set_text(err, -ENOEXEC, "tried, it was killed by signal %d: %s",
			WTERMSIG(status), line);
	return err_set_text(
		err, -ENOEXEC, "tried, it ended with status %d: %s", WEXITSTATUS(status), line);
}

/* In a worker: tries the program in a child. */
static int try_program(int program_fd, int handover_fd, const struct handover *h, struct err *err)
{
	_cleanup_close_ int read_end = -1;
	_cleanup_free_ char *text = NULL;
	pid_t self = getpid(), pid;
	int ends[2], status = 0, r;

	r = handover_set_inherited(h, true); /* in this worker only */
	if (r == 0 && fcntl(handover_fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r == 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "try the new program");
	pid = fork();
	if (pid == 0)
		be_trial(program_fd, handover_fd, ends[1], self);
	read_end = ends[0];
	(void)close_fd(ends[1]);
	if (pid < 0)
		return err_set(err, -errno, "try the new program");
	r = fs_read_fd(read_end, TRIAL_TEXT_MAX, &text, NULL);
	read_end = close_fd(read_end); /* SIGPIPE ends one that writes more */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? err_set(err, r, "try the new program") : judge(status, text, err);
}

/* ---- the upgrade --------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The name that was executed, as long as it leads to this file: a link to the version in use can
 * be changed later. Else the file's own. */
static int find_program(char **ret_path)
{
	const char *name = (const char *)getauxval(AT_EXECFN);
	char real[PATH_MAX];
	ssize_t n;

	if (!name || name[0] != '/' || strncmp(name, "/dev/fd/", strlen("/dev/fd/")) == 0 ||
		!same_file(name, "/proc/self/exe")) {
		n = readlink("/proc/self/exe", real, sizeof(real) - 1);
		if (n < 0)
			return 0; /* no /proc: reported on a request */
		real[n] = '\0';
		name = real;
	}
	*ret_path = strdup(name);
	return *ret_path ? 0 : -ENOMEM;
}

/* ---- the end of it that is not wanted ------------------------------------------------------ */

static void drop_trial(struct reexec *re)
{
	re->trial = handover_free(re->trial);
	re->trial_fd = close_fd(re->trial_fd);
}

/* The agent goes on unchanged. */
static void reexec_give_up(struct agent *a, const struct err *err)
{
	struct reexec *re = &a->reexec;

	log_error(a->log, "no upgrade, the agent goes on as it was: %s", err->text);
	re->wanted = re->trying = false;
	ev_timer_stop(a->loop, &re->due);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	requests_rest(&a->requests, false);
	frontend_not_reexeced(a, err);
	join_go_on(a);
}

/* ---- the change ---------------------------------------------------------------------------- */

/* From here on signals are pending: in the new program they have no handlers yet. */
static int change(struct agent *a, const struct handover *h, struct err *err)
{
	_cleanup_close_ int fd = handover_finish((struct handover *)h, err);
	sigset_t all, saved;
	int r;

	if (fd < 0)
		return fd;
	(void)sigfillset(&all); /* can't fail, nor can the calls with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = handover_set_inherited(h, true);
	if (r == 0 && fcntl(fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r == 0)
		r = execute_program(a->reexec.program_fd, fd, false, err);
	else
		(void)err_set(err, r, "hold descriptors for the new program");
	(void)!handover_set_inherited(h, false); /* can't fail where setting it succeeded */
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	return r;
}

static void become_due(struct agent *a, double sec)
{
	ev_timer_stop(a->loop, &a->reexec.due);
	ev_now_update(a->loop);
	ev_timer_set(&a->reexec.due, sec, 0.);
	ev_timer_start(a->loop, &a->reexec.due);
}

void reexec_answered(struct agent *a)
{
	if (ev_is_active(&a->reexec.due))
		become_due(a, 0.);
}

static void on_due(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	_cleanup_handover_ struct handover *h = NULL;
	struct agent *a = w->data;
	struct err err = ERR_INIT;

	assert(a);
	if (a->state >= AGENT_ENDED)
		return;
	a->reexec.requested_ns = clock_now_ns();
	if (frontend_is_answering(a) && a->reexec.requested_ns < a->reexec.patience_ns) {
		become_due(a, (double)(a->reexec.patience_ns - a->reexec.requested_ns) / 1e9);
		return;
	}
	h = reexec_save(a);
	if (!h)
		(void)err_set(&err, -ENOMEM, "save the agent's state");
	else
		(void)!change(a, h, &err); /* returns only on failure */
	reexec_give_up(a, &err);
}

static void on_tried(int r, const struct err *err, void *userdata)
{
	struct agent *a = userdata;
	struct err why = *err;

	assert(a);
	a->reexec.trying = false;
	drop_trial(&a->reexec);
	if (r < 0) {
		(void)err_prefix(&why, "'%s'", a->reexec.program);
		reexec_give_up(a, &why);
		return;
	}
	/* After all other events of this turn of the loop: an expired timer whose callback is
	 * still due could not be saved. */
	a->reexec.patience_ns = clock_now_ns() + PATIENCE_NS;
	become_due(a, 0.);
}

/* ---- the trial ----------------------------------------------------------------------------- */

static int try_it(void *userdata, struct err *err)
{
	const struct reexec *re = userdata;

	return try_program(re->program_fd, re->trial_fd, re->trial, err);
}

static int begin_trial(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r;

	if (!re->program)
		return err_set_text(err, -ENOENT,
			"can't find out the path of this program (/proc/self/exe); is /proc mounted?");
	r = open_program(re->program, err);
	if (r < 0)
		return r;
	re->program_fd = r;
	re->trial = reexec_save(a);
	if (!re->trial)
		return err_set(err, -ENOMEM, "save the agent's state");
	r = handover_finish(re->trial, err);
	if (r < 0)
		return r;
	re->trial_fd = r;
	r = worker_start(&re->worker, try_it, re, TRIAL_LIMIT_MS);
	return r < 0 ? err_set(err, r, "try the new program") : 0;
}

void reexec_go_on(struct agent *a)
{
	struct reexec *re = &a->reexec;
	struct err err = ERR_INIT;

	if (!re->wanted || re->trying || ev_is_active(&re->due) || a->state < AGENT_RUNNING ||
		a->state >= AGENT_ENDED || requests_is_busy(&a->requests) || a->start.joins.now)
		return;
	re->trying = true;
	if (begin_trial(a, &err) < 0)
		reexec_give_up(a, &err);
}

void reexec_request(struct agent *a)
{
	if (a->reexec.wanted)
		return; /* one upgrade serves all requests */
	a->reexec.wanted = true;
	requests_rest(&a->requests, true);
	reexec_go_on(a);
}

/* ---- life ---------------------------------------------------------------------------------- */

int reexec_init(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r = re->program ? 0 : find_program(&re->program);

	if (r == 0)
		r = worker_init(&re->worker, a->loop, &a->plan.job, on_tried, a);
	if (r < 0)
		return err_set(err, r, "prepare upgrades");
	ev_init(&re->due, on_due);
	ev_set_priority(&re->due, EV_MINPRI);
	re->due.data = a;
	return 0;
}

void reexec_clear(struct agent *a)
{
	struct reexec *re = &a->reexec;

	if (a->loop)
		ev_timer_stop(a->loop, &re->due);
	worker_clear(&re->worker);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	free(re->program);
	re->program = NULL;
}
