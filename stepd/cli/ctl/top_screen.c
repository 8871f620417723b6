/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/top_screen.h"

#include <string.h>
#include <sys/signalfd.h>

#include "stepd/base/fs.h"

/* Those of xterm, which all current terminals have. */
#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define REST  "\033[K"
#define BELOW "\033[J"

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

static sigset_t handled_set(void)
{
	sigset_t set;
	size_t i;

	(void)sigemptyset(&set); /* can't fail, nor can the others with valid arguments */
	for (i = 0; i < ARRAY_SIZE(handled); i++)
		(void)sigaddset(&set, handled[i]);
	return set;
}

/* ISIG stays: the signals of ^C and ^Z are read from the descriptor. */
static int show(struct screen *screen)
{
	struct termios raw = screen->saved;
	int r;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(screen->in_fd, TCSADRAIN, &raw) < 0)
		return -errno;
	screen->shown = true;
	r = fs_write_all(screen->out_fd, ENTER, strlen(ENTER));
	return r;
}

static void hide(struct screen *screen)
{
	if (!screen->shown)
		return;
	screen->shown = false;
	/* Both fail where the terminal is gone. */
	(void)!fs_write_all(screen->out_fd, LEAVE, strlen(LEAVE));
	(void)tcsetattr(screen->in_fd, TCSADRAIN, &screen->saved);
}

int screen_open(struct screen *screen, int in_fd, int out_fd, struct err *err)
{
	sigset_t set = handled_set();
	int r;

	screen->in_fd = in_fd;
	screen->out_fd = out_fd;
	if (tcgetattr(in_fd, &screen->saved) < 0)
		return err_set(err, -errno, "read the terminal's settings");
	screen->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen->signal_fd < 0)
		return err_set(err, -errno, "wait for signals");
	(void)sigprocmask(SIG_BLOCK, &set, &screen->before);
	r = show(screen);
	return r < 0 ? err_set(err, r, "set the terminal up") : 0;
}

void screen_close(struct screen *screen)
{
	if (screen->signal_fd < 0)
		return;
	hide(screen);
	screen->signal_fd = close_fd(screen->signal_fd);
	(void)sigprocmask(SIG_SETMASK, &screen->before, NULL);
}

int screen_draw(struct screen *screen, const char *text)
{
	_cleanup_free_ char *frame = NULL;
	size_t size = 0, len;
	FILE *f;

	if (!screen->shown)
		return 0;
	f = open_memstream(&frame, &size);
	if (!f)
		return -ENOMEM;
	(void)fputs(HOME, f);
	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		/* Before the text: after the last column it would erase the last letter. */
		(void)fputs(REST, f);
		(void)fwrite(text, 1, len, f);
		/* A newline in the last line would scroll. */
		if (text[len] == '\n' && text[len + 1])
			(void)fputs("\r\n", f);
	}
	(void)fputs(BELOW, f);
	if (fclose(f) == EOF)
		return -ENOMEM;
	return fs_write_all(screen->out_fd, frame, size);
}

/* By the default action of SIGTSTP: where no shell could continue it, the kernel does not stop it.
 */
static void stop(struct screen *screen)
{
	sigset_t set;

	hide(screen);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* it stops here, until a SIGCONT */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	if (show(screen) < 0)
		screen->shown = false; /* it is gone, which the next read finds */
}

enum screen_event screen_take_signal(struct screen *screen, int *ret_signal)
{
	struct signalfd_siginfo info;

	if (read(screen->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return SCREEN_NOTHING;
	switch (info.ssi_signo) {
	case SIGTSTP:
		stop(screen);
		return SCREEN_CHANGED;
	case SIGCONT:
	case SIGWINCH:
		return SCREEN_CHANGED;
	default:
		*ret_signal = (int)info.ssi_signo;
		return SCREEN_ENDED;
	}
}

/* ---- keys ---------------------------------------------------------------------------------- */

static const struct {
	const char *bytes;
	enum screen_key key;
} sequences[] = {
	{"\033[A", SCREEN_KEY_UP},
	{"\033[B", SCREEN_KEY_DOWN},
	{"\033OA", SCREEN_KEY_UP},
	{"\033OB", SCREEN_KEY_DOWN},
	{"\033[5~", SCREEN_KEY_PAGE_UP},
	{"\033[6~", SCREEN_KEY_PAGE_DOWN},
	{"\033[H", SCREEN_KEY_HOME},
	{"\033[F", SCREEN_KEY_END},
	{"\033[1~", SCREEN_KEY_HOME},
	{"\033[4~", SCREEN_KEY_END},
};

/* The key that text begins with, and its length; an unknown one is skipped whole. */
static size_t take_key(const char *text, size_t size, int *ret_key)
{
	size_t i, len;

	*ret_key = (unsigned char)text[0];
	if (text[0] != '\033' || size == 1)
		return 1;
	*ret_key = SCREEN_KEY_NONE;
	for (i = 0; i < ARRAY_SIZE(sequences); i++) {
		len = strlen(sequences[i].bytes);
		if (len <= size && memcmp(sequences[i].bytes, text, len) == 0) {
			*ret_key = (int)sequences[i].key;
			return len;
		}
	}
	for (len = 2; len < size && text[len] != '\033'; len++)
		;
	return len;
}

int screen_read_keys(struct screen *screen, int *keys, int count)
{
	char text[64];
	ssize_t size = read(screen->in_fd, text, sizeof(text));
	size_t at = 0;
	int n = 0;

	if (size <= 0)
		return size < 0 && (errno == EAGAIN || errno == EINTR) ? 1 : 0;
	while (at < (size_t)size && n < count)
		at += take_key(text + at, (size_t)size - at, &keys[n++]);
	return n;
}
