/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/pty.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/process/identity.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

/* Of the slave's mode, what grantpt(3) gives: the group, that of the devpts mount, may write to a
 * person's terminal. */
#define MODE_PERSON 0620
#define MODE_OUTPUT 0600

/* ---- the agent's own terminal -------------------------------------------------------------- */

void terminal_find(struct terminal *t)
{
	for (t->fd = STDIN_FILENO; t->fd <= STDERR_FILENO; t->fd++) {
		if (stdfd_inherited(t->fd) && isatty(t->fd))
			return;
	}
	t->fd = -1;
}

bool terminal_is_input(const struct terminal *t)
{
	return t->fd == STDIN_FILENO;
}

/* A terminal of another session has no foreground for this process. */
static bool is_ours(const struct terminal *t)
{
	pid_t foreground = tcgetpgrp(t->fd);

	return foreground <= 0 || foreground == getpgrp();
}

bool terminal_take(struct terminal *t)
{
	struct termios raw;

	if (!is_ours(t) || (!t->raw && tcgetattr(t->fd, &t->before) < 0))
		return false;
	raw = t->before;
	cfmakeraw(&raw);
	/* TCSANOW: a terminal whose output is stopped would block the others. */
	t->raw = tcsetattr(t->fd, TCSANOW, &raw) == 0;
	return t->raw;
}

void terminal_release(struct terminal *t)
{
	if (t->raw && is_ours(t))
		(void)tcsetattr(t->fd, TCSANOW, &t->before); /* EIO: it is gone */
	t->raw = false;
}

bool terminal_get_size(const struct terminal *t, struct winsize *ret_size)
{
	return t->fd >= 0 && ioctl(t->fd, TIOCGWINSZ, ret_size) == 0 && ret_size->ws_row > 0 &&
		ret_size->ws_col > 0;
}

void terminal_save(const struct terminal *t, struct handover *h, json_t *object)
{
	if (t->raw)
		handover_put_bytes(h, object, "before", &t->before, sizeof(t->before));
}

void terminal_restore(struct terminal *t, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *before = handover_get_bytes(h, object, "before", &size);

	terminal_find(t);
	if (!before || size != sizeof(t->before) || !terminal_is_input(t))
		return;
	memcpy(&t->before, before, size);
	t->raw = !handover_is_trial(h);
}

/* ---- pseudo-terminals ---------------------------------------------------------------------- */

static int pty_explain(int r, const char *what, uint32_t rank, struct err *err)
{
	const char *remedy = "";

	if (r == -ENOENT || r == -ENODEV || r == -ENXIO)
		remedy = " (is devpts mounted at /dev/pts, and /dev/ptmx there?)";
	else if (r == -ENOSPC)
		remedy = " (all of this machine or of this devpts mount are in use: raise "
			 "kernel.pty.max or the mount's max=)";
	else if (r == -EMFILE || r == -ENFILE)
		remedy = " (raise the limit of open files)";
	else if (r == -ENOTTY || r == -EINVAL)
		remedy = " (this needs Linux 4.13)";
	return err_set(err, r, "make a pseudo-terminal for rank %u: %s%s", rank, what, remedy);
}

/* Special characters and the like are those that the user has chosen for the agent's terminal.
 * What does not come from a terminal was echoed by nobody. */
static int set_up_for_person(int slave, const struct terminal *like)
{
	struct winsize size;
	struct termios t;

	if (tcgetattr(terminal_is_input(like) ? like->fd : slave, &t) < 0)
		return -errno;
	if (!terminal_is_input(like) && !like->by_clients)
		t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	if (tcsetattr(slave, TCSANOW, &t) < 0 ||
		(terminal_get_size(like, &size) && ioctl(slave, TIOCSWINSZ, &size) < 0))
		return -errno;
	return 0;
}

static int set_up_for_output(int slave)
{
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return -errno;
	cfmakeraw(&t);
	return tcsetattr(slave, TCSANOW, &t) < 0 ? -errno : 0;
}

/* devpts has made it this process's own, with the mode of its mount. */
static int give_to_user(int slave, const struct identity *id, mode_t most)
{
	struct stat st;

	if (fstat(slave, &st) < 0 ||
		(st.st_uid != id->uid && fchown(slave, id->uid, (gid_t)-1) < 0) ||
		((st.st_mode & ACCESSPERMS & ~most) && fchmod(slave, st.st_mode & most) < 0))
		return -errno;
	return 0;
}

static int open_slave(int master, int *ret_slave)
{
	int unlocked = 0, r;

	if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	r = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	r = r < 0 ? -errno : stdfd_move_above(r);
	*ret_slave = r < 0 ? -1 : r;
	return r < 0 ? r : 0;
}

static int open_master(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : stdfd_move_above(fd);
}

int pty_open_pair(int *ret_master, int *ret_slave)
{
	_cleanup_close_ int master = open_master();
	int r = master < 0 ? master : open_slave(master, ret_slave);

	if (r == 0)
		*ret_master = take_fd(&master);
	return r;
}

int pty_open(const struct identity *id, const struct terminal *like, uint32_t rank, int *ret_master,
	int *ret_slave, struct err *err)
{
	_cleanup_close_ int master = -1, slave = -1;
	int r = open_master();

	if (r < 0)
		return pty_explain(r, "open '/dev/ptmx'", rank, err);
	master = r;
	r = open_slave(master, &slave);
	if (r < 0)
		return pty_explain(r, "open its other end", rank, err);
	r = like ? set_up_for_person(slave, like) : set_up_for_output(slave);
	if (r < 0)
		return pty_explain(r, "set its modes", rank, err);
	r = give_to_user(slave, id, like ? MODE_PERSON : MODE_OUTPUT);
	if (r < 0)
		return pty_explain(r, "give it to its user", rank, err);
	*ret_master = take_fd(&master);
	*ret_slave = take_fd(&slave);
	return 0;
}
