/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define GAP 2

static int grow(struct table *t)
{
	size_t room = t->room ? t->room * 2 : 32;
	char **cells = reallocarray(t->cells, room * t->n, sizeof(*cells));
	enum term_paint *paints;

	if (cells)
		t->cells = cells;
	paints = reallocarray(t->paints, room * t->n, sizeof(*paints));
	if (paints)
		t->paints = paints;
	if (!cells || !paints)
		return -ENOMEM;
	t->room = room;
	return 0;
}

void table_add(struct table *t, const char *const *cells)
{
	size_t i, at = t->rows * t->n;
	int columns;

	assert(t->n <= TABLE_COLUMNS_MAX);
	if (t->no_memory || (t->rows == t->room && grow(t) < 0)) {
		t->no_memory = true;
		return;
	}
	for (i = 0; i < t->n; i++) {
		t->cells[at + i] = term_printable(t->term, cells[i], TERM_WHOLE);
		t->paints[at + i] = TERM_PLAIN;
		t->no_memory |= !t->cells[at + i];
		columns = t->cells[at + i] ? term_columns_of(t->cells[at + i]) : 0;
		if (columns > t->most[i])
			t->most[i] = columns;
	}
	t->rows++;
}

void table_paint(struct table *t, size_t column, enum term_paint paint)
{
	if (t->rows > 0)
		t->paints[(t->rows - 1) * t->n + column] = paint;
}

void table_clear(struct table *t)
{
	size_t i;

	for (i = 0; i < t->rows * t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->paints);
	t->cells = NULL;
	t->paints = NULL;
	t->rows = t->room = 0;
}

/* ---- the widths ---------------------------------------------------------------------------- */

static int sum_of(const int *width, size_t n)
{
	int sum = -GAP;
	size_t i;

	for (i = 0; i < n; i++)
		sum += width[i] > 0 ? width[i] + GAP : 0;
	return sum;
}

/* Takes a column from the widest that may give one, or by force that has two; false: there is none.
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

/* ---- the lines ----------------------------------------------------------------------------- */

struct cell {
	const char *text;
	enum term_paint paint;
	int width;
	bool right;
	bool last; /* nothing follows: no blanks behind it */
};

static int print_cell(const struct term *term, const struct cell *cell, FILE *f)
{
	_cleanup_free_ char *cut = term_printable(term, cell->text, cell->width);
	int pad;

	if (!cut)
		return -ENOMEM;
	pad = cell->width - term_columns_of(cut);
	if (cell->right && !(cell->last && !*cut))
		(void)fprintf(f, "%*s", pad, "");
	(void)fprintf(
		f, "%s%s%s", term_paint(term, cell->paint), cut, term_unpaint(term, cell->paint));
	if (!cell->right && !cell->last)
		(void)fprintf(f, "%*s", pad + GAP, "");
	else if (!cell->last)
		(void)fprintf(f, "%*s", GAP, "");
	return 0;
}

/* row t->rows: the heading. */
static int print_row(const struct table *t, const int *width, size_t row, FILE *f)
{
	bool heading = row == t->rows;
	size_t i, last = 0;
	int r = 0;

	for (i = 0; i < t->n; i++) {
		if (width[i] > 0)
			last = i;
	}
	for (i = 0; r == 0 && i <= last; i++) {
		struct cell cell = {
			.text = heading ? t->columns[i].title : t->cells[row * t->n + i],
			.paint = heading ? TERM_BOLD : t->paints[row * t->n + i],
			.width = width[i],
			.right = t->columns[i].right,
			.last = i == last,
		};

		if (width[i] > 0)
			r = print_cell(t->term, &cell, f);
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
