/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The terminal as a live screen: the alternate screen, keys one by one, no cursor. It is restored
 * whatever ends the program but SIGKILL and a fault: signals are read from a descriptor.
 */
#ifndef STEPD_CLI_CTL_TOP_SCREEN_H
#define STEPD_CLI_CTL_TOP_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <termios.h>

#include "stepd/base/err.h"

struct screen {
	int in_fd, out_fd; /* borrowed */
	int signal_fd;
	sigset_t before;      /* signals that were blocked */
	struct termios saved; /* the terminal */
	bool shown;
};

#define SCREEN_INIT                                                                                \
	{                                                                                          \
		.signal_fd = -1                                                                    \
	}

/* in_fd and out_fd are terminals. */
int screen_open(struct screen *screen, int in_fd, int out_fd, struct err *err) _must_check_;
void screen_close(struct screen *screen);
#define _cleanup_screen_ _cleanup_(screen_close)

/* Shows text, lines no longer than the screen is wide and as many as it is high. -errno: the
 * terminal is gone. */
int screen_draw(struct screen *screen, const char *text) _must_check_;

/* Reads the signal descriptor. SCREEN_ENDED: the program shall end by *ret_signal. */
enum screen_event {
	SCREEN_NOTHING,
	SCREEN_CHANGED, /* another size, or the shell has written to it: draw it again */
	SCREEN_ENDED,
};
enum screen_event screen_take_signal(struct screen *screen, int *ret_signal);

enum screen_key {
	SCREEN_KEY_NONE,
	SCREEN_KEY_UP = 256,
	SCREEN_KEY_DOWN,
	SCREEN_KEY_PAGE_UP,
	SCREEN_KEY_PAGE_DOWN,
	SCREEN_KEY_HOME,
	SCREEN_KEY_END,
};

/* Reads the keys that were pressed, at most count of them, letters as they are. 0: the terminal is
 * gone. */
int screen_read_keys(struct screen *screen, int *keys, int count);

#endif
