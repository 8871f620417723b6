/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node's part of a spawn: the plugin prepares it, the agent starts its tasks. It is over
 * when node 0 reports that all have started, or when nothing of it runs any more.
 */
#include <string.h>

#include "mpi/serve/spawning_impl.h"
#include "stepd/base/strv.h"

enum part_state {
	PART_REQUESTED, /* the agent has not answered yet */
	PART_RUNNING,   /* its tasks run, or it has none here */
	PART_ENDING,    /* they are to end, for the spawn has failed */
	PART_OVER,      /* nothing of it runs, and the plugin knows */
};

struct spawning_part {
	struct spawn_part part; /* the plugin's view; first, see spawn_environ() */
	LIST_ENTRY(spawning_part) link;
	struct spawning *sp;
	json_int_t id; /* of the request to the agent */
	enum part_state state;
	bool failed; /* so node 0 reports, or it is lost */
	bool ended;  /* node 0 waits for nothing more of it */
	uint32_t *nodes, *commands, *ranks;
	void *data;
	json_t *lines;  /* what the commands are */
	json_t *common; /* what the plugin adds to the environments, of all */
	unsigned copy;  /* enum link_stream: what is copied of its tasks here */
	json_t **own;   /* likewise, of each task here; NULL: nothing */
	int *fds;       /* local_count of them */
	uint32_t exited;
};

static void free_part(struct spawning_part *p)
{
	uint32_t i;

	for (i = 0; p->fds && i < p->part.local_count; i++)
		(void)close_fd(p->fds[i]);
	for (i = 0; p->own && i < p->part.local_count; i++)
		json_decref(p->own[i]);
	json_decref(p->common);
	json_decref(p->lines);
	free(p->own);
	free(p->fds);
	free(p->nodes);
	free(p->commands);
	free(p->ranks);
	free(p->data);
	free(p);
}

static void remove_part(struct spawning_part *p)
{
	LIST_REMOVE(p, link);
	free_part(p);
}

/* ---- answers to node 0 ---------------------------------------------------------------------- */

/* errors: of the tasks here; NULL where none was reached. */
static void report(
	struct spawning *sp, uint32_t number, const struct err *why, const json_t *errors)
{
	struct err err = ERR_INIT;

	if (spawning_send_take(sp, 0, SPAWNING_STARTED,
		    json_pack("{s:I, s:i, s:s, s:O*}", "number", (json_int_t)number, "error",
			    -why->code, "why", why->text, "errors", errors),
		    NULL, 0, &err) < 0)
		serve_log(
			sp->serve, LOG_LEVEL_ERROR, "can't report a spawn to node 0: %s", err.text);
}

/* Nothing of it runs here. */
static void be_over(struct spawning_part *p)
{
	const struct spawn_events *events = p->sp->events;

	p->state = PART_OVER;
	if (events && events->failed)
		events->failed(p->sp->userdata, &p->part);
	if (p->ended)
		remove_part(p);
}

static void part_fail(struct spawning_part *p, const struct err *why, const json_t *errors)
{
	report(p->sp, p->part.number, why, errors);
	be_over(p);
}

/* ---- the request to the agent --------------------------------------------------------------- */

int spawn_environ(const struct spawn_part *part, int64_t index, const char *name, const char *value)
{
	struct spawning_part *p = (struct spawning_part *)part;
	json_t **into = &p->common;

	if (index >= (int64_t)part->local_count)
		return -EINVAL;
	if (index >= 0 && !p->own)
		p->own = calloc(part->local_count, sizeof(json_t *));
	if (index >= 0 && !p->own)
		return -ENOMEM;
	if (index >= 0)
		into = &p->own[index];
	if (!*into)
		*into = json_array();
	return json_array_append_new(*into, json_sprintf("%s=%s", name, value)) < 0 ? -ENOMEM : 0;
}

int spawn_get_command(
	const struct spawn_part *part, uint32_t command, struct strv *argv, const char **ret_cwd)
{
	const struct spawning_part *p = (const struct spawning_part *)part;
	const json_t *line = json_array_get(p->lines, command), *args, *arg;
	size_t i;
	int r = 0;

	args = json_object_get(line, "argv");
	json_array_foreach (args, i, arg) {
		if (r == 0 && json_is_string(arg))
			r = strv_add(argv, json_string_value(arg));
	}
	*ret_cwd = json_string_value(json_object_get(line, "cwd"));
	return r;
}

void spawn_copy(const struct spawn_part *part, unsigned copy)
{
	((struct spawning_part *)part)->copy = copy;
}

/* The command's own entries, then what the plugin adds to all. */
static json_t *pack_env(const struct spawning_part *p, const json_t *command)
{
	json_t *env = json_array(), *given = json_object_get(command, "env");

	if ((json_is_array(given) && json_array_extend(env, given) < 0) ||
		(p->common && json_array_extend(env, p->common) < 0)) {
		json_decref(env);
		return NULL;
	}
	return env;
}

static json_t *pack_own(const struct spawning_part *p, uint32_t first, uint32_t count)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < count; i++)
		(void)json_array_append_new(array,
			p->own[first + i] ? json_incref(p->own[first + i])
					  : json_array()); /* the agent counts them */
	return array;
}

/* count tasks from the local index first on, of one command, whose ranks follow one another. */
static json_t *pack_group(const struct spawning_part *p, uint32_t first, uint32_t count)
{
	uint32_t rank = p->ranks[first], appnum = p->commands[rank];
	json_t *command = json_array_get(p->lines, appnum);

	return json_pack("{s:O, s:I, s:o, s:O*, s:I, s:I, s:o*}", "argv",
		json_object_get(command, "argv"), "count", (json_int_t)count, "env",
		pack_env(p, command), "cwd",
		json_is_string(json_object_get(command, "cwd")) ? json_object_get(command, "cwd")
								: NULL,
		"appnum", (json_int_t)appnum, "rank", (json_int_t)rank, "environ",
		p->own ? pack_own(p, first, count) : NULL);
}

static json_t *pack_groups(const struct spawning_part *p)
{
	json_t *groups = json_array();
	uint32_t first, n;

	for (first = 0; first < p->part.local_count; first += n) {
		for (n = 1; first + n < p->part.local_count &&
			p->ranks[first + n] == p->ranks[first] + n &&
			p->commands[p->ranks[first + n]] == p->commands[p->ranks[first]];
			n++)
			;
		if (json_array_append_new(groups, pack_group(p, first, n)) < 0) {
			json_decref(groups);
			return NULL;
		}
	}
	return groups;
}

static int request_tasks(struct spawning_part *p, struct err *err)
{
	const struct spawn_part *part = &p->part;
	int r;

	p->id = serve_next_id(p->sp->serve);
	r = serve_link_send_take(p->sp->serve,
		json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:o}", "do", "spawn", "id", p->id,
			"number", (json_int_t)part->number, "first_rank",
			(json_int_t)part->first_rank, "size", (json_int_t)part->size, "copy",
			(int)p->copy, "groups", pack_groups(p)));
	if (r == -EMSGSIZE)
		return err_set_text(err, r,
			"spawn: the arguments and environment of its tasks on a node exceed %u bytes",
			LINK_SIZE_MAX);
	return r < 0 ? err_set(err, r, "spawn: request tasks of the agent") : 0;
}

/* ---- its beginning -------------------------------------------------------------------------- */

static bool read_block(const json_t *array, struct share *block)
{
	json_int_t node, command, count;

	if (json_unpack((json_t *)array, "[I, I, I]", &node, &command, &count) < 0 || node < 0 ||
		node >= WIRE_NODES_MAX || command < 0 || count < 1 || count > SPAWNING_SIZE_MAX)
		return false;
	*block = (struct share){
		.node = (uint32_t)node, .command = (uint32_t)command, .count = (uint32_t)count};
	return true;
}

/* Reads the node of each of its ranks, and which are here. */
static bool read_blocks(struct spawning_part *p, const json_t *blocks)
{
	uint32_t own = serve_get_job(p->sp->serve)->nodeid, rank = 0, i;
	struct share b;
	size_t k;

	for (k = 0; k < json_array_size(blocks); k++) {
		if (!read_block(json_array_get(blocks, k), &b) ||
			b.command >= json_array_size(p->lines) || b.count > p->part.size - rank)
			return false;
		for (i = 0; i < b.count; i++, rank++) {
			p->nodes[rank] = b.node;
			p->commands[rank] = b.command;
			if (b.node == own)
				p->ranks[p->part.local_count++] = rank;
		}
	}
	return rank == p->part.size;
}

static int read_part(struct spawning_part *p, const struct spawning_message *m, struct err *err)
{
	struct spawn_part *part = &p->part;
	uint32_t i;

	if (!spawning_get(m->object, "number", UINT32_MAX - 1, &part->number) ||
		!spawning_get(m->object, "first_rank", SPAWNING_RANK_MAX, &part->first_rank) ||
		!spawning_get(m->object, "size", SPAWNING_SIZE_MAX, &part->size) ||
		!spawning_get(m->object, "parent", UINT32_MAX, &part->parent))
		return err_set_text(err, -EPROTO, "spawn: the request of node 0 is malformed");
	p->lines = json_incref(json_object_get(m->object, "commands"));
	part->nodes = p->nodes = calloc(part->size + 1u, sizeof(*p->nodes));
	part->commands = p->commands = calloc(part->size + 1u, sizeof(*p->commands));
	part->ranks = p->ranks = calloc(part->size + 1u, sizeof(*p->ranks));
	part->data = p->data = malloc(m->size + 1);
	if (!p->nodes || !p->commands || !p->ranks || !p->data)
		return err_set(err, -ENOMEM, "spawn");
	memcpy(p->data, m->data, m->size);
	part->data_size = m->size;
	if (!read_blocks(p, json_object_get(m->object, "blocks")))
		return err_set_text(err, -EPROTO, "spawn: the request of node 0 is malformed");
	p->fds = calloc(part->local_count + 1u, sizeof(*p->fds));
	if (!p->fds)
		return err_set(err, -ENOMEM, "spawn");
	for (i = 0; i < part->local_count; i++)
		p->fds[i] = -1;
	return 0;
}

static void be_running(struct spawning_part *p)
{
	static const struct err fine = ERR_INIT;
	const struct spawn_events *events = p->sp->events;
	uint32_t i;

	p->state = PART_RUNNING;
	if (events->started)
		events->started(p->sp->userdata, &p->part, p->fds);
	for (i = 0; events->started && i < p->part.local_count; i++)
		p->fds[i] = -1; /* the plugin's now */
	report(p->sp, p->part.number, &fine, NULL);
}

void spawning_part_start(struct spawning *sp, const struct spawning_message *m)
{
	struct spawning_part *p = calloc(1, sizeof(*p));
	struct err err = ERR_INIT;
	int r = 0;

	if (!p)
		return; /* the deadline ends it */
	p->sp = sp;
	if (!sp->events)
		r = err_set_text(
			&err, -EOPNOTSUPP, "spawn: this step's MPI plugin starts no tasks");
	if (r == 0)
		r = read_part(p, m, &err);
	if (r == 0 && sp->events->prepare) {
		r = sp->events->prepare(sp->userdata, &p->part, &err);
		if (r < 0 && err.code == 0)
			(void)err_set(&err, r, "spawn: the MPI plugin refuses");
	}
	if (r < 0) {
		report(sp, p->part.number, &err, NULL);
		free_part(p);
		return;
	}
	LIST_INSERT_HEAD(&sp->parts, p, link);
	if (p->part.local_count == 0)
		be_running(p);
	else if (request_tasks(p, &err) < 0)
		part_fail(p, &err, NULL);
}

/* ---- its end -------------------------------------------------------------------------------- */

static int send_drop(const struct spawning_part *p)
{
	int r = serve_link_send_take(p->sp->serve,
		json_pack("{s:s, s:I, s:I}", "do", "drop", "id", serve_next_id(p->sp->serve),
			"number", (json_int_t)p->part.number));

	if (r < 0)
		serve_log(p->sp->serve, LOG_LEVEL_ERROR, "can't end the tasks of spawn %u: %s",
			p->part.number, strerror(-r));
	return r;
}

/* Has the agent end what runs: their exits are reported one by one. */
static void end_tasks(struct spawning_part *p)
{
	p->state = PART_ENDING;
	if (p->exited >= p->part.local_count || send_drop(p) < 0)
		be_over(p);
}

static void be_failed(struct spawning_part *p)
{
	p->failed = p->ended = true;
	if (p->state == PART_RUNNING)
		end_tasks(p);
	else if (p->state == PART_OVER)
		remove_part(p);
	else if (p->state == PART_REQUESTED)
		(void)send_drop(p); /* its answer is awaited in any case */
}

static struct spawning_part *find_number(struct spawning *sp, uint32_t number)
{
	struct spawning_part *p;

	LIST_FOREACH(p, &sp->parts, link)
	{
		if (p->part.number == number)
			break;
	}
	return p;
}

void spawning_part_end(struct spawning *sp, const struct spawning_message *m)
{
	struct spawning_part *p;
	uint32_t number;

	if (!spawning_get(m->object, "number", UINT32_MAX, &number))
		return;
	p = find_number(sp, number);
	if (!p)
		return;
	if (json_is_true(json_object_get(m->object, "failed")))
		be_failed(p);
	else
		remove_part(p);
}

void spawning_task_exit(struct spawning *sp, uint32_t rank)
{
	struct spawning_part *p;

	LIST_FOREACH(p, &sp->parts, link)
	{
		if (rank >= p->part.first_rank && rank - p->part.first_rank < p->part.size)
			break;
	}
	if (!p || p->exited >= p->part.local_count)
		return;
	p->exited++;
	if (p->state == PART_ENDING && p->exited == p->part.local_count)
		be_over(p);
}

void spawning_part_lost(struct spawning *sp)
{
	struct spawning_part *p, *next;

	for (p = LIST_FIRST(&sp->parts); p; p = next) {
		next = LIST_NEXT(p, link);
		be_failed(p);
	}
}

/* ---- the agent's answer --------------------------------------------------------------------- */

static void take_fds(struct spawning_part *p, struct link_message *message)
{
	uint32_t at;
	size_t i;

	if (!spawning_get(message->object, "at", SPAWNING_SIZE_MAX, &at))
		return;
	for (i = 0; i < message->fds_count && at + i < p->part.local_count; i++) {
		if (p->fds[at + i] < 0)
			p->fds[at + i] = take_fd(&message->fds[i]);
	}
}

static void take_spawned(struct spawning_part *p, const json_t *object)
{
	struct err err = ERR_INIT;

	if (spawning_get_error(object, &err) < 0) {
		part_fail(p, &err, json_object_get(object, "errors"));
	} else if (p->failed) {
		p->state = PART_RUNNING;
		end_tasks(p);
	} else {
		be_running(p);
	}
}

void spawning_take_answer(struct serve *s, struct link_message *message)
{
	const char *what = json_string_value(json_object_get(message->object, "tell"));
	json_int_t id = json_integer_value(json_object_get(message->object, "id"));
	struct spawning_part *p;

	LIST_FOREACH(p, &s->spawning->parts, link)
	{
		if (p->id == id && p->state == PART_REQUESTED)
			break;
	}
	if (!p)
		return;
	if (strcmp(what, "fds") == 0)
		take_fds(p, message);
	else
		take_spawned(p, message->object);
}

/* Nobody starts tasks any more, and those that run are on their own until somebody adopts them. */
void spawning_agent_gone(struct spawning *sp)
{
	struct spawning_part *p, *next;
	struct err err = ERR_INIT;

	(void)err_set_text(&err, -EPIPE, "spawn: the agent of node %u is gone",
		serve_get_job(sp->serve)->nodeid);
	for (p = LIST_FIRST(&sp->parts); p; p = next) {
		next = LIST_NEXT(p, link);
		if (p->state == PART_REQUESTED)
			part_fail(p, &err, NULL);
		else if (p->state == PART_ENDING)
			be_over(p);
	}
}

void spawning_part_free(struct spawning *sp)
{
	while (!LIST_EMPTY(&sp->parts))
		remove_part(LIST_FIRST(&sp->parts));
}
