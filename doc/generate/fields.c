/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The spec's fields as a JSON Schema, and as entries of stepd-spec(5). A row of the tables has all
 * of a field; of a value that no bounds, names or flags describe it names the form, which is in
 * doc/generate/spec.json. That file has the conditions between fields, too.
 */
#include <assert.h>
#include <string.h>

#include "doc/generate/generate.h"
#include "stepd/base/cleanup.h"

#define REFERENCE "#/$defs/"

static const char *const table_names[SPEC_TABLE_MAX] = {
	[SPEC_TABLE_STEP] = "document",
	[SPEC_TABLE_NODE] = "node",
	[SPEC_TABLE_TASK] = "task",
	[SPEC_TABLE_STREAM] = "stream",
	[SPEC_TABLE_RLIMIT] = "rlimit",
	[SPEC_TABLE_KILL] = "kill",
	[SPEC_TABLE_PMI] = "pmi",
	[SPEC_TABLE_WIRE] = "wire",
	[SPEC_TABLE_LIMITS] = "limits",
	[SPEC_TABLE_IO] = "io",
	[SPEC_TABLE_DEVICE] = "device",
};

/* Rows whose least and most bound a number, and the forms that may stand in its place. */
static const struct number {
	spec_parse_fn *parse;
	const char *others[2];
} numbers[] = {
	{spec_row_u32, {NULL}},
	{spec_row_u64, {NULL}},
	{spec_row_task_rank, {NULL}},
	{spec_row_limit_size, {"size", "unlimited"}},
	{spec_row_limit_count, {"unlimited"}},
	{spec_row_limit_weight, {"unlimited"}},
};

static const struct number *find_number(const struct spec_field *f)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers) && numbers[i].parse != f->parse; i++)
		;
	return i < ARRAY_SIZE(numbers) ? &numbers[i] : NULL;
}

static bool is_bool(const struct spec_field *f)
{
	return f->parse == spec_row_bool || f->parse == spec_row_limit_bool;
}

/* How long a text may be. */
static int64_t text_bytes(const struct spec_field *f)
{
	return f->parse == spec_row_text ? f->most : 0;
}

enum spec_table fields_table(const char *name)
{
	int i = strv_index(table_names, SPEC_TABLE_MAX, name);

	return i < 0 ? SPEC_TABLE_MAX : (enum spec_table)i;
}

/* ---- the schema --------------------------------------------------------------------------- */

static json_t *reference(const char *form)
{
	return json_pack("{s:s+}", "$ref", REFERENCE, form);
}

static json_t *number_schema(const struct spec_field *f, const struct number *number)
{
	json_t *range = json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
		(json_int_t)f->least, "maximum", (json_int_t)f->most);
	json_t *any;
	size_t i;

	if (!number->others[0])
		return range;
	any = json_pack("[o]", range);
	for (i = 0; i < ARRAY_SIZE(number->others) && number->others[i]; i++)
		json_array_append_new(any, reference(number->others[i]));
	return json_pack("{s:o}", "oneOf", any);
}

static json_t *names_array(const char *const *names)
{
	json_t *array = json_array();

	for (; *names; names++)
		json_array_append_new(array, json_string(*names));
	return array;
}

/* A mode by its name alone, if it needs nothing else, or an object. */
static json_t *stream_schema(const struct spec_field *f)
{
	json_t *alone = json_array(), *modes = json_array(), *properties;
	const struct spec_field *mode;
	size_t n, i;

	mode = spec_table_get(SPEC_TABLE_STREAM, &n);
	for (i = 0; mode->choices[i]; i++) {
		if (f->modes & 1u << i)
			json_array_append_new(modes, json_string(mode->choices[i]));
		if (f->modes & ~SPEC_MODES_NOT_ALONE & 1u << i)
			json_array_append_new(alone, json_string(mode->choices[i]));
	}
	properties = json_pack("{s:{s:o}}", "mode", "enum", modes);
	if (f->modes & 1u << SPEC_STREAM_ALL) /* it is read */
		json_object_set_new(properties, "append", json_false());
	return json_pack("{s:[{s:o}, {s:[o, {s:o}]}]}", "oneOf", "enum", alone, "allOf",
		reference(table_names[SPEC_TABLE_STREAM]), "properties", properties);
}

static json_t *value_schema(const struct spec_field *f)
{
	const struct number *number = find_number(f);
	json_t *value;

	if (number)
		return number_schema(f, number);
	if (is_bool(f))
		return json_pack("{s:s}", "type", "boolean");
	if (f->choices)
		return json_pack("{s:o}", "enum", names_array(f->choices));
	if (f->modes)
		return stream_schema(f);
	assert(f->form);
	value = reference(f->form);
	if (text_bytes(f))
		json_object_set_new(value, "maxLength", json_integer(text_bytes(f)));
	return value;
}

static json_t *field_schema(const struct spec_field *f)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *plain = NULL;
	json_t *schema, *value = value_schema(f);

	if (asprintf(&text, "%s%s%s%s", f->doc, f->unset ? " Default: " : "", f->unset ?: "",
		    f->unset ? "." : "") < 0)
		abort();
	plain = markup_plain(text);
	schema = json_pack("{s:s}", "description", plain);
	json_object_update(schema, value);
	json_decref(value);
	return schema;
}

/* The keywords of a table's object; what the frame has of it stands before the properties. */
static json_t *table_schema(enum spec_table table, const json_t *more)
{
	json_t *schema = json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 0);
	json_t *properties = json_object(), *required = json_array();
	const struct spec_field *fields;
	size_t n, i;

	fields = spec_table_get(table, &n);
	for (i = 0; i < n; i++) {
		json_object_set_new(properties, fields[i].name, field_schema(&fields[i]));
		if (fields[i].required)
			json_array_append_new(required, json_string(fields[i].name));
	}
	if (json_array_size(required) > 0)
		json_object_set(schema, "required", required);
	json_decref(required);
	if (more)
		json_object_update(schema, (json_t *)more); /* it is only read */
	json_object_set_new(schema, "properties", properties);
	return schema;
}

/* Fields that a kind of step can't have, before the properties that are there. */
static void forbid_fields(json_t *condition)
{
	json_t *then = json_object_get(condition, "then"), *properties = json_object();
	const struct spec_field *fields;
	const char *kind = NULL;
	size_t n, i;
	int k;

	json_unpack(condition, "{s:{s:{s:{s:s}}}}", "if", "properties", "kind", "const", &kind);
	k = kind ? strv_index(spec_kind_names, STEPD_STEP_KIND_MAX, kind) : -1;
	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && k >= 0; i++) {
		if (fields[i].kinds && !(fields[i].kinds & 1u << k))
			json_object_set_new(properties, fields[i].name, json_false());
	}
	json_object_update(properties, json_object_get(then, "properties"));
	json_object_set_new(then, "properties", properties);
}

static json_t *make_defs(const json_t *frame)
{
	json_t *forms = json_deep_copy(json_object_get(frame, "$defs"));
	json_t *names = json_object_get(json_object_get(forms, "rlimits"), "propertyNames");
	json_t *title, *form;
	const char *name;
	int i;

	json_object_set_new(names, "enum", names_array(spec_rlimit_names));
	for (i = SPEC_TABLE_STEP + 1; i < SPEC_TABLE_MAX; i++)
		json_object_set_new(forms, table_names[i],
			table_schema((enum spec_table)i, json_object_get(forms, table_names[i])));
	json_object_foreach (forms, name, form) {
		title = json_object_get(form, "title");
		if (title) {
			_cleanup_free_ char *plain = markup_plain(json_string_value(title));

			json_object_set_new(form, "title", json_string(plain));
		}
	}
	return forms;
}

json_t *fields_schema(const json_t *frame)
{
	json_t *schema = json_copy((json_t *)frame), *conditions, *condition, *table;
	size_t i;

	conditions = json_deep_copy(json_object_get(frame, "allOf"));
	json_array_foreach (conditions, i, condition)
		forbid_fields(condition);
	json_object_set_new(schema, "allOf", conditions);
	json_object_set_new(schema, "$defs", make_defs(frame));
	table = table_schema(SPEC_TABLE_STEP, NULL);
	json_object_update(schema, table);
	json_decref(table);
	return schema;
}

/* ---- the manual --------------------------------------------------------------------------- */

static const char *form_title(const json_t *frame, const char *form)
{
	const json_t *forms = json_object_get(frame, "$defs");

	return json_string_value(json_object_get(json_object_get(forms, form), "title"))
		?: "object";
}

/* "a, b or c" */
static void put_names(FILE *out, const char *const *names, unsigned which, const char *last)
{
	size_t i, left = 0, n = 0;

	for (i = 0; names[i]; i++)
		left += which >> i & 1;
	for (i = 0; names[i]; i++) {
		if (!(which >> i & 1))
			continue;
		left--;
		fprintf(out, "%s`%s`", n == 0 ? "" : left == 0 ? last : ", ", names[i]);
		n++;
	}
}

/* What a value is: "number, 0 to 9, or `max`". */
static void put_type(FILE *out, const json_t *frame, const struct spec_field *f)
{
	const struct number *number = find_number(f);
	size_t i;

	if (is_bool(f)) {
		fputs("true or false", out);
	} else if (f->choices) {
		fputs("name: ", out);
		put_names(out, f->choices, ~0u, " or ");
	} else if (f->modes) {
		fputs("name or object", out);
	} else if (!number) {
		fputs(form_title(frame, f->form), out);
	} else {
		fprintf(out, "number, %lld to %lld", (long long)f->least, (long long)f->most);
		for (i = 0; i < ARRAY_SIZE(number->others) && number->others[i]; i++)
			fprintf(out, ", or %s", form_title(frame, number->others[i]));
	}
}

static void put_kinds(FILE *out, const struct spec_field *f)
{
	const char *separator = ";";
	int k;

	for (k = 0; k < STEPD_STEP_KIND_MAX && f->kinds; k++) {
		if (f->kinds & 1u << k) {
			fprintf(out, " %s %s", separator, spec_kind_names[k]);
			separator = ",";
		}
	}
}

static void put_body(FILE *out, const struct spec_field *f)
{
	const struct spec_field *mode;
	size_t n;

	fputs(f->doc, out);
	if (f->required)
		fputs(" Must be given.", out);
	if (text_bytes(f))
		fprintf(out, " At most %lld bytes.", (long long)text_bytes(f));
	if (f->modes) {
		mode = spec_table_get(SPEC_TABLE_STREAM, &n);
		fputs(" Modes: ", out);
		put_names(out, mode->choices, f->modes, ", ");
		fputc('.', out);
	}
	if (f->unset)
		fprintf(out, " Default: %s.", f->unset);
}

static FILE *open_text(char **text, size_t *size)
{
	FILE *out = open_memstream(text, size);

	if (!out)
		abort();
	return out;
}

void fields_manual(FILE *out, const json_t *frame, enum spec_table table)
{
	const struct spec_field *fields;
	size_t n, i, size;

	fields = spec_table_get(table, &n);
	fputs(".Bl -tag -width Ds\n", out);
	for (i = 0; i < n; i++) {
		_cleanup_free_ char *type = NULL, *body = NULL;
		FILE *text = open_text(&type, &size);

		put_type(text, frame, &fields[i]);
		(void)fclose(text); /* memory */
		text = open_text(&body, &size);
		put_body(text, &fields[i]);
		(void)fclose(text); /* likewise */
		fprintf(out, ".It Cm %s Pq", fields[i].name);
		markup_arguments(out, type);
		put_kinds(out, &fields[i]);
		fputc('\n', out);
		markup_mdoc(out, body);
	}
	fputs(".El\n", out);
}
