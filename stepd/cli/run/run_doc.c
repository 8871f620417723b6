/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The document that "stepd run" makes: the options over the file of --spec, the program, and what
 * it takes from around it: the caller's environment, the batch script, the list of programs.
 */
#include <fcntl.h>
#include <string.h>

#include "stepd/api/env.h"
#include "stepd/base/base64.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/cli/run/multi_prog.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"

#define PROGRAM_FIELD  "argv"
#define MULTI_PROG_MAX (16u << 20)

/* ---- environment -------------------------------------------------------------------------- */

/* Names and values are any bytes; of a name that stands twice the first counts, as getenv() has
 * it. */
static int add_variable(json_t *env, const char *variable)
{
	_cleanup_free_ char *name = NULL;
	const char *equals = strchr(variable, '=');

	if (!equals || equals == variable)
		return 0; /* none that a program could read */
	name = strndup(variable, (size_t)(equals - variable));
	if (!name)
		return -ENOMEM;
	if (json_object_get(env, name))
		return 0;
	return json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1)) < 0 ? -ENOMEM
											   : 0;
}

static int add_all(json_t *env, char **environment)
{
	int r = 0;

	for (; environment && *environment && r == 0; environment++)
		r = add_variable(env, *environment);
	return r;
}

/* The variable of that name, if the caller has it. */
static int add_named(json_t *env, char **environment, const char *name)
{
	const char *entry = environment ? environment[stepd_env_index(environment, name)] : NULL;

	return entry ? add_variable(env, entry) : 0;
}

/* Cuts the next item off at a comma; one between single quotes is part of the value, and the
 * quotes go. */
static char *next_item(char **text)
{
	char *item = *text, *to = item, *from = item;
	bool quoted = false;

	for (; *from && (quoted || *from != ','); from++) {
		if (*from == '\'')
			quoted = !quoted;
		else
			*to++ = *from;
	}
	*text = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}

static int add_item(json_t *env, char **environment, const char *item, struct err *err)
{
	const char *equals = strchr(item, '=');
	_cleanup_free_ char *name = NULL;
	int r;

	if (!*item || equals == item)
		return err_set_text(err, -EINVAL, "holds a variable without a name");
	if (strcmp(item, "ALL") == 0)
		r = add_all(env, environment);
	else if (!equals)
		r = add_named(env, environment, item);
	else {
		name = strndup(item, (size_t)(equals - item));
		r = name ? json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1))
			 : -ENOMEM;
	}
	return r < 0 ? run_no_memory(err) : 0;
}

static int make_env(char **environment, const char *text, json_t **ret_env, struct err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	json_auto_t *env = json_object();
	char *rest = strcmp(text, "NONE") == 0 ? NULL : copy;
	int r = copy && env ? 0 : run_no_memory(err);

	while (r == 0 && rest)
		r = add_item(env, environment, next_item(&rest), err);
	if (r == 0)
		*ret_env = take_ptr(env);
	return r;
}

/* ---- script ------------------------------------------------------------------------------- */

static json_t *base64_json(const char *bytes, size_t size)
{
	_cleanup_free_ char *text = malloc(BASE64_SIZE(size) + 1);

	if (!text)
		return NULL;
	base64_encode(bytes, size, text);
	return json_string(text);
}

static int set_script(struct run_build *build, const char *bytes, size_t size, struct err *err)
{
	json_auto_t *text = memchr(bytes, '\0', size) ? NULL : json_stringn(bytes, size);
	/* A field that --spec brought gives way to the other. */
	int r = run_set(build, text ? "script_base64" : "script", json_null(), err);

	if (r < 0)
		return r;
	if (text)
		return run_set(build, "script", take_ptr(text), err);
	return run_set(build, "script_base64", base64_json(bytes, size), err);
}

/* ---- the document ------------------------------------------------------------------------- */

static int read_base(const char *file, json_t **ret_doc, struct err *err)
{
	_cleanup_close_ int fd = cli_open_file(file, err);

	return fd < 0 ? fd : spec_json_load_fd(fd, ret_doc, err);
}

/* What options are laid over; an empty document without a file. */
static int load_base(const char *file, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = NULL;
	int r;

	if (!file) {
		*ret_doc = json_object();
		return *ret_doc ? 0 : run_no_memory(err);
	}
	r = read_base(file, &doc, err);
	if (r == 0)
		r = spec_check_object(SPEC_TABLE_MAX, NULL, doc, err);
	if (r < 0)
		return err_prefix(err, "%s", file);
	*ret_doc = take_ptr(doc);
	return 0;
}

/* A stream is one value; of other objects options set one member each. */
static bool is_stream(const char *name)
{
	const struct spec_field *fields;
	size_t n, i;

	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && strcmp(fields[i].name, name) != 0; i++)
		;
	return i < n && fields[i].modes;
}

static int merge(json_t *doc, json_t *overlay)
{
	const char *name;
	json_t *value, *old;
	int r = 0;

	json_object_foreach (overlay, name, value) {
		old = json_object_get(doc, name);
		if (json_is_null(value))
			(void)json_object_del(doc, name); /* -1: it was not there */
		else if (json_is_object(old) && json_is_object(value) && !is_stream(name))
			r |= json_object_update(old, value);
		else
			r |= json_object_set_nocheck(doc, name, value);
	}
	return r;
}

static bool is_kind(const json_t *doc, const char *kind)
{
	return strcmp(json_object_get(doc, "kind") ? json_get_text(doc, "kind", "") : "normal",
		       kind) == 0;
}

static int set_argv(json_t *doc, char **args, struct err *err)
{
	json_auto_t *argv = json_array();
	int r = 0;

	for (; *args && r == 0; args++)
		r = json_array_append_new(argv, json_string_nocheck(*args));
	r |= json_object_set(doc, PROGRAM_FIELD, argv);
	return r < 0 ? run_no_memory(err) : 0;
}

/* The number of tasks for --multi-prog; 0 where the spec's own check will find it wrong. */
static int get_ntasks(const json_t *doc, uint32_t *ret_ntasks, struct err *err)
{
	const json_t *n = json_object_get(doc, "ntasks");
	json_int_t value = 1;

	if (!n &&
		(json_object_get(doc, "ranks") ||
			json_object_get(json_object_get(doc, "node"), "ranks") ||
			json_object_get(json_object_get(doc, "node"), "tasks_per_node")))
		return err_set_text(err, -EINVAL, "--multi-prog: give --ntasks too");
	if (!n)
		n = json_object_get(doc, "local_ntasks");
	if (n)
		value = json_integer_value(n);
	*ret_ntasks = value > 0 && value <= SPEC_NTASKS_MAX ? (uint32_t)value : 0;
	return 0;
}

static int set_multi_prog(json_t *doc, char **args, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *tasks = NULL;
	uint32_t ntasks = 0;
	size_t size;
	int r;

	if (!*args)
		return err_set_text(err, -EINVAL, "--multi-prog: no file given");
	r = get_ntasks(doc, &ntasks, err);
	if (r < 0 || ntasks == 0)
		return r;
	r = fs_read(AT_FDCWD, *args, MULTI_PROG_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "--multi-prog: read '%s'", *args);
	if (strlen(text) != size)
		return err_set_text(err, -EINVAL, "%s: holds a NUL byte", *args);
	r = multi_prog_parse(text, ntasks, args + 1, &tasks, err);
	if (r < 0)
		return err_prefix(err, "%s", *args);
	(void)json_object_del(doc, PROGRAM_FIELD); /* -1: it was not there */
	return json_object_set_new(doc, "tasks", tasks) < 0 ? run_no_memory(err) : 0;
}

static int set_batch(struct run_build *build, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	const char *file = build->batch_file, *slash;
	size_t size;
	int r;

	if (!file)
		return 0;
	r = fs_read(AT_FDCWD, file, SPEC_SCRIPT_MAX, &bytes, &size);
	if (r < 0)
		return err_set(err, r, "--batch: read '%s'", file);
	slash = strrchr(file, '/');
	if (!json_object_get(build->overlay, "name"))
		r = run_set(build, "name", json_string_nocheck(slash ? slash + 1 : file), err);
	if (r == 0 && json_object_get(build->overlay, "kind"))
		r = err_set_text(err, -EINVAL, "--batch and --extern conflict; give one of them");
	if (r == 0)
		r = run_set(build, "kind", json_string("batch"), err);
	return r < 0 ? r : set_script(build, bytes, size, err);
}

/* srun sends errors where --output goes. */
static int set_streams(const struct run_build *build, json_t *doc, struct err *err)
{
	static const char *const outputs[] = {"stdout", "stderr"};
	const json_t *out = json_object_get(build->overlay, "stdout");
	const char *word = json_string_value(out);
	json_t *stream;
	size_t i;
	int r = 0;

	if (!json_object_get(doc, "stdin") && is_kind(doc, "normal"))
		r |= json_object_set_new(doc, "stdin", json_string("all"));
	if (out && !json_object_get(doc, "stderr") && (!word || strcmp(word, "inherit") != 0))
		r |= json_object_set_new(doc, "stderr", json_string("stdout"));
	for (i = 0; build->open_mode && i < ARRAY_SIZE(outputs); i++) {
		stream = json_object_get(doc, outputs[i]);
		if (json_object_get(stream, "path"))
			r |= json_object_set_new(
				stream, "append", json_boolean(build->open_mode[0] == 'a'));
	}
	return r < 0 ? run_no_memory(err) : 0;
}

static int set_env(const struct run_build *build, json_t *doc, char **environment, struct err *err)
{
	json_t *env = NULL;
	int r;

	if (!build->export && (json_object_get(doc, "env") || is_kind(doc, "extern")))
		return 0;
	r = make_env(environment, build->export ?: "ALL", &env, err);
	if (r < 0)
		return err_prefix(err, "--export");
	return json_object_set_new(doc, "env", env) < 0 ? run_no_memory(err) : 0;
}

static int fill_doc(
	struct run_build *build, json_t *doc, char **environment, char **args, struct err *err)
{
	int r = 0;

	if (build->multi_prog)
		r = set_multi_prog(doc, args, err);
	else if (*args)
		r = set_argv(doc, args, err);
	else if (is_kind(doc, "normal") && !json_object_get(doc, PROGRAM_FIELD) &&
		!json_object_get(doc, "tasks"))
		r = err_set_text(err, -EINVAL,
			"no program given: %s [OPTION...] [--] PROGRAM [ARG...]",
			build->command ?: "stepd run");
	if (r == 0)
		r = set_env(build, doc, environment, err);
	return r < 0 ? r : set_streams(build, doc, err);
}

int run_make_doc(
	struct run_build *build, char **environment, char **args, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = NULL;
	int r = set_batch(build, err);

	if (r == 0)
		r = load_base(build->spec_file, &doc, err);
	if (r == 0 && merge(doc, build->overlay) < 0)
		r = run_no_memory(err);
	if (r == 0)
		r = fill_doc(build, doc, environment, args, err);
	if (r == 0)
		*ret_doc = take_ptr(doc);
	return r;
}
