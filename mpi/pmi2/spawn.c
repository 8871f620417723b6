/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/spawn.h"

#include <string.h>

#include "mpi/pmi2/spawn_answer.h"

struct draft_command *draft_add(struct draft *d)
{
	struct draft_command *grown = reallocarray(d->commands, d->count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	d->commands = grown;
	grown[d->count] = (struct draft_command){.count = 1};
	return &grown[d->count++];
}

static int set_text(char **text, struct slice value)
{
	free(*text);
	*text = slice_dup(value);
	return *text ? 0 : -ENOMEM;
}

static int set_hosts(struct draft_command *c, struct slice value)
{
	_cleanup_free_ char *text = slice_dup(value);
	char *rest = NULL, *word;

	if (!text)
		return -ENOMEM;
	for (word = strtok_r(text, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
		if (strv_add(&c->hosts, word) < 0)
			return -ENOMEM;
	}
	return 0;
}

int draft_add_info(struct draft_command *c, struct slice key, struct slice value)
{
	if (memchr(value.data, '\0', value.size))
		return -EINVAL;
	if (slice_is(key, "wdir") || slice_is(key, "cwd") || slice_is(key, "wd"))
		return value.size > 0 ? set_text(&c->cwd, value) : -EINVAL;
	if (slice_is(key, "path"))
		return set_text(&c->path, value);
	if (slice_is(key, "host") || slice_is(key, "hosts"))
		return set_hosts(c, value);
	return 0;
}

int draft_add_arg(struct draft_command *c, struct slice arg)
{
	char *text;

	if (memchr(arg.data, '\0', arg.size))
		return -EINVAL;
	text = slice_dup(arg);
	return text ? strv_add_take(&c->argv, text) : -ENOMEM;
}

int draft_preput(struct draft *d, struct slice key, struct slice value)
{
	if (key.size == 0 || key.size > PMI_KEY_MAX)
		return -EINVAL;
	kvs_list_add(&d->preput, key, value);
	return d->preput.failed ? -ENOMEM : 0;
}

void draft_clear(struct draft *d)
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

/* ---- where programs are -------------------------------------------------------------------- */

/* The first directory of the list that has the program here; the node where it will run is another
 * one perhaps, but with the same files. */
static int resolve(struct draft_command *c)
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

static void on_done(void *userdata, int r, uint32_t number, uint32_t size, const int *errcodes,
	const struct err *err)
{
	struct spawning *s = userdata;
	struct pmi *pmi = s->ask.task->pmi;

	if (r < 0)
		pmi_log(pmi, LOG_LEVEL_ERROR, "%s: rank %u can't spawn: %s",
			s->ask.task->space->name, s->ask.task->rank, err->text);
	spawn_answer(s, r, number, r < 0 ? s->size : size, errcodes, err);
	free(s);
	pmi_run(pmi);
}

static int fill(struct draft *d, struct spawn_command *commands, uint32_t *ret_size)
{
	uint64_t size = 0;
	size_t i;
	int r;

	for (i = 0; i < d->count; i++) {
		struct draft_command *c = &d->commands[i];

		if (c->argv.n == 0 || c->argv.v[0][0] == '\0' || c->count == 0)
			return -EINVAL;
		r = resolve(c);
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

int draft_start(struct draft *d, const struct ask *ask)
{
	_cleanup_free_ struct spawn_command *commands = calloc(d->count + 1, sizeof(*commands));
	struct pmi *pmi = ask->task->pmi;
	struct spawn_request request = {
		.count = d->count, .data = d->preput.data, .size = d->preput.size};
	struct spawning *s = calloc(1, sizeof(*s));
	struct err err = ERR_INIT;
	int r = -ENOMEM;

	if (s && commands) {
		ask_park(&s->ask, ask);
		request.commands = commands;
		r = fill(d, commands, &s->size);
		if (r < 0)
			(void)err_set(&err, r,
				"spawn: each command needs a program and 1 to %d tasks",
				SPAWN_TASKS_MAX);
		else
			r = pmi->ops.spawn(pmi->userdata,
				ask->task->space->first_rank + ask->task->rank, &request, on_done,
				s, &err);
		if (r < 0)
			on_done(s, r, 0, s->size, NULL, &err);
		return 0;
	}
	free(s);
	return -ENOMEM;
}
