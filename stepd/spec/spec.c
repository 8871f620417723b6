/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From a document to a spec: the fields of its tables are read in phases (the kind, then each by
 * itself, then the layout, then what names ranks), defaults are filled in, and the whole is
 * checked.
 */
#include "stepd/spec/spec.h"

#include <assert.h>
#include <ctype.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/spec/spec_json.h"

/* ---- errors -------------------------------------------------------------------------------- */

static size_t put_path(const struct spec_at *at, char *text, size_t size)
{
	size_t used = at->up ? put_path(at->up, text, size) : 0;
	int n;

	if (at->name)
		n = snprintf(text + used, size - used, "%s%.64s", at->up ? "." : "", at->name);
	else
		n = snprintf(text + used, size - used, "[%zu]", at->index);
	if (n < 0)
		return used;
	return (size_t)n < size - used ? used + (size_t)n : size - 1;
}

int spec_bad(struct err *err, const struct spec_at *at, const char *fmt, ...)
{
	char path[256] = "the document", text[ERR_TEXT_SIZE];
	va_list ap;

	if (at)
		(void)put_path(at, path, sizeof(path));
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set_text(err, -EINVAL, "%s: %s", path, text);
}

int spec_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the step spec");
}

static const char *type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a fraction",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

const char *spec_list_names(const char *const *names, char text[static SPEC_NAMES_SIZE])
{
	size_t used = 0, i;

	for (i = 0; names[i]; i++) /* few and short */
		used += (size_t)snprintf(
			text + used, SPEC_NAMES_SIZE - used, "%s%s", i ? ", " : "", names[i]);
	return text;
}

static unsigned least_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned spec_name_distance(const char *a, const char *b)
{
	enum {
		LONGEST = 40,
		FAR = 99
	};
	unsigned char rows[3][LONGEST + 1];
	unsigned char *above = rows[0], *row = rows[1], *higher = rows[2], *spare;
	size_t i, j, la = strlen(a), lb = strlen(b);

	if (la > LONGEST || lb > LONGEST)
		return FAR;
	for (j = 0; j <= lb; j++)
		above[j] = (unsigned char)j;
	for (i = 1; i <= la; i++) {
		row[0] = (unsigned char)i;
		for (j = 1; j <= lb; j++) {
			unsigned best = least_of(above[j] + 1u, row[j - 1] + 1u);

			best = least_of(best, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = least_of(best, higher[j - 2] + 1u);
			row[j] = (unsigned char)best;
		}
		spare = higher;
		higher = above;
		above = row;
		row = spare;
	}
	/* A short name with half of its letters changed is a different name. */
	return above[lb] * 2u > la ? FAR : above[lb];
}

static int report_unknown(
	enum spec_table table, const struct spec_at *at, const char *name, struct err *err)
{
	const struct spec_field *fields;
	const char *nearest = NULL;
	unsigned distance, least = SPEC_NAME_NEAR + 1;
	size_t n, i;

	fields = spec_table_get(table, &n);
	for (i = 0; i < n; i++) {
		distance = spec_name_distance(name, fields[i].name);
		if (distance < least) {
			least = distance;
			nearest = fields[i].name;
		}
	}
	if (nearest)
		return spec_bad(
			err, SPEC_AT(at, name), "unknown field; did you mean '%s'?", nearest);
	return spec_bad(err, SPEC_AT(at, name), "unknown field");
}

/* ---- values -------------------------------------------------------------------------------- */

int spec_get_int(const struct spec_at *at, const json_t *value, int64_t least, int64_t most,
	int64_t *ret_n, struct err *err)
{
	int64_t n = 0;

	if (!json_is_integer(value))
		return spec_bad(err, at, "must be a whole number, not %s", type_name(value));
	n = json_integer_value(value);
	if (n < least || n > most)
		return spec_bad(err, at, "%lld is not in the range %lld to %lld", (long long)n,
			(long long)least, (long long)most);
	*ret_n = n;
	return 0;
}

int spec_get_text(
	const struct spec_at *at, const json_t *value, const char **ret_text, struct err *err)
{
	if (!json_is_string(value))
		return spec_bad(err, at, "must be a string, not %s", type_name(value));
	if (strlen(json_string_value(value)) != json_string_length(value))
		return spec_bad(err, at, "holds a NUL byte");
	*ret_text = json_string_value(value);
	return 0;
}

int spec_check_array(const struct spec_at *at, const json_t *value, size_t most, struct err *err)
{
	if (!json_is_array(value))
		return spec_bad(err, at, "must be an array, not %s", type_name(value));
	if (json_array_size(value) > most)
		return spec_bad(
			err, at, "has %zu entries, more than %zu", json_array_size(value), most);
	return 0;
}

static const struct spec_field *find_field(enum spec_table table, const char *name)
{
	const struct spec_field *fields;
	size_t n, i;

	fields = spec_table_get(table, &n);
	for (i = 0; i < n; i++) {
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	}
	return NULL;
}

const char *spec_field_problem(enum spec_table table, const char *name, const char *text)
{
	const struct spec_field *field = find_field(table, name);

	assert(field && field->problem);
	return field->problem(text);
}

static size_t collected_count(const struct err *err)
{
	return err && err->list ? err->list->count + err->list->more : 0;
}

int spec_collect(int r, struct err *err)
{
	return r < 0 && err_collect(err) ? 0 : r;
}

static bool spec_is_wrong(const struct err *err)
{
	return err && err->list && err->list->count > 0;
}

int spec_check_object(
	enum spec_table table, const struct spec_at *at, const json_t *value, struct err *err)
{
	json_t *object = (json_t *)value; /* the iterator's signature lacks const */
	const struct spec_field *fields;
	const char *name;
	json_t *member;
	size_t n, i;
	int r = 0;

	if (!json_is_object(value))
		return spec_bad(err, at, "must be an object, not %s", type_name(value));
	if (table == SPEC_TABLE_MAX)
		return 0; /* any names */
	json_object_foreach (object, name, member) {
		if (!find_field(table, name))
			r = spec_collect(report_unknown(table, at, name, err), err);
		if (r < 0)
			return r;
	}
	fields = spec_table_get(table, &n);
	for (i = 0; i < n && r == 0; i++) {
		if (fields[i].required && !json_object_get(value, fields[i].name))
			r = spec_collect(
				spec_bad(err, SPEC_AT(at, fields[i].name), "is missing"), err);
	}
	return r;
}

static int read_field(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *object, struct err *err)
{
	const json_t *value = json_object_get(object, field->name);
	int r;

	if (!value)
		return 0;
	r = field->parse(field, into, SPEC_AT(at, field->name), value, err);
	if (r == 0 && field->given)
		*(bool *)((char *)into + field->given) = true;
	return spec_collect(r, err);
}

int spec_read_rows(enum spec_table table, void *into, const struct spec_at *at, const json_t *value,
	struct err *err)
{
	size_t n, i, before = collected_count(err);
	const struct spec_field *fields;
	int r = 0;

	fields = spec_table_get(table, &n);
	for (i = 0; i < n && r == 0; i++)
		r = read_field(&fields[i], into, at, value, err);
	/* The object as a whole can't be checked if one of its fields is invalid. */
	return r == 0 && collected_count(err) > before ? -EINVAL : r;
}

int spec_read_object(enum spec_table table, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	int r = spec_check_object(table, at, value, err);

	return r < 0 ? r : spec_read_rows(table, into, at, value, err);
}

/* Fields that name ranks can't be checked without these. */
static bool is_of_layout(const char *name)
{
	static const char *const names[] = {
		"kind", "ntasks", "node", "local_ntasks", "first_rank", "ranks"};

	return strv_index(names, ARRAY_SIZE(names), name) >= 0;
}

static int spec_read_phase(enum spec_phase phase, struct spec_draft *draft, struct err *err)
{
	const struct spec_field *fields;
	size_t n, i, before;
	int r = 0;

	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && r == 0; i++) {
		if (fields[i].phase != phase)
			continue;
		before = collected_count(err);
		r = read_field(&fields[i], draft, NULL, draft->doc, err);
		draft->layout_wrong |=
			collected_count(err) > before && is_of_layout(fields[i].name);
	}
	return r;
}

/* ---- rows ---------------------------------------------------------------------------------- */

int spec_row_bool(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	if (!json_is_boolean(value))
		return spec_bad(err, at, "must be true or false, not %s", type_name(value));
	*(bool *)((char *)into + field->offset) = json_is_true(value);
	return 0;
}

/* For an int, too: both have 32 bits. */
int spec_row_u32(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	int64_t n = 0;
	int r = spec_get_int(at, value, field->least, field->most, &n, err);

	if (r == 0)
		*(uint32_t *)((char *)into + field->offset) = (uint32_t)n;
	return r;
}

int spec_row_u64(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	int64_t n = 0;
	int r = spec_get_int(at, value, field->least, field->most, &n, err);

	if (r == 0)
		*(uint64_t *)((char *)into + field->offset) = (uint64_t)n;
	return r;
}

int spec_row_text(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	const char *text = NULL, *problem;
	char **member = (char **)((char *)into + field->offset);
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (!*text)
		return spec_bad(err, at, "is empty");
	if (field->most && strlen(text) > (size_t)field->most)
		return spec_bad(err, at, "has %zu bytes, more than %lld", strlen(text),
			(long long)field->most);
	problem = field->problem ? field->problem(text) : NULL;
	if (problem)
		return spec_bad(err, at, "'%.200s' %s", text, problem);
	*member = strdup(text);
	return *member ? 0 : spec_no_memory(err);
}

int spec_row_choice(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	char all[SPEC_NAMES_SIZE];
	const char *text = NULL;
	unsigned i = 0;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	while (field->choices[i] && strcmp(field->choices[i], text) != 0)
		i++;
	if (!field->choices[i])
		return spec_bad(err, at, "'%.200s' is not one of %s", text,
			spec_list_names(field->choices, all));
	*(unsigned *)((char *)into + field->offset) = i;
	return 0;
}

int spec_row_object(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return spec_read_object(
		(enum spec_table)field->table, (char *)into + field->offset, at, value, err);
}

/* ---- text ---------------------------------------------------------------------------------- */

static int report_syntax(const json_error_t *where, struct err *err)
{
	enum json_error_code code = json_error_code(where);

	/* jansson sets no message where its own allocation failed */
	if (code == json_error_out_of_memory || !where->text[0])
		return spec_no_memory(err);
	if (code == json_error_null_character || code == json_error_null_byte_in_key)
		return err_set_text(err, -EINVAL, "line %d, column %d: a string holds a NUL byte",
			where->line, where->column);
	if (code == json_error_premature_end_of_input)
		return err_set_text(err, -EINVAL,
			"line %d, column %d: the document ends here, and is not complete",
			where->line, where->column);
	return err_set_text(
		err, -EINVAL, "line %d, column %d: %s", where->line, where->column, where->text);
}

/* Parses text; the message of a syntax error, a repeated field or a NUL names line and column.
 * *ret_doc is a new reference. */
static int spec_json_load(const char *text, size_t size, json_t **ret_doc, struct err *err)
{
	json_error_t where;
	json_t *doc;

	if (size > SPEC_SIZE_MAX)
		return err_set_text(err, -EFBIG, "the document has %zu bytes, more than %u", size,
			SPEC_SIZE_MAX);
	/* Without JSON_ALLOW_NUL: no string of it holds a NUL byte. */
	doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	if (!doc)
		return report_syntax(&where, err);
	*ret_doc = doc;
	return 0;
}

int spec_json_load_fd(int fd, json_t **ret_doc, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = fs_read_fd(fd, SPEC_SIZE_MAX, &text, &size);
	if (r == -EFBIG)
		return err_set_text(err, r, "the document has more than %u bytes", SPEC_SIZE_MAX);
	if (r < 0)
		return err_set(err, r, "read the step spec");
	return spec_json_load(text, size, ret_doc, err);
}

/* ---- the document as text ------------------------------------------------------------------ */

/* A copy with "?" instead of texts that are not UTF-8. Incomplete without memory. */
static json_t *make_clean(const json_t *value)
{
	json_t *clean, *member;
	const char *key;
	size_t i;

	if (json_is_string(value)) {
		clean = json_stringn(json_string_value(value), json_string_length(value));
		return clean ? clean : json_string("?");
	}
	if (!json_is_object(value) && !json_is_array(value))
		return json_incref((json_t *)value);
	clean = json_is_object(value) ? json_object() : json_array();
	json_object_foreach ((json_t *)value, key, member)
		(void)json_object_set_new(clean, key, make_clean(member));
	json_array_foreach (value, i, member)
		(void)json_array_append_new(clean, make_clean(member));
	return clean;
}

/* The document as text, for an agent that adopts the step; the caller frees it. Arguments and
 * variables of the command line may be bytes that JSON can't hold; an adopter needs none of
 * these. NULL: no memory. */
static char *spec_dump(const json_t *doc)
{
	char *text = json_dumps(doc, JSON_COMPACT);
	json_t *clean;

	if (text)
		return text;
	clean = make_clean(doc);
	text = clean ? json_dumps(clean, JSON_COMPACT) : NULL;
	json_decref(clean);
	return text;
}

#define UNKILLABLE_TIMEOUT_MS 60000
#define SUSPEND_TIMEOUT_MS    10000
#define TERM_WAIT_MS          30000
#define LIMIT_SIGNAL_MS       60000
#define PMI_TIMEOUT_MS        300000
#define INPUT_SPILL_MAX       (1u << 30)
#define WIRE_FANOUT           16
#define WIRE_CONNECT_MS       60000

void spec_override_clear(struct spec_override *o)
{
	free(o->ranks);
	strv_clear(&o->argv);
	free(o->cwd);
	strv_clear(&o->env);
	limits_clear(&o->limits);
	*o = (struct spec_override){0};
}

static void spec_clear(struct spec *spec)
{
	size_t i;

	free(spec->text);
	free(spec->step_name);
	free(spec->job_name);
	free(spec->node_name);
	free(spec->node_list);
	strv_clear(&spec->node_names);
	free(spec->tasks_per_node);
	free(spec->rank_nodes);
	free(spec->ranks);
	strv_clear(&spec->argv);
	strv_clear(&spec->env);
	free(spec->cwd);
	free(spec->script);
	free(spec->script_file);
	for (i = 0; i < spec->overrides_count; i++)
		spec_override_clear(&spec->overrides[i]);
	free(spec->overrides);
	free(spec->rank_entries);
	free(spec->user);
	free(spec->group);
	strv_clear(&spec->groups);
	free(spec->rlimits);
	limits_clear(&spec->limits);
	limits_clear(&spec->task_limits);
	bind_text_clear(&spec->cpu_bind);
	bind_text_clear(&spec->mem_bind);
	free(spec->distribution);
	free(spec->topology);
	free(spec->mount_namespace);
	free(spec->in.pattern);
	free(spec->out.pattern);
	free(spec->err.pattern);
	free(spec->pty_ranks);
	free(spec->proctrack);
	free(spec->mpi);
	spec_wire_clear(&spec->wire);
	free(spec->cgroup_root);
	free(spec->kill_sequence);
	*spec = (struct spec){.wire = {.listen_fd = -1}};
}

struct spec *spec_free(struct spec *spec)
{
	if (spec)
		spec_clear(spec);
	free(spec);
	return NULL;
}

static void draft_clear(struct spec_draft *draft)
{
	spec_clear(&draft->spec);
	free(draft->ranks.v);
	free(draft->map_ranks.v);
	free(draft->map_counts);
}

/* ---- defaults ------------------------------------------------------------------------------ */

static int default_text(char **text, const char *value, struct err *err)
{
	if (*text)
		return 0;
	*text = strdup(value);
	return *text ? 0 : spec_no_memory(err);
}

static int default_node_name(struct spec *spec, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "name");
	char name[HOST_NAME_MAX + 1];

	if (spec->node_name)
		return 0;
	if (gethostname(name, sizeof(name)) < 0)
		return err_set(err, -errno, "node.name: is missing, and the host's can't be read");
	name[sizeof(name) - 1] = '\0';
	name[strcspn(name, ".")] = '\0';
	if (!*name || spec_node_name_problem(name))
		return spec_bad(
			err, at, "is missing, and the host's name '%s' can't be used", name);
	return default_text(&spec->node_name, name, err);
}

static int default_step_name(struct spec *spec, struct err *err)
{
	if (spec->kind == STEPD_STEP_BATCH)
		spec->step_id = STEPD_STEP_ID_BATCH;
	if (spec->kind == STEPD_STEP_EXTERN)
		spec->step_id = STEPD_STEP_ID_EXTERN;
	if (spec->kind != STEPD_STEP_NORMAL)
		return default_text(&spec->step_name, spec_kind_names[spec->kind], err);
	if (spec->step_id == STEPD_STEP_ID_INTERACTIVE)
		return default_text(&spec->step_name, "interactive", err);
	if (asprintf(&spec->step_name, "%u", spec->step_id) < 0) {
		spec->step_name = NULL;
		return spec_no_memory(err);
	}
	return 0;
}

static int default_job_name(struct spec *spec, struct err *err)
{
	const struct spec_override *o = spec->overrides;
	const char *program, *slash;

	if (spec->kind != STEPD_STEP_NORMAL)
		return default_text(&spec->job_name, spec_kind_names[spec->kind], err);
	while (spec->argv.n == 0 && o->ranks_count == 0)
		o++; /* set: check_programs() */
	program = spec->argv.n ? spec->argv.v[0] : o->argv.v[0];
	slash = strrchr(program, '/');
	return default_text(&spec->job_name, slash && slash[1] ? slash + 1 : program, err);
}

static int default_kill_sequence(struct spec *spec, struct err *err)
{
	static const struct spec_kill sequence[] = {
		{.signal = SIGCONT},
		{.signal = SIGTERM, .wait_ms = TERM_WAIT_MS},
		{.signal = SIGKILL},
	};

	if (spec->kill_sequence)
		return 0;
	spec->kill_sequence = malloc(sizeof(sequence));
	if (!spec->kill_sequence)
		return spec_no_memory(err);
	memcpy(spec->kill_sequence, sequence, sizeof(sequence));
	spec->kill_sequence_count = ARRAY_SIZE(sequence);
	return 0;
}

static int fill_defaults(struct spec *spec, struct err *err)
{
	int r = default_node_name(spec, err);

	if (r == 0)
		r = default_step_name(spec, err);
	if (r == 0)
		r = default_job_name(spec, err);
	if (r == 0)
		r = default_text(&spec->proctrack, "auto", err);
	if (r == 0)
		r = default_text(&spec->mpi, "none", err);
	if (r == 0)
		r = default_text(
			&spec->wire.auth, spec->wire.secret_number ? "secret" : "munge", err);
	if (r == 0)
		r = default_kill_sequence(spec, err);
	return r;
}

/* ---- checks -------------------------------------------------------------------------------- */

static int check_kinds(const struct spec_draft *draft, struct err *err)
{
	const struct spec_field *fields;
	size_t n, i;
	int r = 0;

	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && r == 0; i++) {
		if (!fields[i].kinds || fields[i].kinds & 1u << draft->spec.kind)
			continue;
		if (json_object_get(draft->doc, fields[i].name))
			r = spec_collect(spec_bad(err, SPEC_AT(NULL, fields[i].name),
						 "is not for a step of kind '%s'",
						 spec_kind_names[draft->spec.kind]),
				err);
	}
	return r;
}

/* Every task of this node has a program, by its entry in tasks or by the step. */
static int check_programs(const struct spec *spec, struct err *err)
{
	uint64_t covered = 0;
	size_t i;

	if (spec->argv.n > 0 && !spec->argv.v[0][0])
		return spec_bad(err, SPEC_AT_INDEX(SPEC_AT(NULL, "argv"), 0), "is empty");
	if (spec->argv.n > 0)
		return 0;
	for (i = 0; i < spec->overrides_count; i++)
		covered += spec->overrides[i].argv.n > 0 ? spec->overrides[i].ranks_count : 0;
	if (covered == spec->local_ntasks)
		return 0; /* a rank is in one entry at most */
	if (covered == 0)
		return spec_bad(
			err, SPEC_AT(NULL, "argv"), "is missing: there is no program to run");
	return spec_bad(err, SPEC_AT(NULL, "argv"),
		"is missing: %llu of this node's %u tasks have no program in tasks either",
		(unsigned long long)(spec->local_ntasks - covered), spec->local_ntasks);
}

static int check_mpi(const struct spec *spec, struct err *err)
{
	if (!spec->mpi || strcmp(spec->mpi, "none") == 0 || strcmp(spec->mpi, "mpi/none") == 0)
		return 0;
	return spec_bad(err, SPEC_AT(NULL, "mpi"),
		"'%s' is not for a step of kind '%s': give none or nothing", spec->mpi,
		spec_kind_names[spec->kind]);
}

static int check_batch(const struct spec *spec, struct err *err)
{
	if (!spec->script && !spec->script_file)
		return spec_bad(err, SPEC_AT(NULL, "script"),
			"is missing: a batch step needs script, script_base64 or script_file");
	if (spec->script && spec->script_file)
		return spec_bad(err, SPEC_AT(NULL, "script_file"),
			"conflicts with script; give one of them");
	return check_mpi(spec, err);
}

static int check_grace(const struct spec *spec, const json_t *doc, struct err *err)
{
	if (!json_object_get(doc, "kill_on_bad_exit_grace_ms") || spec->kill_on_bad_exit)
		return 0;
	return spec_bad(err, SPEC_AT(NULL, "kill_on_bad_exit_grace_ms"),
		"needs kill_on_bad_exit to be true");
}

static int check_limit_signal(const struct spec *spec, const json_t *doc, struct err *err)
{
	static const char *const details[] = {"time_limit_signal_ms", "time_limit_signal_to"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(details) && !spec->time_limit_signal; i++) {
		if (json_object_get(doc, details[i]))
			return spec_bad(err, SPEC_AT(NULL, details[i]), "needs time_limit_signal");
	}
	if (spec->time_limit_signal && !spec->time_limit_ms)
		return spec_bad(err, SPEC_AT(NULL, "time_limit_signal"),
			"needs a time limit: give time_limit_ms (--time or --time-limit), too");
	return 0;
}

static int check_attach(const struct spec *spec, const json_t *doc, struct err *err)
{
	if (spec->attachable)
		return 0;
	if (json_object_get(doc, "attach_ring"))
		return spec_bad(err, SPEC_AT(NULL, "attach_ring"), "needs attachable to be true");
	if (spec->in.mode == SPEC_STREAM_ATTACH)
		return spec_bad(err, SPEC_AT(NULL, "stdin"),
			"'attach' needs attachable (--attachable): nobody else could give the "
			"tasks their input");
	return 0;
}

static int check_whole(const struct spec *spec, const json_t *doc, struct err *err)
{
	static int (*const by_kind[STEPD_STEP_KIND_MAX])(const struct spec *, struct err *) = {
		[STEPD_STEP_NORMAL] = check_programs,
		[STEPD_STEP_BATCH] = check_batch,
		[STEPD_STEP_EXTERN] = check_mpi,
	};
	int r = spec_collect(check_grace(spec, doc, err), err);

	if (r == 0)
		r = spec_collect(check_limit_signal(spec, doc, err), err);
	if (r == 0)
		r = spec_collect(spec_check_wire(spec, err), err);
	if (r == 0)
		r = spec_collect(spec_check_pty(spec, err), err);
	if (r == 0)
		r = spec_collect(check_attach(spec, doc, err), err);
	return r < 0 ? r : spec_collect(by_kind[spec->kind](spec, err), err);
}

/* ---- entry points -------------------------------------------------------------------------- */

static int spec_read_ranks(struct spec_draft *draft, struct err *err)
{
	int r = spec_layout(draft, err);

	if (r < 0)
		return spec_collect(r, err);
	return spec_read_phase(SPEC_PHASE_RANKS, draft, err);
}

static int read_draft(struct spec_draft *draft, struct err *err)
{
	int r = spec_check_object(SPEC_TABLE_STEP, NULL, draft->doc, err);

	if (r == 0)
		r = spec_read_phase(SPEC_PHASE_KIND, draft, err);
	if (r == 0 && !draft->layout_wrong)
		r = check_kinds(draft, err);
	if (r == 0)
		r = spec_read_phase(SPEC_PHASE_STEP, draft, err);
	if (r == 0 && !draft->layout_wrong)
		r = spec_read_ranks(draft, err);
	/* The spec is checked as a whole, and built, only from valid parts. */
	if (r == 0 && !spec_is_wrong(err))
		r = check_whole(&draft->spec, draft->doc, err);
	if (r == 0 && spec_is_wrong(err))
		return -EINVAL;
	return r < 0 ? r : fill_defaults(&draft->spec, err);
}

int spec_from_json(const json_t *doc, struct spec **ret_spec, struct err *err)
{
	_cleanup_(draft_clear) struct spec_draft draft = {
		.doc = doc,
		.spec =
			{
				.job_id = (uint32_t)getpid(),
				.node_count = 1,
				.in = {.mode = SPEC_STREAM_NONE},
				.input_spill_max = INPUT_SPILL_MAX,
				.hold = true,
				.pmi = {.timeout_ms = PMI_TIMEOUT_MS,
					.memory_bytes = SPEC_PMI_MEMORY_DEFAULT},
				.wire =
					{
						.listen_fd = -1,
						.fanout = WIRE_FANOUT,
						.connect_timeout_ms = WIRE_CONNECT_MS,
					},
				.time_limit_signal_ms = LIMIT_SIGNAL_MS,
				.unkillable_timeout_ms = UNKILLABLE_TIMEOUT_MS,
				.attach_ring_bytes = SPEC_ATTACH_RING_DEFAULT,
				.suspend_timeout_ms = SUSPEND_TIMEOUT_MS,
			},
	};
	struct spec *spec;
	int r;

	assert(doc);
	r = read_draft(&draft, err);
	if (r < 0)
		return r;
	draft.spec.text = spec_dump(doc);
	if (!draft.spec.text)
		return spec_no_memory(err);
	spec = malloc(sizeof(*spec));
	if (!spec)
		return spec_no_memory(err);
	*spec = draft.spec;
	draft.spec = (struct spec){.wire = {.listen_fd = -1}};
	*ret_spec = spec;
	return 0;
}

int spec_from_text(const char *text, size_t size, struct spec **ret_spec, struct err *err)
{
	json_t *doc = NULL;
	int r = spec_json_load(text, size, &doc, err);

	if (r == 0)
		r = spec_from_json(doc, ret_spec, err);
	json_decref(doc);
	return r;
}
