/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/term.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"

#define WIDTH_MAX 10000
#define GAP       2 /* between columns */

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

struct term term_detect(int fd)
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

static const char *const paint_sequences[TERM_PAINT_MAX] = {
	[TERM_PLAIN] = "",
	[TERM_BOLD] = "\033[1m",
	[TERM_DIM] = "\033[2m",
	[TERM_GOOD] = "\033[32m",
	[TERM_NOTICE] = "\033[33m",
	[TERM_BAD] = "\033[1;31m",
};

const char *term_paint(const struct term *term, enum term_paint paint)
{
	return term->colour ? paint_sequences[paint] : "";
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

/* Combining accents. Other characters without a width (marks of direction, joiners) can disguise
 * a name. */
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

/* The next character: its bytes and columns. An invalid byte, or a character that can't be shown,
 * has -1 columns. */
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

/* Columns of a text that term_printable() made. */
static int term_columns_of(const char *text)
{
	mbstate_t state = {0};
	int sum = 0, columns;

	while (*text) {
		text += next_character(text, &state, &columns);
		sum += columns < 0 ? 1 : columns;
	}
	return sum;
}

char *term_printable(const struct term *term, const char *text, int most)
{
	const char *mark = term->utf8 ? "\342\200\246" : "~";
	char *made = malloc(strlen(text) + strlen(mark) + 1), *to = made, *cut = made;
	mbstate_t state = {0};
	int sum = 0, columns;
	size_t n;

	while (made && *text) {
		n = next_character(text, &state, &columns);
		if (columns < 0)
			*to++ = '?';
		else
			to = mempcpy(to, text, n);
		text += n;
		sum += columns < 0 ? 1 : columns;
		if (sum < most)
			cut = to; /* there is a column for the mark */
	}
	if (made)
		*to = '\0';
	if (made && most != TERM_WHOLE && sum > most)
		memcpy(cut, mark, strlen(mark) + 1);
	return made;
}

/* ---- tables -------------------------------------------------------------------------------- */

struct cell {
	char *text;
	enum term_paint paint;
};

void table_add(struct table *t, const char *const *cells)
{
	size_t i, at = t->rows * t->n;
	int columns;

	assert(t->n <= TABLE_COLUMNS_MAX);
	t->no_memory |= array_reserve(t->cells, t->capacity, at + t->n) < 0;
	if (t->no_memory)
		return;
	for (i = 0; i < t->n; i++) {
		char *text = term_printable(t->term, cells[i], TERM_WHOLE);

		t->cells[at + i] = (struct cell){.text = text};
		t->no_memory |= !text;
		columns = text ? term_columns_of(text) : 0;
		if (columns > t->most[i])
			t->most[i] = columns;
	}
	t->rows++;
}

void table_paint(struct table *t, size_t column, enum term_paint paint)
{
	if (t->rows > 0)
		t->cells[(t->rows - 1) * t->n + column].paint = paint;
}

void table_clear(struct table *t)
{
	size_t i;

	for (i = 0; i < t->rows * t->n; i++)
		free(t->cells[i].text);
	free(t->cells);
}

static int sum_of(const int *width, size_t n)
{
	int sum = -GAP;
	size_t i;

	for (i = 0; i < n; i++)
		sum += width[i] > 0 ? width[i] + GAP : 0;
	return sum;
}

/* Shrinks the widest column that may shrink by one, or with force any that has two; false: there
 * is none.
 */
static bool shrink(const struct table *t, int *width, bool force)
{
	size_t i, widest = t->n;

	for (i = 0; i < t->n; i++) {
		int least = force ? 1 : t->columns[i].least;

		if (least > 0 && width[i] > least && (widest == t->n || width[i] > width[widest]))
			widest = i;
	}
	if (widest == t->n)
		return false;
	width[widest]--;
	return true;
}

static bool drop(const struct table *t, int *width)
{
	size_t i, victim = t->n;

	for (i = 0; i < t->n; i++) {
		if (width[i] > 0 && t->columns[i].drop > 0 &&
			(victim == t->n || t->columns[i].drop > t->columns[victim].drop))
			victim = i;
	}
	if (victim == t->n)
		return false;
	width[victim] = 0;
	return true;
}

static void set_widths(const struct table *t, int *width)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		width[i] = (int)strlen(t->columns[i].title);
		if (t->most[i] > width[i])
			width[i] = t->most[i];
	}
	if (t->term->width == 0)
		return;
	while (sum_of(width, t->n) > t->term->width &&
		(shrink(t, width, false) || drop(t, width) || shrink(t, width, true)))
		;
}

/* last: nothing follows, so there are no blanks behind it. */
static int print_cell(const struct table *t, size_t column, const struct cell *cell, int width,
	bool last, FILE *f)
{
	_cleanup_free_ char *cut = term_printable(t->term, cell->text, width);
	bool right = t->columns[column].right;
	int pad;

	if (!cut)
		return -ENOMEM;
	pad = width - term_columns_of(cut);
	if (right && !(last && !*cut))
		(void)fprintf(f, "%*s", pad, "");
	(void)fprintf(f, "%s%s%s", term_paint(t->term, cell->paint), cut,
		term_unpaint(t->term, cell->paint));
	if (!last)
		(void)fprintf(f, "%*s", GAP + (right ? 0 : pad), "");
	return 0;
}

/* Row t->rows is the heading. */
static int print_row(const struct table *t, const int *width, size_t row, FILE *f)
{
	size_t i, last = 0;
	int r = 0;

	for (i = 0; i < t->n; i++) {
		if (width[i] > 0)
			last = i;
	}
	for (i = 0; r == 0 && i <= last; i++) {
		const struct cell title = {(char *)t->columns[i].title, TERM_BOLD};

		if (width[i] > 0)
			r = print_cell(t, i, row == t->rows ? &title : &t->cells[row * t->n + i],
				width[i], i == last, f);
	}
	(void)fputc('\n', f);
	return r;
}

int table_print(const struct table *t, FILE *out, size_t lines)
{
	int width[TABLE_COLUMNS_MAX], r;
	size_t i;

	if (t->no_memory)
		return -ENOMEM;
	set_widths(t, width);
	r = print_row(t, width, t->rows, out);
	for (i = 0; r == 0 && i < t->rows && (lines == 0 || i + 1 < lines); i++)
		r = print_row(t, width, i, out);
	return r;
}
