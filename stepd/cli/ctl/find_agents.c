/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All agents are asked before the first answer is waited for: they look at the same time.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/cli/ctl/ask.h"
#include "stepd/cli/ctl/find.h"

#define PIDS_MAX 16384 /* of one call of FindPids */

struct asked {
	const struct find_step *step;
	struct stepd_client *client;
	struct stepd_error error;
};

/* What is left, in the order of the pids. */
struct rest {
	struct find *f;
	struct wanted_order order;
};

static pid_t number_here(const struct wanted *w)
{
	return w->pid;
}

static int collect(struct rest *rest)
{
	struct find *f = rest->f;
	struct wanted_order *order = &rest->order;
	size_t i;

	order->v = calloc(f->n + 1, sizeof(*order->v));
	if (!order->v)
		return -ENOMEM;
	for (i = 0; i < f->n; i++) {
		if (!f->v[i].step && f->v[i].pid > 0)
			order->v[order->n++] = &f->v[i];
	}
	wanted_sort(order);
	return 0;
}

/* {"pids": [...]} of [begin, end), each number once. */
static char *make_parameters(const struct wanted_order *order, size_t begin, size_t end)
{
	json_t *pids = json_array(), *doc;
	char *text;
	size_t i;
	int r = pids ? 0 : -1;

	for (i = begin; r == 0 && i < end; i++) {
		if (i == begin || order->v[i]->pid != order->v[i - 1]->pid)
			r = json_array_append_new(pids, json_integer(order->v[i]->pid));
	}
	doc = json_pack("{s:o}", "pids", pids);
	text = r == 0 && doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	return text;
}

static void take_found(
	struct wanted_order *order, const struct find_step *step, const json_t *found)
{
	json_int_t pid = json_integer_value(json_object_get(found, "pid"));
	const json_t *rank = json_object_get(found, "rank");
	size_t i;

	for (i = wanted_first(order, pid); i < order->n && order->v[i]->pid == pid; i++) {
		order->v[i]->step = step;
		order->v[i]->rank =
			json_is_integer(rank) ? json_integer_value(rank) : STEPD_NO_RANK;
	}
}

static int take_answer(struct rest *rest, struct asked *asked)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc = NULL, *found;
	bool continues;
	size_t i;
	int r = stepd_next(
		asked->client, ctl_timeout_ms(rest->f->ctl), &text, &continues, &asked->error);

	if (r == 0)
		r = ask_parse(text, &doc, &asked->error);
	if (r < 0)
		return r;
	json_array_foreach (json_object_get(doc, "found"), i, found)
		take_found(&rest->order, asked->step, found);
	json_decref(doc);
	return 0;
}

static size_t open_agents(struct find *f, struct asked *asked)
{
	size_t i, n = 0;

	for (i = 0; i < f->n_steps; i++) {
		struct asked *a = &asked[n];

		if (find_is_local(f->steps[i]) || !f->steps[i]->alive)
			continue;
		a->step = f->steps[i];
		(void)!stepd_connect_directory(a->step->directory, ctl_timeout_ms(f->ctl),
			&a->client, &a->error); /* a->error keeps it */
		n++;
	}
	return n;
}

static int ask_piece(struct rest *rest, struct asked *asked, size_t n, size_t begin, size_t end)
{
	_cleanup_free_ char *parameters = make_parameters(&rest->order, begin, end);
	size_t i;

	if (!parameters)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		if (asked[i].error.code == 0)
			(void)!stepd_start_call(
				asked[i].client, "FindPids", parameters, 0, &asked[i].error);
	}
	for (i = 0; i < n; i++) {
		if (asked[i].error.code == 0)
			(void)!take_answer(rest, &asked[i]);
	}
	return 0;
}

/* One that has ended meanwhile has no processes. */
static void close_agents(struct find *f, struct asked *asked, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		int code = asked[i].error.code;

		if (code && code != -ENOENT && code != -ECONNREFUSED && code != -ECONNRESET)
			find_complain(f, asked[i].step, &asked[i].error);
		(void)stepd_disconnect(asked[i].client);
	}
}

int find_by_agents(struct find *f)
{
	struct rest rest = {.f = f, .order = {.number = number_here}};
	struct asked *asked = calloc(f->n_steps + 1, sizeof(*asked));
	size_t n = 0, begin, end;
	int r = asked ? collect(&rest) : -ENOMEM;

	if (r == 0 && rest.order.n > 0)
		n = open_agents(f, asked);
	for (begin = 0; r == 0 && n > 0 && begin < rest.order.n; begin = end) {
		end = rest.order.n - begin < PIDS_MAX ? rest.order.n : begin + PIDS_MAX;
		r = ask_piece(&rest, asked, n, begin, end);
	}
	close_agents(f, asked, n);
	free(asked);
	free(rest.order.v);
	return r < 0 ? err_set(&f->ctl->err, r, "look for so many processes") : 0;
}
