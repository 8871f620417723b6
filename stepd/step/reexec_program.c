/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"
#include "stepd/base/strv.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/reexec.h"

extern char **environ;

#define COMMAND_LINE_MAX ((size_t)64 << 20)

/* Bytes that a program which is tried may write. */
#define TRIAL_WORDS_MAX 65536

/* ---- which program ------------------------------------------------------------------------- */

/* A script would be executed by another program than the one that is checked here. */
static int check_kind(int fd, const char *path, struct err *err)
{
	char magic[4];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "look at '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_say(err, -EACCES, "'%s' is no regular file", path);
	if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return err_say(
			err, -ENOEXEC, "'%s' is no program of this machine (a script?)", path);
	return 0;
}

/* By its name and by where that leads: a link in a good directory may point to a bad one. */
static int check_trusted(int fd, const char *path, struct err *err)
{
	char self[64], real[PATH_MAX];
	ssize_t n;
	int r;

	if (geteuid() != 0)
		return 0; /* who changes it gains no rights from us */
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, real, sizeof(real) - 1);
	if (n < 0)
		return err_set(err, -errno, "look at '%s'", path);
	real[n] = '\0';
	r = fs_check_trusted(fd, path, err);
	if (r == 0)
		r = fs_check_parents(path, NULL, err);
	return r < 0 ? r : fs_check_parents(real, NULL, err);
}

int reexec_open_program(const char *path, struct err *err)
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

/* What this process was called with, "continue FD" of an earlier upgrade left out. */
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

int reexec_execute(int program_fd, int handover_fd, bool check, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	int r = make_arguments(&argv, handover_fd, check);

	if (r < 0)
		return err_set(err, r, "make the new program's arguments");
	(void)execveat(program_fd, "", argv.v, environ, AT_EMPTY_PATH);
	return err_set(err, -errno, "execute the new program");
}

/* ---- trying it ----------------------------------------------------------------------------- */

/* What it writes is its answer, or why it has none: a library that is missing, say. */
_noreturn_ static void be_trial(int program_fd, int handover_fd, int answer_fd, pid_t parent)
{
	struct err err = ERR_INIT;
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || null_fd < 0 ||
		dup2(null_fd, STDIN_FILENO) < 0 || dup2(answer_fd, STDOUT_FILENO) < 0 ||
		dup2(answer_fd, STDERR_FILENO) < 0)
		_exit(1);
	(void)reexec_execute(program_fd, handover_fd, true, &err);
	(void)dprintf(STDERR_FILENO, "%s\n", err.text);
	_exit(1);
}

/* Its last line, or its first if that is none of ours: the sentence, without its newline. */
static void pick_line(char *text, const char **ret_line)
{
	text[strcspn(text, "\n")] = '\0';
	*ret_line = text[0] ? text : "it says nothing";
}

static int judge(int status, char *text, struct err *err)
{
	const char *line;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
		strncmp(text, REEXEC_CHECKED, strlen(REEXEC_CHECKED)) == 0)
		return 0;
	pick_line(text, &line);
	if (WIFSIGNALED(status))
		return err_say(err, -ENOEXEC, "tried, it was killed by signal %d: %s",
			WTERMSIG(status), line);
	return err_say(
		err, -ENOEXEC, "tried, it ended with status %d: %s", WEXITSTATUS(status), line);
}

int reexec_try(int program_fd, int handover_fd, const struct handover *h, struct err *err)
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
	r = fs_read_fd(read_end, TRIAL_WORDS_MAX, &text, NULL);
	read_end = close_fd(read_end); /* who says more is ended by SIGPIPE */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? err_set(err, r, "try the new program") : judge(status, text, err);
}
