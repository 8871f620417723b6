/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The light markup of the tables' texts, into mdoc(7) and into plain text.
 */
#include <ctype.h>
#include <string.h>

#include "doc/generate/generate.h"
#include "stepd/base/cleanup.h"

#define LINE_WIDTH 79
#define CLOSING    ".,:;)"

enum token_kind {
	TOKEN_PLAIN,
	TOKEN_CODE,    /* `...` */
	TOKEN_PAGE,    /* name(5) */
	TOKEN_SECTION, /* [...] */
	TOKEN_VALUE,   /* <...> */
};

/* What stands between two spaces: "(`name`)," */
struct token {
	enum token_kind kind;
	const char *opening; /* "(" or nothing */
	size_t opening_len;
	const char *body;
	size_t len;
	const char *tail; /* what follows the body */
	size_t tail_len;
};

static bool is_page(const char *word, size_t len)
{
	return len > 3 && word[len - 1] == ')' && isdigit((unsigned char)word[len - 2]) &&
		word[len - 3] == '(' && isalpha((unsigned char)word[0]);
}

/* Where what p opens is closed; NULL: it opens nothing. */
static const char *find_close(const char *p, enum token_kind *ret_kind)
{
	static const char open[] = "`[<", close[] = "`]>";
	static const enum token_kind kinds[] = {TOKEN_CODE, TOKEN_SECTION, TOKEN_VALUE};
	const char *at = *p ? strchr(open, *p) : NULL;

	if (!at || (*p == '[' && !isupper((unsigned char)p[1])))
		return NULL;
	*ret_kind = kinds[at - open];
	return strchr(p + 1, close[at - open]);
}

/* Reads the token at *at, which is no space, and moves on to the next one. */
static struct token next_token(const char **at)
{
	const char *p = *at, *end;
	struct token t = {.opening = p, .opening_len = *p == '(' ? 1 : 0};

	p += t.opening_len;
	t.body = p;
	end = find_close(p, &t.kind);
	if (end) {
		t.body = p + 1;
		t.len = (size_t)(end - t.body);
		t.tail = end + 1;
	} else {
		end = p + strcspn(p, " ");
		while (end > p && strchr(CLOSING, end[-1]) && !is_page(p, (size_t)(end - p)))
			end--;
		t.kind = is_page(p, (size_t)(end - p)) ? TOKEN_PAGE : TOKEN_PLAIN;
		t.len = (size_t)(end - p);
		t.tail = end;
	}
	t.tail_len = strcspn(t.tail, " ");
	*at = t.tail + t.tail_len;
	*at += strspn(*at, " ");
	return t;
}

static bool ends_sentence(const struct token *t)
{
	const char *last = t->tail + t->tail_len - 1;

	return t->tail_len > 0 && *last == '.' && (t->tail_len == 1 || last[-1] != '.');
}

/* ---- mdoc --------------------------------------------------------------------------------- */

static bool all_of(const char *body, size_t len, int (*is)(int), const char *others)
{
	size_t i;

	for (i = 0; i < len && (is((unsigned char)body[i]) || strchr(others, body[i])); i++)
		;
	return i == len;
}

/* The macro for a name or a value; *body and *len lose what the macro adds by itself. */
static const char *code_macro(const char **body, size_t *len)
{
	const char *p = *body;

	if (*len > 1 && (*p == '$' || *p == '-')) {
		(*body)++;
		(*len)--;
		return *p == '$' ? "Ev" : "Fl";
	}
	if (*len > 1 && *p == '/' && isalpha((unsigned char)p[1]))
		return "Pa";
	if (strchr("\"{", *p) || (*p == '[' && strchr("0123456789\"", p[1])))
		return "Li";
	if (isupper((unsigned char)*p) && all_of(p, *len, isupper, "_"))
		return memchr(p, '_', *len) ? "Dv" : "Cm";
	if ((islower((unsigned char)*p) || (*p == '%' && *len > 1)) &&
		all_of(p, *len, isalnum, "_.%-"))
		return "Cm";
	return "Ql";
}

/* Characters that a macro or troff would take for its own. */
static void put_escaped(FILE *out, const char *body, size_t len)
{
	size_t i;

	if ((len == 1 && ispunct((unsigned char)*body)) ||
		(len < 4 && len > 1 && isupper((unsigned char)body[0]) &&
			islower((unsigned char)body[1])))
		fputs("\\&", out);
	for (i = 0; i < len; i++) {
		if (body[i] == '"')
			fputs("\\(dq", out);
		else if (body[i] == '\\')
			fputs("\\e", out);
		else
			fputc(body[i], out);
	}
}

/* Delimiters are arguments of their own; what else follows belongs to the word. */
static void put_tail(FILE *out, const struct token *t)
{
	size_t i;

	if (t->tail_len == 0)
		return;
	if (strspn(t->tail, CLOSING) < t->tail_len) {
		fprintf(out, " Ns %.*s", (int)t->tail_len, t->tail);
		return;
	}
	for (i = 0; i < t->tail_len; i++)
		fprintf(out, " %c", t->tail[i]);
}

static void put_macro(FILE *out, const struct token *t)
{
	static const char *const macros[] = {
		[TOKEN_PAGE] = "Xr", [TOKEN_SECTION] = "Sx", [TOKEN_VALUE] = "Ar"};
	const char *body = t->body, *macro;
	size_t len = t->len;

	macro = t->kind == TOKEN_CODE ? code_macro(&body, &len) : macros[t->kind];
	fprintf(out, "%s%s ", macro, t->opening_len ? " (" : "");
	if (t->kind == TOKEN_PAGE)
		fprintf(out, "%.*s %c", (int)len - 3, body, body[len - 2]);
	else
		put_escaped(out, body, len);
	put_tail(out, t);
}

void markup_mdoc(FILE *out, const char *text)
{
	size_t column = 0, len;

	while (*text) {
		struct token t = next_token(&text);

		if (t.kind != TOKEN_PLAIN) {
			fputs(column > 0 ? "\n." : ".", out);
			put_macro(out, &t);
			fputc('\n', out);
			column = 0;
			continue;
		}
		len = t.opening_len + t.len + t.tail_len;
		if (column > 0 && column + len > LINE_WIDTH) {
			fputc('\n', out);
			column = 0;
		}
		if (column == 0 && strchr(".'", *t.opening))
			fputs("\\&", out);
		column +=
			(size_t)fprintf(out, "%s%.*s", column > 0 ? " " : "", (int)len, t.opening);
		if (ends_sentence(&t) || !*text) {
			fputc('\n', out);
			column = 0;
		}
	}
}

void markup_arguments(FILE *out, const char *text)
{
	bool styled = false;

	while (*text) {
		struct token t = next_token(&text);

		fputc(' ', out);
		if (t.kind == TOKEN_PLAIN) {
			fprintf(out, "%s%.*s", styled ? "No " : "", (int)t.len, t.body);
			put_tail(out, &t);
			styled = false;
		} else {
			put_macro(out, &t);
			styled = true;
		}
	}
}

/* ---- plain -------------------------------------------------------------------------------- */

char *markup_plain(const char *text)
{
	char *plain = NULL;
	size_t size;
	FILE *out = open_memstream(&plain, &size);

	if (!out)
		return NULL;
	while (*text) {
		struct token t = next_token(&text);

		if (t.kind == TOKEN_CODE && *t.body == '$') {
			t.body++;
			t.len--;
		}
		fprintf(out, "%.*s%.*s%.*s%s", (int)t.opening_len, t.opening, (int)t.len, t.body,
			(int)t.tail_len, t.tail, *text ? " " : "");
	}
	if (fclose(out) != 0) {
		free(plain);
		return NULL;
	}
	return plain;
}
