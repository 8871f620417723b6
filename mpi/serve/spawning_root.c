/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawns as node 0 has them: it gives each its number and its ranks, distributes its tasks, and
 * waits for what the nodes make of it. Numbers and ranks are never used again, whatever became of
 * them.
 */
#include <assert.h>
#include <string.h>

#include "mpi/serve/spawning_impl.h"

/* ---- the distribution of tasks over nodes --------------------------------------------------- */

/* How many it takes until each of the nodes has level, if it has not more. */
static uint64_t distribution_fill(
	const uint32_t *nodes, size_t nodes_count, const uint32_t *load, uint64_t level)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < nodes_count; i++)
		sum += load[nodes[i]] < level ? level - load[nodes[i]] : 0;
	return sum;
}

/* The highest level that count of them reach. */
static uint64_t distribution_find_level(
	const uint32_t *nodes, size_t nodes_count, const uint32_t *load, uint32_t count)
{
	uint64_t low = 0, high = (uint64_t)UINT32_MAX + count + 1, mid;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (distribution_fill(nodes, nodes_count, load, mid) <= count)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static int distribution_add_block(
	struct distribution *distribution, uint32_t node, uint32_t command, uint32_t count)
{
	struct share *grown =
		realloc(distribution->blocks, (distribution->count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	distribution->blocks = grown;
	grown[distribution->count++] =
		(struct share){.node = node, .command = command, .count = count};
	return 0;
}

int distribution_add(struct distribution *distribution, uint32_t command, uint32_t count,
	const uint32_t *nodes, size_t nodes_count, uint32_t *load)
{
	uint64_t level = distribution_find_level(nodes, nodes_count, load, count);
	uint64_t rest = count - distribution_fill(nodes, nodes_count, load, level);
	uint32_t share;
	size_t i;
	int r = 0;

	assert(nodes_count > 0);
	for (i = 0; r == 0 && i < nodes_count; i++) {
		share = load[nodes[i]] < level ? (uint32_t)(level - load[nodes[i]]) : 0;
		/* fewer are left than there are nodes at the level */
		if (rest > 0 && load[nodes[i]] <= level) {
			share++;
			rest--;
		}
		if (share == 0)
			continue;
		r = distribution_add_block(distribution, nodes[i], command, share);
		if (r == 0)
			load[nodes[i]] += share;
	}
	return r;
}

void distribution_take_back(const struct distribution *distribution, uint32_t *load)
{
	size_t i;

	for (i = 0; i < distribution->count; i++)
		load[distribution->blocks[i].node] -= distribution->blocks[i].count;
}

void distribution_clear(struct distribution *distribution)
{
	free(distribution->blocks);
	*distribution = (struct distribution){0};
}

struct spawning_spawn {
	LIST_ENTRY(spawning_spawn) link;
	struct spawning *sp;
	uint32_t from; /* the requester, and its number for it */
	json_int_t token;
	uint32_t number, first_rank, size;
	struct distribution distribution;
	bool *awaited; /* nnodes of them: those that have not answered */
	uint32_t awaited_count;
	int *errcodes; /* size of them */
	struct err err;
	ev_timer limit;
};

struct spawning_root {
	LIST_HEAD(, spawning_spawn) spawns;
	uint32_t last_number;
	uint32_t next_rank;
	uint32_t *load; /* nnodes of them: tasks that were distributed to each */
	bool *lost;     /* likewise: none can go there any more */
};

static uint32_t node_count(const struct spawning *sp)
{
	return serve_get_job(sp->serve)->nnodes;
}

static int make_root(struct spawning *sp)
{
	const stepd_step_rec_t *job = serve_get_job(sp->serve);
	struct spawning_root *root = sp->root;
	uint32_t i;

	if (root)
		return 0;
	sp->root = root = calloc(1, sizeof(*root));
	if (root) {
		root->load = calloc(job->nnodes + 1u, sizeof(*root->load));
		root->lost = calloc(job->nnodes + 1u, sizeof(*root->lost));
	}
	if (!root || !root->load || !root->lost) {
		spawning_root_free(sp);
		return -ENOMEM;
	}
	root->next_rank = job->ntasks;
	for (i = 0; job->rank_nodes && i < job->ntasks; i++)
		root->load[job->rank_nodes[i]]++;
	return 0;
}

static void free_spawn(struct spawning_spawn *spawn)
{
	ev_timer_stop(serve_get_loop(spawn->sp->serve), &spawn->limit);
	distribution_clear(&spawn->distribution);
	free(spawn->awaited);
	free(spawn->errcodes);
	free(spawn);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void send_done(struct spawning *sp, uint32_t node, json_int_t token, const struct err *why,
	const struct spawning_spawn *spawn)
{
	json_t *errcodes = NULL;
	struct err err = ERR_INIT;
	uint32_t i;

	if (spawn && why->code < 0) {
		errcodes = json_array();
		for (i = 0; i < spawn->size; i++)
			(void)json_array_append_new(errcodes, json_integer(spawn->errcodes[i]));
	}
	if (spawning_send_take(sp, node, SPAWNING_DONE,
		    json_pack("{s:I, s:i, s:s, s:I, s:I, s:o*}", "token", token, "error",
			    -why->code, "why", why->text, "number",
			    (json_int_t)(spawn ? spawn->number : 0), "size",
			    (json_int_t)(spawn ? spawn->size : 0), "errcodes", errcodes),
		    NULL, 0, &err) < 0)
		serve_log(sp->serve, LOG_LEVEL_ERROR, "can't answer a spawn of node %u: %s", node,
			err.text);
}

static void send_end(struct spawning_spawn *spawn, uint32_t node)
{
	struct err err = ERR_INIT;

	if (spawn->sp->root->lost[node])
		return;
	if (spawning_send_take(spawn->sp, node, SPAWNING_END,
		    json_pack("{s:I, s:b}", "number", (json_int_t)spawn->number, "failed",
			    (int)(spawn->err.code < 0)),
		    NULL, 0, &err) < 0)
		serve_log(spawn->sp->serve, LOG_LEVEL_ERROR,
			"can't report a spawn's end to node %u: %s", node, err.text);
}

/* All have answered, or spawn->err has the reason not to wait. */
static void spawn_end(struct spawning_spawn *spawn)
{
	struct spawning *sp = spawn->sp;
	uint32_t i;

	LIST_REMOVE(spawn, link);
	for (i = 0; spawn->err.code < 0 && i < spawn->size; i++) {
		if (spawn->errcodes[i] == 0)
			spawn->errcodes[i] = ECANCELED; /* it ends for the others' sake */
	}
	if (spawn->err.code < 0)
		distribution_take_back(&spawn->distribution, sp->root->load);
	for (i = 0; i < node_count(sp); i++)
		send_end(spawn, i);
	send_done(sp, spawn->from, spawn->token, &spawn->err, spawn);
	free_spawn(spawn);
}

static void on_limit(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct spawning_spawn *spawn = w->data;
	const char *const *names = serve_get_job(spawn->sp->serve)->node_names;
	uint32_t i;

	assert(spawn);
	for (i = 0; i < node_count(spawn->sp) && !spawn->awaited[i]; i++)
		;
	(void)err_set_text(&spawn->err, -ETIMEDOUT,
		"spawn %u: node %u%s%s has not started its tasks after %llu ms%s", spawn->number, i,
		names ? ", " : "", names ? names[i] : "",
		(unsigned long long)serve_get_host(spawn->sp->serve)->timeout_ms,
		spawn->awaited_count > 1 ? ", nor have others" : "");
	spawn_end(spawn);
}

/* ---- the answers of the nodes --------------------------------------------------------------- */

static struct spawning_spawn *find_spawn(struct spawning *sp, uint32_t number)
{
	struct spawning_spawn *spawn = sp->root ? LIST_FIRST(&sp->root->spawns) : NULL;

	while (spawn && spawn->number != number)
		spawn = LIST_NEXT(spawn, link);
	return spawn;
}

/* errors has one for each task of that node, in the order of their ranks. */
static void note_errors(struct spawning_spawn *spawn, uint32_t node, const json_t *errors)
{
	uint32_t rank = 0, i;
	size_t at = 0, k;

	for (k = 0; k < spawn->distribution.count; k++) {
		for (i = 0; i < spawn->distribution.blocks[k].count; i++, rank++) {
			if (spawn->distribution.blocks[k].node == node)
				spawn->errcodes[rank] =
					(int)json_integer_value(json_array_get(errors, at++));
		}
	}
}

void spawning_root_started(struct spawning *sp, uint32_t from, const struct spawning_message *m)
{
	struct spawning_spawn *spawn;
	uint32_t number;

	if (!spawning_get(m->object, "number", UINT32_MAX, &number))
		return;
	spawn = find_spawn(sp, number);
	if (!spawn || from >= node_count(sp) || !spawn->awaited[from])
		return; /* it has ended without that node */
	spawn->awaited[from] = false;
	spawn->awaited_count--;
	note_errors(spawn, from, json_object_get(m->object, "errors"));
	if (spawning_get_error(m->object, &spawn->err) < 0 || spawn->awaited_count == 0)
		spawn_end(spawn);
}

void spawning_root_lost(struct spawning *sp, uint32_t node, const struct err *err)
{
	const struct wire_tree tree = spawning_tree(sp);
	struct spawning_spawn *spawn, *next;
	uint32_t i;

	if (node == 0 || make_root(sp) < 0)
		return; /* without memory a deadline ends what waits */
	for (i = 0; i < node_count(sp); i++)
		sp->root->lost[i] |= wire_tree_is_below(&tree, i, node);
	for (spawn = LIST_FIRST(&sp->root->spawns); spawn; spawn = next) {
		next = LIST_NEXT(spawn, link);
		for (i = 0; i < node_count(sp) && !(spawn->awaited[i] && sp->root->lost[i]); i++)
			;
		if (i == node_count(sp))
			continue;
		spawn->err = *err;
		(void)err_prefix(&spawn->err, "spawn %u", spawn->number);
		if (spawn->err.code == 0)
			spawn->err.code = -EPIPE;
		spawn_end(spawn);
	}
}

/* ---- the beginning -------------------------------------------------------------------------- */

static uint32_t count_tasks(const json_t *commands)
{
	uint32_t count, sum = 0;
	size_t i;

	for (i = 0; i < json_array_size(commands); i++) {
		if (!spawning_get(
			    json_array_get(commands, i), "count", SPAWNING_SIZE_MAX, &count) ||
			count == 0 || count > SPAWNING_SIZE_MAX - sum)
			return 0;
		sum += count;
	}
	return sum;
}

/* The nodes that a command may use: those it names, else all that are there. */
static int choose_nodes(const struct spawning *sp, const json_t *hosts, uint32_t *nodes,
	size_t *ret_count, struct err *err)
{
	size_t named = json_array_size(hosts), n = 0, i;
	json_int_t node;

	for (i = 0; i < (named ? named : node_count(sp)) && n < node_count(sp); i++) {
		node = named ? json_integer_value(json_array_get(hosts, i)) : (json_int_t)i;
		if (node < 0 || node >= node_count(sp))
			return err_set_text(
				err, -EPROTO, "spawn: it requests a node that is not in the step");
		if (!sp->root->lost[node])
			nodes[n++] = (uint32_t)node;
		else if (named)
			return err_set_text(err, -EHOSTUNREACH, "spawn: the way to node %u is lost",
				(unsigned)node);
	}
	*ret_count = n; /* node 0 is there */
	return 0;
}

static int distribute(struct spawning_spawn *spawn, const json_t *commands, struct err *err)
{
	struct spawning *sp = spawn->sp;
	_cleanup_free_ uint32_t *nodes = calloc(node_count(sp) + 1u, sizeof(*nodes));
	const json_t *command;
	uint32_t count = 0;
	size_t i, n = 0;
	int r = 0;

	if (!nodes)
		return err_set(err, -ENOMEM, "spawn");
	for (i = 0; r == 0 && i < json_array_size(commands); i++) {
		command = json_array_get(commands, i);
		(void)spawning_get(command, "count", SPAWNING_SIZE_MAX, &count); /* count_tasks() */
		r = choose_nodes(sp, json_object_get(command, "hosts"), nodes, &n, err);
		if (r == 0 &&
			distribution_add(&spawn->distribution, (uint32_t)i, count, nodes, n,
				sp->root->load) < 0)
			r = err_set(err, -ENOMEM, "spawn");
	}
	return r;
}

static json_t *pack_blocks(const struct distribution *distribution)
{
	const struct share *b;
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < distribution->count; i++) {
		b = &distribution->blocks[i];
		(void)json_array_append_new(array,
			json_pack("[I, I, I]", (json_int_t)b->node, (json_int_t)b->command,
				(json_int_t)b->count)); /* one that lacks is found there */
	}
	return array;
}

static int send_all(struct spawning_spawn *spawn, const struct spawning_message *m, struct err *err)
{
	struct spawning *sp = spawn->sp;
	json_t *object = json_pack("{s:I, s:I, s:I, s:O, s:O, s:o}", "number",
		(json_int_t)spawn->number, "first_rank", (json_int_t)spawn->first_rank, "size",
		(json_int_t)spawn->size, "parent", json_object_get(m->object, "parent"), "commands",
		json_object_get(m->object, "commands"), "blocks",
		pack_blocks(&spawn->distribution));
	uint32_t i;
	int r = object ? 0 : err_set(err, -EPROTO, "spawn");

	for (i = 0; r == 0 && i < node_count(sp); i++) {
		if (sp->root->lost[i])
			continue;
		r = spawning_send_take(
			sp, i, SPAWNING_START, json_incref(object), m->data, m->size, err);
		spawn->awaited[i] = r == 0;
		spawn->awaited_count += r == 0;
	}
	json_decref(object);
	return r;
}

static int make_spawn(
	struct spawning_spawn *spawn, const struct spawning_message *m, struct err *err)
{
	struct spawning *sp = spawn->sp;
	const json_t *commands = json_object_get(m->object, "commands");

	if (make_root(sp) < 0)
		return err_set(err, -ENOMEM, "spawn");
	spawn->size = count_tasks(commands);
	if (spawn->size == 0)
		return err_set_text(err, -EPROTO, "spawn: it requests no tasks, or too many");
	if (spawn->size > SPAWNING_RANK_MAX - sp->root->next_rank)
		return err_set_text(err, -E2BIG,
			"spawn: a step can have %u tasks in all its life, and this one has had %u",
			SPAWNING_RANK_MAX, sp->root->next_rank);
	spawn->awaited = calloc(node_count(sp) + 1u, sizeof(*spawn->awaited));
	spawn->errcodes = calloc(spawn->size, sizeof(*spawn->errcodes));
	if (!spawn->awaited || !spawn->errcodes)
		return err_set(err, -ENOMEM, "spawn");
	return distribute(spawn, commands, err);
}

static void spawn_begin(struct spawning_spawn *spawn, const struct spawning_message *m)
{
	struct spawning_root *root = spawn->sp->root;
	uint64_t limit_ms = serve_get_host(spawn->sp->serve)->timeout_ms;
	struct ev_loop *loop = serve_get_loop(spawn->sp->serve);

	spawn->number = ++root->last_number;
	spawn->first_rank = root->next_rank;
	root->next_rank += spawn->size;
	LIST_INSERT_HEAD(&root->spawns, spawn, link);
	if (limit_ms) {
		ev_now_update(loop);
		ev_timer_set(&spawn->limit, (double)limit_ms / 1e3, 0.);
		ev_timer_start(loop, &spawn->limit);
	}
	if (send_all(spawn, m, &spawn->err) < 0)
		spawn_end(spawn);
}

void spawning_root_request(struct spawning *sp, uint32_t from, const struct spawning_message *m)
{
	struct spawning_spawn *spawn = calloc(1, sizeof(*spawn));
	json_int_t token = json_integer_value(json_object_get(m->object, "token"));
	struct err err = ERR_INIT;

	if (!spawn) {
		(void)err_set(&err, -ENOMEM, "spawn");
		send_done(sp, from, token, &err, NULL);
		return;
	}
	*spawn = (struct spawning_spawn){.sp = sp, .from = from, .token = token};
	ev_init(&spawn->limit, on_limit);
	spawn->limit.data = spawn;
	if (make_spawn(spawn, m, &err) == 0) {
		spawn_begin(spawn, m);
		return;
	}
	if (sp->root)
		distribution_take_back(&spawn->distribution, sp->root->load);
	send_done(sp, from, token, &err, NULL);
	free_spawn(spawn);
}

void spawning_root_free(struct spawning *sp)
{
	struct spawning_root *root = sp->root;
	struct spawning_spawn *spawn;

	if (!root)
		return;
	while ((spawn = LIST_FIRST(&root->spawns))) {
		LIST_REMOVE(spawn, link);
		free_spawn(spawn);
	}
	free(root->load);
	free(root->lost);
	free(root);
	sp->root = NULL;
}
