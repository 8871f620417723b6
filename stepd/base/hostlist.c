/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BRACKETS_MAX 8u /* of one name */
#define DIGITS_MAX   9u

struct expander {
	char name[HOSTLIST_NAME_MAX + 1]; /* as far as it stands */
	size_t most, count;
	hostlist_fn add;
	void *userdata;
};

/* ---- from a list to names ------------------------------------------------------------------ */

static int hostlist_append(struct expander *x, size_t *used, const char *text, size_t len)
{
	if (len > HOSTLIST_NAME_MAX - *used)
		return -EINVAL;
	memcpy(x->name + *used, text, len);
	*used += len;
	x->name[*used] = '\0';
	return 0;
}

static int finish_name(struct expander *x, size_t used)
{
	if (used == 0)
		return -EINVAL;
	if (x->count == x->most)
		return -E2BIG;
	x->count++;
	return x->add ? x->add(x->name, x->userdata) : 0;
}

static int take_number(const char **text, uint32_t *ret_n, int *ret_width)
{
	const char *p = *text;
	uint32_t n = 0;

	for (; isdigit((unsigned char)*p) && p - *text < (ptrdiff_t)DIGITS_MAX; p++)
		n = n * 10 + (uint32_t)(*p - '0');
	if (p == *text || isdigit((unsigned char)*p))
		return -EINVAL;
	*ret_width = (int)(p - *text);
	*ret_n = n;
	*text = p;
	return 0;
}

/* "01-04" or "7"; *text is behind it then. */
static int take_range(const char **text, uint32_t *ret_first, uint32_t *ret_last, int *ret_width)
{
	int width, r = take_number(text, ret_first, ret_width);

	*ret_last = *ret_first;
	if (r == 0 && **text == '-') {
		(*text)++;
		r = take_number(text, ret_last, &width);
	}
	if (r == 0 && *ret_last < *ret_first)
		r = -EINVAL;
	return r;
}

/* Expands [p, end) behind the first used bytes of the name. One level for each bracket. */
static int expand(struct expander *x, size_t used, const char *p, const char *end, unsigned depth)
{
	const char *open = memchr(p, '[', (size_t)(end - p)), *close, *range;
	uint32_t n, first, last;
	char number[16];
	size_t at;
	int width, r;

	if (memchr(p, ']', (size_t)((open ? open : end) - p)))
		return -EINVAL; /* an unmatched bracket */
	r = hostlist_append(x, &used, p, (size_t)((open ? open : end) - p));
	if (r < 0 || !open)
		return r < 0 ? r : finish_name(x, used);
	close = memchr(open, ']', (size_t)(end - open));
	if (!close || depth == BRACKETS_MAX)
		return -EINVAL;
	for (range = open + 1; r == 0; range++) {
		r = take_range(&range, &first, &last, &width);
		for (n = first; r == 0 && n <= last; n++) {
			at = used;
			(void)snprintf(number, sizeof(number), "%0*u", width, n);
			r = hostlist_append(x, &at, number, strlen(number));
			if (r == 0)
				r = expand(x, at, close + 1, end, depth + 1);
		}
		if (r == 0 && range == close)
			return 0;
		if (r == 0 && *range != ',')
			r = -EINVAL;
	}
	return r;
}

/* The end of the first name: a comma outside of brackets, or the end. */
static const char *find_end(const char *text)
{
	bool inside = false;

	for (; *text && (inside || *text != ','); text++) {
		if (*text == '[' || *text == ']')
			inside = *text == '[';
		else if (!isalnum((unsigned char)*text) && !strchr("-_.,", *text))
			return NULL;
	}
	return inside ? NULL : text;
}

int hostlist_each(const char *text, size_t most, hostlist_fn add, void *userdata)
{
	struct expander x = {.most = most, .add = add, .userdata = userdata};
	const char *end;
	int r;

	for (;; text = end + 1) {
		end = find_end(text);
		r = end ? expand(&x, 0, text, end, 0) : -EINVAL;
		if (r < 0 || !*end)
			return r;
	}
}

/* ---- from names to a list ------------------------------------------------------------------ */

/* A name cut in three: what stands before its last number, the number, and what follows. */
struct parts {
	size_t before;
	int width; /* 0: there is no number */
	uint32_t n;
	const char *after;
};

static struct parts cut(const char *name)
{
	size_t end = strlen(name), begin;
	struct parts parts = {.before = end, .after = name + end};

	while (end > 0 && !isdigit((unsigned char)name[end - 1]))
		end--;
	for (begin = end;
		begin > 0 && isdigit((unsigned char)name[begin - 1]) && end - begin < DIGITS_MAX;
		begin--)
		;
	if (begin == end)
		return parts;
	parts.before = begin;
	parts.width = (int)(end - begin);
	parts.n = (uint32_t)strtoul(name + begin, NULL, 10);
	parts.after = name + end;
	return parts;
}

static int count_digits(uint32_t n)
{
	int digits = 1;

	for (; n >= 10; n /= 10)
		digits++;
	return digits;
}

static bool has_no_zeros(const struct parts *parts)
{
	return parts->width == count_digits(parts->n);
}

/* Whether b fits into the bracket of a. A number of its own width needs no zeros. */
static bool are_alike(const char *a, const struct parts *pa, const char *b, const struct parts *pb)
{
	return pa->width > 0 && pa->before == pb->before &&
		(pa->width == pb->width || (has_no_zeros(pa) && has_no_zeros(pb))) &&
		strncmp(a, b, pa->before) == 0 && strcmp(pa->after, pb->after) == 0;
}

/* How many names, from the first on, share its bracket. */
static size_t count_alike(char *const *names, size_t n)
{
	struct parts first = cut(names[0]), next;
	size_t i;

	for (i = 1; i < n; i++) {
		next = cut(names[i]);
		if (!are_alike(names[0], &first, names[i], &next))
			break;
	}
	return i;
}

/* Whether next continues a range of first's width whose last number is last. */
static bool goes_on(const struct parts *first, uint32_t last, const struct parts *next)
{
	int digits = count_digits(next->n);

	return next->n == last + 1 &&
		next->width == (digits > first->width ? digits : first->width);
}

static void put_bracket(FILE *out, char *const *names, size_t n)
{
	struct parts first = cut(names[0]), next;
	const char *after = first.after;
	uint32_t last;
	size_t i = 0;

	fprintf(out, "%.*s[", (int)first.before, names[0]);
	while (i < n) {
		first = cut(names[i]);
		last = first.n;
		while (++i < n && (next = cut(names[i]), goes_on(&first, last, &next)))
			last++;
		fprintf(out, "%0*u", first.width, first.n);
		if (last > first.n)
			fprintf(out, "-%0*u", first.width, last);
		if (i < n)
			fputc(',', out);
	}
	fprintf(out, "]%s", after);
}

char *hostlist_make(char *const *names, size_t n)
{
	char *text = NULL;
	size_t size, i, alike;
	FILE *out = open_memstream(&text, &size);
	bool failed;

	if (!out)
		return NULL;
	for (i = 0; i < n; i += alike) {
		alike = count_alike(names + i, n - i);
		if (i > 0)
			fputc(',', out);
		if (alike > 1)
			put_bracket(out, names + i, alike);
		else
			fputs(names[i], out);
	}
	failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}
