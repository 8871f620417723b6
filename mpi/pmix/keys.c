/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/keys.h"

#include <pmix.h>
#include <string.h>

void keys_clear(struct keys *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		PMIX_INFO_DESTRUCT(&keys->v[i]);
	free(keys->v);
	*keys = (struct keys){.v = NULL};
}

static pmix_info_t *add(struct keys *keys, const char *key)
{
	size_t capacity = keys->capacity ? 2 * keys->capacity : 16;
	pmix_info_t *grown;

	if (keys->failed)
		return NULL;
	if (keys->n == keys->capacity) {
		grown = realloc(keys->v, capacity * sizeof(*grown));
		if (!grown) {
			keys->failed = true;
			return NULL;
		}
		keys->v = grown;
		keys->capacity = capacity;
	}
	grown = &keys->v[keys->n++];
	PMIX_INFO_CONSTRUCT(grown);
	PMIX_LOAD_KEY(grown->key, key);
	return grown;
}

void keys_add(struct keys *keys, const char *key, const void *value, pmix_data_type_t type)
{
	pmix_info_t *info = add(keys, key);

	if (info)
		PMIX_INFO_LOAD(info, key, value, type);
}

void keys_add_text(struct keys *keys, const char *key, const char *value)
{
	keys_add(keys, key, value, PMIX_STRING);
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
	pmix_info_t *info = array ? add(keys, key) : NULL;

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
