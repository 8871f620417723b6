/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/findings.h"

#include <string.h>

#include "config.h"
#include "stepd/base/json.h"
#include "stepd/cli/options.h"
#include "stepd/record/report.h"

#define JSON_VERSION 1
#define WIDTH        80
#define MARK_WIDTH   7
#define INDENT       (2 + MARK_WIDTH + 2)

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

/* ---- collecting ---------------------------------------------------------------------------- */

/* A finding as in the JSON, with what only the text needs: [heading, level, {...}]. */
static const json_t *get_finding(const json_t *row)
{
	return json_array_get(row, 2);
}

static enum stepd_finding_level get_level(const json_t *row)
{
	return (enum stepd_finding_level)json_integer_value(json_array_get(row, 1));
}

static json_t *pack_text(const char *text)
{
	_cleanup_free_ char *copy = strdup(text ? text : "");

	if (!copy)
		return NULL;
	text_make_printable(copy);
	return report_json_text(copy);
}

int findings_level(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		if (strcmp(levels[i].name, name) == 0)
			return (int)i;
	}
	return STEPD_FINDING_WARNING;
}

static enum stepd_finding_level level_of(const struct findings *fs, int level)
{
	/* a plugin from elsewhere may pass anything */
	if (level < 0 || level >= STEPD_FINDING_LEVEL_COUNT)
		level = STEPD_FINDING_WARNING;
	if (level == STEPD_FINDING_PROBLEM && fs->optional)
		level = STEPD_FINDING_WARNING;
	return (enum stepd_finding_level)level;
}

void findings_add(void *ctx, const stepd_finding_t *finding)
{
	struct findings *fs = ctx;
	enum stepd_finding_level level = level_of(fs, finding->level);
	json_t *row = json_pack("[o, i, {s:o, s:s, s:o, s:o, s:o, s:o}]", pack_text(fs->heading),
		(int)level, "id", pack_text(finding->id), "level", levels[level].name, "plugin",
		fs->of_plugin ? pack_text(fs->heading) : json_null(), "value",
		pack_text(finding->value), "text", pack_text(finding->text), "remedy",
		pack_text(finding->remedy));

	if (!fs->list)
		fs->list = json_array();
	if (json_array_append_new(fs->list, row) < 0)
		fs->no_memory = true;
	else
		fs->count[level]++;
}

void findings_clear(struct findings *fs)
{
	json_decref(fs->list);
	*fs = (struct findings){0};
}

/* What follows the plugin's name in the id, "limits.memory", if it is the tracker's; else "". */
static const char *get_subject(const json_t *row, const char *tracker)
{
	const char *plugin = json_get_text(get_finding(row), "plugin", NULL);
	const char *dot = strchr(json_get_text(get_finding(row), "id", ""), '.');

	return tracker && plugin && strcmp(plugin, tracker) == 0 && dot ? dot + 1 : "";
}

/* Of the tracker's containers; "": they have none. */
static const char *get_root(const struct findings *fs, const char *tracker)
{
	const char *root = "";
	const json_t *row;
	size_t i;

	json_array_foreach (fs->list, i, row) {
		if (strcmp(get_subject(row, tracker), "place") == 0)
			root = json_get_text(get_finding(row), "value", "");
	}
	return root;
}

/* The limits that the tracker can set, separated by blanks; NULL: no memory. */
static char *join_limits(const struct findings *fs, const char *tracker)
{
	_cleanup_free_ char *limits = NULL;
	const char *value;
	const json_t *row;
	size_t size, i;
	FILE *out = open_memstream(&limits, &size);

	if (!out)
		return NULL;
	json_array_foreach (fs->list, i, row) {
		value = json_get_text(get_finding(row), "value", "");
		if (strncmp(get_subject(row, tracker), "limits.", strlen("limits.")) == 0 && *value)
			(void)fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", value);
	}
	return fclose(out) == EOF ? NULL : take_ptr(limits);
}

/* ---- for people ---------------------------------------------------------------------------- */

static bool is_shown(const json_t *row, bool quiet)
{
	return !quiet || get_level(row) >= STEPD_FINDING_WARNING;
}

static void print_finding(const json_t *row, bool colour, FILE *out)
{
	const json_t *f = get_finding(row);
	const char *id = json_get_text(f, "id", ""), *remedy = json_get_text(f, "remedy", "");
	const char *paint = colour ? levels[get_level(row)].colour : "";
	bool bad = get_level(row) >= STEPD_FINDING_WARNING;
	_cleanup_free_ char *text = NULL, *last = NULL;

	/* The id is for the manual and for monitoring, where there is something to look up. */
	if (asprintf(&text, "%s%s%s%s", json_get_text(f, "text", ""), bad ? " [" : "",
		    bad ? id : "", bad ? "]" : "") < 0 ||
		asprintf(&last, "Remedy: %s", remedy) < 0)
		return; /* without memory the line is missing */
	(void)fprintf(out, "  %s%-*s%s  ", paint, MARK_WIDTH, levels[get_level(row)].mark,
		*paint ? "\033[0m" : "");
	text_wrap(out, text, INDENT, WIDTH);
	if (*remedy) {
		(void)fprintf(out, "%*s", INDENT + 2, "");
		text_wrap(out, last, INDENT + 2, WIDTH);
	}
}

static void print_outlook(const struct findings *fs, const char *tracker, FILE *out)
{
	_cleanup_free_ char *limits = join_limits(fs, tracker), *text = NULL;
	const char *root = get_root(fs, tracker);
	const size_t *n = fs->count;
	int r;

	(void)fprintf(out, "%zu ok, %zu %s, %zu %s, %zu %s\n", n[STEPD_FINDING_OK],
		n[STEPD_FINDING_NOTE], n[STEPD_FINDING_NOTE] == 1 ? "note" : "notes",
		n[STEPD_FINDING_WARNING], n[STEPD_FINDING_WARNING] == 1 ? "warning" : "warnings",
		n[STEPD_FINDING_PROBLEM], n[STEPD_FINDING_PROBLEM] == 1 ? "problem" : "problems");
	if (n[STEPD_FINDING_PROBLEM] > 0 || !tracker)
		r = asprintf(&text, "No step can be started now: see the findings marked PROBLEM");
	else
		r = asprintf(&text,
			"A step started now is tracked by %s%s%s%s, and can be limited in: %s",
			tracker, *root ? " below '" : "", root, *root ? "'" : "",
			limits && *limits ? limits : "nothing");
	if (r >= 0)
		text_wrap(out, text, 0, WIDTH);
}

void findings_print(
	const struct findings *fs, const char *tracker, bool quiet, bool colour, FILE *out)
{
	const char *heading = "", *next;
	const json_t *row;
	bool any = false;
	size_t i;

	json_array_foreach (fs->list, i, row) {
		if (!is_shown(row, quiet))
			continue;
		next = json_string_value(json_array_get(row, 0));
		if (strcmp(next, heading) != 0)
			(void)fprintf(out, "%s%s%s%s\n", any ? "\n" : "", colour ? "\033[1m" : "",
				next, colour ? "\033[0m" : "");
		heading = next;
		print_finding(row, colour, out);
		any = true;
	}
	if (any) {
		(void)fputc('\n', out);
		print_outlook(fs, tracker, out);
	}
}

/* ---- for programs -------------------------------------------------------------------------- */

static json_t *pack_findings(const struct findings *fs, bool quiet)
{
	json_t *array = json_array(), *row;
	size_t i;
	int r = 0;

	json_array_foreach (fs->list, i, row) {
		if (is_shown(row, quiet))
			r |= json_array_append(array, json_array_get(row, 2));
	}
	return r == 0 ? array : NULL;
}

static json_t *pack_limits(const struct findings *fs, const char *tracker)
{
	_cleanup_free_ char *limits = join_limits(fs, tracker);
	json_t *array = limits ? json_array() : NULL;
	char *name, *at = limits;
	int r = 0;

	while ((name = strsep(&at, " "))) {
		if (*name)
			r |= json_array_append_new(array, report_json_text(name));
	}
	return r == 0 ? array : NULL;
}

json_t *findings_to_json(const struct findings *fs, const char *tracker, bool quiet)
{
	const char *root = get_root(fs, tracker);
	const size_t *n = fs->count;
	char host[256] = "";
	json_t *counts, *step;

	(void)gethostname(host, sizeof(host) - 1); /* "" then */
	counts = json_pack("{s:I, s:I, s:I, s:I}", "ok", (json_int_t)n[STEPD_FINDING_OK], "note",
		(json_int_t)n[STEPD_FINDING_NOTE], "warning", (json_int_t)n[STEPD_FINDING_WARNING],
		"problem", (json_int_t)n[STEPD_FINDING_PROBLEM]);
	step = json_pack("{s:b, s:o, s:o, s:o}", "can_run", n[STEPD_FINDING_PROBLEM] == 0,
		"tracker", tracker ? report_json_text(tracker) : json_null(), "place",
		*root ? report_json_text(root) : json_null(), "limits", pack_limits(fs, tracker));
	return json_pack("{s:i, s:s, s:o, s:I, s:o, s:o, s:o}", "version", JSON_VERSION, "stepd",
		PACKAGE_VERSION, "host", report_json_text(host), "uid", (json_int_t)geteuid(),
		"findings", pack_findings(fs, quiet), "counts", counts, "step", step);
}
