/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rows of the spec that a type and a range can't describe: vectors, accounts, the script.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/base64.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec_json.h"

#define ACCOUNTS_MAX 65536u /* as many groups as a process can have */
#define ID_MAX       0xfffffffeu

int spec_row_version(_unused_ const struct spec_field *field, _unused_ void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	int64_t n = 0;
	int r = spec_get_int(at, value, 0, INT64_MAX, &n, err);

	if (r == 0 && n != 1)
		return spec_bad(err, at, "%lld is not known here, only 1", (long long)n);
	return r;
}

/* What the kernel takes at most in an exec: three quarters of a stack of 8 MiB, whatever the limit
 * of the stack, each text with a NUL and a pointer (execve(2), Linux 4.13). */
#define EXEC_BYTES_MAX (6u << 20)

static int check_exec_size(
	const struct strv *texts, const char *what, const struct spec_at *at, struct err *err)
{
	size_t bytes = 0, i;

	for (i = 0; i < texts->n; i++)
		bytes += strlen(texts->v[i]) + 1 + sizeof(char *);
	if (bytes <= EXEC_BYTES_MAX)
		return 0;
	return spec_bad(err, at,
		"holds %zu %s of %zu bytes, and the kernel executes no program with more than %u",
		texts->n, what, bytes, EXEC_BYTES_MAX);
}

int spec_row_argv(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *argv = (struct strv *)((char *)into + field->offset);
	const char *text = NULL;
	size_t i;
	int r = spec_check_array(at, value, SIZE_MAX, err);

	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		r = spec_get_text(SPEC_AT_INDEX(at, i), json_array_get(value, i), &text, err);
		if (r == 0 && strv_add(argv, text) < 0)
			r = spec_no_memory(err);
	}
	return r < 0 ? r : check_exec_size(argv, "arguments", at, err);
}

int spec_row_env(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *env = (struct strv *)((char *)into + field->offset);
	json_t *object = (json_t *)value; /* the iterator's type; it changes nothing */
	const char *name, *text = NULL;
	json_t *member;
	int r = spec_check_object(SPEC_TABLE_MAX, at, value, err);

	if (r < 0)
		return r;
	json_object_foreach (object, name, member) {
		if (!*name)
			return spec_bad(err, at, "holds a variable without a name");
		if (strchr(name, '='))
			return spec_bad(err, SPEC_AT(at, name), "a variable's name can't hold '='");
		r = spec_get_text(SPEC_AT(at, name), member, &text, err);
		if (r < 0)
			return r;
		/* The object's names are unique: no search for each. */
		if (strv_addf(env, "%s=%s", name, text) < 0)
			return spec_no_memory(err);
	}
	return check_exec_size(env, "variables", at, err);
}

/* ---- accounts ----------------------------------------------------------------------------- */

static int check_account(const char *text, const struct spec_at *at, struct err *err)
{
	uint32_t id;

	if (!*text)
		return spec_bad(err, at, "is empty");
	if (text[strspn(text, "0123456789")] == '\0' && parse_u32(text, 0, ID_MAX, &id) < 0)
		return spec_bad(err, at, "%.200s is not in the range 0 to %u", text, ID_MAX);
	if (strpbrk(text, ":/ \t\n"))
		return spec_bad(err, at, "'%.200s' is neither a name nor a number", text);
	return 0;
}

/* A name or a number, as text. */
static int get_account(
	const struct spec_at *at, const json_t *value, char **ret_account, struct err *err)
{
	const char *text = NULL;
	char number[24];
	int64_t n = 0;
	int r;

	if (json_is_integer(value)) {
		r = spec_get_int(at, value, 0, ID_MAX, &n, err);
		(void)snprintf(number, sizeof(number), "%lld", (long long)n);
		text = number;
	} else {
		if (!json_is_string(value))
			return spec_bad(err, at, "must be a name or a number");
		r = spec_get_text(at, value, &text, err);
		if (r == 0)
			r = check_account(text, at, err);
	}
	if (r < 0)
		return r;
	*ret_account = strdup(text);
	return *ret_account ? 0 : spec_no_memory(err);
}

int spec_row_account(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return get_account(at, value, (char **)((char *)into + field->offset), err);
}

int spec_row_accounts(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *accounts = (struct strv *)((char *)into + field->offset);
	char *account = NULL;
	size_t i;
	int r = spec_check_array(at, value, ACCOUNTS_MAX, err);

	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		r = get_account(SPEC_AT_INDEX(at, i), json_array_get(value, i), &account, err);
		if (r == 0 && strv_add_take(accounts, account) < 0)
			r = spec_no_memory(err);
	}
	return r;
}

int spec_row_umask(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (!*text || strlen(text) > 4 || text[strspn(text, "01234567")])
		return spec_bad(err, at, "'%.200s' is no octal number such as \"0022\"", text);
	if (strtoul(text, NULL, 8) > 0777)
		return spec_bad(err, at, "'%s' is above 0777", text);
	*(mode_t *)((char *)into + field->offset) = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

/* ---- script ------------------------------------------------------------------------------- */

/* bytes from malloc(), which are the spec's then, or NULL for want of memory. */
static int take_script(
	struct spec *spec, char *bytes, size_t size, const struct spec_at *at, struct err *err)
{
	_cleanup_free_ char *script = bytes;

	if (!script)
		return spec_no_memory(err);
	if (size == 0)
		return spec_bad(err, at, "is empty");
	if (size > SPEC_SCRIPT_MAX)
		return spec_bad(err, at, "has %zu bytes, more than %u", size, SPEC_SCRIPT_MAX);
	spec->script = take_ptr(script);
	spec->script_size = size;
	return 0;
}

int spec_row_script(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	return r < 0 ? r : take_script(spec, strdup(text), strlen(text), at, err);
}

int spec_row_script_base64(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	_cleanup_free_ char *bytes = NULL;
	const char *text = NULL;
	ssize_t n;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (spec->script)
		return spec_bad(err, at, "conflicts with script; give one of them");
	bytes = malloc(strlen(text) / 4 * 3 + 1);
	if (!bytes)
		return spec_no_memory(err);
	n = base64_decode(text, strlen(text), bytes);
	if (n < 0)
		return spec_bad(err, at, "is not base64 (RFC 4648, with padding, in one line)");
	bytes[n] = '\0';
	return take_script(spec, take_ptr(bytes), (size_t)n, at, err);
}

/* ---- CPUs and memory: texts as srun has them ---------------------------------------------- */

typedef int (*bind_parse_fn)(const char *text, struct bind_text *ret_text, struct err *err);

static int read_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, bind_parse_fn parse, struct err *err)
{
	struct bind_text *bind = (struct bind_text *)((char *)into + field->offset);
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	r = parse(text, bind, &why);
	if (r == -ENOMEM)
		return spec_no_memory(err);
	return r < 0 ? spec_bad(err, at, "%s", why.text) : 0;
}

int spec_row_cpu_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return read_bind(field, into, at, value, bind_text_parse_cpu, err);
}

int spec_row_mem_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return read_bind(field, into, at, value, bind_text_parse_mem, err);
}

int spec_row_distribution(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (bind_text_parse_distribution(text, &spec->plane, &why) < 0)
		return spec_bad(err, at, "%s", why.text);
	spec->distribution = strdup(text);
	return spec->distribution ? 0 : spec_no_memory(err);
}
