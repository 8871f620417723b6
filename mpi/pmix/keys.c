/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/keys.h"

#include <pmix.h>
#include <stdarg.h>
#include <string.h>

#include "stepd/base/buffer.h"

void keys_clear(struct keys *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		PMIX_INFO_DESTRUCT(&keys->v[i]);
	free(keys->v);
	*keys = (struct keys){.v = NULL};
}

static pmix_info_t *keys_append(struct keys *keys, const char *key)
{
	pmix_info_t *info;

	if (!keys->failed && array_reserve(keys->v, keys->capacity, keys->n + 1) < 0)
		keys->failed = true;
	if (keys->failed)
		return NULL;
	info = &keys->v[keys->n++];
	PMIX_INFO_CONSTRUCT(info);
	PMIX_LOAD_KEY(info->key, key);
	return info;
}

void keys_add(struct keys *keys, const char *key, const void *value, pmix_data_type_t type)
{
	pmix_info_t *info = keys_append(keys, key);

	if (info)
		PMIX_INFO_LOAD(info, key, value, type);
}

void keys_add_text(struct keys *keys, const char *key, const char *value)
{
	keys_add(keys, key, value, PMIX_STRING);
}

void keys_add_text_take(struct keys *keys, const char *key, char *value)
{
	if (value)
		keys_add_text(keys, key, value);
	else
		keys->failed = true;
	free(value);
}

void keys_add_textf(struct keys *keys, const char *key, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	keys_add_text_take(keys, key, n < 0 ? NULL : text);
}

void keys_add_u16(struct keys *keys, const char *key, uint16_t value)
{
	keys_add(keys, key, &value, PMIX_UINT16);
}

void keys_add_u32(struct keys *keys, const char *key, uint32_t value)
{
	keys_add(keys, key, &value, PMIX_UINT32);
}

void keys_add_rank(struct keys *keys, const char *key, pmix_rank_t value)
{
	keys_add(keys, key, &value, PMIX_PROC_RANK);
}

void keys_add_bool(struct keys *keys, const char *key, bool value)
{
	keys_add(keys, key, &value, PMIX_BOOL);
}

void keys_add_data_take(
	struct keys *keys, const char *key, void *data, size_t count, pmix_data_type_t type)
{
	pmix_data_array_t *array = data ? calloc(1, sizeof(*array)) : NULL;
	pmix_info_t *info = array ? keys_append(keys, key) : NULL;

	if (!info) {
		keys->failed = true;
		free(array);
		free(data);
		return;
	}
	array->type = type;
	array->size = count;
	array->array = data;
	info->value.type = PMIX_DATA_ARRAY;
	info->value.data.darray = array;
}

void keys_add_array(struct keys *keys, const char *key, struct keys *array)
{
	if (array->failed)
		keys->failed = true;
	if (array->failed || array->n == 0) {
		keys_clear(array);
		return;
	}
	keys_add_data_take(keys, key, array->v, array->n, PMIX_INFO);
	*array = (struct keys){.v = NULL};
}
