/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/gantt.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/cli/columns.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"

#define WIDTH       1100.0
#define LEFT        110.0 /* of the plot: names of nodes are before it */
#define PLOT        (WIDTH - LEFT - 20)
#define HEAD        44.0 /* above the plot */
#define FOOT        30.0 /* below it: the axis */
#define LEGEND      30.0
#define LANE        16.0 /* of a job on a node */
#define MAP_ROWS    60u
#define MAP_COLUMNS 240u
#define MAP_ROW     6.0
#define LEVELS      10  /* of a map's shades */
#define LABEL_PER   7.0 /* pixels that a character takes */
#define NODES_MAX   1000000u

/* Of partitions, in their order; distinguishable by people with red-green blindness, too. */
static const char *const colours[] = {
	"#4477aa", "#ee7733", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#997700"};

static void *must_have(void *memory)
{
	if (!memory)
		abort(); /* as the bitmaps do */
	return memory;
}

/* A job on a node. */
struct bar {
	double begin, end;
	uint32_t node, lane;
	const json_t *job, *run;
};

struct panel {
	const json_t *simulation;
	char **names; /* of nodes */
	size_t names_count;
	void *tree; /* of those names' addresses, to find their numbers */
	struct bar *bars;
	size_t count, capacity;
	bool is_full;    /* there are more */
	uint32_t *lanes; /* of each node, 1 or more */
	double *used;    /* of a map: CPU seconds, by row and column */
};

struct picture {
	FILE *out;
	double begin, end; /* of all panels */
	bool is_map;
	struct panel panels[2];
	size_t count;
	double y;
};

/* ---- texts -------------------------------------------------------------------------------------
 */

/* What is no character of XML 1.0 in UTF-8: control characters, U+FFFE and U+FFFF. */
static size_t unfit_size(const char *text)
{
	if ((unsigned char)*text < ' ')
		return 1;
	return strncmp(text, "\xef\xbf\xbe", 3) == 0 || strncmp(text, "\xef\xbf\xbf", 3) == 0 ? 3
											      : 0;
}

/* text: UTF-8. What XML does not allow becomes "?". */
static void put_text(FILE *out, const char *text)
{
	size_t unfit;

	for (; *text; text += unfit ? unfit : 1) {
		unfit = unfit_size(text);
		if (unfit)
			(void)fputc('?', out);
		else if (*text == '<')
			(void)fputs("&lt;", out);
		else if (*text == '>')
			(void)fputs("&gt;", out);
		else if (*text == '&')
			(void)fputs("&amp;", out);
		else if (*text == '"')
			(void)fputs("&quot;", out);
		else
			(void)fputc(*text, out);
	}
}

static void put_label(FILE *out, double x, double y, const char *attributes, const char *text)
{
	(void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
	put_text(out, text);
	(void)fputs("</text>\n", out);
}

static double number_of(const json_t *object, const char *member)
{
	return json_number_value(json_object_get(object, member));
}

/* ---- nodes -------------------------------------------------------------------------------------
 */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(const char *name, void *userdata)
{
	struct panel *p = userdata;

	p->names[p->names_count++] = must_have(strdup(name));
	return 0;
}

static void index_names(struct panel *p)
{
	size_t i, n = (size_t)json_get_int(p->simulation, "nodes", 0);

	p->names = must_have(calloc(n + 1, sizeof(*p->names)));
	p->lanes = must_have(calloc(n + 1, sizeof(*p->lanes)));
	if (hostlist_each(json_get_text(p->simulation, "node_names", ""), n, add_name, p) < 0)
		p->names_count = 0;
	for (i = 0; i < p->names_count; i++)
		(void)must_have(tsearch(&p->names[i], &p->tree, compare_names));
}

/* names_count: there is none with that name. */
static size_t find_node(const struct panel *p, const char *name)
{
	char *const *const *found = tfind(&name, &p->tree, compare_names);

	return found ? (size_t)(*found - p->names) : p->names_count;
}

/* ---- what each run is on -----------------------------------------------------------------------
 */

struct run_nodes {
	struct picture *picture;
	struct panel *panel;
	const json_t *job, *run;
	uint32_t nodes;
};

static int count_node(const char *name, void *userdata)
{
	struct run_nodes *r = userdata;

	(void)name;
	r->nodes++;
	return 0;
}

static int add_bar(const char *name, void *userdata)
{
	const struct run_nodes *r = userdata;
	struct panel *p = r->panel;
	size_t node = find_node(p, name);

	if (node == p->names_count)
		return 0;
	if (p->count == GANTT_BARS_MAX) {
		p->is_full = true;
		return -E2BIG;
	}
	if (p->count == p->capacity) {
		p->capacity = p->capacity ? 2 * p->capacity : 256;
		p->bars = must_have(reallocarray(p->bars, p->capacity, sizeof(*p->bars)));
	}
	p->bars[p->count++] = (struct bar){.begin = number_of(r->run, "begin"),
		.end = number_of(r->run, "end"),
		.node = (uint32_t)node,
		.job = r->job,
		.run = r->run};
	return 0;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double most(double a, double b)
{
	return a > b ? a : b;
}

static uint32_t map_rows(const struct panel *p)
{
	return p->names_count < MAP_ROWS ? (uint32_t)p->names_count : MAP_ROWS;
}

/* Its CPU time goes to the columns that it overlaps. */
static int add_use(const char *name, void *userdata)
{
	const struct run_nodes *r = userdata;
	const struct picture *pic = r->picture;
	const struct panel *p = r->panel;
	double width = (pic->end - pic->begin) / MAP_COLUMNS, cpus, begin, end, span;
	size_t node = find_node(p, name), column;

	if (node == p->names_count)
		return 0;
	cpus = number_of(r->run, "cpus") / r->nodes;
	begin = number_of(r->run, "begin") - pic->begin;
	end = number_of(r->run, "end") - pic->begin;
	for (column = (size_t)(begin / width); column < MAP_COLUMNS && (double)column * width < end;
		column++) {
		span = least(end, (double)(column + 1) * width) -
			most(begin, (double)column * width);
		p->used[node * map_rows(p) / p->names_count * MAP_COLUMNS + column] += span * cpus;
	}
	return 0;
}

/* add for each node of each run. */
static void each_run(struct picture *pic, struct panel *p, hostlist_fn add, bool also_standing)
{
	struct run_nodes r = {.picture = pic, .panel = p};
	size_t i, k;

	json_array_foreach (json_get_array(p->simulation, "jobs"), i, r.job) {
		json_array_foreach (json_get_array(r.job, "runs"), k, r.run) {
			const char *nodes = json_get_text(r.run, "nodes", "");

			if (!also_standing && json_is_true(json_object_get(r.run, "suspended")))
				continue;
			r.nodes = 0;
			if (hostlist_each(nodes, NODES_MAX, count_node, &r) < 0 ||
				hostlist_each(nodes, NODES_MAX, add, &r) < 0)
				return;
		}
	}
}

/* ---- lanes -------------------------------------------------------------------------------------
 */

static int compare_bars(const void *a, const void *b)
{
	const struct bar *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->job != y->job) /* elements of an array, in its order or not: by their numbers */
		return strcmp(json_get_text(x->job, "job", ""), json_get_text(y->job, "job", ""));
	return 0;
}

static bool is_taken(const struct bar *bars, size_t from, size_t i, uint32_t lane)
{
	size_t k;

	for (k = from; k < i; k++) {
		if (bars[k].lane == lane && bars[k].end > bars[i].begin)
			return true;
	}
	return false;
}

/* The lane that this job had on the node before, if it is free; else the first that is. */
static uint32_t choose_lane(const struct bar *bars, size_t from, size_t i)
{
	uint32_t lane = 0;
	size_t k;

	for (k = from; k < i; k++) {
		if (bars[k].job == bars[i].job && !is_taken(bars, from, i, bars[k].lane))
			return bars[k].lane;
	}
	while (is_taken(bars, from, i, lane))
		lane++;
	return lane;
}

static void lay_lanes(struct panel *p)
{
	size_t i, from = 0;

	for (i = 0; i < p->names_count; i++)
		p->lanes[i] = 1;
	if (p->count == 0)
		return;
	if (p->count > 0)
		qsort(p->bars, p->count, sizeof(*p->bars), compare_bars);
	for (i = 0; i < p->count; i++) {
		struct bar *bar = &p->bars[i];

		if (bar->node != p->bars[from].node)
			from = i;
		bar->lane = choose_lane(p->bars, from, i);
		if (bar->lane >= p->lanes[bar->node])
			p->lanes[bar->node] = bar->lane + 1;
	}
}

/* ---- drawing -----------------------------------------------------------------------------------
 */

static double x_of(const struct picture *pic, double t)
{
	return LEFT + PLOT * (t - pic->begin) / (pic->end - pic->begin);
}

static double panel_height(const struct picture *pic, const struct panel *p)
{
	double height = 0;
	size_t i;

	if (pic->is_map)
		return MAP_ROW * map_rows(p);
	for (i = 0; i < p->names_count; i++)
		height += LANE * p->lanes[i] + 2;
	return height;
}

/* Seconds between two marks of the axis: at least 90 pixels. */
static double choose_step(const struct picture *pic)
{
	static const double steps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
		7200, 10800, 21600, 43200, 86400, 172800, 604800};
	double span = (pic->end - pic->begin) * 90 / PLOT, step;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i] >= span)
			return steps[i];
	}
	for (step = 2 * 604800; step < span; step *= 2)
		;
	return step;
}

static void draw_axis(const struct picture *pic, double top, double height)
{
	double step = choose_step(pic), t;

	for (t = 0; t <= pic->end - pic->begin; t += step) {
		_cleanup_free_ char *text = must_have(text_of_seconds(llround(t)));
		double x = x_of(pic, pic->begin + t);

		(void)fprintf(pic->out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
			x, top, x, top + height + 4);
		put_label(pic->out, x, top + height + 17, " text-anchor=\"middle\"", text);
	}
}

static const char *colour_of(const struct panel *p, const json_t *job)
{
	const char *name = json_get_text(job, "partition", "");
	const json_t *group;
	size_t i;

	json_array_foreach (json_get_array(p->simulation, "partitions"), i, group) {
		if (strcmp(json_get_text(group, "name", ""), name) == 0)
			break;
	}
	return colours[i % ARRAY_SIZE(colours)];
}

static void draw_bar(
	const struct picture *pic, const struct panel *p, const struct bar *bar, double y)
{
	const char *name = json_get_text(bar->job, "job", "");
	bool stands = json_is_true(json_object_get(bar->run, "suspended"));
	bool lost = json_is_true(json_object_get(bar->run, "lost"));
	double x = x_of(pic, bar->begin), width = most(x_of(pic, bar->end) - x, 0.5);

	(void)fputs("<g><title>", pic->out);
	put_text(pic->out, name);
	(void)fputs(", ", pic->out);
	put_text(pic->out, json_get_text(bar->job, "user", ""));
	(void)fprintf(pic->out, "%s%s</title>\n", stands ? ", suspended" : "",
		lost ? ", lost by preemption" : "");
	(void)fprintf(pic->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"%s/>\n", x,
		y, width, LANE - 1, colour_of(p, bar->job),
		stands ? " fill-opacity=\"0.25\" stroke=\"#333\" stroke-dasharray=\"3 2\""
		       : " stroke=\"#333\" stroke-width=\"0.5\"");
	if (lost)
		(void)fprintf(pic->out,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
			"fill=\"url(#lost)\"/>\n",
			x, y, width, LANE - 1);
	if (width > LABEL_PER * (double)strlen(name) + 4)
		put_label(pic->out, x + width / 2, y + LANE - 5,
			stands ? " text-anchor=\"middle\""
			       : " text-anchor=\"middle\" fill=\"#fff\" stroke=\"#333\" "
				 "stroke-width=\"2\" paint-order=\"stroke\"",
			name);
	(void)fputs("</g>\n", pic->out);
}

static void draw_bars(const struct picture *pic, const struct panel *p, double top)
{
	double y = top;
	size_t node, i = 0;

	for (node = 0; node < p->names_count; node++) {
		put_label(pic->out, LEFT - 8, y + LANE * p->lanes[node] / 2 + 4,
			" text-anchor=\"end\"", p->names[node]);
		for (; i < p->count && p->bars[i].node == node; i++)
			draw_bar(pic, p, &p->bars[i], y + LANE * p->bars[i].lane);
		y += LANE * p->lanes[node] + 2;
	}
}

/* How dark a cell is, from 0 to LEVELS. */
static int level_of(const struct picture *pic, const struct panel *p, size_t row, size_t column)
{
	double nodes = (double)p->names_count / map_rows(p);
	double cpus = number_of(p->simulation, "cpus") / (double)p->names_count * nodes;
	double capacity = cpus * (pic->end - pic->begin) / MAP_COLUMNS;
	double share = capacity > 0 ? p->used[row * MAP_COLUMNS + column] / capacity : 0;

	return (int)lround(LEVELS * least(share, 1));
}

static void draw_map(const struct picture *pic, const struct panel *p, double top)
{
	double cell = PLOT / MAP_COLUMNS;
	size_t row, from, to;

	put_label(pic->out, LEFT - 8, top + 12, " text-anchor=\"end\"", p->names[0]);
	put_label(pic->out, LEFT - 8, top + MAP_ROW * map_rows(p) - 2, " text-anchor=\"end\"",
		p->names[p->names_count - 1]);
	for (row = 0; row < map_rows(p); row++) {
		for (from = 0; from < MAP_COLUMNS; from = to) {
			int level = level_of(pic, p, row, from);

			for (to = from + 1; to < MAP_COLUMNS; to++) {
				if (level_of(pic, p, row, to) != level)
					break;
			}
			if (level == 0)
				continue;
			(void)fprintf(pic->out,
				"<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
				"fill=\"#225588\" fill-opacity=\"%.1f\"/>\n",
				LEFT + cell * (double)from, top + MAP_ROW * (double)row,
				cell * (double)(to - from), MAP_ROW, (double)level / LEVELS);
		}
	}
}

static void draw_panel(struct picture *pic, struct panel *p)
{
	double height = panel_height(pic, p), top = pic->y + HEAD;
	char text[128];

	put_label(pic->out, LEFT, pic->y + 18, " font-size=\"14\" font-weight=\"bold\"",
		json_get_text(p->simulation, "conf", ""));
	(void)snprintf(text, sizeof(text),
		"utilisation %.1f %%, mean wait %.0f s, %.0f preemptions",
		100 * number_of(p->simulation, "utilisation"),
		number_of(json_object_get(p->simulation, "all"), "wait_mean_s"),
		number_of(json_object_get(p->simulation, "all"), "preemptions"));
	put_label(pic->out, LEFT, pic->y + 34, "", text);
	draw_axis(pic, top, height);
	if (p->names_count > 0 && pic->is_map)
		draw_map(pic, p, top);
	else if (p->names_count > 0)
		draw_bars(pic, p, top);
	(void)fprintf(pic->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
		"stroke=\"#888\"/>\n",
		LEFT, top, PLOT, height);
	pic->y = top + height + FOOT;
}

static double draw_key(
	const struct picture *pic, double x, const char *attributes, const char *text)
{
	(void)fprintf(pic->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"20\" height=\"12\" %s stroke=\"#333\"/>\n", x,
		pic->y + 6, attributes);
	put_label(pic->out, x + 26, pic->y + 16, "", text);
	return x + 26 + LABEL_PER * (double)strlen(text) + 24;
}

/* The partitions of the first simulation. */
static void draw_legend(const struct picture *pic)
{
	const json_t *group;
	char text[128];
	double x = LEFT;
	size_t i;

	if (pic->is_map) {
		put_label(pic->out, x, pic->y + 16, "",
			"The darker, the larger a share of the CPUs was in use by jobs.");
		return;
	}
	json_array_foreach (json_get_array(pic->panels[0].simulation, "partitions"), i, group) {
		(void)snprintf(text, sizeof(text), "fill=\"%s\"", colours[i % ARRAY_SIZE(colours)]);
		x = draw_key(pic, x, text, json_get_text(group, "name", ""));
		if (x > WIDTH - 400)
			break;
	}
	x = draw_key(pic, x, "fill=\"#888\" fill-opacity=\"0.25\" stroke-dasharray=\"3 2\"",
		"suspended");
	(void)draw_key(pic, x, "fill=\"url(#lost)\"", "lost by preemption");
}

static void draw(struct picture *pic)
{
	double height = LEGEND;
	size_t i;

	for (i = 0; i < pic->count; i++)
		height += HEAD + panel_height(pic, &pic->panels[i]) + FOOT;
	(void)fprintf(pic->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
		"<defs><pattern id=\"lost\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
		"patternTransform=\"rotate(45)\">"
		"<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#000\" stroke-width=\"2\"/>"
		"</pattern></defs>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, height, WIDTH, height);
	for (i = 0; i < pic->count; i++)
		draw_panel(pic, &pic->panels[i]);
	draw_legend(pic);
	(void)fputs("</svg>\n", pic->out);
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static void panel_clear(struct panel *p)
{
	size_t i;

	while (p->tree)
		(void)tdelete(*(char *const *const *)p->tree, &p->tree, compare_names);
	for (i = 0; i < p->names_count; i++)
		free(p->names[i]);
	free(p->names);
	free(p->bars);
	free(p->lanes);
	free(p->used);
}

static void picture_begin(struct picture *pic, const json_t *document)
{
	const json_t *simulation;
	size_t i;

	json_array_foreach (json_get_array(document, "simulations"), i, simulation) {
		struct panel *p = &pic->panels[pic->count];
		double begin = number_of(simulation, "begin"), end = number_of(simulation, "end");

		if (pic->count == ARRAY_SIZE(pic->panels))
			break;
		p->simulation = simulation;
		index_names(p);
		pic->begin = pic->count ? least(pic->begin, begin) : begin;
		pic->end = pic->count ? most(pic->end, end) : end;
		pic->count++;
	}
	if (pic->end <= pic->begin)
		pic->end = pic->begin + 1;
}

static void picture_fill(struct picture *pic)
{
	size_t i;

	for (i = 0; i < pic->count; i++) {
		struct panel *p = &pic->panels[i];

		if (p->names_count <= GANTT_NODES_MAX)
			each_run(pic, p, add_bar, true);
		pic->is_map |= p->names_count > GANTT_NODES_MAX || p->is_full;
	}
	for (i = 0; i < pic->count; i++) {
		struct panel *p = &pic->panels[i];

		if (!pic->is_map) {
			lay_lanes(p);
			continue;
		}
		p->used = must_have(calloc((size_t)MAP_ROWS * MAP_COLUMNS, sizeof(double)));
		each_run(pic, p, add_use, false);
	}
}

int gantt_write(const json_t *document, const char *file, struct err *err)
{
	struct picture pic = {
		.out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we"), .count = 0};
	size_t i;
	bool failed;

	if (!pic.out)
		return err_set(err, -errno, "open '%s' for the picture", file);
	picture_begin(&pic, document);
	picture_fill(&pic);
	draw(&pic);
	for (i = 0; i < pic.count; i++)
		panel_clear(&pic.panels[i]);
	failed = ferror(pic.out) != 0;
	if ((pic.out == stdout ? fflush(pic.out) : fclose(pic.out)) != 0 || failed)
		return err_set(err, errno ? -errno : -EIO, "write the picture to '%s'", file);
	return 0;
}
