/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/sample_text.h"

#include <inttypes.h>
#include <string.h>

#include "stepd/account/usage.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"

enum sample_format sample_format_of(const char *file)
{
	static const char *const endings[] = {".json", ".jsonl", ".ndjson"};
	size_t len = strlen(file), i;

	for (i = 0; i < ARRAY_SIZE(endings); i++) {
		if (len >= strlen(endings[i]) &&
			strcmp(file + len - strlen(endings[i]), endings[i]) == 0)
			return SAMPLE_JSON;
	}
	return SAMPLE_CSV;
}

void sample_print_heading(FILE *f, enum sample_format format)
{
	int i;

	if (format != SAMPLE_CSV)
		return;
	fputs("time_usec,elapsed_usec,rank", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fprintf(f, ",%s", usage_values[i].name);
	fputs(",sources\n", f);
}

/* The step's rank is empty, as is what is not known. */
static void print_csv(FILE *f, const struct sample_line *line)
{
	const stepd_usage_t *u = line->usage;
	int i;

	fprintf(f, "%" PRIu64 ",%" PRIu64 ",", line->time_usec, line->elapsed_usec);
	if (line->rank >= 0)
		fprintf(f, "%" PRId64, line->rank);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		fputc(',', f);
		if (u->source[i])
			fprintf(f, "%" PRIu64, u->value[i]);
	}
	fputc(',', f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fputc(usage_source_letters[u->source[i]], f);
	fputc('\n', f);
}

/* By hand: all names are our own, and have nothing to escape. */
static void print_json(FILE *f, const struct sample_line *line)
{
	const stepd_usage_t *u = line->usage;
	const char *comma = "";
	int i;

	fprintf(f, "{\"time_usec\":%" PRIu64 ",\"elapsed_usec\":%" PRIu64, line->time_usec,
		line->elapsed_usec);
	if (line->rank >= 0)
		fprintf(f, ",\"rank\":%" PRId64, line->rank);
	fputs(",\"usage\":{", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (u->source[i]) {
			fprintf(f, "%s\"%s\":%" PRIu64, comma, usage_values[i].name, u->value[i]);
			comma = ",";
		}
	}
	fputs("},\"sources\":\"", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fputc(usage_source_letters[u->source[i]], f);
	fputs("\"}\n", f);
}

void sample_print_line(FILE *f, enum sample_format format, const struct sample_line *line)
{
	if (format == SAMPLE_JSON)
		print_json(f, line);
	else
		print_csv(f, line);
}

int sample_parse_interval(const char *text, uint64_t *ret_ms, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(text, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is no interval such as 1s, 500ms or 1m (--sample INTERVAL FILE)",
			text);
	if (ms < SAMPLE_INTERVAL_MS_LEAST || ms > SAMPLE_INTERVAL_MS_MOST)
		return err_set_text(
			err, -ERANGE, "the interval '%.200s' is not between 100ms and 1d", text);
	*ret_ms = ms;
	return 0;
}
