/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_record.h"

#include <errno.h>
#include <string.h>

#include "contrib/slurm/unpack.h"

#define SECOND UINT64_C(1000000)
#define ENERGY 3u /* the id of its resource, which no task has of its own */

void step_record_clear(struct step_record *r)
{
	free(r->ids);
	free(r->values);
	*r = (struct step_record){0};
}

/* ---- reading ------------------------------------------------------------------------------- */

static uint64_t unpack_time(struct unpack *u)
{
	uint64_t s = unpack_u64(u);

	return s * SECOND + unpack_u32(u);
}

static void skip_names(struct unpack *u)
{
	uint32_t n = unpack_u32(u), i;

	for (i = 0; n != STEP_RECORD_NO_LIST && i < n && !u->bad; i++) {
		(void)unpack_u64(u);
		(void)unpack_u64(u);
		(void)unpack_u32(u);
		(void)unpack_text(u);
		(void)unpack_text(u);
	}
}

static int read_ids(struct step_record *r, struct unpack *u)
{
	struct slurm_array ids;
	uint32_t i;

	r->n = unpack_u32(u);
	ids = unpack_array(u, r->n, sizeof(uint32_t));
	if (u->bad)
		return -EBADMSG;
	r->ids = calloc((size_t)r->n + 1, sizeof(*r->ids));
	r->values = calloc((size_t)r->n + 1, sizeof(*r->values) * 2 * STEP_COLUMN_MAX);
	if (!r->ids || !r->values)
		return -ENOMEM;
	for (i = 0; i < r->n; i++)
		r->ids[i] = slurm_array_u32(&ids, i);
	return 0;
}

static int read_values(struct step_record *r, struct unpack *u)
{
	uint32_t i;
	int c;

	for (c = 0; c < 2 * STEP_COLUMN_MAX; c++) {
		if (unpack_u32(u) != r->n)
			return -EBADMSG;
		for (i = 0; i < r->n; i++)
			r->values[(size_t)i * 2 * STEP_COLUMN_MAX + (size_t)c] = unpack_u64(u);
	}
	return u->bad || u->at != u->size ? -EBADMSG : 0;
}

int step_record_read(struct step_record *ret_record, const void *data, size_t size)
{
	_cleanup_step_record_ struct step_record r = {0};
	struct unpack u = {.data = data, .size = size, .release = SLURM_22_05};
	int e;

	if (size == 0 || !unpack_u8(&u)) {
		*ret_record = r;
		return 0;
	}
	r.user_usec = unpack_time(&u);
	r.system_usec = unpack_time(&u);
	r.frequency = unpack_u32(&u);
	r.energy = unpack_u64(&u);
	e = read_ids(&r, &u);
	if (e == 0) {
		skip_names(&u);
		e = read_values(&r, &u);
	}
	if (e < 0)
		return e;
	*ret_record = take_struct(r);
	return 0;
}

/* ---- adding -------------------------------------------------------------------------------- */

/* most: the larger one counts, else the smaller one. */
static void add_extreme(uint64_t *sum, const uint64_t *from, bool most, bool has_task)
{
	if (from[0] == STEP_RECORD_UNKNOWN ||
		(sum[0] != STEP_RECORD_UNKNOWN && (most ? sum[0] >= from[0] : sum[0] <= from[0])))
		return;
	sum[0] = from[0];
	sum[1] = from[1];
	if (has_task)
		sum[2] = from[2];
}

static void add_columns(uint64_t *sum, const uint64_t *from, bool has_task)
{
	add_extreme(sum + STEP_COLUMN_MOST, from + STEP_COLUMN_MOST, true, has_task);
	add_extreme(sum + STEP_COLUMN_LEAST, from + STEP_COLUMN_LEAST, false, has_task);
	if (from[STEP_COLUMN_SUM] != STEP_RECORD_UNKNOWN)
		sum[STEP_COLUMN_SUM] = sum[STEP_COLUMN_SUM] == STEP_RECORD_UNKNOWN
			? from[STEP_COLUMN_SUM]
			: sum[STEP_COLUMN_SUM] + from[STEP_COLUMN_SUM];
}

static int copy(struct step_record *to, const struct step_record *from)
{
	size_t values = (size_t)from->n * 2 * STEP_COLUMN_MAX;

	*to = *from;
	to->ids = calloc((size_t)from->n + 1, sizeof(*to->ids));
	to->values = calloc(values + 1, sizeof(*to->values));
	if (!to->ids || !to->values) {
		step_record_clear(to);
		return -ENOMEM;
	}
	memcpy(to->ids, from->ids, from->n * sizeof(*to->ids));
	memcpy(to->values, from->values, values * sizeof(*to->values));
	return 0;
}

int step_record_add(struct step_record *sum, const struct step_record *from)
{
	uint32_t i;

	if (!from->values)
		return 0;
	if (!sum->values)
		return copy(sum, from);
	if (sum->n != from->n || memcmp(sum->ids, from->ids, sum->n * sizeof(*sum->ids)) != 0)
		return -EINVAL;
	sum->user_usec += from->user_usec;
	sum->system_usec += from->system_usec;
	sum->frequency += from->frequency;
	if (sum->energy != STEP_RECORD_NO_ENERGY)
		sum->energy = from->energy == STEP_RECORD_NO_ENERGY ? STEP_RECORD_NO_ENERGY
								    : sum->energy + from->energy;
	for (i = 0; i < sum->n; i++) {
		size_t at = (size_t)i * 2 * STEP_COLUMN_MAX;

		add_columns(sum->values + at, from->values + at, sum->ids[i] != ENERGY);
		add_columns(sum->values + at + STEP_COLUMN_MAX, from->values + at + STEP_COLUMN_MAX,
			sum->ids[i] != ENERGY);
	}
	return 0;
}

/* ---- packing ------------------------------------------------------------------------------- */

void step_record_pack_time(struct pack *p, uint64_t usec)
{
	pack_u64(p, usec / SECOND);
	pack_u32(p, (uint32_t)(usec % SECOND));
}

void step_record_pack(const struct step_record *r, struct pack *p)
{
	uint32_t i;
	int c;

	pack_u8(p, r->values ? 1 : 0);
	if (!r->values)
		return;
	step_record_pack_time(p, r->user_usec);
	step_record_pack_time(p, r->system_usec);
	pack_u32(p, r->frequency);
	pack_u64(p, r->energy);
	pack_u32_array(p, r->ids, r->n);
	pack_u32(p, STEP_RECORD_NO_LIST);
	for (c = 0; c < 2 * STEP_COLUMN_MAX; c++) {
		pack_u32(p, r->n);
		for (i = 0; i < r->n; i++)
			pack_u64(p, r->values[(size_t)i * 2 * STEP_COLUMN_MAX + (size_t)c]);
	}
}
