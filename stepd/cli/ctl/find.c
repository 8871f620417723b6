/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl find: whose processes these are, for any number of them.
 *
 * A cgroup tells which container it is, so the step needs no agent, and each process is looked at
 * once, however many steps there are (find_local.c). What is then left is asked of the agents of
 * the other steps, of each once (find_agents.c).
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/cli/ctl/find.h"
#include "stepd/cli/ctl/namespace.h"
#include "stepd/record/report.h"

/* ---- what is looked for -------------------------------------------------------------------- */

static int add_wanted(struct find *f, const char *text)
{
	size_t room = f->room ? f->room * 2 : 256;
	struct wanted *grown;
	uint32_t pid;

	if (parse_u32(text, 1, INT32_MAX, &pid) < 0)
		return err_say(&f->ctl->err, -EINVAL, "'%.200s' is no pid", text);
	if (f->n == f->room) {
		grown = reallocarray(f->v, room, sizeof(*grown));
		if (!grown)
			return err_set(&f->ctl->err, -ENOMEM, "look for so many processes");
		f->v = grown;
		f->room = room;
	}
	f->v[f->n++] = (struct wanted){.given = (pid_t)pid, .rank = STEPD_NO_RANK};
	return 0;
}

static int add_from(struct find *f, FILE *in)
{
	_cleanup_free_ char *line = NULL;
	char *word, *at;
	size_t room = 0;
	int r = 0;

	while (r == 0 && getline(&line, &room, in) > 0) {
		at = line;
		while (r == 0 && (word = strsep(&at, " \t\r\n"))) {
			if (*word)
				r = add_wanted(f, word);
		}
	}
	if (r == 0 && ferror(in))
		r = err_set(&f->ctl->err, -errno, "read pids from standard input");
	return r;
}

static int add_all(struct find *f)
{
	int i, r = 0;

	for (i = 0; r == 0 && i < f->ctl->count; i++) {
		if (strcmp(f->ctl->args[i], "-") == 0)
			r = add_from(f, stdin);
		else
			r = add_wanted(f, f->ctl->args[i]);
	}
	return r;
}

/* ---- in order ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b, void *userdata)
{
	const struct wanted_order *order = userdata;
	const struct wanted *const *x = a, *const *y = b;
	pid_t first = order->number(*x), second = order->number(*y);

	return (first > second) - (first < second);
}

void wanted_sort(struct wanted_order *order)
{
	if (order->n > 0)
		qsort_r(order->v, order->n, sizeof(struct wanted *), compare, order);
}

size_t wanted_first(const struct wanted_order *order, int64_t number)
{
	size_t low = 0, high = order->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (order->number(order->v[middle]) < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- the numbers of another namespace ------------------------------------------------------ */

static pid_t number_given(const struct wanted *w)
{
	return w->given;
}

static int translate(pid_t number, pid_t pid, void *userdata)
{
	const struct wanted_order *order = userdata;
	size_t i;

	for (i = wanted_first(order, number); i < order->n && order->v[i]->given == number; i++)
		order->v[i]->pid = pid;
	return 0;
}

static int translate_all(struct find *f)
{
	struct wanted_order order = {.number = number_given};
	ino_t inode = 0;
	size_t i;
	int r;

	for (i = 0; i < f->n && !f->ctl->namespace_text; i++)
		f->v[i].pid = f->v[i].given;
	if (!f->ctl->namespace_text)
		return 0;
	r = namespace_parse(f->ctl->namespace_text, &inode, &f->ctl->err);
	if (r < 0)
		return r;
	order.v = calloc(f->n + 1, sizeof(*order.v));
	if (!order.v)
		return err_set(&f->ctl->err, -ENOMEM, "look for so many processes");
	for (i = 0; i < f->n; i++)
		order.v[order.n++] = &f->v[i];
	wanted_sort(&order);
	r = namespace_each(inode, translate, &order, &f->ctl->err);
	free(order.v);
	return r;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void print_one(const struct find *f, const struct wanted *w)
{
	const struct find_step *s = w->step;
	_cleanup_free_ char *user = NULL;

	if (!s) {
		printf("%d is in no step%s\n", (int)w->given,
			f->unsure ? " that could be asked" : "");
		return;
	}
	user = term_printable(&f->ctl->term, s->user, TERM_WHOLE);
	printf("%d step %s", (int)w->given, s->label);
	if (w->rank != STEPD_NO_RANK)
		printf(" task %lld", (long long)w->rank);
	printf(" user %s container %llu (%s)", user ? user : "?",
		(unsigned long long)s->container_id, s->proctrack);
	if (w->pid != w->given)
		printf(" pid %d", (int)w->pid);
	putchar('\n');
}

static json_t *pack_one(const struct wanted *w)
{
	const struct find_step *s = w->step;

	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:I, s:s}", "given", (int)w->given, "pid",
		(int)w->pid, "step", report_json_text(s->label), "node", report_json_text(s->node),
		"rank", w->rank == STEPD_NO_RANK ? json_null() : json_integer(w->rank), "user",
		report_json_text(s->user), "container_id", (json_int_t)s->container_id, "proctrack",
		s->proctrack);
}

static int answer(struct find *f)
{
	json_t *found = json_array(), *missing = json_array();
	int r = found && missing ? 0 : -1;
	size_t i, n_missing = 0;

	for (i = 0; r == 0 && i < f->n; i++) {
		n_missing += !f->v[i].step;
		if (!f->ctl->json)
			print_one(f, &f->v[i]);
		else if (f->v[i].step)
			r = json_array_append_new(found, pack_one(&f->v[i]));
		else
			r = json_array_append_new(missing, json_integer(f->v[i].given));
	}
	if (n_missing > 0 && f->ctl->status == CTL_OK)
		f->ctl->status = CTL_NOT_FOUND;
	if (r == 0 && f->ctl->json)
		return ctl_print_json(f->ctl,
			json_pack("{s:o, s:o, s:o}", "processes", found, "not_found", missing,
				"unanswered", take_ptr(f->unanswered)),
			false);
	json_decref(found);
	json_decref(missing);
	return r < 0 ? err_set(&f->ctl->err, -ENOMEM, "tell of so many processes") : 0;
}

static void find_clear(struct find *f)
{
	size_t i;

	for (i = 0; i < f->n_steps; i++) {
		struct find_step *s = f->steps[i];

		free(s->label);
		free(s->node);
		free(s->user);
		free(s->proctrack);
		free(s->directory);
		free(s->tasks);
		json_decref(s->doc);
		free(s);
	}
	free(f->steps);
	free(f->v);
	json_decref(f->unanswered);
}

void find_complain(struct find *f, const struct find_step *step, const struct stepd_error *error)
{
	json_t *entry = json_pack("{s:o, s:o}", "step", report_json_text(step->label), "node",
		report_json_text(step->node));

	ctl_complain(f->ctl, step->label, error, entry);
	if (json_array_append_new(f->unanswered, entry) < 0)
		f->ctl->status = CTL_FAILED; /* no memory: the document can't be whole */
	f->unsure = true;
}

int ctl_find(struct ctl *ctl)
{
	_cleanup_(find_clear) struct find f = {.ctl = ctl, .unanswered = json_array()};
	int r = add_all(&f);

	if (r == 0)
		r = translate_all(&f);
	if (r == 0)
		r = find_read_steps(&f);
	if (r == 0)
		r = find_by_tracker(&f);
	if (r == 0)
		r = find_by_agents(&f);
	return r < 0 ? r : answer(&f);
}
