/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of "stepd run" as entries of stepd(8). The first sentence is the row's line of help,
 * in which "(...)" at the end is the default; an argument that it names is one here.
 */
#include <ctype.h>
#include <string.h>

#include "doc/generate/generate.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/strv.h"
#include "stepd/cli/run/run_convert.h"

#define DEFAULT  "Default:"
#define TASK     "task-" /* before the name of an option: the same for each task */
#define WORD_MAX 64

/* ---- an option and its argument ----------------------------------------------------------- */

/* In capitals, but to be written as they are. */
static bool is_literal(const char *word)
{
	static const char *const words[] = {"ALL", "NONE", "B", "R"};

	return strv_index(words, ARRAY_SIZE(words), word) >= 0;
}

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '-';
}

static bool all_upper(const char *word)
{
	for (; isupper((unsigned char)*word); word++)
		;
	return !*word;
}

/* A run of letters of one case: a value's name in capitals, else what is to be written. */
static const char *put_word(FILE *out, const char *p)
{
	bool upper = isupper((unsigned char)*p);
	char word[WORD_MAX];
	size_t n = 0, i;

	while (n < sizeof(word) - 1 && is_of_word(*p) && upper == (bool)isupper((unsigned char)*p))
		word[n++] = *p++;
	word[n] = '\0';
	if (!upper || is_literal(word)) {
		fprintf(out, " Cm %s", word);
		return p;
	}
	for (i = 0; i < n; i++)
		word[i] = (char)tolower((unsigned char)word[i]);
	fprintf(out, " Ar %s", word);
	return p;
}

/* "[quiet|verbose,]TYPE" as arguments of a macro, without spaces between: mdoc(7) puts none before
 * a closing delimiter, nor behind what opens. */
static void put_argument(FILE *out, const char *p)
{
	bool opened = false;

	while (*p) {
		if (!opened && !strchr("],:)", *p))
			fputs(" Ns", out);
		opened = *p == '[' || *p == '(';
		if (is_of_word(*p)) {
			p = put_word(out, p);
		} else if (strncmp(p, "...", 3) == 0) {
			fputs(" ...", out);
			p += 3;
		} else {
			fprintf(out, *p == '[' ? " Oo" : *p == ']' ? " Oc" : " %c", *p);
			p++;
		}
	}
}

static void put_option(FILE *out, const struct cli_option *row)
{
	fputs(".It", out);
	if (row->letter)
		fprintf(out, " Fl %c ,", row->letter);
	fprintf(out, " Fl -%s", row->name);
	if (row->arg) {
		fputs(row->arg_optional ? " Ns Oo =" : " Ns =", out);
		put_argument(out, row->arg);
	}
	if (row->arg_optional)
		fputs(" Oc", out);
	if (row->arg_second) {
		fputc(' ', out);
		(void)put_word(out, row->arg_second);
	}
	fputc('\n', out);
}

/* ---- its text ----------------------------------------------------------------------------- */

static bool has_word(const char *text, const char *word, size_t len)
{
	const char *p;

	for (p = text; p && (p = strstr(p, word)); p++) {
		if ((p == text || !is_of_word(p[-1])) && !is_of_word(p[len]))
			return true;
	}
	return false;
}

/* Whether a word of the help is what the row calls its value, or the program. */
static bool is_value(const struct cli_option *row, const char *word)
{
	size_t len = strlen(word);

	if (!all_upper(word) || is_literal(word))
		return false;
	return strcmp(word, "PROGRAM") == 0 || has_word(row->arg, word, len) ||
		has_word(row->arg_second, word, len);
}

/* The line of help up to len as a sentence. */
static void put_sentence(FILE *out, const struct cli_option *row, size_t len)
{
	const char *p = row->doc, *end = row->doc + len;
	char word[WORD_MAX];
	bool value;
	size_t n, i;

	while (p < end) {
		for (n = 0; p + n < end && n < sizeof(word) - 1; n++) {
			if (!isalnum((unsigned char)p[n]) && p[n] != '_')
				break;
			word[n] = p[n];
		}
		word[n] = '\0';
		if (n == 0) {
			fputc(*p++, out);
			continue;
		}
		value = is_value(row, word);
		for (i = 0; value && i < n; i++)
			word[i] = (char)tolower((unsigned char)word[i]);
		if (value)
			fprintf(out, "<%s>", word);
		else
			fprintf(out, "%c%s", p == row->doc ? toupper((unsigned char)*word) : *word,
				word + 1);
		p += n;
	}
	fputc('.', out);
}

static char *make_text(const struct cli_option *row)
{
	size_t len = strlen(row->doc), size;
	const char *unset = row->doc[len - 1] == ')' ? strrchr(row->doc, '(') : NULL;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	if (unset && unset > row->doc && unset[-1] == ' ')
		len = (size_t)(unset - row->doc) - 1;
	else
		unset = NULL; /* a manual page */
	put_sentence(out, row, len);
	if (row->more)
		fprintf(out, " %s", row->more);
	if (unset && !(row->more && strstr(row->more, DEFAULT)))
		fprintf(out, " " DEFAULT " %.*s.", (int)strlen(unset) - 2, unset + 1);
	(void)fclose(out); /* memory */
	return text;
}

static bool is_same_for_tasks(const struct cli_option *row, const struct cli_option *next)
{
	return strncmp(next->name, TASK, strlen(TASK)) == 0 &&
		strcmp(next->name + strlen(TASK), row->name) == 0;
}

bool options_manual(FILE *out, const char *heading)
{
	const struct cli_option *rows;
	size_t n, i;

	rows = run_option_table(&n);
	for (i = 0; i < n && !(rows[i].heading && strcmp(rows[i].heading, heading) == 0); i++)
		;
	if (i == n)
		return false;
	fputs(".Bl -tag -width Ds\n", out);
	do {
		_cleanup_free_ char *text = make_text(&rows[i]);

		put_option(out, &rows[i]);
		if (i + 1 < n && is_same_for_tasks(&rows[i], &rows[i + 1]))
			put_option(out, &rows[++i]);
		markup_mdoc(out, text);
		i++;
	} while (i < n && !rows[i].heading);
	fputs(".El\n", out);
	return true;
}
