/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/cli/ctl/find.h"
#include "stepd/cli/ctl/tracker.h"

#define NO_MEMORY(f) err_set(&(f)->ctl->err, -ENOMEM, "look for so many processes")

static const char *root_of(const struct find_step *step)
{
	const char *root = json_string_value(json_object_get(step->doc, "container_root"));

	return root ? root : "";
}

/* A living agent of another tracker than cgroup knows more than the ids do: which process was there
 * before a number was used again. */
bool find_is_local(const struct find_step *step)
{
	if (strcmp(step->proctrack, "proctrack/cgroup") == 0)
		return true;
	return !step->alive && strcmp(step->proctrack, "proctrack/linuxproc") != 0;
}

/* ---- the steps of the node ----------------------------------------------------------------- */

struct reading {
	struct find *f;
	char *runtime;
	size_t room;
};

static struct find_step *copy_step(const struct reading *reading, const struct step_entry *entry)
{
	struct find_step *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct find_step){.label = strdup(entry->step),
		.node = strdup(entry->node),
		.user = strdup(entry->user),
		.proctrack = strdup(entry->proctrack),
		.container_id = entry->cont_id,
		.alive = entry->alive,
		.doc = json_incref((json_t *)entry->doc)};
	if (asprintf(&s->directory, "%s/%s_%s", reading->runtime, entry->node, entry->step) < 0)
		s->directory = NULL;
	return s;
}

static int on_step(const struct step_entry *entry, void *userdata)
{
	struct reading *reading = userdata;
	struct find *f = reading->f;
	struct find_step **grown, *s;
	size_t room = reading->room ? reading->room * 2 : 64;

	if (f->n_steps == reading->room) {
		grown = reallocarray(f->steps, room, sizeof(struct find_step *));
		if (!grown)
			return -ENOMEM;
		f->steps = grown;
		reading->room = room;
	}
	s = copy_step(reading, entry);
	if (!s)
		return -ENOMEM;
	f->steps[f->n_steps++] = s;
	return s->label && s->node && s->user && s->proctrack && s->directory ? 0 : -ENOMEM;
}

static int compare(const void *a, const void *b)
{
	const struct find_step *x = *(struct find_step *const *)a,
			       *y = *(struct find_step *const *)b;
	int r = strcmp(x->proctrack, y->proctrack);

	if (r == 0)
		r = strcmp(root_of(x), root_of(y));
	if (r == 0)
		r = (x->container_id > y->container_id) - (x->container_id < y->container_id);
	return r;
}

int find_read_steps(struct find *f)
{
	struct reading reading = {.f = f};
	int r = steps_find_dir(f->ctl->runtime_dir, &reading.runtime, &f->ctl->err);

	if (r == 0)
		r = steps_each(f->ctl->runtime_dir, on_step, &reading, &f->ctl->err);
	free(reading.runtime);
	if (r == -ENOMEM)
		return NO_MEMORY(f);
	if (f->n_steps > 0)
		qsort(f->steps, f->n_steps, sizeof(struct find_step *), compare);
	return r;
}

/* ---- one tracker and root ------------------------------------------------------------------ */

/* Steps [begin, end) of f, which hang below one root. */
struct family {
	struct find *f;
	size_t begin, end;
};

static struct find_step *find_container(const struct family *family, uint64_t id)
{
	size_t low = family->begin, high = family->end, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (family->f->steps[middle]->container_id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < family->end && family->f->steps[low]->container_id == id)
		return family->f->steps[low];
	return NULL;
}

static struct step_entry entry_of(const struct find_step *s)
{
	return (struct step_entry){.step = s->label,
		.node = s->node,
		.user = s->user,
		.proctrack = s->proctrack,
		.cont_id = s->container_id,
		.alive = s->alive,
		.dir_fd = -1,
		.doc = s->doc};
}

/* Those of a step that nobody asks about are not read. */
static int read_tasks(struct find_step *s)
{
	struct step_entry entry = entry_of(s);

	return s->tasks ? 0 : tracker_read_tasks(&entry, &s->tasks, &s->n_tasks);
}

static int look_up(const struct family *family, struct proctrack *pt, struct wanted *w)
{
	struct find_step *s = find_container(family, proctrack_find(pt, w->pid));
	uint32_t rank = STEPD_MEMBER_NO_RANK;
	int r;

	if (!s)
		return 0;
	r = read_tasks(s);
	if (r == 0)
		r = proctrack_find_member(pt, s->container_id, s->tasks, s->n_tasks, w->pid, &rank);
	if (r == 0) {
		w->step = s;
		w->rank = rank == STEPD_MEMBER_NO_RANK ? STEPD_NO_RANK : rank;
	}
	return r == -ENOMEM ? NO_MEMORY(family->f) : 0; /* else it has just ended */
}

/* What somebody has written into a state.json keeps nobody from the answers about other steps. */
static int ask_family(const struct family *family, struct tracker *tracker)
{
	struct find *f = family->f;
	struct step_entry entry = entry_of(f->steps[family->begin]);
	struct stepd_error error = {.code = 0};
	struct err err = ERR_INIT;
	int r = tracker_use(f->ctl, tracker, &entry, &err);
	size_t i;

	if (r == -ENOMEM)
		return NO_MEMORY(f);
	if (r < 0) {
		(void)tracker_hand_on(&err, &error);
		error.code = r == -ENOENT ? -EOPNOTSUPP : r; /* the plugin, not a process */
		for (i = family->begin; i < family->end; i++)
			find_complain(f, f->steps[i], &error);
		return 0;
	}
	for (i = 0; r == 0 && i < f->n; i++) {
		if (!f->v[i].step && f->v[i].pid > 0)
			r = look_up(family, tracker->pt, &f->v[i]);
	}
	return r;
}

int find_by_tracker(struct find *f)
{
	_cleanup_tracker_ struct tracker tracker = TRACKER_INIT;
	struct family family = {.f = f};
	int r = 0;

	for (; r == 0 && family.begin < f->n_steps; family.begin = family.end) {
		const struct find_step *first = f->steps[family.begin];

		for (family.end = family.begin + 1; family.end < f->n_steps; family.end++) {
			const struct find_step *s = f->steps[family.end];

			if (strcmp(s->proctrack, first->proctrack) != 0 ||
				strcmp(root_of(s), root_of(first)) != 0)
				break;
		}
		if (find_is_local(first))
			r = ask_family(&family, &tracker);
	}
	return r;
}
