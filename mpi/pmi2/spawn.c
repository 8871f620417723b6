/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawn in either protocol: a draft is filled command by command and then handed to all nodes.
 */
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"
#include "stepd/base/strv.h"

#define SPAWN_TASKS_MAX 1048576

struct draft_command {
	struct strv argv, hosts;
	uint32_t count;
	char *cwd;
	char *path; /* where the program may be */
};

struct draft {
	struct draft_command *commands;
	size_t count;
	struct bytes preput; /* as kvs_list_add() writes it */
};

/* A spawn under way. */
struct spawning {
	struct request request;
	uint32_t size; /* its tasks */
};

/* ---- the answer ----------------------------------------------------------------------------- */

/* "0,0,-1": one for each task, as far as the answer's line and its reader take them. */
static void list_codes(int r, uint32_t size, const int *errcodes, char *text, size_t text_size)
{
	size_t at = 0;
	uint32_t i;
	int code;

	text[0] = '\0';
	for (i = 0; i < size && at + 16 < text_size; i++) {
		code = (errcodes ? errcodes[i] : r) != 0 ? PMI_FAIL : PMI_OK;
		at += (size_t)snprintf(text + at, text_size - at, i ? ",%d" : "%d", code);
	}
}

static void spawn_answer(struct spawning *s, int r, uint32_t number, uint32_t size,
	const int *errcodes, const struct err *err)
{
	struct pmi_task *task = s->request.task;
	char codes[700], jobid[PMI_NAME_MAX], why[200];
	struct answer a;

	list_codes(r, size, errcodes, codes, sizeof(codes));
	answer_open(&a, &s->request);
	if (r < 0) {
		(void)snprintf(why, sizeof(why), "%.199s", err->text);
		answer_error(&a, PMI_OTHER, why);
	} else {
		answer_int(&a, "rc", PMI_OK);
		(void)snprintf(jobid, sizeof(jobid), "%.200s.%u", task->pmi->label, number);
		answer_text(&a, "jobid", jobid);
	}
	answer_text(&a, "errcodes", codes);
	answer_close(&a);
}

/* ---- a draft of the request ----------------------------------------------------------------- */

/* The new command, or NULL for want of memory. */
static struct draft_command *draft_add(struct draft *d)
{
	struct draft_command *grown = reallocarray(d->commands, d->count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	d->commands = grown;
	grown[d->count] = (struct draft_command){.count = 1};
	return &grown[d->count++];
}

static int draft_set_text(char **text, struct slice value)
{
	free(*text);
	*text = slice_dup(value);
	return *text ? 0 : -ENOMEM;
}

static int draft_set_hosts(struct draft_command *c, struct slice value)
{
	_cleanup_free_ char *text = slice_dup(value);
	char *rest = NULL, *host;

	if (!text)
		return -ENOMEM;
	for (host = strtok_r(text, ", ", &rest); host; host = strtok_r(NULL, ", ", &rest)) {
		if (strv_add(&c->hosts, host) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What is not known here is ignored, as MPI wants it. 0, -ENOMEM, or -EINVAL for a bad value. */
static int draft_add_info(struct draft_command *c, struct slice key, struct slice value)
{
	if (memchr(value.data, '\0', value.size))
		return -EINVAL;
	if (slice_is(key, "wdir") || slice_is(key, "cwd") || slice_is(key, "wd"))
		return value.size > 0 ? draft_set_text(&c->cwd, value) : -EINVAL;
	if (slice_is(key, "path"))
		return draft_set_text(&c->path, value);
	if (slice_is(key, "host") || slice_is(key, "hosts"))
		return draft_set_hosts(c, value);
	return 0;
}

static int draft_add_arg(struct draft_command *c, struct slice arg)
{
	char *text;

	if (memchr(arg.data, '\0', arg.size))
		return -EINVAL;
	text = slice_dup(arg);
	return text ? strv_add_take(&c->argv, text) : -ENOMEM;
}

static int draft_preput(struct draft *d, struct slice key, struct slice value)
{
	if (key.size == 0 || key.size > PMI_KEY_MAX)
		return -EINVAL;
	kvs_list_add(&d->preput, key, value);
	return d->preput.failed ? -ENOMEM : 0;
}

static void draft_clear(struct draft *d)
{
	size_t i;

	for (i = 0; i < d->count; i++) {
		strv_clear(&d->commands[i].argv);
		strv_clear(&d->commands[i].hosts);
		free(d->commands[i].cwd);
		free(d->commands[i].path);
	}
	free(d->commands);
	bytes_clear(&d->preput);
	*d = (struct draft){0};
}
#define _cleanup_draft_ _cleanup_(draft_clear)

/* ---- where programs are -------------------------------------------------------------------- */

/* The first directory of the list that has the program here; the node where it will run is another
 * one perhaps, but with the same files. */
static int draft_resolve(struct draft_command *c)
{
	char *rest = NULL, *dir, *file = NULL;

	if (!c->path || strchr(c->argv.v[0], '/'))
		return 0;
	for (dir = strtok_r(c->path, ":;, ", &rest); dir; dir = strtok_r(NULL, ":;, ", &rest)) {
		if (asprintf(&file, "%s/%s", dir, c->argv.v[0]) < 0)
			return -ENOMEM;
		if (access(file, X_OK) == 0) {
			free(c->argv.v[0]);
			c->argv.v[0] = file;
			return 0;
		}
		free(file);
	}
	return 0;
}

/* ---- the request --------------------------------------------------------------------------- */

static void on_spawn_done(void *userdata, int r, uint32_t number, uint32_t size,
	const int *errcodes, const struct err *err)
{
	struct spawning *s = userdata;
	struct pmi *pmi = s->request.task->pmi;

	if (r < 0)
		serve_log(pmi->config.serve, LOG_LEVEL_ERROR, "%s: rank %u can't spawn: %s",
			s->request.task->space->name, s->request.task->rank, err->text);
	spawn_answer(s, r, number, r < 0 ? s->size : size, errcodes, err);
	free(s);
	pmi_run(pmi);
}

static int draft_fill(struct draft *d, struct spawn_command *commands, uint32_t *ret_size)
{
	uint64_t size = 0;
	size_t i;
	int r;

	for (i = 0; i < d->count; i++) {
		struct draft_command *c = &d->commands[i];

		if (c->argv.n == 0 || c->argv.v[0][0] == '\0' || c->count == 0)
			return -EINVAL;
		r = draft_resolve(c);
		if (r < 0)
			return r;
		size += c->count;
		commands[i] = (struct spawn_command){.argv = c->argv.v,
			.count = c->count,
			.cwd = c->cwd,
			.hosts = (const char *const *)c->hosts.v};
	}
	if (d->count == 0 || size > SPAWN_TASKS_MAX)
		return -EINVAL;
	*ret_size = (uint32_t)size;
	return 0;
}

/* Begins it; the request is answered at its end. 0 or -ENOMEM. */
static int draft_start(struct draft *d, const struct request *request)
{
	_cleanup_free_ struct spawn_command *commands = calloc(d->count + 1, sizeof(*commands));
	struct pmi *pmi = request->task->pmi;
	struct spawn_request wanted = {.count = d->count,
		.data = slice_of(&d->preput).data,
		.size = bytes_size(&d->preput)};
	struct spawning *s = calloc(1, sizeof(*s));
	struct err err = ERR_INIT;
	int r = -ENOMEM;

	if (s && commands) {
		request_park(&s->request, request);
		wanted.commands = commands;
		r = draft_fill(d, commands, &s->size);
		if (r < 0)
			(void)err_set(&err, r,
				"spawn: each command needs a program and 1 to %d tasks",
				SPAWN_TASKS_MAX);
		else if (pmi->config.manager)
			r = err_set_text(&err, -EOPNOTSUPP,
				"spawn: the step's process manager starts no tasks");
		else
			r = spawn_start(pmi->config.serve,
				request->task->space->first_rank + request->task->rank, &wanted,
				on_spawn_done, s, &err);
		if (r < 0)
			on_spawn_done(s, r, 0, s->size, NULL, &err);
		return 0;
	}
	free(s);
	return -ENOMEM;
}

/* ---- PMI-1 ----------------------------------------------------------------------------------
 *
 * Spawn in PMI-1: a block of lines for each command, "mcmd=spawn" to "endcmd", and as many blocks
 * as the first one says (totspawns). Values are the rest of their line.
 */

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

static int spawn1_set_program(struct block *b, struct slice program)
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

static int spawn1_take_field(struct block *b, const struct pmi_field *f)
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
		return spawn1_set_program(b, f->value);
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

static int spawn1_parse_blocks(struct pmi_task *task, struct pmi_message *m)
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
static int spawn1_start(struct pmi_task *task)
{
	_cleanup_draft_ struct draft draft = {0};
	struct pmi_message *m = &task->pmi->message;
	struct block b = {.draft = &draft};
	struct request request = {
		.task = task, .epoch = task->epoch, .protocol = PMI_1, .answer = "spawn_result"};
	size_t i;
	int r;

	r = spawn1_parse_blocks(task, m);
	for (i = 0; i < m->count && r == 0; i++)
		r = spawn1_take_field(&b, &m->fields[i]);
	if (r == 0)
		r = draft_start(&draft, &request);
	else if (r == -EINVAL) {
		answer_fail(&request, PMI_ARG, "spawn_can't_be_understood");
		r = 0;
	}
	bytes_clear(&task->block);
	task->block_spawns = 0;
	return r;
}

/* The total, which every block has. */
static int64_t spawn1_find_total(struct pmi_task *task)
{
	struct pmi_message *m = &task->pmi->message;
	int64_t total;

	if (spawn1_parse_blocks(task, m) < 0)
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
		total = spawn1_find_total(task);
		if (total < 0)
			return (int)total;
		return task->block_spawns < total ? 0 : spawn1_start(task);
	}
	task->in_block = true;
	bytes_add(&task->block, line.data, line.size);
	bytes_add(&task->block, "\n", 1);
	if (task->block.failed)
		return -ENOMEM;
	return bytes_size(&task->block) > PMI1_BLOCK_MAX ? -EBADMSG : 0;
}

/* ---- PMI-2 ----------------------------------------------------------------------------------
 *
 * Spawn in PMI-2: one message whose fields count by their order: pairs to put before, then for
 * each "subcmd" its maxprocs, arguments and info.
 */

static bool is_numbered(struct slice s, const char *prefix)
{
	return has_prefix(s, prefix) && s.data[strlen(prefix)] >= '0' &&
		s.data[strlen(prefix)] <= '9';
}

static int spawn2_take_field(struct draft *d, const struct pmi_field *f, struct slice *key)
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

int spawn2_run(struct request *request, const struct pmi_message *m)
{
	_cleanup_draft_ struct draft draft = {0};
	struct slice key = {"", 0};
	int64_t commands;
	size_t i;
	int r = 0;

	for (i = 1; i < m->count && r == 0; i++)
		r = spawn2_take_field(&draft, &m->fields[i], &key);
	if (r == 0 && pmi_message_get_int(m, "ncmds", 1, PMI_FIELDS_MAX, &commands) == 0 &&
		(size_t)commands != draft.count)
		r = -EINVAL;
	if (r == -EINVAL) {
		answer_fail(request, PMI_ARG, "the spawn request can't be parsed");
		return 0;
	}
	return r < 0 ? r : draft_start(&draft, request);
}
