/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/strv.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "stepd/base/buffer.h"

int strv_add_take(struct strv *sv, char *s)
{
	if (!s)
		return -ENOMEM;
	if (array_reserve(sv->v, sv->capacity, sv->n + 2) < 0) {
		free(s);
		return -ENOMEM;
	}
	sv->v[sv->n++] = s;
	sv->v[sv->n] = NULL;
	return 0;
}

int strv_add(struct strv *sv, const char *s)
{
	return strv_add_take(sv, strdup(s));
}

int strv_addf(struct strv *sv, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : strv_add_take(sv, s);
}

int strv_index(const char *const *names, size_t count, const char *text)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (names[i] && strcmp(names[i], text) == 0)
			return (int)i;
	}
	return -1;
}

static size_t env_index(const struct strv *sv, const char *name)
{
	size_t len = strlen(name), i;

	for (i = 0; i < sv->n; i++) {
		if (strncmp(sv->v[i], name, len) == 0 && sv->v[i][len] == '=')
			break;
	}
	return i;
}

static int env_put_take(struct strv *sv, char *entry)
{
	size_t len = strcspn(entry, "=") + 1, i;

	for (i = 0; i < sv->n && strncmp(sv->v[i], entry, len) != 0; i++)
		;
	if (i == sv->n)
		return strv_add_take(sv, entry);
	free(sv->v[i]);
	sv->v[i] = entry;
	return 0;
}

int strv_env_set(struct strv *sv, const char *name, const char *value)
{
	char *entry = NULL;

	if (asprintf(&entry, "%s=%s", name, value) < 0)
		return -ENOMEM;
	return env_put_take(sv, entry);
}

int strv_env_put(struct strv *sv, const char *entry)
{
	char *copy = strdup(entry);

	return copy ? env_put_take(sv, copy) : -ENOMEM;
}

const char *strv_env_get(const struct strv *sv, const char *name)
{
	size_t i = env_index(sv, name);

	return i == sv->n ? NULL : sv->v[i] + strlen(name) + 1;
}

void strv_env_unset(struct strv *sv, const char *name)
{
	size_t i = env_index(sv, name);

	if (i == sv->n)
		return;
	free(sv->v[i]);
	memmove(sv->v + i, sv->v + i + 1, (sv->n - i) * sizeof(*sv->v));
	sv->n--;
}

/* By their names, which end with '=' or the text. */
static int strv_compare_names(const char *a, const char *b)
{
	while (*a == *b && *a && *a != '=') {
		a++;
		b++;
	}
	return (*a == '=' ? 0 : (unsigned char)*a) - (*b == '=' ? 0 : (unsigned char)*b);
}

static int compare_entries(const void *a, const void *b, void *userdata)
{
	char *const *entries = userdata;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	int r = strv_compare_names(entries[x], entries[y]);

	return r ? r : (x > y) - (x < y);
}

int strv_names_make(struct strv_names *names, char *const *entries, size_t n)
{
	size_t *order = calloc(n + 1, sizeof(*order)), i;

	if (!order)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_entries, (void *)entries);
	*names = (struct strv_names){.entries = entries, .order = order, .n = n};
	return 0;
}

size_t strv_names_find(const struct strv_names *names, const char *entry)
{
	size_t lo = 0, hi = names->n, mid;

	while (lo < hi) { /* behind the last that is not greater */
		mid = lo + (hi - lo) / 2;
		if (strv_compare_names(names->entries[names->order[mid]], entry) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || strv_compare_names(names->entries[names->order[lo - 1]], entry) != 0)
		return STRV_NAMES_NONE;
	return names->order[lo - 1];
}

void strv_names_clear(struct strv_names *names)
{
	free(names->order);
	*names = (struct strv_names){0};
}

static int replace_known(struct strv *sv, const struct strv_names *names, bool *done)
{
	size_t i, k;
	char *copy;

	for (i = 0; i < sv->n; i++) {
		k = strv_names_find(names, sv->v[i]);
		if (k == STRV_NAMES_NONE)
			continue;
		copy = strdup(names->entries[k]);
		if (!copy)
			return -ENOMEM;
		free(sv->v[i]);
		sv->v[i] = copy;
		done[k] = true;
	}
	return 0;
}

int strv_env_put_all(struct strv *sv, char *const *entries, size_t n)
{
	_cleanup_strv_names_ struct strv_names names = {0};
	_cleanup_free_ bool *done = NULL;
	size_t i, k;
	int r;

	if (n == 0)
		return 0;
	done = calloc(n, sizeof(*done));
	r = done ? strv_names_make(&names, entries, n) : -ENOMEM;
	if (r == 0)
		r = replace_known(sv, &names, done);
	for (i = 0; r == 0 && i < n; i++) {
		k = strv_names_find(&names, entries[i]);
		if (done[k])
			continue;
		done[k] = true;
		r = strv_add(sv, entries[k]);
	}
	return r;
}

int strv_extend(struct strv *dst, const struct strv *src)
{
	size_t i;
	int r;

	for (i = 0; i < src->n; i++) {
		r = strv_add(dst, src->v[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

char *strv_join(char *const *v, char separator)
{
	size_t size = 1;
	char *text, *end;

	for (size_t i = 0; v && v[i]; i++)
		size += strlen(v[i]) + 1;
	text = calloc(1, size);
	end = text;
	for (size_t i = 0; text && v && v[i]; i++) {
		if (i > 0)
			*end++ = separator;
		end = mempcpy(end, v[i], strlen(v[i]));
	}
	return text;
}

void strv_clear(struct strv *sv)
{
	size_t i;

	for (i = 0; i < sv->n; i++)
		free(sv->v[i]);
	free(sv->v);
	*sv = (struct strv){0};
}

void strv_put_quoted(FILE *out, const char *arg)
{
	const char *p;

	for (p = arg; *p && (isalnum((unsigned char)*p) || strchr("-_=+./:,@%", *p)); p++)
		;
	if (!*p && *arg) {
		fputs(arg, out);
		return;
	}
	fputc('\'', out);
	for (p = arg; *p; p++) {
		if (*p == '\'')
			fputs("'\\''", out);
		else
			fputc(*p, out);
	}
	fputc('\'', out);
}

char *strv_quote(const struct strv *args)
{
	_cleanup_free_ char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (i = 0; i < args->n; i++) {
		if (i)
			fputc(' ', out);
		strv_put_quoted(out, args->v[i]);
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}
