/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/added.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "stepd/base/buffer.h"
#include "stepd/base/procstat.h"

static bool lives(const struct added_process *p)
{
	struct procstat st;

	return procstat_read(p->pid, &st) == 0 && st.start_ticks == p->start_ticks &&
		procstat_is_living(&st);
}

static void prune(struct added *added)
{
	size_t i, kept = 0;

	for (i = 0; i < added->n; i++)
		if (lives(&added->v[i]))
			added->v[kept++] = added->v[i];
	added->n = kept;
}

int added_note(struct added *added, pid_t pid, uint64_t start_ticks)
{
	prune(added);
	if (array_reserve(added->v, added->capacity, added->n + 1) < 0)
		return -ENOMEM;
	added->v[added->n++] = (struct added_process){.pid = pid, .start_ticks = start_ticks};
	return 0;
}

json_t *added_pack(const struct added *added)
{
	json_auto_t *array = json_array();
	int r = array ? 0 : -1;
	size_t i;

	for (i = 0; r == 0 && i < added->n; i++)
		r = json_array_append_new(array,
			json_pack("[i, I]", (int)added->v[i].pid,
				(json_int_t)added->v[i].start_ticks));
	return r == 0 ? take_ptr(array) : NULL;
}

int added_unpack(struct added *added, const json_t *array)
{
	struct added_process p;
	json_int_t pid, ticks;
	const json_t *row;
	int r = 0;
	size_t i;

	json_array_foreach (array, i, row) {
		pid = json_integer_value(json_array_get(row, 0));
		ticks = json_integer_value(json_array_get(row, 1));
		if (pid <= 0 || pid > INT_MAX || ticks <= 0)
			continue;
		p = (struct added_process){.pid = (pid_t)pid, .start_ticks = (uint64_t)ticks};
		if (r == 0 && lives(&p))
			r = added_note(added, p.pid, p.start_ticks);
	}
	return r;
}

void added_clear(struct added *added)
{
	free(added->v);
	*added = (struct added){0};
}
