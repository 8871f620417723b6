/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/findings.h"

#include <jansson.h>
#include <string.h>

#include "config.h"
#include "stepd/cli/text.h"
#include "stepd/record/report.h"

#define WIDTH      80
#define MARK_WIDTH 7
#define INDENT     (2 + MARK_WIDTH + 2)

static const struct {
	const char *name; /* in JSON */
	const char *mark;
	const char *colour;
} levels[STEPD_FINDING_LEVEL_COUNT] = {
	[STEPD_FINDING_OK] = {"ok", "ok", "\033[32m"},
	[STEPD_FINDING_NOTE] = {"note", "-", ""},
	[STEPD_FINDING_WARNING] = {"warning", "warning", "\033[33m"},
	[STEPD_FINDING_PROBLEM] = {"problem", "PROBLEM", "\033[1;31m"},
};

/* ---- collecting --------------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
	char *copy = strdup(text ? text : "");

	if (copy)
		text_make_printable(copy);
	return copy;
}

static void clear_finding(struct finding *f)
{
	free(f->heading);
	free(f->id);
	free(f->value);
	free(f->text);
	free(f->remedy);
}

static enum stepd_finding_level level_of(const struct findings *fs, int level)
{
	/* a plugin of another's making may pass anything */
	if (level < 0 || level >= STEPD_FINDING_LEVEL_COUNT)
		level = STEPD_FINDING_WARNING;
	if (level == STEPD_FINDING_PROBLEM && fs->optional)
		level = STEPD_FINDING_WARNING;
	return (enum stepd_finding_level)level;
}

void findings_add(void *ctx, const stepd_finding_t *finding)
{
	struct findings *fs = ctx;
	struct finding *grown = realloc(fs->v, (fs->n + 1) * sizeof(*grown));
	struct finding f = {.heading = copy_text(fs->heading),
		.of_plugin = fs->of_plugin,
		.id = copy_text(finding->id),
		.value = copy_text(finding->value),
		.text = copy_text(finding->text),
		.remedy = copy_text(finding->remedy),
		.level = level_of(fs, finding->level)};

	if (grown)
		fs->v = grown;
	if (!grown || !f.heading || !f.id || !f.value || !f.text || !f.remedy) {
		clear_finding(&f);
		fs->no_memory = true;
		return;
	}
	fs->v[fs->n++] = f;
	fs->count[f.level]++;
}

void findings_clear(struct findings *fs)
{
	size_t i;

	for (i = 0; i < fs->n; i++)
		clear_finding(&fs->v[i]);
	free(fs->v);
	*fs = (struct findings){0};
}

/* What follows the plugin's name in the id: "limits.memory". */
static const char *name_of(const struct finding *f)
{
	const char *dot = strchr(f->id, '.');

	return dot ? dot + 1 : "";
}

int findings_get_outlook(const struct findings *fs, const char *tracker,
	struct outlook *ret_outlook, char **ret_limits)
{
	struct outlook o = {
		.can_run = fs->count[STEPD_FINDING_PROBLEM] == 0, .tracker = tracker, .root = ""};
	_cleanup_free_ char *limits = NULL;
	FILE *out;
	size_t size, i;

	out = open_memstream(&limits, &size);
	if (!out)
		return -ENOMEM;
	for (i = 0; tracker && i < fs->n; i++) {
		const struct finding *f = &fs->v[i];

		if (!f->of_plugin || strcmp(f->heading, tracker) != 0)
			continue;
		if (strcmp(name_of(f), "place") == 0)
			o.root = f->value;
		if (strncmp(name_of(f), "limits.", strlen("limits.")) == 0 && f->value[0])
			(void)fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", f->value);
	}
	if (fclose(out) == EOF)
		return -ENOMEM;
	o.limits = limits;
	*ret_limits = take_ptr(limits);
	*ret_outlook = o;
	return 0;
}

/* ---- for people --------------------------------------------------------------------------- */

static bool is_shown(const struct finding *f, bool quiet)
{
	return !quiet || f->level >= STEPD_FINDING_WARNING;
}

static void print_finding(const struct finding *f, bool colour, FILE *out)
{
	const char *paint = colour ? levels[f->level].colour : "";
	_cleanup_free_ char *text = NULL, *remedy = NULL;

	/* The id is for the manual and for monitoring, where there is something to look up. */
	if (asprintf(&text, "%s%s%s%s", f->text, f->level >= STEPD_FINDING_WARNING ? " [" : "",
		    f->level >= STEPD_FINDING_WARNING ? f->id : "",
		    f->level >= STEPD_FINDING_WARNING ? "]" : "") < 0 ||
		asprintf(&remedy, "Remedy: %s", f->remedy) < 0)
		return; /* without memory the line is missing */
	(void)fprintf(out, "  %s%-*s%s  ", paint, MARK_WIDTH, levels[f->level].mark,
		*paint ? "\033[0m" : "");
	text_wrap(out, text, INDENT, WIDTH);
	if (f->remedy[0]) {
		(void)fprintf(out, "%*s", INDENT + 2, "");
		text_wrap(out, remedy, INDENT + 2, WIDTH);
	}
}

static void print_outlook(const struct findings *fs, const struct outlook *o, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	const size_t *n = fs->count;
	int r;

	(void)fprintf(out, "%zu ok, %zu %s, %zu %s, %zu %s\n", n[STEPD_FINDING_OK],
		n[STEPD_FINDING_NOTE], n[STEPD_FINDING_NOTE] == 1 ? "note" : "notes",
		n[STEPD_FINDING_WARNING], n[STEPD_FINDING_WARNING] == 1 ? "warning" : "warnings",
		n[STEPD_FINDING_PROBLEM], n[STEPD_FINDING_PROBLEM] == 1 ? "problem" : "problems");
	if (!o->can_run || !o->tracker)
		r = asprintf(&text, "No step can be started now: see what is marked PROBLEM");
	else
		r = asprintf(&text,
			"A step started now is tracked by %s%s%s%s, and can be limited in: %s",
			o->tracker, o->root[0] ? " below '" : "", o->root, o->root[0] ? "'" : "",
			o->limits[0] ? o->limits : "nothing");
	if (r >= 0)
		text_wrap(out, text, 0, WIDTH);
}

void findings_print(const struct findings *fs, const struct outlook *outlook, bool quiet,
	bool colour, FILE *out)
{
	const char *heading = "";
	bool any = false;
	size_t i;

	for (i = 0; i < fs->n; i++) {
		if (!is_shown(&fs->v[i], quiet))
			continue;
		if (strcmp(fs->v[i].heading, heading) != 0) {
			heading = fs->v[i].heading;
			(void)fprintf(out, "%s%s%s%s\n", any ? "\n" : "", colour ? "\033[1m" : "",
				heading, colour ? "\033[0m" : "");
		}
		print_finding(&fs->v[i], colour, out);
		any = true;
	}
	if (any) {
		(void)fputc('\n', out);
		print_outlook(fs, outlook, out);
	}
}

/* ---- for programs ------------------------------------------------------------------------- */

static json_t *pack_finding(const struct finding *f)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "id", report_json_text(f->id), "level",
		levels[f->level].name, "plugin",
		f->of_plugin ? report_json_text(f->heading) : json_null(), "value",
		report_json_text(f->value), "text", report_json_text(f->text), "remedy",
		report_json_text(f->remedy));
}

static json_t *pack_findings(const struct findings *fs, bool quiet)
{
	json_t *array = json_array();
	size_t i;
	int r = 0;

	for (i = 0; array && r == 0 && i < fs->n; i++) {
		if (is_shown(&fs->v[i], quiet))
			r = json_array_append_new(array, pack_finding(&fs->v[i]));
	}
	if (r == 0)
		return array;
	json_decref(array);
	return NULL;
}

static json_t *pack_counts(const struct findings *fs)
{
	json_t *counts = json_object();
	size_t i;
	int r = 0;

	for (i = 0; counts && r == 0 && i < ARRAY_SIZE(levels); i++)
		r = json_object_set_new(
			counts, levels[i].name, json_integer((json_int_t)fs->count[i]));
	if (r == 0)
		return counts;
	json_decref(counts);
	return NULL;
}

static json_t *pack_list(const char *list)
{
	_cleanup_free_ char *copy = strdup(list);
	json_t *array = copy ? json_array() : NULL;
	char *name, *at = copy;
	int r = 0;

	while (array && r == 0 && (name = strsep(&at, " "))) {
		if (*name)
			r = json_array_append_new(array, report_json_text(name));
	}
	if (r == 0)
		return array;
	json_decref(array);
	return NULL;
}

static json_t *pack_outlook(const struct outlook *o)
{
	return json_pack("{s:b, s:o, s:o, s:o}", "can_run", (int)o->can_run, "tracker",
		o->tracker ? report_json_text(o->tracker) : json_null(), "place",
		o->root[0] ? report_json_text(o->root) : json_null(), "limits",
		pack_list(o->limits));
}

json_t *findings_to_json(const struct findings *fs, const struct outlook *outlook, bool quiet)
{
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1); /* "" then */
	return json_pack("{s:i, s:s, s:o, s:I, s:o, s:o, s:o}", "version", FINDINGS_JSON_VERSION,
		"stepd", PACKAGE_VERSION, "host", report_json_text(host), "uid",
		(json_int_t)geteuid(), "findings", pack_findings(fs, quiet), "counts",
		pack_counts(fs), "step", pack_outlook(outlook));
}
