/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The floor for a task at a pseudo-terminal: ptyloop COMMAND [ARG...] runs it at one that is raw,
 * and copies what it writes to standard output, with nothing around that: read, write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static _Noreturn void be_task(int slave, char **argv)
{
	int i;

	if (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		_exit(125);
	for (i = 0; i < 3; i++) {
		if (dup2(slave, i) < 0)
			_exit(125);
	}
	execvp(argv[0], argv);
	_exit(127);
}

static int open_raw(int *ret_master)
{
	struct termios t;
	int unlocked = 0, slave, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -1;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &t) < 0)
		return -1;
	cfmakeraw(&t);
	*ret_master = master;
	return tcsetattr(slave, TCSANOW, &t) < 0 ? -1 : slave;
}

/* 0: all is copied. */
static int copy(int master)
{
	static char bytes[65536];
	ssize_t n, at, w;

	for (;;) {
		n = read(master, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) /* EIO: nobody has the other end any more */
			return n == 0 || errno == EIO ? 0 : -1;
		for (at = 0; at < n; at += w) {
			w = write(STDOUT_FILENO, bytes + at, (size_t)(n - at));
			if (w < 0)
				return -1;
		}
	}
}

int main(int argc, char **argv)
{
	int master, slave = argc > 1 ? open_raw(&master) : -1, status, r;
	pid_t pid = slave < 0 ? -1 : fork();

	if (pid == 0)
		be_task(slave, argv + 1);
	if (pid < 0)
		return 125;
	(void)close(slave);
	r = copy(master);
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 125;
	return r < 0 ? 125 : WEXITSTATUS(status);
}
