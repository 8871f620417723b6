/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/term.h"

#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/parse.h"

#define WIDTH_MAX 10000

void term_measure(struct term *term, int fd)
{
	const char *columns = secure_getenv("COLUMNS");
	struct winsize ws;
	uint32_t width = 0;

	term->width = term->height = 0;
	if (term->is_terminal && ioctl(fd, TIOCGWINSZ, &ws) == 0) {
		term->width = ws.ws_col;
		term->height = ws.ws_row;
	}
	if (term->width == 0 && columns && parse_u32(columns, 1, WIDTH_MAX, &width) == 0)
		term->width = (int)width;
}

struct term term_look(int fd)
{
	const char *no_color = secure_getenv("NO_COLOR");
	const char *kind = secure_getenv("TERM");
	struct term term = {.is_terminal = isatty(fd) == 1};

	term.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	term.colour = term.is_terminal && !(no_color && *no_color) && kind && *kind &&
		strcmp(kind, "dumb") != 0;
	term_measure(&term, fd);
	return term;
}

static const char *const paints[TERM_PAINT_MAX] = {
	[TERM_PLAIN] = "",
	[TERM_BOLD] = "\033[1m",
	[TERM_DIM] = "\033[2m",
	[TERM_GOOD] = "\033[32m",
	[TERM_NOTICE] = "\033[33m",
	[TERM_BAD] = "\033[1;31m",
};

const char *term_paint(const struct term *term, enum term_paint paint)
{
	return term->colour ? paints[paint] : "";
}

const char *term_unpaint(const struct term *term, enum term_paint paint)
{
	return term->colour && paint != TERM_PLAIN ? "\033[0m" : "";
}

enum term_paint term_paint_of(const char *state)
{
	static const struct {
		const char *state;
		enum term_paint paint;
	} table[] = {
		{"running", TERM_GOOD},
		{"starting", TERM_NOTICE},
		{"suspended", TERM_NOTICE},
		{"ending", TERM_NOTICE},
		{"draining", TERM_NOTICE},
		{"ended", TERM_DIM},
		{"unkillable", TERM_BAD},
		{"died", TERM_BAD},
		{"lost", TERM_BAD},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].state, state) == 0)
			return table[i].paint;
	}
	return TERM_PLAIN;
}

/* ---- texts of others ----------------------------------------------------------------------- */

/* Accents that stand on the letter before. All else without a width (marks that turn the direction
 * of writing, joiners) is a way to hide what a name really is. */
static bool is_accent(wchar_t c)
{
	return c >= 0x300 && c <= 0x36f;
}

static int width_of(wchar_t c)
{
	if (is_accent(c))
		return 0;
	return iswprint((wint_t)c) ? wcwidth(c) : -1;
}

/* The next character: its bytes and columns. What is none, or can't be shown, is one byte or
 * character and -1 columns. */
static size_t next_character(const char *text, mbstate_t *state, int *ret_columns)
{
	wchar_t c = 0;
	size_t n = mbrtowc(&c, text, strlen(text), state);

	if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
		*state = (mbstate_t){0};
		*ret_columns = -1;
		return 1;
	}
	*ret_columns = width_of(c);
	if (*ret_columns == 0 && !is_accent(c))
		*ret_columns = -1;
	return n;
}

int term_columns_of(const char *text)
{
	mbstate_t state = {0};
	int sum = 0, columns;

	while (*text) {
		text += next_character(text, &state, &columns);
		sum += columns < 0 ? 1 : columns;
	}
	return sum;
}

static char *make_printable(const char *text)
{
	char *made = malloc(strlen(text) + 1), *to = made;
	mbstate_t state = {0};
	int columns;
	size_t n;

	while (made && *text) {
		n = next_character(text, &state, &columns);
		if (columns < 0)
			*to++ = '?';
		else
			to = mempcpy(to, text, n);
		text += n;
	}
	if (made)
		*to = '\0';
	return made;
}

/* The bytes that fit into most columns. */
static size_t fit(const char *text, int most)
{
	mbstate_t state = {0};
	const char *at = text;
	int columns;
	size_t n;

	while (*at) {
		n = next_character(at, &state, &columns);
		most -= columns < 0 ? 1 : columns;
		if (most < 0)
			break;
		at += n;
	}
	return (size_t)(at - text);
}

char *term_printable(const struct term *term, const char *text, int most)
{
	_cleanup_free_ char *whole = make_printable(text);
	char *cut = NULL;

	if (!whole || most == TERM_WHOLE || term_columns_of(whole) <= most)
		return take_ptr(whole);
	if (asprintf(&cut, "%.*s%s", (int)fit(whole, most - 1), whole,
		    term->utf8 ? "\342\200\246" : "~") < 0)
		return NULL;
	return cut;
}
