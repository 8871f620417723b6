/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/handover.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"

#define RECORD_SUFFIX ".init"
#define PIECE_SIZE    (64u << 10)

/* ---- records ------------------------------------------------------------------------------- */

int handover_open_records(const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the directory '%s' (slurm_record)", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "open the directory '%s' (slurm_record)", path);
	if (st.st_uid != geteuid() || (st.st_mode & 0077))
		return err_set_text(err, -EPERM,
			"'%s' (slurm_record) must be root's, with mode 0700: credentials get into "
			"it",
			path);
	r = fs_check_parents(path, NULL, err);
	return r < 0 ? r : take_fd(&fd);
}

/* Whether a record of so many bytes fits: 0 or -ENOSPC. */
static int check_capacity(int dir, size_t size)
{
	_cleanup_closedir_ DIR *d = fs_opendir(dir, ".");
	const struct dirent *entry;
	struct stat st;
	unsigned count = 0;
	uint64_t bytes = size;

	if (!d)
		return -errno;
	for (errno = 0; (entry = readdir(d)); errno = 0) {
		if (!strstr(entry->d_name, RECORD_SUFFIX) ||
			fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		count++;
		bytes += (uint64_t)st.st_size;
	}
	if (errno)
		return -errno;
	return count >= HANDOVER_RECORDS_MAX || bytes > HANDOVER_RECORDS_SIZE_MAX ? -ENOSPC : 0;
}

int handover_records_full(int dir)
{
	int r = check_capacity(dir, 1);

	return r == -ENOSPC ? 1 : r;
}

/* One at a time, so that the bounds hold. */
static int write_record(const struct handover *h, const struct buffer *record)
{
	size_t size = buffer_size(record);
	int r;

	if (size > HANDOVER_RECORD_SIZE_MAX)
		return -EFBIG;
	if (flock(h->record_dir, LOCK_EX) < 0)
		return -errno;
	r = check_capacity(h->record_dir, size);
	return r < 0 ? r
		     : fs_write_atomic(h->record_dir, h->record_name, buffer_bytes(record), size,
			       0600, false);
}

static void keep_record(const struct handover *h, const struct buffer *record)
{
	int r = write_record(h, record);

	/* "stepd doctor --slurm" reports a full directory; a line for each step would not help */
	if (r < 0 && r != -ENOSPC)
		log_warning(h->log, "the init can't be kept as '%s': %s, ignoring", h->record_name,
			strerror(-r));
}

/* ---- the relay ----------------------------------------------------------------------------- */

static ssize_t read_piece(int fd, void *piece, size_t size)
{
	ssize_t n;

	do
		n = read(fd, piece, size);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Reads standard input to its end even where nobody reads the pipe any more: slurmd would take it
 * for a failure of its own. */
static void run_relay(const struct handover *h, int to)
{
	_cleanup_buffer_ struct buffer record = {0};
	bool keep = h->record_dir >= 0;
	int r = fs_write_all(to, buffer_bytes(h->init), buffer_size(h->init));
	char piece[PIECE_SIZE];
	ssize_t n;

	if (keep)
		keep = buffer_add(&record, buffer_bytes(h->init), buffer_size(h->init)) == 0;
	while ((n = read_piece(STDIN_FILENO, piece, sizeof(piece))) > 0) {
		if (r == 0)
			r = fs_write_all(to, piece, (size_t)n);
		if (keep && buffer_size(&record) <= HANDOVER_RECORD_SIZE_MAX)
			keep = buffer_add(&record, piece, (size_t)n) == 0;
	}
	(void)close_fd(to); /* slurmstepd sees the end before the disk is written */
	if (keep)
		keep_record(h, &record);
}

/* By way of a second child, so that slurmstepd has none that it does not know. The reply pipe is
 * slurmstepd's alone: slurmd learns of its death by that pipe's end. */
static _noreturn_ void begin_relay(const struct handover *h, int to)
{
	pid_t pid = fork();

	if (pid != 0)
		_exit(pid < 0 ? errno : 0);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)close_fd(STDOUT_FILENO);
	run_relay(h, to);
	_exit(EXIT_SUCCESS);
}

/* 0, or -errno of the second fork. */
static int wait_begin(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (!WIFEXITED(status))
		return -ECANCELED;
	return -WEXITSTATUS(status);
}

/* Returns the descriptor that slurmstepd reads. */
static int start_relay(const struct handover *h)
{
	_cleanup_close_ int from = -1, to = -1;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)close_fd(from);
		begin_relay(h, to);
	}
	r = wait_begin(pid);
	return r < 0 ? r : take_fd(&from);
}

/* ---- slurmstepd ---------------------------------------------------------------------------- */

void handover_exec(const struct handover *h, struct err *err)
{
	char *const argv[] = {(char *)h->path, NULL};
	_cleanup_close_ int from = start_relay(h);

	if (from < 0) {
		(void)err_set(err, from, "start the process that relays slurmd's init");
		return;
	}
	if (dup2(from, STDIN_FILENO) < 0) {
		(void)err_set(err, -errno, "replace standard input");
		return;
	}
	(void)execv(h->path, argv);
	(void)err_set(err, -errno,
		"can't execute Slurm's own slurmstepd '%s' (slurm_stepd_path in stepd.conf)",
		h->path);
}

void handover_refuse(void)
{
	const int32_t failed = -1;
	char piece[4096];

	/* slurmd reads the answer once it has written all, and then closes the pipe. Without an
	 * answer it sees the end of this one, which is a failure, too. */
	if (fs_write_all(STDOUT_FILENO, &failed, sizeof(failed)) < 0)
		return;
	while (read_piece(STDIN_FILENO, piece, sizeof(piece)) > 0)
		;
}
