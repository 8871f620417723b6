/* SPDX-License-Identifier: BSD-3-Clause
 *
 * generate schema FRAME       writes the schema of the spec
 * generate manual FRAME PAGE  writes PAGE with what stands between its marks made anew:
 *
 *   .\" BEGIN fields TABLE        or        .\" BEGIN options HEADING
 *   .\" END
 */
#include <stdlib.h>
#include <string.h>

#include "doc/generate/generate.h"
#include "stepd/base/cleanup.h"

#define LINE_BEGIN   ".\\\" BEGIN "
#define LINE_END     ".\\\" END\n"
#define FIELDS       "fields "
#define OPTIONS      "options "
#define SCHEMA_FLAGS (JSON_INDENT(2) | JSON_PRESERVE_ORDER)

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "generate: %s: %s\n", what, why);
	return EXIT_FAILURE;
}

static int write_schema(const json_t *frame)
{
	json_t *schema = fields_schema(frame);
	int r = json_dumpf(schema, stdout, SCHEMA_FLAGS);

	json_decref(schema);
	putchar('\n');
	return r == 0 ? EXIT_SUCCESS : fail("the schema", "can't be written");
}

/* What belongs between marks that name it. False: there is none of that name. */
static bool write_part(const json_t *frame, const char *name)
{
	enum spec_table table;

	if (strncmp(name, OPTIONS, strlen(OPTIONS)) == 0)
		return options_manual(stdout, name + strlen(OPTIONS));
	if (strncmp(name, FIELDS, strlen(FIELDS)) != 0)
		return false;
	table = fields_table(name + strlen(FIELDS));
	if (table == SPEC_TABLE_MAX)
		return false;
	fields_manual(stdout, frame, table);
	return true;
}

static int write_page(const json_t *frame, FILE *page)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	bool inside = false;

	while (getline(&line, &size, page) > 0) {
		if (strcmp(line, LINE_END) == 0)
			inside = false;
		if (!inside)
			fputs(line, stdout);
		if (strncmp(line, LINE_BEGIN, strlen(LINE_BEGIN)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (!write_part(frame, line + strlen(LINE_BEGIN)))
			return fail(line, "there is no such table or heading");
		inside = true;
	}
	return inside ? fail("the page", "the last BEGIN has no END") : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	json_error_t error;
	json_t *frame = argc > 2 ? json_load_file(argv[2], 0, &error) : NULL;
	FILE *page = NULL;
	int status;

	if (argc > 2 && !frame)
		return fail(argv[2], error.text);
	if (argc == 3 && strcmp(argv[1], "schema") == 0) {
		status = write_schema(frame);
	} else if (argc == 4 && strcmp(argv[1], "manual") == 0) {
		page = fopen(argv[3], "re");
		status = page ? write_page(frame, page) : fail(argv[3], strerror(errno));
	} else {
		status = fail("usage", "generate schema FRAME | generate manual FRAME PAGE");
	}
	if (page)
		(void)fclose(page); /* it was read */
	json_decref(frame);
	return status;
}
