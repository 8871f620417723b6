/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage_table.h"

#include <string.h>

#include "stepd/account/usage_values.h"

#define COLUMNS_MAX 4 /* tasks with a column each */

/* One value over the tasks of which it is known. */
struct spread {
	size_t known;
	size_t least, most; /* indices */
	stepd_usage_t mean; /* this value only */
	enum stepd_usage_source source;
	bool mixed; /* of several sources */
};

static struct spread spread_of(const struct usage_view *view, enum stepd_usage_value which)
{
	struct spread s = {0};
	long double sum = 0; /* 64 bits of a mantissa: no overflow, and exact where it matters */
	size_t i;

	for (i = 0; i < view->n; i++) {
		const stepd_usage_t *u = &view->tasks[i];

		if (!u->source[which])
			continue;
		if (s.known++ == 0) {
			s.least = s.most = i;
			s.source = (enum stepd_usage_source)u->source[which];
		}
		s.mixed |= u->source[which] != s.source;
		sum += (long double)u->value[which];
		if (u->value[which] < view->tasks[s.least].value[which])
			s.least = i;
		if (u->value[which] > view->tasks[s.most].value[which])
			s.most = i;
	}
	if (s.known > 0) {
		s.mean.value[which] = (uint64_t)(sum / (long double)s.known);
		s.mean.source[which] = (uint8_t)s.source;
	}
	return s;
}

static void print_heading(FILE *f, const struct usage_view *view)
{
	char text[USAGE_TEXT_SIZE];
	stepd_usage_t time = {0};
	size_t i;

	time.value[STEPD_USAGE_CPU_USER_USEC] = view->elapsed_usec;
	time.source[STEPD_USAGE_CPU_USER_USEC] = STEPD_USAGE_PROC;
	fprintf(f, "Usage of step %s, %zu task%s", view->label, view->n, view->n == 1 ? "" : "s");
	if (view->elapsed_usec)
		fprintf(f, ", %s", usage_text(&time, STEPD_USAGE_CPU_USER_USEC, text));
	fprintf(f, "\n%-16s %8s", "", "step");
	if (view->n > COLUMNS_MAX)
		fprintf(f, " %8s %-9s %8s %8s %-9s", "least", "@rank", "mean", "most", "@rank");
	for (i = 0; view->n <= COLUMNS_MAX && i < view->n; i++) {
		(void)snprintf(text, sizeof(text), "@%u", view->task[i].gtid);
		fprintf(f, " %9s", text);
	}
	fprintf(f, "  from\n");
}

static void print_tasks(FILE *f, const struct usage_view *view, enum stepd_usage_value which,
	const struct spread *s)
{
	char text[USAGE_TEXT_SIZE], rank[16] = "";
	size_t i;

	for (i = 0; view->n <= COLUMNS_MAX && i < view->n; i++)
		fprintf(f, " %9s", usage_text(&view->tasks[i], which, text));
	if (view->n <= COLUMNS_MAX)
		return;
	if (s->known > 0)
		(void)snprintf(rank, sizeof(rank), "@%u", view->task[s->least].gtid);
	fprintf(f, " %8s %-9s", usage_text(&view->tasks[s->least], which, text), rank);
	fprintf(f, " %8s", usage_text(&s->mean, which, text));
	if (s->known > 0)
		(void)snprintf(rank, sizeof(rank), "@%u", view->task[s->most].gtid);
	fprintf(f, " %8s %-9s", usage_text(&view->tasks[s->most], which, text), rank);
}

static void print_row(FILE *f, const struct usage_view *view, enum stepd_usage_value which)
{
	struct spread s = spread_of(view, which);
	char text[USAGE_TEXT_SIZE], letters[4] = "";
	const uint8_t source = view->step->source[which];

	if (!source && s.known == 0)
		return;
	fprintf(f, "%-16s %8s", usage_title(which, source), usage_text(view->step, which, text));
	print_tasks(f, view, which, &s);
	letters[0] = usage_source_letters[source];
	letters[1] = s.mixed ? '*' : usage_source_letters[s.source];
	if (view->n == 0 || letters[1] == letters[0])
		letters[1] = '\0';
	fprintf(f, "  %s\n", letters);
}

char *usage_table_format(const struct usage_view *view)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int i;

	if (!f)
		return NULL;
	print_heading(f, view);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (view->live || !usage_values[i].now)
			print_row(f, view, (enum stepd_usage_value)i);
	}
	fprintf(f,
		"from: c cgroup, p /proc, r wait4(2), * several; two: of the step, of the tasks\n");
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}
