/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawn in PMI-2: one message whose fields count by their order: pairs to put before, then for
 * each "subcmd" its maxprocs, arguments and info.
 */
#include <string.h>

#include "mpi/pmi2/spawn.h"

static bool is_numbered(struct slice s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.size > n && memcmp(s.data, prefix, n) == 0 && s.data[n] >= '0' && s.data[n] <= '9';
}

static int take_field(struct draft *d, const struct pmi_field *f, struct slice *key)
{
	struct draft_command *c = d->count > 0 ? &d->commands[d->count - 1] : NULL;
	int64_t n;

	if (slice_is(f->key, "subcmd")) {
		c = draft_add(d);
		return c ? draft_add_arg(c, f->value) : -ENOMEM;
	}
	if (is_numbered(f->key, "ppkey") || is_numbered(f->key, "infokey")) {
		*key = f->value;
		return 0;
	}
	if (is_numbered(f->key, "ppval"))
		return draft_preput(d, *key, f->value);
	if (slice_is(f->key, "maxprocs")) {
		if (!c || slice_parse_int(f->value, 1, SPAWN_TASKS_MAX, &n) < 0)
			return -EINVAL;
		c->count = (uint32_t)n;
		return 0;
	}
	if (is_numbered(f->key, "argv"))
		return c ? draft_add_arg(c, f->value) : -EINVAL;
	if (is_numbered(f->key, "infoval"))
		return c ? draft_add_info(c, *key, f->value) : -EINVAL;
	return 0; /* counts, and what a later protocol may have */
}

int spawn2_run(struct ask *ask, const struct pmi_message *m)
{
	_cleanup_draft_ struct draft draft = {0};
	struct slice key = {"", 0};
	int64_t commands;
	size_t i;
	int r = 0;

	for (i = 1; i < m->count && r == 0; i++)
		r = take_field(&draft, &m->fields[i], &key);
	if (r == 0 && pmi_message_get_int(m, "ncmds", 1, PMI_FIELDS_MAX, &commands) == 0 &&
		(size_t)commands != draft.count)
		r = -EINVAL;
	if (r == -EINVAL) {
		answer_fail(ask, PMI_ARG, "the spawn can't be understood");
		return 0;
	}
	return r < 0 ? r : draft_start(&draft, ask);
}
