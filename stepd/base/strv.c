/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/strv.h"

#include <stdarg.h>
#include <string.h>

int strv_add_take(struct strv *sv, char *s)
{
	char **grown;
	size_t room;

	if (!s)
		return -ENOMEM;
	if (sv->n + 2 > sv->room) {
		room = sv->room ? sv->room * 2 : 8;
		grown = realloc(sv->v, room * sizeof(*grown));
		if (!grown) {
			free(s);
			return -ENOMEM;
		}
		sv->v = grown;
		sv->room = room;
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

void strv_clear(struct strv *sv)
{
	size_t i;

	for (i = 0; i < sv->n; i++)
		free(sv->v[i]);
	free(sv->v);
	*sv = (struct strv){0};
}
