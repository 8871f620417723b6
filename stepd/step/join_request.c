/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/join_request.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

#include "mpi/link.h"
#include "stepd/spec/spec.h"

static int refuse_field(const char *what, const char *how, struct err *err)
{
	return err_set_text(err, -EINVAL, "spawn: %s %s", what, how);
}

/* A number of at least least; a missing one is invalid. */
static int read_number(const json_t *object, const char *name, uint32_t least, uint32_t most,
	uint32_t *ret_number, struct err *err)
{
	const json_t *value = json_object_get(object, name);
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < least || n > most)
		return err_set_text(err, -EINVAL, "spawn: %s must be a number from %u to %u", name,
			least, most);
	*ret_number = (uint32_t)n;
	return 0;
}

/* NULL: not a string, or one that holds a NUL. */
static const char *text_of(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool is_entry(const char *text)
{
	return text && text[0] != '=' && strchr(text, '=');
}

static int read_argv(const json_t *object, struct strv *argv, struct err *err)
{
	const json_t *array = json_object_get(object, "argv");
	const char *text;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < json_array_size(array); i++) {
		text = text_of(json_array_get(array, i));
		if (!text)
			return refuse_field("argv", "must be an array of texts", err);
		r = strv_add(argv, text);
	}
	if (r < 0)
		return err_set(err, r, "spawn");
	return argv->n && argv->v[0][0] ? 0 : refuse_field("argv", "names no program", err);
}

static int check_entries(const json_t *array, const char *name, struct err *err)
{
	size_t i;

	if (array && !json_is_array(array))
		return refuse_field(name, "must be an array", err);
	for (i = 0; i < json_array_size(array); i++) {
		if (!is_entry(text_of(json_array_get(array, i))))
			return refuse_field(name, "must have texts of the form NAME=VALUE", err);
	}
	return 0;
}

static int read_env(const json_t *object, struct strv *env, struct err *err)
{
	const json_t *array = json_object_get(object, "env");
	_cleanup_strv_ struct strv entries = {0};
	size_t i;
	int r = check_entries(array, "env", err);

	if (r < 0)
		return r;
	for (i = 0; r == 0 && i < json_array_size(array); i++)
		r = strv_add(&entries, json_string_value(json_array_get(array, i)));
	if (r == 0)
		r = strv_env_put_all(env, entries.v, entries.n);
	return r < 0 ? err_set(err, r, "spawn") : 0;
}

static int read_cwd(const json_t *object, char **ret_cwd, struct err *err)
{
	const json_t *value = json_object_get(object, "cwd");
	const char *text = text_of(value);

	if (!value || json_is_null(value))
		return 0;
	if (!text || !text[0] || strlen(text) >= PATH_MAX)
		return refuse_field("cwd", "must be the path of a directory", err);
	*ret_cwd = strdup(text);
	return *ret_cwd ? 0 : err_set(err, -ENOMEM, "spawn");
}

static int read_environ(const json_t *object, struct join_group *group, struct err *err)
{
	const json_t *array = json_object_get(object, "environ");
	size_t i;
	int r = 0;

	if (!array)
		return 0;
	if (json_array_size(array) != group->count)
		return refuse_field("environ", "must have an array for each task", err);
	for (i = 0; r == 0 && i < json_array_size(array); i++)
		r = json_is_array(json_array_get(array, i))
			? check_entries(json_array_get(array, i), "environ", err)
			: refuse_field("environ", "must have an array for each task", err);
	group->environ = array;
	return r;
}

static int read_group(
	const json_t *object, uint32_t size, struct join_group *group, struct err *err)
{
	int r = read_number(object, "count", 1, JOIN_TASKS_MAX, &group->count, err);

	if (r == 0)
		r = read_number(object, "appnum", 0, size, &group->appnum, err);
	if (r == 0)
		r = read_number(object, "rank", 0, size - 1, &group->rank, err);
	if (r == 0 && group->count > size - group->rank)
		r = refuse_field("size", "is less than what its groups have", err);
	if (r == 0)
		r = read_argv(object, &group->argv, err);
	if (r == 0)
		r = read_env(object, &group->env, err);
	if (r == 0)
		r = read_cwd(object, &group->cwd, err);
	return r < 0 ? r : read_environ(object, group, err);
}

static int read_groups(const json_t *array, struct join_request *request, struct err *err)
{
	struct join_group *group;
	int r = 0;

	/* Ranks ascend: none occurs twice. */
	uint64_t next_rank = 0;

	if (json_array_size(array) == 0 || json_array_size(array) > JOIN_TASKS_MAX)
		return refuse_field("groups", "must be an array of what is to be started", err);
	request->groups = calloc(json_array_size(array), sizeof(*request->groups));
	if (!request->groups)
		return err_set(err, -ENOMEM, "spawn");
	while (r == 0 && request->groups_count < json_array_size(array)) {
		group = &request->groups[request->groups_count];
		r = read_group(
			json_array_get(array, request->groups_count++), request->size, group, err);
		if (r == 0 && group->rank < next_rank)
			r = refuse_field("rank", "must be above those of the group before", err);
		next_rank = (uint64_t)group->rank + group->count;
		request->count += group->count;
	}
	if (r == 0 && request->count > JOIN_TASKS_MAX)
		r = err_set_text(err, -E2BIG,
			"a spawn can have %u tasks on a node, and this one has %u", JOIN_TASKS_MAX,
			request->count);
	return r;
}

int join_request_id(const json_t *message, int64_t *ret_id, struct err *err)
{
	const json_t *id = json_object_get(message, "id");

	if (!json_is_integer(id))
		return err_set_text(err, -EBADMSG, "spawn: it has no id, and can't be answered");
	*ret_id = json_integer_value(id);
	return 0;
}

int join_request_read(const json_t *message, struct join_request *ret_request, struct err *err)
{
	_cleanup_join_request_ struct join_request request = {0};
	int r = join_request_id(message, &request.id, err);

	if (r == 0)
		r = read_number(message, "number", 1, UINT32_MAX - 1, &request.number, err);
	if (r == 0)
		r = read_number(message, "size", 1, SPEC_NTASKS_MAX, &request.size, err);
	if (r == 0)
		r = read_number(message, "first_rank", 0, SPEC_NTASKS_MAX - request.size,
			&request.first_rank, err);
	if (r == 0 && json_object_get(message, "copy"))
		r = read_number(
			message, "copy", 0, LINK_STREAMS | LINK_REQUIRED, &request.copy, err);
	if (r == 0)
		r = read_groups(json_object_get(message, "groups"), &request, err);
	if (r < 0)
		return r;
	*ret_request = request;
	request = (struct join_request){0};
	return 0;
}

int join_group_environ(const struct join_group *group, uint32_t index, char ***ret_environ)
{
	const json_t *array = json_array_get(group->environ, index);
	size_t n = json_array_size(array), i;
	char **own;

	*ret_environ = NULL;
	if (n == 0)
		return 0;
	own = calloc(n + 1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		own[i] = (char *)json_string_value(json_array_get(array, i));
	*ret_environ = own;
	return 0;
}

void join_request_clear(struct join_request *request)
{
	size_t i;

	for (i = 0; i < request->groups_count; i++) {
		strv_clear(&request->groups[i].argv);
		strv_clear(&request->groups[i].env);
		free(request->groups[i].cwd);
	}
	free(request->groups);
	*request = (struct join_request){0};
}
