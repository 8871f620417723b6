/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/engine/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/base64.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"

#define DELAY_MAX_MIN  (365 * 24 * 60)
#define WARNING_S      60     /* before the end, where no time is given */
#define LIST_MAX       65536u /* arguments, variables, dependencies */
#define BEGIN_TIME_MAX ((INT64_C(1) << 40) - 1)
#define MEMORY_MAX     ((INT64_C(1) << 44) - 1) /* MB */

enum row_type {
	ROW_TEXT,
	ROW_NUMBER,
	ROW_MINUTES, /* a number, -1: INFINITE */
	ROW_BOOL,
	ROW_TRISTATE, /* int: 1, 0; -1: not given */
	ROW_TIME,
};

struct row {
	const char *name;
	size_t offset;
	enum row_type type;
	uint32_t least; /* of a number */
	size_t size;    /* of a text, at most */
};

#define TEXT(name, size)                                                                           \
	{                                                                                          \
#name, offsetof(struct job_request, name), ROW_TEXT, 0, size                       \
	}
#define ROW(name, type, least)                                                                     \
	{                                                                                          \
#name, offsetof(struct job_request, name), type, least, 0                          \
	}

static const struct row rows[] = {
	TEXT(name, 1024),
	TEXT(partition, 1024),
	TEXT(qos, 256),
	TEXT(reservation, 256),
	TEXT(comment, 8192),
	TEXT(network, 1024),
	ROW(min_nodes, ROW_NUMBER, 1),
	ROW(max_nodes, ROW_NUMBER, 1),
	ROW(ntasks, ROW_NUMBER, 1),
	ROW(cpus_per_task, ROW_NUMBER, 1),
	ROW(ntasks_per_node, ROW_NUMBER, 1),
	ROW(ntasks_per_socket, ROW_NUMBER, 1),
	ROW(ntasks_per_core, ROW_NUMBER, 1),
	ROW(min_cpus_per_node, ROW_NUMBER, 1),
	ROW(time_limit_min, ROW_MINUTES, 1),
	ROW(priority, ROW_NUMBER, 0),
	TEXT(nodelist, 1u << 20),
	TEXT(exclude, 1u << 20),
	TEXT(features, 8192),
	TEXT(distribution, 64),
	ROW(spread_job, ROW_BOOL, 0),
	ROW(use_min_nodes, ROW_BOOL, 0),
	ROW(contiguous, ROW_BOOL, 0),
	ROW(exclusive, ROW_BOOL, 0),
	ROW(oversubscribe, ROW_BOOL, 0),
	ROW(hold, ROW_BOOL, 0),
	ROW(requeue, ROW_TRISTATE, 0),
	ROW(begin_time, ROW_TIME, 0),
	TEXT(signal, 32),
	ROW(dependencies_any, ROW_BOOL, 0),
	ROW(singleton, ROW_BOOL, 0),
	TEXT(array, 65536),
	TEXT(work_dir, 4095),
	TEXT(command, 8192),
	TEXT(script, 4u << 20),
	TEXT(stdin_file, 4095),
	TEXT(stdout_file, 4095),
	TEXT(stderr_file, 4095),
	ROW(append, ROW_BOOL, 0),
};

static const char *const kind_names[] = {
	[DEPENDS_AFTER] = "after",
	[DEPENDS_AFTER_ANY] = "afterany",
	[DEPENDS_AFTER_OK] = "afterok",
	[DEPENDS_AFTER_NOT_OK] = "afternotok",
};

static const void *member(const struct job_request *request, const struct row *row)
{
	return (const char *)request + row->offset;
}

void request_init(struct job_request *request)
{
	*request = (struct job_request){
		.min_nodes = NO_VAL,
		.max_nodes = NO_VAL,
		.ntasks = NO_VAL,
		.cpus_per_task = NO_VAL,
		.ntasks_per_node = NO_VAL,
		.ntasks_per_socket = NO_VAL,
		.ntasks_per_core = NO_VAL,
		.min_cpus_per_node = NO_VAL,
		.memory_mb = NO_VAL64,
		.time_limit_min = NO_VAL,
		.priority = NO_VAL,
		.requeue = -1,
	};
}

static void free_vector(char **v)
{
	size_t i;

	for (i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

/* ---- who owns it --------------------------------------------------------------------------------
 */

struct request_owner {
	uint32_t refs;
	struct job_request held; /* what it owns of it */
};

static bool is_payload(const struct row *row)
{
	return row->offset == offsetof(struct job_request, script);
}

/* The texts and lists of `from` become those of `to`. */
static void move_pointers(struct job_request *to, const struct job_request *from, bool payload)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type == ROW_TEXT && is_payload(&rows[i]) == payload)
			*(char **)((char *)to + rows[i].offset) =
				*(char *const *)member(from, &rows[i]);
	}
	if (payload) {
		to->argv = from->argv;
		to->env = from->env;
	} else {
		to->dependencies = from->dependencies;
		to->dependencies_count = from->dependencies_count;
	}
}

static void free_pointers(struct job_request *request, bool payload)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type == ROW_TEXT && is_payload(&rows[i]) == payload)
			free(*(char *const *)member(request, &rows[i]));
	}
	if (payload) {
		free_vector(request->argv);
		free_vector(request->env);
	} else {
		free(request->dependencies);
	}
}

static struct request_owner *owner_ref(struct request_owner *owner)
{
	owner->refs++;
	return owner;
}

static void owner_unref(struct request_owner *owner, bool payload)
{
	if (--owner->refs > 0)
		return;
	free_pointers(&owner->held, payload);
	free(owner);
}

static struct request_owner *owner_new(const struct job_request *request, bool payload)
{
	struct request_owner *owner = calloc(1, sizeof(*owner));

	if (!owner)
		return NULL;
	owner->refs = 1;
	move_pointers(&owner->held, request, payload);
	return owner;
}

int request_share(struct job_request *request)
{
	if (request->owner)
		return 0;
	request->payload_owner = owner_new(request, true);
	request->owner = request->payload_owner ? owner_new(request, false) : NULL;
	if (request->owner)
		return 0;
	free(request->payload_owner);
	request->payload_owner = NULL;
	return -ENOMEM;
}

void request_take_payload(struct job_request *request, const struct job_request *other)
{
	struct request_owner *before = request->payload_owner;

	request->payload_owner = owner_ref(other->payload_owner);
	move_pointers(request, other, true);
	owner_unref(before, true);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_vector(char *const *a, char *const *b)
{
	size_t i;

	if (a == b || !a || !b)
		return a == b;
	for (i = 0; a[i] && b[i]; i++) {
		if (strcmp(a[i], b[i]) != 0)
			return false;
	}
	return !a[i] && !b[i];
}

static bool same_pointers(const struct job_request *a, const struct job_request *b, bool payload)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type == ROW_TEXT && is_payload(&rows[i]) == payload &&
			!same_text(*(char *const *)member(a, &rows[i]),
				*(char *const *)member(b, &rows[i])))
			return false;
	}
	if (payload)
		return same_vector(a->argv, b->argv) && same_vector(a->env, b->env);
	return a->dependencies_count == b->dependencies_count &&
		(a->dependencies_count == 0 ||
			memcmp(a->dependencies, b->dependencies,
				a->dependencies_count * sizeof(*a->dependencies)) == 0);
}

void request_unify(struct job_request *request, const struct job_request *other)
{
	struct request_owner *before = request->owner;

	if (same_pointers(request, other, true))
		request_take_payload(request, other);
	if (!same_pointers(request, other, false))
		return;
	request->owner = owner_ref(other->owner);
	move_pointers(request, other, false);
	owner_unref(before, false);
}

void request_clear(struct job_request *request)
{
	if (request->owner) {
		owner_unref(request->payload_owner, true);
		owner_unref(request->owner, false);
	} else {
		free_pointers(request, true);
		free_pointers(request, false);
	}
	request_init(request);
}

/* ---- to JSON ----------------------------------------------------------------------------------
 */

/* A script, an argument or a variable may have any bytes: what is no UTF-8 text is an object. */
static json_t *text_to_json(const char *text)
{
	json_t *json = json_string(text);
	_cleanup_free_ char *coded = NULL;
	size_t size = strlen(text);

	if (json)
		return json;
	coded = malloc(BASE64_SIZE(size) + 1);
	if (!coded)
		return NULL;
	base64_encode(text, size, coded);
	return json_pack("{s:s}", "base64", coded);
}

static bool has_foreign(char *const *v)
{
	for (; v && *v; v++) {
		if (!err_is_utf8(*v))
			return true;
	}
	return false;
}

static const char *find_foreign(const struct job_request *request)
{
	const char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type != ROW_TEXT || is_payload(&rows[i]))
			continue;
		text = *(char *const *)member(request, &rows[i]);
		if (text && !err_is_utf8(text))
			return rows[i].name;
	}
	if (has_foreign(request->argv))
		return "argv";
	return has_foreign(request->env) ? "env" : NULL;
}

int request_check_texts(const struct job_request *request, struct err *err)
{
	const char *name = find_foreign(request);

	return name ? err_set_text(err, -EINVAL,
			      "%s: must be UTF-8, like all that a job gets but its script", name)
		    : 0;
}

static json_t *number_to_json(uint32_t n)
{
	return n == INFINITE ? json_integer(-1) : json_integer(n);
}

/* *ret_json is NULL for what is not given. 0 or -ENOMEM. */
static int row_to_json(const void *value, enum row_type type, json_t **ret_json)
{
	const char *text;
	uint32_t n;
	time_t t;
	int i;

	*ret_json = NULL;
	switch (type) {
	case ROW_TEXT:
		text = *(char *const *)value;
		*ret_json = text ? text_to_json(text) : NULL;
		return text && !*ret_json ? -ENOMEM : 0;
	case ROW_NUMBER:
	case ROW_MINUTES:
		n = *(const uint32_t *)value;
		*ret_json = n != NO_VAL ? number_to_json(n) : NULL;
		return n != NO_VAL && !*ret_json ? -ENOMEM : 0;
	case ROW_BOOL:
		*ret_json = *(const bool *)value ? json_true() : NULL;
		return 0;
	case ROW_TRISTATE:
		i = *(const int *)value;
		*ret_json = i < 0 ? NULL : json_boolean(i > 0);
		return 0;
	case ROW_TIME:
		t = *(const time_t *)value;
		*ret_json = t ? json_integer(t) : NULL;
		return t && !*ret_json ? -ENOMEM : 0;
	default:
		return 0;
	}
}

static int put_vector(json_t *json, const char *name, char *const *v)
{
	json_t *array;
	size_t i;
	int r;

	if (!v)
		return 0;
	array = json_array();
	r = json_object_set_new(json, name, array);
	for (i = 0; r == 0 && v[i]; i++)
		r = json_array_append_new(array, text_to_json(v[i]));
	return r;
}

static int put_dependencies(json_t *json, const struct job_request *request)
{
	const struct job_dependency *d = request->dependencies;
	json_t *array;
	size_t i;
	int r;

	if (request->dependencies_count == 0)
		return 0;
	array = json_array();
	r = json_object_set_new(json, "dependencies", array);
	for (i = 0; r == 0 && i < request->dependencies_count; i++) {
		json_t *one = json_pack("{s:s, s:I}", "type", kind_names[d[i].kind], "job_id",
			(json_int_t)d[i].job_id);

		r = json_array_append_new(array, one);
		if (r == 0 && d[i].task_id != NO_VAL)
			r = json_object_set_new(one, "array_task_id", json_integer(d[i].task_id));
		if (r == 0 && d[i].delay_min)
			r = json_object_set_new(one, "delay_min", json_integer(d[i].delay_min));
	}
	return r;
}

static int put_memory(json_t *json, uint64_t memory_mb)
{
	const char *name = memory_mb & MEM_PER_CPU ? "memory_per_cpu_mb" : "memory_per_node_mb";

	return memory_mb == NO_VAL64
		? 0
		: json_object_set_new(
			  json, name, json_integer((json_int_t)(memory_mb & ~MEM_PER_CPU)));
}

json_t *request_to_json(const struct job_request *request)
{
	json_auto_t *json = json_object();
	json_t *value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (row_to_json(member(request, &rows[i]), rows[i].type, &value) < 0 ||
			(value && json_object_set_new(json, rows[i].name, value) < 0))
			return NULL;
	}
	if (!json || put_memory(json, request->memory_mb) < 0 ||
		put_dependencies(json, request) < 0 ||
		put_vector(json, "argv", request->argv) < 0 ||
		put_vector(json, "env", request->env) < 0)
		return NULL;
	return json_incref(json);
}

/* ---- from JSON --------------------------------------------------------------------------------
 */

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read a job's request");
}

static int decode_text(const json_t *json, char **ret_text)
{
	const char *coded = json_get_text(json, "base64", NULL);
	_cleanup_free_ char *text = coded ? malloc(strlen(coded) + 1) : NULL;
	ssize_t size;

	if (!coded)
		return -EINVAL;
	if (!text)
		return -ENOMEM;
	size = base64_decode(coded, strlen(coded), text);
	if (size < 0 || memchr(text, '\0', (size_t)size))
		return -EINVAL;
	text[size] = '\0';
	*ret_text = take_ptr(text);
	return 0;
}

static int text_from_json(
	const json_t *json, const char *name, size_t most, char **ret_text, struct err *err)
{
	const char *value = json_string_value(json);
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (!value)
		r = decode_text(json, &text);
	else if (strlen(value) != json_string_length(json))
		r = -EINVAL;
	else
		text = strdup(value);
	if (r == -EINVAL)
		return err_set_text(err, r, "%s: needs a text without NUL", name);
	if (!text)
		return no_memory(err);
	if (strlen(text) > most)
		return err_set_text(err, -E2BIG, "%s: is longer than %zu bytes", name, most);
	*ret_text = take_ptr(text);
	return 0;
}

static int integer_from_json(const json_t *json, const char *name, int64_t least, int64_t most,
	int64_t *ret_n, struct err *err)
{
	const int64_t n = json_integer_value(json);

	if (!json_is_integer(json) || n < least || n > most)
		return err_set_text(err, -EINVAL, "%s: needs an integer from %lld to %lld", name,
			(long long)least, (long long)most);
	*ret_n = n;
	return 0;
}

static int bool_from_json(const json_t *json, const char *name, bool *ret_value, struct err *err)
{
	if (!json_is_boolean(json))
		return err_set_text(err, -EINVAL, "%s: needs true or false", name);
	*ret_value = json_is_true(json);
	return 0;
}

static int row_from_json(
	const json_t *json, const struct row *row, struct job_request *request, struct err *err)
{
	const bool minutes = row->type == ROW_MINUTES;
	void *into = (char *)request + row->offset;
	int64_t n = 0;
	bool given = false;
	int r;

	switch (row->type) {
	case ROW_TEXT:
		return text_from_json(json, row->name, row->size, into, err);
	case ROW_NUMBER:
	case ROW_MINUTES:
		if (minutes && json_is_integer(json) && json_integer_value(json) == -1)
			n = INFINITE;
		else if ((r = integer_from_json(json, row->name, row->least, NO_VAL - 1, &n, err)) <
			0)
			return r;
		*(uint32_t *)into = (uint32_t)n;
		return 0;
	case ROW_BOOL:
		return bool_from_json(json, row->name, into, err);
	case ROW_TRISTATE:
		r = bool_from_json(json, row->name, &given, err);
		if (r == 0)
			*(int *)into = given;
		return r;
	case ROW_TIME:
		r = integer_from_json(json, row->name, 0, BEGIN_TIME_MAX, &n, err);
		if (r == 0)
			*(time_t *)into = (time_t)n;
		return r;
	default:
		return -EINVAL;
	}
}

static int memory_from_json(
	const json_t *json, const char *name, struct job_request *request, struct err *err)
{
	int64_t n = 0;
	int r = integer_from_json(json, name, 0, MEMORY_MAX, &n, err);

	if (r < 0)
		return r;
	if (request->memory_mb != NO_VAL64)
		return err_set_text(err, -EINVAL,
			"memory_per_cpu_mb and memory_per_node_mb exclude each other");
	request->memory_mb =
		(uint64_t)n | (strcmp(name, "memory_per_cpu_mb") == 0 ? MEM_PER_CPU : 0);
	return 0;
}

static int check_array(const json_t *json, const char *name, struct err *err)
{
	if (!json_is_array(json))
		return err_set_text(err, -EINVAL, "%s: needs an array", name);
	if (json_array_size(json) > LIST_MAX)
		return err_set_text(err, -E2BIG, "%s: has more than %u elements", name, LIST_MAX);
	return 0;
}

static int vector_from_json(const json_t *json, const char *name, char ***ret_v, struct err *err)
{
	_cleanup_strv_ struct strv v = {0};
	const json_t *element;
	char *text = NULL;
	size_t i;
	int r = check_array(json, name, err);

	if (r < 0)
		return r;
	json_array_foreach (json, i, element) {
		r = text_from_json(element, name, 4u << 20, &text, err);
		if (r < 0)
			return r;
		if (strv_add_take(&v, text) < 0)
			return no_memory(err);
	}
	*ret_v = v.n ? v.v : calloc(1, sizeof(**ret_v));
	if (!*ret_v)
		return no_memory(err);
	if (v.n)
		v = (struct strv){0};
	return 0;
}

static int env_from_json(const json_t *json, struct job_request *request, struct err *err)
{
	int r = vector_from_json(json, "env", &request->env, err);
	const char *equals;
	size_t i;

	for (i = 0; r == 0 && request->env[i]; i++) {
		equals = strchr(request->env[i], '=');
		if (!equals || equals == request->env[i])
			r = err_set_text(
				err, -EINVAL, "env: '%.100s' is not NAME=VALUE", request->env[i]);
	}
	return r;
}

static int dependency_from_json(
	const json_t *json, struct job_dependency *ret_dependency, struct err *err)
{
	int kind = json_get_choice(json, "type", kind_names, (int)ARRAY_SIZE(kind_names), -1);
	int64_t job_id = 0, task_id = NO_VAL, delay_min = 0;
	const json_t *task = json_object_get(json, "array_task_id");
	const json_t *delay = json_object_get(json, "delay_min");
	int r;

	if (kind < 0)
		return err_set_text(err, -EINVAL,
			"dependencies: type is one of after, afterany, afterok, afternotok");
	if (json_object_size(json) != 2u + (task != NULL) + (delay != NULL))
		return err_set_text(err, -EINVAL,
			"dependencies: the members are type, job_id, array_task_id and delay_min");
	if (delay && kind != DEPENDS_AFTER)
		return err_set_text(
			err, -EINVAL, "dependencies: only the type after takes delay_min");
	r = integer_from_json(json_object_get(json, "job_id"), "dependencies: job_id", 1,
		NO_VAL - 1, &job_id, err);
	if (r == 0 && task)
		r = integer_from_json(
			task, "dependencies: array_task_id", 0, NO_VAL - 1, &task_id, err);
	if (r == 0 && delay)
		r = integer_from_json(
			delay, "dependencies: delay_min", 0, DELAY_MAX_MIN, &delay_min, err);
	if (r == 0)
		*ret_dependency = (struct job_dependency){.kind = (enum job_dependency_kind)kind,
			.job_id = (uint32_t)job_id,
			.task_id = (uint32_t)task_id,
			.delay_min = (uint32_t)delay_min};
	return r;
}

static int dependencies_from_json(const json_t *json, struct job_request *request, struct err *err)
{
	const json_t *element;
	size_t i;
	int r = check_array(json, "dependencies", err);

	if (r < 0 || json_array_size(json) == 0)
		return r;
	request->dependencies = calloc(json_array_size(json), sizeof(*request->dependencies));
	if (!request->dependencies)
		return no_memory(err);
	request->dependencies_count = json_array_size(json);
	json_array_foreach (json, i, element) {
		r = dependency_from_json(element, &request->dependencies[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int member_from_json(
	const char *name, const json_t *json, struct job_request *request, struct err *err)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].name, name) == 0)
			return row_from_json(json, &rows[i], request, err);
	}
	if (strcmp(name, "memory_per_cpu_mb") == 0 || strcmp(name, "memory_per_node_mb") == 0)
		return memory_from_json(json, name, request, err);
	if (strcmp(name, "dependencies") == 0)
		return dependencies_from_json(json, request, err);
	if (strcmp(name, "argv") == 0)
		return vector_from_json(json, name, &request->argv, err);
	if (strcmp(name, "env") == 0)
		return env_from_json(json, request, err);
	return err_set_text(err, -EINVAL, "a job's request has no member '%.100s'", name);
}

int request_from_json(const json_t *json, struct job_request *request, struct err *err)
{
	_cleanup_request_ struct job_request made;
	const json_t *value;
	const char *name;
	int r;

	request_init(&made);
	if (!json_is_object(json))
		return err_set_text(err, -EINVAL, "a job's request needs an object");
	/* the macro takes no const object, though it changes none */
	json_object_foreach ((json_t *)json, name, value) {
		r = member_from_json(name, value, &made, err);
		if (r < 0)
			return r;
	}
	*request = made;
	request_init(&made); /* what it had is the caller's now */
	return 0;
}

int request_copy(const struct job_request *request, struct job_request *ret_copy)
{
	json_t *json;
	int r;

	if (request->owner) {
		*ret_copy = *request;
		(void)owner_ref(request->payload_owner);
		(void)owner_ref(request->owner);
		return 0;
	}
	json = request_to_json(request);
	request_init(ret_copy);
	if (!json)
		return -ENOMEM;
	r = request_from_json(json, ret_copy, NULL);
	json_decref(json);
	if (r == 0)
		r = request_share(ret_copy);
	if (r < 0)
		request_clear(ret_copy);
	return r;
}

/* ---- --distribution ----------------------------------------------------------------------------
 */

struct dist_word {
	const char *word;
	uint32_t dist;
};

/* -EINVAL: the first size bytes are none of these. */
static int parse_dist_word(
	const struct dist_word *words, size_t n, const char *text, size_t size, uint32_t *dist)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strlen(words[i].word) == size && strncmp(words[i].word, text, size) == 0) {
			*dist |= words[i].dist;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_plane(const char *text, size_t size, uint32_t *dist, uint16_t *ret_plane)
{
	char number[16];
	uint32_t plane;

	if (size <= 6 || size - 6 >= sizeof(number) || strncmp(text, "plane=", 6) != 0)
		return -EINVAL;
	memcpy(number, text + 6, size - 6);
	number[size - 6] = '\0';
	if (parse_u32(number, 1, UINT16_MAX, &plane) < 0)
		return -EINVAL;
	*dist |= SLURM_DIST_PLANE;
	*ret_plane = (uint16_t)plane;
	return 0;
}

int request_parse_distribution(
	const char *text, uint32_t *ret_dist, uint16_t *ret_plane, struct err *err)
{
	static const struct dist_word over_nodes[] = {
		{"*", 0},
		{"block", SLURM_DIST_BLOCK},
		{"cyclic", SLURM_DIST_CYCLIC},
	};
	static const struct dist_word over_sockets[] = {
		{"*", 0},
		{"block", SLURM_DIST_SOCKBLOCK},
		{"cyclic", SLURM_DIST_SOCKCYCLIC},
		{"fcyclic", SLURM_DIST_SOCKCFULL},
	};
	const size_t size = strcspn(text, ":");
	uint32_t dist = 0;
	uint16_t plane = 0;
	int r = parse_dist_word(over_nodes, ARRAY_SIZE(over_nodes), text, size, &dist);

	if (r < 0)
		r = parse_plane(text, size, &dist, &plane);
	if (r == 0 && text[size])
		r = parse_dist_word(over_sockets, ARRAY_SIZE(over_sockets), text + size + 1,
			strlen(text + size + 1), &dist);
	if (r < 0)
		return err_set_text(err, r,
			"'%.100s' is not block, cyclic or plane=N, with :block, :cyclic or "
			":fcyclic behind it or without",
			text);
	*ret_dist = dist;
	*ret_plane = plane;
	return 0;
}

/* ---- --signal ----------------------------------------------------------------------------------
 */

int request_parse_signal(const char *text, struct job_warning *ret_warning, struct err *err)
{
	struct job_warning warning = {.before_s = WARNING_S};
	const bool has_flag = text[0] && strchr("BbRr", text[0]) && text[1] == ':';
	const char *rest = has_flag ? text + 2 : text, *at = strchr(rest, '@');
	_cleanup_free_ char *name = at ? strndup(rest, (size_t)(at - rest)) : strdup(rest);

	if (!name)
		return err_set(err, -ENOMEM, "read a signal");
	warning.to_script = has_flag && (text[0] == 'B' || text[0] == 'b');
	warning.signal = signals_parse(name);
	if (warning.signal <= 0 || (at && parse_u32(at + 1, 0, UINT16_MAX, &warning.before_s) < 0))
		return err_set_text(err, -EINVAL,
			"'%.100s' is not [B:]SIGNAL[@SECONDS]: a signal such as USR1 or 10, and 0 to "
			"%u seconds before the end",
			text, UINT16_MAX);
	*ret_warning = warning;
	return 0;
}
