/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/kvs.h"

#include <string.h>

#define ROOM_LEAST 32u

static uint32_t hash_of(struct slice key)
{
	uint32_t h = 2166136261u;
	size_t i;

	for (i = 0; i < key.size; i++)
		h = (h ^ (unsigned char)key.data[i]) * 16777619u;
	return h;
}

static struct slice key_of(const struct kvs_entry *e)
{
	return (struct slice){e->key, e->key_size};
}

static struct slice value_of(const struct kvs_entry *e)
{
	return (struct slice){e->key + e->key_size, e->value_size};
}

static struct kvs_entry *find(const struct kvs *k, struct slice key)
{
	uint32_t at;

	if (k->heads_count == 0)
		return NULL;
	for (at = k->heads[hash_of(key) % k->heads_count]; at; at = k->entries[at - 1].next) {
		struct kvs_entry *e = &k->entries[at - 1];

		if (e->key_size == key.size && memcmp(e->key, key.data, key.size) == 0)
			return e;
	}
	return NULL;
}

static void link_entry(struct kvs *k, uint32_t index)
{
	struct kvs_entry *e = &k->entries[index];
	uint32_t *head = &k->heads[hash_of(key_of(e)) % k->heads_count];

	e->next = *head;
	*head = index + 1;
}

/* Room for one more entry; the heads grow with it, so that chains stay short. */
static int grow(struct kvs *k)
{
	uint32_t room = k->room ? k->room * 2 : ROOM_LEAST, i;
	struct kvs_entry *entries;
	uint32_t *heads;

	if (k->count < k->room)
		return 0;
	entries = reallocarray(k->entries, room, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	k->entries = entries;
	heads = calloc(room, sizeof(*heads));
	if (!heads)
		return -ENOMEM;
	free(k->heads);
	k->heads = heads;
	k->heads_count = k->room = room;
	for (i = 0; i < k->count; i++)
		link_entry(k, i);
	return 0;
}

static int grow_fresh(struct kvs *k)
{
	uint32_t room = k->fresh_room ? k->fresh_room * 2 : ROOM_LEAST;
	uint32_t *fresh;

	if (k->fresh_count < k->fresh_room)
		return 0;
	fresh = reallocarray(k->fresh, room, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	k->fresh = fresh;
	k->fresh_room = room;
	return 0;
}

static void mark_fresh(struct kvs *k, struct kvs_entry *e)
{
	if (e->state == KVS_SETTLED)
		k->fresh[k->fresh_count++] = (uint32_t)(e - k->entries);
	e->state = KVS_FRESH;
}

int kvs_put(struct kvs *k, struct slice key, struct slice value, bool fresh)
{
	size_t size = key.size + value.size + sizeof(struct kvs_entry);
	_cleanup_free_ char *copy = NULL;
	struct kvs_entry *e;

	if (size > KVS_BYTES_MAX - k->bytes)
		return -EDQUOT;
	if (grow(k) < 0 || grow_fresh(k) < 0)
		return -ENOMEM;
	copy = malloc(key.size + value.size + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, key.data, key.size);
	if (value.size > 0)
		memcpy(copy + key.size, value.data, value.size);
	e = find(k, key);
	if (!e) {
		e = &k->entries[k->count];
		*e = (struct kvs_entry){.key = copy, .key_size = key.size};
		link_entry(k, k->count++);
	} else {
		k->bytes -= e->key_size + e->value_size + sizeof(*e);
		free(e->key);
		e->key = copy;
	}
	(void)take_ptr(copy);
	e->value_size = value.size;
	k->bytes += size;
	if (fresh)
		mark_fresh(k, e);
	return 0;
}

bool kvs_get(const struct kvs *k, struct slice key, struct slice *ret_value)
{
	const struct kvs_entry *e = find(k, key);

	if (!e)
		return false;
	*ret_value = value_of(e);
	return true;
}

bool kvs_at(const struct kvs *k, uint32_t index, struct slice *ret_key, struct slice *ret_value)
{
	if (index >= k->count)
		return false;
	*ret_key = key_of(&k->entries[index]);
	*ret_value = value_of(&k->entries[index]);
	return true;
}

void kvs_encode_fresh(struct kvs *k, bool sent, struct bytes *b)
{
	uint32_t i;

	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];

		bytes_add_u32(b, (uint32_t)e->key_size);
		bytes_add_u32(b, (uint32_t)e->value_size);
		bytes_add(b, e->key, e->key_size + e->value_size);
		if (sent)
			e->state = KVS_SENT;
	}
}

void kvs_settle(struct kvs *k)
{
	uint32_t i, kept = 0;

	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];

		if (e->state == KVS_SENT)
			e->state = KVS_SETTLED;
		else
			k->fresh[kept++] = k->fresh[i];
	}
	k->fresh_count = kept;
}

int kvs_merge(struct kvs *k, struct slice data)
{
	struct slice key, value;
	uint32_t key_size, value_size;
	int r;

	while (data.size > 0) {
		if (!slice_take_u32(&data, &key_size) || !slice_take_u32(&data, &value_size) ||
			!slice_take(&data, key_size, &key) ||
			!slice_take(&data, value_size, &value))
			return -EBADMSG;
		r = kvs_put(k, key, value, false);
		if (r < 0)
			return r;
	}
	return 0;
}

void kvs_clear(struct kvs *k)
{
	uint32_t i;

	for (i = 0; i < k->count; i++)
		free(k->entries[i].key);
	free(k->entries);
	free(k->heads);
	free(k->fresh);
	*k = (struct kvs){0};
}
