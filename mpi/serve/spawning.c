/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/serve/spawning.h"

#include <string.h>

#include "mpi/serve/spawning_impl.h"

/* ---- messages ------------------------------------------------------------------------------ */

int spawning_send_take(struct spawning *sp, uint32_t node, enum spawning_channel channel,
	json_t *object, const void *data, size_t size, struct err *err)
{
	_cleanup_free_ char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	struct iovec iov[2];

	json_decref(object);
	if (!text)
		return err_set(err, -ENOMEM, "spawn");
	iov[0] = (struct iovec){.iov_base = text, .iov_len = strlen(text) + 1};
	iov[1] = (struct iovec){.iov_base = (void *)data, .iov_len = size};
	return wire_send(sp->serve->wire, node, (uint16_t)channel, iov, size ? 2 : 1, err);
}

static bool read_message(const struct wire_block *block, struct spawning_message *ret_message)
{
	const char *text = block->data, *end;
	json_t *object;

	end = block->size ? memchr(text, '\0', block->size) : NULL;
	object = end ? json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (!json_is_object(object)) {
		json_decref(object);
		return false;
	}
	*ret_message = (struct spawning_message){
		.object = object,
		.data = end + 1,
		.size = block->size - (size_t)(end + 1 - text),
	};
	return true;
}

bool spawning_get(const json_t *object, const char *name, uint32_t most, uint32_t *ret_number)
{
	const json_t *value = json_object_get(object, name);
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || n > most)
		return false;
	*ret_number = (uint32_t)n;
	return true;
}

int spawning_get_error(const json_t *object, struct err *err)
{
	const char *why = json_string_value(json_object_get(object, "why"));
	uint32_t error = EIO;

	if (!spawning_get(object, "error", 4095, &error))
		error = EIO;
	if (error == 0)
		return 0;
	return err_say(err, -(int)error, "%s", why ? why : strerror((int)error));
}

uint32_t spawning_parent(const struct spawning *sp, uint32_t node)
{
	uint32_t fanout = serve_get_host(sp->serve)->wire->fanout;

	return node == 0 ? 0 : (node - 1) / (fanout ? fanout : WIRE_FANOUT_DEFAULT);
}

/* Each message has one side that sends it, and one that it is for. */
static void take(struct spawning *sp, uint32_t from, uint16_t channel, struct spawning_message *m)
{
	bool root = serve_get_job(sp->serve)->nodeid == 0;

	if (channel == SPAWNING_ASK && root)
		spawning_root_ask(sp, from, m);
	else if (channel == SPAWNING_STARTED && root)
		spawning_root_started(sp, from, m);
	else if (channel == SPAWNING_START && from == 0)
		spawning_part_start(sp, m);
	else if (channel == SPAWNING_END && from == 0)
		spawning_part_end(sp, m);
	else if (channel == SPAWNING_DONE && from == 0)
		spawning_ask_done(sp, m);
}

void spawning_take_message(
	struct spawning *sp, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct spawning_message m = {0};

	if (!read_message(block, &m)) {
		serve_log(sp->serve, LOG_LEVEL_ERROR,
			"node %u sends what is no message of a spawn, ignoring", from);
		return;
	}
	take(sp, from, channel, &m);
	json_decref(m.object);
}

/* ---- what happens meanwhile ---------------------------------------------------------------- */

void spawning_take_answer(struct spawning *sp, struct link_message *message)
{
	spawning_part_answer(sp, message);
}

void spawning_task_exit(struct spawning *sp, uint32_t rank)
{
	spawning_part_exit(sp, rank);
}

void spawning_agent_gone(struct spawning *sp)
{
	spawning_part_no_agent(sp);
}

void spawning_node_lost(struct spawning *sp, uint32_t node, const struct err *err)
{
	uint32_t own = serve_get_job(sp->serve)->nodeid;

	if (own == 0) {
		spawning_root_lost(sp, node, err);
	} else if (node == spawning_parent(sp, own)) {
		spawning_ask_lost(sp, err);
		spawning_part_lost(sp, err);
	}
}

/* ---- life ---------------------------------------------------------------------------------- */

void spawn_set_events(struct serve *s, const struct spawn_events *events, void *userdata)
{
	s->spawning->events = events;
	s->spawning->userdata = userdata;
}

struct spawning *spawning_new(struct serve *s)
{
	struct spawning *sp = calloc(1, sizeof(*sp));

	if (sp)
		sp->serve = s;
	return sp;
}

struct spawning *spawning_free(struct spawning *sp)
{
	if (!sp)
		return NULL;
	spawning_ask_free(sp);
	spawning_root_free(sp);
	spawning_part_free(sp);
	free(sp);
	return NULL;
}
