/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/kvs.h"

#include <string.h>

#include "mpi/pmi/manager.h"

#define CAPACITY_LEAST 32u

/* Published and pending, it can be one and the same. */
struct kvs_value {
	uint32_t references;
	uint32_t era, stamp, rank;
	size_t size;
	char data[];
};

/* ---- entries ------------------------------------------------------------------------------- */

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

static struct kvs_entry *kvs_find(const struct kvs *k, struct slice key)
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

/* Capacity for one more entry; the heads grow with it, so that chains stay short. */
static int grow(struct kvs *k)
{
	uint32_t capacity = k->capacity ? k->capacity * 2 : CAPACITY_LEAST, i;
	struct kvs_entry *entries;
	uint32_t *heads;

	if (k->count < k->capacity)
		return 0;
	entries = reallocarray(k->entries, capacity, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	k->entries = entries;
	heads = calloc(capacity, sizeof(*heads));
	if (!heads)
		return -ENOMEM;
	free(k->heads);
	k->heads = heads;
	k->heads_count = k->capacity = capacity;
	for (i = 0; i < k->count; i++)
		link_entry(k, i);
	return 0;
}

static int charge(struct kvs *k, size_t size)
{
	if (size > KVS_BYTES_MAX - k->bytes)
		return -EDQUOT;
	k->bytes += size;
	return 0;
}

/* The key's entry, a new one if there is none. */
static int entry_get(struct kvs *k, struct slice key, struct kvs_entry **ret_e)
{
	size_t size = sizeof(struct kvs_entry) + key.size;
	struct kvs_entry *e = kvs_find(k, key);
	char *copy;

	if (!e) {
		if (grow(k) < 0)
			return -ENOMEM;
		if (charge(k, size) < 0)
			return -EDQUOT;
		copy = slice_dup(key);
		if (!copy) {
			k->bytes -= size;
			return -ENOMEM;
		}
		e = &k->entries[k->count];
		*e = (struct kvs_entry){.key = copy, .key_size = (uint32_t)key.size};
		link_entry(k, k->count++);
	}
	*ret_e = e;
	return 0;
}

/* ---- values -------------------------------------------------------------------------------- */

static int value_new(
	struct kvs *k, struct slice data, const struct kvs_value *order, struct kvs_value **ret_v)
{
	struct kvs_value *v;

	if (charge(k, sizeof(*v) + data.size) < 0)
		return -EDQUOT;
	v = malloc(sizeof(*v) + data.size);
	if (!v) {
		k->bytes -= sizeof(*v) + data.size;
		return -ENOMEM;
	}
	*v = *order;
	v->references = 1;
	v->size = data.size;
	if (data.size > 0)
		memcpy(v->data, data.data, data.size);
	*ret_v = v;
	return 0;
}

static struct kvs_value *value_unref(struct kvs *k, struct kvs_value *v)
{
	if (v && --v->references == 0) {
		k->bytes -= sizeof(*v) + v->size;
		free(v);
	}
	return NULL;
}

static void value_replace(struct kvs *k, struct kvs_value **old, struct kvs_value *v)
{
	(void)value_unref(k, *old);
	*old = v;
}

/* Whether a is to give way to b. One rank's later put has the same stamp as its earlier one, or a
 * later stamp. */
static bool gives_way(const struct kvs_value *a, const struct kvs_value *b)
{
	if (!a || a->era != b->era)
		return true;
	return a->stamp != b->stamp ? a->stamp < b->stamp : a->rank <= b->rank;
}

static int publish(
	struct kvs *k, struct kvs_entry *e, struct slice value, const struct kvs_value *order)
{
	struct kvs_value *v;
	int r = value_new(k, value, order, &v);

	if (r == 0)
		value_replace(k, &e->published, v);
	return r;
}

int kvs_set(struct kvs *k, struct slice key, struct slice value)
{
	struct kvs_entry *e;
	int r = entry_get(k, key, &e);

	return r < 0 ? r : publish(k, e, value, &(struct kvs_value){.era = k->era});
}

int kvs_put(struct kvs *k, uint32_t rank, struct slice key, struct slice value)
{
	struct kvs_value order = {.era = k->era, .stamp = k->clock, .rank = rank}, *v;
	struct kvs_entry *e;
	int r;

	if (array_reserve(k->fresh, k->fresh_capacity, k->fresh_count + 1) < 0)
		return -ENOMEM;
	r = entry_get(k, key, &e);
	if (r < 0 || !gives_way(e->pending, &order))
		return r;
	r = value_new(k, value, &order, &v);
	if (r < 0)
		return r;
	if (!e->pending)
		k->fresh[k->fresh_count++] = (uint32_t)(e - k->entries);
	value_replace(k, &e->pending, v);
	e->sent = false;
	return 0;
}

bool kvs_get(const struct kvs *k, struct slice key, struct slice *ret_value)
{
	const struct kvs_entry *e = kvs_find(k, key);

	if (!e || !e->published)
		return false;
	*ret_value = (struct slice){e->published->data, e->published->size};
	return true;
}

bool kvs_next(const struct kvs *k, uint32_t *index, struct slice *ret_key, struct slice *ret_value)
{
	const struct kvs_entry *e;

	while (*index < k->count && !k->entries[*index].published)
		(*index)++;
	if (*index >= k->count)
		return false;
	e = &k->entries[*index];
	*ret_key = key_of(e);
	*ret_value = (struct slice){e->published->data, e->published->size};
	return true;
}

/* ---- fences -------------------------------------------------------------------------------- */

static void clock_raise(struct kvs *k, uint32_t least)
{
	if (k->clock < least)
		k->clock = least;
}

static uint32_t clock_next(uint32_t clock)
{
	return clock < UINT32_MAX ? clock + 1 : clock;
}

void kvs_encode(struct kvs *k, bool all, struct bytes *b)
{
	size_t i;

	if (k->clock == 0 && k->fresh_count == 0)
		return;
	bytes_add_u32(b, k->clock);
	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];
		const struct kvs_value *v = e->pending;

		bytes_add_u32(b, v->stamp);
		bytes_add_u32(b, v->rank);
		bytes_add_u32(b, e->key_size);
		bytes_add_u32(b, (uint32_t)v->size);
		bytes_add(b, e->key, e->key_size);
		bytes_add(b, v->data, v->size);
		e->sent |= all;
	}
	/* Entries that are put from now on come later. */
	clock_raise(k, clock_next(k->clock));
}

void kvs_add_pending(struct kvs *k, struct bytes *pairs)
{
	size_t i;

	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];

		manager_pair_add(
			pairs, key_of(e), (struct slice){e->pending->data, e->pending->size});
		e->sent = true;
	}
}

static int merge_one(struct kvs *k, struct slice *data)
{
	struct kvs_value order = {.era = k->era};
	uint32_t key_size, value_size;
	struct slice key, value;
	struct kvs_entry *e;
	int r;

	if (!slice_take_u32(data, &order.stamp) || !slice_take_u32(data, &order.rank) ||
		!slice_take_u32(data, &key_size) || !slice_take_u32(data, &value_size) ||
		!slice_take(data, key_size, &key) || !slice_take(data, value_size, &value))
		return -EBADMSG;
	r = entry_get(k, key, &e);
	if (r < 0 || !gives_way(e->published, &order))
		return r;
	return publish(k, e, value, &order);
}

int kvs_merge(struct kvs *k, struct slice data)
{
	uint32_t clock;
	int r = 0;

	if (data.size == 0) {
		clock_raise(k, 1);
		return 0;
	}
	if (!slice_take_u32(&data, &clock))
		return -EBADMSG;
	clock_raise(k, clock_next(clock));
	while (data.size > 0 && r == 0)
		r = merge_one(k, &data);
	return r;
}

void kvs_publish(struct kvs *k, bool all)
{
	size_t i;

	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];

		e->sent |= all;
		if (!gives_way(e->published, e->pending))
			continue;
		e->pending->references++;
		value_replace(k, &e->published, e->pending);
	}
	clock_raise(k, clock_next(k->clock));
}

void kvs_settle(struct kvs *k)
{
	size_t i, left = 0;

	k->era++;
	k->clock = 0;
	for (i = 0; i < k->fresh_count; i++) {
		struct kvs_entry *e = &k->entries[k->fresh[i]];

		if (e->sent) {
			e->pending = value_unref(k, e->pending);
			e->sent = false;
			continue;
		}
		/* Put while the fence was under way, it belongs to the next. */
		e->pending->era = k->era;
		e->pending->stamp = 0;
		k->fresh[left++] = k->fresh[i];
	}
	k->fresh_count = left;
}

/* ---- lists --------------------------------------------------------------------------------- */

void kvs_list_add(struct bytes *list, struct slice key, struct slice value)
{
	bytes_add_u32(list, (uint32_t)key.size);
	bytes_add_u32(list, (uint32_t)value.size);
	bytes_add(list, key.data, key.size);
	bytes_add(list, value.data, value.size);
}

int kvs_set_list(struct kvs *k, struct slice list)
{
	struct slice key, value;
	uint32_t key_size, value_size;
	int r;

	while (list.size > 0) {
		if (!slice_take_u32(&list, &key_size) || !slice_take_u32(&list, &value_size) ||
			!slice_take(&list, key_size, &key) ||
			!slice_take(&list, value_size, &value))
			return -EBADMSG;
		r = kvs_set(k, key, value);
		if (r < 0)
			return r;
	}
	return 0;
}

void kvs_clear(struct kvs *k)
{
	uint32_t i;

	for (i = 0; i < k->count; i++) {
		(void)value_unref(k, k->entries[i].published);
		(void)value_unref(k, k->entries[i].pending);
		free(k->entries[i].key);
	}
	free(k->entries);
	free(k->heads);
	free(k->fresh);
	*k = (struct kvs){0};
}
