/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawn in PMI-1: a block of lines for each command, "mcmd=spawn" to "endcmd", and as many blocks
 * as the first one says (totspawns). Values are the rest of their line.
 */
#include <string.h>

#include "mpi/pmi2/spawn.h"

/* The lines of a block, in its order. */
struct block {
	struct draft *draft;
	struct draft_command *command;
	struct slice key; /* of the pair whose value comes next */
	bool has_program;
};

static bool has_prefix(struct slice s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.size > n && memcmp(s.data, prefix, n) == 0;
}

static int set_program(struct block *b, struct slice program)
{
	char *text;

	if (b->has_program || memchr(program.data, '\0', program.size))
		return -EINVAL;
	b->has_program = true;
	text = slice_dup(program);
	if (!text)
		return -ENOMEM;
	/* Arguments may stand before it. */
	if (strv_add_take(&b->command->argv, text) < 0)
		return -ENOMEM;
	memmove(b->command->argv.v + 1, b->command->argv.v,
		(b->command->argv.n - 1) * sizeof(char *));
	b->command->argv.v[0] = text;
	return 0;
}

static int take_field(struct block *b, const struct pmi_field *f)
{
	struct slice key;
	int64_t n;

	if (slice_is(f->key, "mcmd")) {
		*b = (struct block){.draft = b->draft, .command = draft_add(b->draft)};
		return b->command ? 0 : -ENOMEM;
	}
	if (!b->command)
		return -EINVAL;
	if (slice_is(f->key, "execname"))
		return set_program(b, f->value);
	if (slice_is(f->key, "nprocs")) {
		if (slice_parse_int(f->value, 1, SPAWN_TASKS_MAX, &n) < 0)
			return -EINVAL;
		b->command->count = (uint32_t)n;
		return 0;
	}
	if (slice_is(f->key, "argcnt") || slice_is(f->key, "preput_num") ||
		slice_is(f->key, "info_num") || slice_is(f->key, "totspawns") ||
		slice_is(f->key, "spawnssofar"))
		return slice_parse_int(f->value, 0, SPAWN_TASKS_MAX, &n);
	if (has_prefix(f->key, "arg"))
		return draft_add_arg(b->command, f->value);
	if (has_prefix(f->key, "preput_key_") || has_prefix(f->key, "info_key_")) {
		b->key = f->value;
		return 0;
	}
	key = b->key;
	if (has_prefix(f->key, "preput_val_"))
		return draft_preput(b->draft, key, f->value);
	if (has_prefix(f->key, "info_val_"))
		return draft_add_info(b->command, key, f->value);
	return 0; /* of a later protocol */
}

static int parse_blocks(struct pmi_task *task, struct pmi_message *m)
{
	struct slice rest = slice_of(&task->block), line;
	const char *end;
	int r;

	m->count = 0;
	while (rest.size > 0) {
		end = memchr(rest.data, '\n', rest.size);
		line = (struct slice){rest.data, (size_t)(end - rest.data)};
		r = pmi1_parse_block_line(line, m);
		if (r < 0)
			return r;
		rest.data += line.size + 1;
		rest.size -= line.size + 1;
	}
	return 0;
}

/* All blocks are here. */
static int start(struct pmi_task *task)
{
	_cleanup_draft_ struct draft draft = {0};
	struct pmi_message *m = &task->pmi->message;
	struct block b = {.draft = &draft};
	struct ask ask = {
		.task = task, .epoch = task->epoch, .protocol = PMI_1, .answer = "spawn_result"};
	size_t i;
	int r;

	r = parse_blocks(task, m);
	for (i = 0; i < m->count && r == 0; i++)
		r = take_field(&b, &m->fields[i]);
	if (r == 0)
		r = draft_start(&draft, &ask);
	else if (r == -EINVAL) {
		answer_fail(&ask, PMI_ARG, "spawn_can't_be_understood");
		r = 0;
	}
	bytes_clear(&task->block);
	task->block_spawns = 0;
	return r;
}

/* The total, as every block says it. */
static int64_t find_total(struct pmi_task *task)
{
	struct pmi_message *m = &task->pmi->message;
	int64_t total;

	if (parse_blocks(task, m) < 0)
		return -EBADMSG;
	return pmi_message_get_int(m, "totspawns", 1, PMI_FIELDS_MAX, &total) < 0 ? 1 : total;
}

int spawn1_run_line(struct pmi_task *task, struct slice line)
{
	int64_t total;

	if (task->protocol != PMI_1)
		return -EBADMSG;
	if (!task->in_block && !slice_is(line, "mcmd=spawn"))
		return -EBADMSG;
	if (task->in_block && slice_is(line, "endcmd")) {
		task->in_block = false;
		task->block_spawns++;
		total = find_total(task);
		if (total < 0)
			return (int)total;
		return task->block_spawns < total ? 0 : start(task);
	}
	task->in_block = true;
	bytes_add(&task->block, line.data, line.size);
	bytes_add(&task->block, "\n", 1);
	if (task->block.failed)
		return -ENOMEM;
	return task->block.size > PMI1_BLOCK_MAX ? -EBADMSG : 0;
}
