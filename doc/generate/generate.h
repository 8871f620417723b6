/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes what the documentation takes from the program's tables: doc/stepd-spec.schema.json, and in
 * the manual pages the lists of the spec's fields and of the options of "stepd run". "make
 * regenerate-docs" runs it; tests/system/0031-generated-docs.sh fails where its output and the
 * files of doc/ differ.
 *
 * The texts of the tables have a light markup:
 *
 *   `name`    a name or a value as it is written: a field, `$VARIABLE`, `--option`, `/path`
 *   <name>    an option's value
 *   name(5)   a manual page
 *   [HEADING] a section of the same manual page
 */
#ifndef DOC_GENERATE_GENERATE_H
#define DOC_GENERATE_GENERATE_H

#include <jansson.h>
#include <stdio.h>

#include "stepd/spec/spec_json.h"

/* ---- texts (markup.c) ---------------------------------------------------------------------- */

/* As lines of mdoc(7), each sentence on its own. */
void markup_mdoc(FILE *out, const char *text);

/* As arguments of a macro, which follow others. */
void markup_arguments(FILE *out, const char *text);

/* Without markup: the caller frees it. */
char *markup_plain(const char *text);

/* ---- the fields of the spec (fields.c) ----------------------------------------------------- */

/* The schema; frame is doc/generate/spec.json. A new reference. */
json_t *fields_schema(const json_t *frame);

/* The entries of a table for the manual page. */
void fields_manual(FILE *out, const json_t *frame, enum spec_table table);

/* The table of that name in the schema ("node"; "document" is the whole); SPEC_TABLE_MAX: none. */
enum spec_table fields_table(const char *name);

/* ---- the options of "stepd run" (options.c) ------------------------------------------------ */

/* The entries of the options below a heading of the help. False: there is no such heading. */
bool options_manual(FILE *out, const char *heading);

#endif
