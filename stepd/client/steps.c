/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The steps of this node, by what agents leave on disk.
 */
#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"
#include "stepd/client/client_impl.h"
#include "stepd/state/steps.h"

#define RESULT_SIZE_MAX (64u << 20)
#define NAME_SIZE_MAX   320 /* node, '/', job, '.' and step */

/* ---- each ---------------------------------------------------------------------------------- */

struct walk {
	stepd_step_fn fn;
	void *userdata;
	const char *path; /* of the step's directory */
	bool found;       /* its state */
};

/* Whether an agent serves the step that has a state. */
static enum stepd_presence find_presence(const struct step_entry *entry, const char *directory)
{
	struct stepd_error error = {0};
	int fd;

	if (entry->locked >= 0)
		return entry->locked ? STEPD_LIVES : STEPD_ORPHAN;
	fd = client_connect_socket(directory, "", 0, &error); /* only its user may read the lock */
	if (fd >= 0)
		(void)close(fd);
	return fd == -ECONNREFUSED || fd == -ENOENT ? STEPD_ORPHAN : STEPD_LIVES;
}

/* Calls fn if there is a result, and sets *ret to what it returns. */
static bool visit_result(const struct walk *walk, int dir_fd, int *ret)
{
	struct stepd_step step = {.directory = walk->path, .presence = STEPD_ENDED};
	json_int_t container_id = 0, uid = 0;
	json_auto_t *doc = NULL;
	bool found;

	found = steps_read_result(dir_fd, &doc) == 0 &&
		json_unpack(doc, "{s:s, s:s, s:s, s:s, s:I, s:{s:s, s:I}}", "step", &step.step,
			"node", &step.node, "user", &step.user, "state", &step.state, "uid", &uid,
			"container", "plugin", &step.proctrack, "id", &container_id) == 0;
	step.uid = (uint32_t)uid;
	step.container_id = (uint64_t)container_id;
	if (found)
		*ret = walk->fn(&step, walk->userdata);
	return found;
}

static int visit_state(const struct step_entry *entry, void *userdata)
{
	struct walk *walk = userdata;
	const struct stepd_step step = {.step = entry->step,
		.node = entry->node,
		.directory = walk->path,
		.user = entry->user,
		.state = entry->state,
		.proctrack = entry->proctrack,
		.uid = (uint32_t)json_get_int(entry->doc, "uid", 0),
		.container_id = entry->cont_id,
		.agent_pid = entry->agent_pid,
		.presence = find_presence(entry, walk->path)};
	int r = 0;

	walk->found = true;
	/* An agent that died after the end was reported leaves both. */
	if (step.presence == STEPD_ORPHAN && visit_result(walk, entry->dir_fd, &r))
		return r;
	return walk->fn(&step, walk->userdata);
}

static int visit_step(int dir_fd, const char *path, void *userdata)
{
	struct walk *walk = userdata;
	int r;

	walk->path = path;
	walk->found = false;
	r = steps_show(dir_fd, visit_state, walk);
	if (!walk->found)
		(void)visit_result(walk, dir_fd, &r);
	return r;
}

int stepd_each_step(
	const char *runtime_dir, stepd_step_fn fn, void *userdata, struct stepd_error *error)
{
	struct walk walk = {.fn = fn, .userdata = userdata};
	struct err err = ERR_INIT;
	int r = steps_each_dir(runtime_dir, visit_step, &walk, &err);

	return r < 0 && err.code < 0 ? client_error_forward(error, &err) : r;
}

/* ---- one by its name ----------------------------------------------------------------------- */

struct search {
	const char *name;
	struct strv exact, partial; /* directories of steps it names, and is the beginning of */
	char listed[512];           /* those it could mean, for the message */
};

static int match_step(const struct stepd_step *step, void *userdata)
{
	struct search *search = userdata;
	size_t length = strlen(search->name), used = strlen(search->listed);
	struct strv *matches;
	char full[NAME_SIZE_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", step->node, step->step);
	if (strcmp(full, search->name) == 0 || strcmp(step->step, search->name) == 0)
		matches = &search->exact;
	else if (strncmp(full, search->name, length) == 0 ||
		strncmp(step->step, search->name, length) == 0)
		matches = &search->partial;
	else
		return 0;
	(void)snprintf(search->listed + used, sizeof(search->listed) - used, "%s%s",
		used > 0 ? ", " : "", full);
	return strv_add(matches, step->directory);
}

/* A name that no step can have is the caller's mistake: -EINVAL. */
static bool is_name(const char *name)
{
	const char *slash = strchr(name, '/'), *p;

	if (!name[0] || name[0] == '/' || strlen(name) >= NAME_SIZE_MAX)
		return false;
	if (slash && strchr(slash + 1, '/'))
		return false;
	for (p = name; *p; p++)
		if (!isascii(*p) || (!isalnum(*p) && !strchr("/._-", *p)))
			return false;
	return true;
}

static int choose_match(struct search *search, char **ret_directory, struct stepd_error *error)
{
	const struct strv *matches = search->exact.n > 0 ? &search->exact : &search->partial;

	if (matches->n == 0)
		return client_error(
			error, -ENOENT, "there is no step '%s' on this node", search->name);
	if (matches->n > 1)
		return client_error(error, -ENOTUNIQ, "'%s' could be any of %s: name one of them",
			search->name, search->listed);
	*ret_directory = take_ptr(matches->v[0]);
	return 0;
}

int stepd_find_step(
	const char *runtime_dir, const char *name, char **ret_directory, struct stepd_error *error)
{
	struct search search = {.name = name};
	int r;

	if (!is_name(name))
		return client_error(
			error, -EINVAL, "'%s' is no name of a step (such as 7.0, or n1/7.0)", name);
	r = stepd_each_step(runtime_dir, match_step, &search, error);
	if (r == 0)
		r = choose_match(&search, ret_directory, error);
	else if (r == -ENOMEM)
		r = client_no_memory(error);
	strv_clear(&search.exact);
	strv_clear(&search.partial);
	return r;
}

/* ---- results ------------------------------------------------------------------------------- */

int stepd_read_result(const char *directory, char **ret_json, struct stepd_error *error)
{
	_cleanup_close_ int dir_fd =
		open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *step = client_step_name(directory);
	_cleanup_close_ int fd = -1;
	int r = dir_fd < 0 ? -errno : 0;

	if (!step)
		return client_no_memory(error);
	if (r == 0)
		r = fd = fs_open_regular(dir_fd, "result.json");
	if (r >= 0)
		r = fs_read_fd(fd, RESULT_SIZE_MAX, ret_json, NULL);
	if (r == -ENOENT)
		return client_error(error, r,
			"step %s: there is no '%s/result.json': it has not ended, or its result was "
			"kept long enough",
			step, directory);
	return r < 0
		? client_error_errno(error, r, "step %s: read '%s/result.json'", step, directory)
		: 0;
}
