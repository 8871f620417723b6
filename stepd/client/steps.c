/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The steps of this node, by what agents leave on disk.
 */
#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/client/client_impl.h"
#include "stepd/state/steps.h"

#define RESULT_SIZE_MAX (64u << 20)
#define NAME_SIZE_MAX   320 /* node, '/', job, '.' and step */

/* ---- each ---------------------------------------------------------------------------------- */

/* Whether an agent answers for the step that has a state. */
static enum stepd_presence find_presence(int dir_fd, const char *directory)
{
	struct stepd_error error = {0};
	int fd, r = steps_is_locked(dir_fd);

	if (r == 1)
		return STEPD_LIVES;
	if (r == 0)
		return STEPD_ORPHAN;
	fd = connect_agent(directory, "", 0, &error); /* only its user may see the lock */
	if (fd >= 0)
		(void)close(fd);
	return fd == -ECONNREFUSED || fd == -ENOENT ? STEPD_ORPHAN : STEPD_LIVES;
}

/* What state.json tells; false where it is no step's. */
static bool fill_from_state(struct stepd_step *step, json_t *doc, char *label, size_t size)
{
	json_int_t job = 0, container_id = 0, pid = 0, uid = 0;
	const char *name = NULL;

	if (json_unpack(doc, "{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s?I}", "job", &job, "step",
		    &name, "node", &step->node, "user", &step->user, "state", &step->state,
		    "proctrack", &step->proctrack, "container_id", &container_id, "agent_pid", &pid,
		    "uid", &uid) < 0)
		return false;
	(void)snprintf(label, size, "%lld.%s", (long long)job, name);
	step->step = label;
	step->uid = (uint32_t)uid;
	step->container_id = (uint64_t)container_id;
	step->agent_pid = (pid_t)pid;
	return true;
}

/* And result.json. */
static bool fill_from_result(struct stepd_step *step, json_t *doc)
{
	json_int_t container_id = 0, uid = 0;

	if (json_unpack(doc, "{s:s, s:s, s:s, s:s, s:I, s:{s:s, s:I}}", "step", &step->step, "node",
		    &step->node, "user", &step->user, "state", &step->state, "uid", &uid,
		    "container", "plugin", &step->proctrack, "id", &container_id) < 0)
		return false;
	step->uid = (uint32_t)uid;
	step->container_id = (uint64_t)container_id;
	step->agent_pid = 0;
	step->presence = STEPD_ENDED;
	return true;
}

struct walk {
	stepd_step_fn fn;
	void *userdata;
};

static int visit_step(int dir_fd, const char *path, void *userdata)
{
	struct stepd_step step = {.directory = path}, ended = {.directory = path};
	json_t *state = NULL, *result = NULL;
	struct walk *walk = userdata;
	bool known = false;
	char label[128];
	int r = 0;

	if (steps_read_state(dir_fd, &state) == 0)
		known = fill_from_state(&step, state, label, sizeof(label));
	if (known)
		step.presence = find_presence(dir_fd, path);
	/* Of an agent that died after it had told the end, both are there. */
	if ((!known || step.presence == STEPD_ORPHAN) && steps_read_result(dir_fd, &result) == 0 &&
		fill_from_result(&ended, result)) {
		step = ended;
		known = true;
	}
	if (known)
		r = walk->fn(&step, walk->userdata);
	json_decref(state);
	json_decref(result);
	return r;
}

int stepd_each_step(
	const char *runtime_dir, stepd_step_fn fn, void *userdata, struct stepd_error *error)
{
	struct walk walk = {.fn = fn, .userdata = userdata};
	struct err err = ERR_INIT;
	int r = steps_each_dir(runtime_dir, visit_step, &walk, &err);

	return r < 0 && err.code < 0 ? client_forward(error, &err) : r;
}

/* ---- one by its name ----------------------------------------------------------------------- */

struct search {
	const char *name;
	size_t exact, partial; /* how many steps it names, and is the beginning of */
	char *exact_directory, *partial_directory;
	char listed[512]; /* those it could mean, for the message */
	bool no_memory;
};

static void keep_match(struct search *search, size_t *count, char **directory, const char *found)
{
	(*count)++;
	if (*count > 1)
		return;
	*directory = strdup(found);
	search->no_memory |= !*directory;
}

static int match_step(const struct stepd_step *step, void *userdata)
{
	struct search *search = userdata;
	size_t length = strlen(search->name), used = strlen(search->listed);
	char full[NAME_SIZE_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", step->node, step->step);
	if (strcmp(full, search->name) == 0 || strcmp(step->step, search->name) == 0)
		keep_match(search, &search->exact, &search->exact_directory, step->directory);
	else if (strncmp(full, search->name, length) == 0 ||
		strncmp(step->step, search->name, length) == 0)
		keep_match(search, &search->partial, &search->partial_directory, step->directory);
	else
		return 0;
	(void)snprintf(search->listed + used, sizeof(search->listed) - used, "%s%s",
		used > 0 ? ", " : "", full);
	return 0;
}

/* A name that no step can have is a mistake that the caller hears of. */
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
	if (search->no_memory)
		return client_no_memory(error);
	if (search->exact == 1)
		*ret_directory = take_ptr(search->exact_directory);
	else if (search->exact == 0 && search->partial == 1)
		*ret_directory = take_ptr(search->partial_directory);
	else if (search->exact + search->partial == 0)
		return client_say(
			error, -ENOENT, "there is no step '%s' on this node", search->name);
	else
		return client_say(error, -ENOTUNIQ, "'%s' could be any of %s: name one of them",
			search->name, search->listed);
	return 0;
}

int stepd_find_step(
	const char *runtime_dir, const char *name, char **ret_directory, struct stepd_error *error)
{
	struct search search = {.name = name};
	int r;

	if (!is_name(name))
		return client_say(
			error, -EINVAL, "'%s' is no name of a step (such as 7.0, or n1/7.0)", name);
	r = stepd_each_step(runtime_dir, match_step, &search, error);
	if (r == 0)
		r = choose_match(&search, ret_directory, error);
	free(search.exact_directory);
	free(search.partial_directory);
	return r;
}

/* ---- results ------------------------------------------------------------------------------- */

int stepd_read_result(const char *directory, char **ret_json, struct stepd_error *error)
{
	_cleanup_close_ int dir_fd =
		open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *step = connect_step_name(directory);
	_cleanup_close_ int fd = -1;
	int r = dir_fd < 0 ? -errno : 0;

	if (!step)
		return client_no_memory(error);
	if (r == 0)
		r = fd = fs_open_regular(dir_fd, "result.json");
	if (r >= 0)
		r = fs_read_fd(fd, RESULT_SIZE_MAX, ret_json, NULL);
	if (r == -ENOENT)
		return client_say(error, r,
			"step %s: there is no '%s/result.json': it has not ended, or its result was "
			"kept long enough",
			step, directory);
	return r < 0 ? client_fail(error, r, "step %s: read '%s/result.json'", step, directory) : 0;
}
