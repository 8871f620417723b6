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

/* What follows the plugin's name in the id, "limits.memory", if it is the tracker's; else "". */
static const char *get_subject(const struct finding *f, const char *tracker)
{
	const char *dot = strchr(f->id, '.');

	return tracker && f->of_plugin && strcmp(f->heading, tracker) == 0 && dot ? dot + 1 : "";
}

/* Of the tracker's containers; "": they have none. */
static const char *get_root(const struct findings *fs, const char *tracker)
{
	const char *root = "";
	size_t i;

	for (i = 0; i < fs->n; i++) {
		if (strcmp(get_subject(&fs->v[i], tracker), "place") == 0)
			root = fs->v[i].value;
	}
	return root;
}

/* What the tracker can limit, with blanks between; NULL: no memory. */
static char *join_limits(const struct findings *fs, const char *tracker)
{
	_cleanup_free_ char *limits = NULL;
	size_t size, i;
	FILE *out = open_memstream(&limits, &size);

	if (!out)
		return NULL;
	for (i = 0; i < fs->n; i++) {
		if (strncmp(get_subject(&fs->v[i], tracker), "limits.", strlen("limits.")) == 0 &&
			fs->v[i].value[0])
			(void)fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", fs->v[i].value);
	}
	return fclose(out) == EOF ? NULL : take_ptr(limits);
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
		r = asprintf(&text, "No step can be started now: see what is marked PROBLEM");
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
		print_outlook(fs, tracker, out);
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

	for (i = 0; i < fs->n; i++) {
		if (is_shown(&fs->v[i], quiet))
			r |= json_array_append_new(array, pack_finding(&fs->v[i]));
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
	return json_pack("{s:i, s:s, s:o, s:I, s:o, s:o, s:o}", "version", FINDINGS_JSON_VERSION,
		"stepd", PACKAGE_VERSION, "host", report_json_text(host), "uid",
		(json_int_t)geteuid(), "findings", pack_findings(fs, quiet), "counts", counts,
		"step", step);
}
