/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/state/steps.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"

#define STATE_SIZE_MAX (16u << 20)

/* $XDG_RUNTIME_DIR is the user's own directory by its specification; /tmp is everyone's. */
static int default_runtime_dir(char **ret_path)
{
	const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
	int n;

	if (geteuid() == 0)
		n = asprintf(ret_path, "/run/stepd");
	else if (xdg && xdg[0] == '/')
		n = asprintf(ret_path, "%s/stepd", xdg);
	else
		n = asprintf(ret_path, "/tmp/stepd-%u", (unsigned)geteuid());
	return n < 0 ? -ENOMEM : 0;
}

/* The configured directory, or NULL. */
static const char *choose_runtime_dir(const char *given)
{
	return given ? given : secure_getenv("STEPD_RUNTIME_DIR");
}

int steps_find_dir(const char *given, char **ret_path, struct err *err)
{
	char *path = NULL;
	int r = 0;

	given = choose_runtime_dir(given);
	if (given)
		path = strdup(given);
	else
		r = default_runtime_dir(&path);
	if (r < 0 || !path)
		return err_set(err, -ENOMEM, "find the runtime directory");
	*ret_path = path;
	return 0;
}

int steps_check_trusted(int fd, const char *path, struct err *err)
{
	int r = fs_check_trusted(fd, path, err);

	return r < 0 && err ? err_prefix(err, "runtime directory (--runtime-dir for another)") : r;
}

/* ---- the tasks that live ------------------------------------------------------------------- */

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

void steps_read_boot_id(char boot_id[STEPS_BOOT_ID_SIZE])
{
	_cleanup_free_ char *text = NULL;

	boot_id[0] = '\0';
	if (fs_read(AT_FDCWD, BOOT_ID, 256, &text, NULL) == 0)
		(void)snprintf(boot_id, STEPS_BOOT_ID_SIZE, "%.*s", (int)strcspn(text, "\n"), text);
}

/* forked: the first and the last clock tick of the forks. */
static bool is_living(pid_t pid, const json_t *forked)
{
	uint64_t least = (uint64_t)json_integer_value(json_array_get(forked, 0)),
		 most = (uint64_t)json_integer_value(json_array_get(forked, 1));
	struct procstat st;

	return pid > 0 && procstat_read(pid, &st) == 0 && procstat_is_living(&st) &&
		st.start_ticks >= least && st.start_ticks <= most;
}

int steps_list_living(const json_t *doc, pid_t **ret_pids, int *ret_count)
{
	const json_t *tasks = json_object_get(doc, "tasks"), *task;
	const json_t *joined = json_object_get(doc, "joined_fork_ticks"), *forked;
	pid_t *pids = calloc(json_array_size(tasks) + 1, sizeof(*pids));
	const char *boot = json_get_text(doc, "boot_id", NULL);
	char boot_id[STEPS_BOOT_ID_SIZE];
	size_t i, n_joined = 0;
	int n = 0;

	if (!pids)
		return -ENOMEM;
	steps_read_boot_id(boot_id);
	if (!boot || strcmp(boot, boot_id) != 0)
		tasks = NULL;
	json_array_foreach (tasks, i, task) {
		pid_t pid = (pid_t)json_get_int(task, "pid", 0);

		forked = json_get_int(task, "spawn", 0) > 0 ? json_array_get(joined, n_joined++)
							    : json_object_get(doc, "fork_ticks");
		if (is_living(pid, forked))
			pids[n++] = pid;
	}
	*ret_pids = pids;
	*ret_count = n;
	return 0;
}

/* ---- state.json ---------------------------------------------------------------------------- */

/* *ret_owner is the owner of the file that was read, even if it has been replaced since. */
static int read_object(int dir_fd, const char *name, json_t **ret_doc, uid_t *ret_owner)
{
	_cleanup_close_ int fd = fs_open_regular(dir_fd, name);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	json_auto_t *doc = NULL;
	size_t size;
	int r;

	if (fd < 0)
		return fd;
	r = fstat(fd, &st) < 0 ? -errno : fs_read_fd(fd, STATE_SIZE_MAX, &text, &size);
	if (r < 0)
		return r;
	doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(doc))
		return -EBADMSG;
	*ret_doc = take_ptr(doc);
	if (ret_owner)
		*ret_owner = st.st_uid;
	return 0;
}

int steps_read_state(int dir_fd, json_t **ret_doc)
{
	return read_object(dir_fd, "state.json", ret_doc, NULL);
}

int steps_read_result(int dir_fd, json_t **ret_doc)
{
	return read_object(dir_fd, "result.json", ret_doc, NULL);
}

int steps_is_locked(int dir_fd)
{
	_cleanup_close_ int fd =
		openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	/* The first byte alone: a cleaner after a dead agent locks the others. */
	struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};

	if (fd < 0)
		return errno == EACCES ? -EACCES : 0;
	return fcntl(fd, F_OFD_GETLK, &held) < 0 || held.l_type != F_UNLCK;
}

/* A living agent holds its lock; one that is just starting has not written its state. */
bool steps_agent_lives(int dir_fd)
{
	/* Another user can't open the lock: the state decides. */
	return steps_is_locked(dir_fd) != 0;
}

int steps_parse_state(json_t *doc, struct step_state *ret_state, struct err *err)
{
	json_int_t job, cont_id, pid;
	struct step_state s = {0};
	json_error_t why;

	if (json_unpack_ex(doc, &why, 0, "{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "job", &job,
		    "step", &s.step_name, "node", &s.node, "user", &s.user, "state", &s.state,
		    "proctrack", &s.proctrack, "container_id", &cont_id, "agent_pid", &pid) < 0)
		return err_set_text(err, -EBADMSG,
			"state.json is not what an agent writes, or one of another version: %s",
			why.text);
	s.job_id = job;
	s.cont_id = (uint64_t)cont_id;
	s.agent_pid = (pid_t)pid;
	s.agent_start_ticks = (uint64_t)json_get_int(doc, "agent_start_ticks", 0);
	s.node_id = json_get_int(doc, "node_id", -1);
	s.uid = json_get_int(doc, "uid", -1);
	s.container_root = json_get_text(doc, "container_root", NULL);
	*ret_state = s;
	return 0;
}

int steps_show(int dir_fd, steps_found_fn found, void *userdata)
{
	struct step_state state;
	struct step_entry entry;
	json_auto_t *doc = NULL;
	char label[128];
	uid_t owner;

	if (read_object(dir_fd, "state.json", &doc, &owner) < 0 ||
		steps_parse_state(doc, &state, NULL) < 0)
		return 0;
	(void)snprintf(label, sizeof(label), "%lld.%s", (long long)state.job_id, state.step_name);
	entry = (struct step_entry){.step = label,
		.node = state.node,
		.user = state.user,
		.state = state.state,
		.proctrack = state.proctrack,
		.cont_id = state.cont_id,
		.agent_pid = state.agent_pid,
		.owner = owner,
		.locked = steps_is_locked(dir_fd),
		.dir_fd = dir_fd,
		.doc = doc};
	entry.alive = entry.locked != 0; /* for another user: by the state alone */
	return found(&entry, userdata);
}

static int visit_below(DIR *dir, const char *runtime, steps_dir_fn visit, void *userdata)
{
	_cleanup_close_ int step_fd = -1;
	_cleanup_free_ char *path = NULL;
	struct dirent *d;
	int r = 0;

	while (r == 0 && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		step_fd = close_fd(step_fd);
		step_fd = openat(
			dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (step_fd < 0)
			continue;
		free(path);
		if (asprintf(&path, "%s/%s", runtime, d->d_name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		r = visit(step_fd, path, userdata);
	}
	return r;
}

int steps_each_dir(const char *runtime_dir, steps_dir_fn visit, void *userdata, struct err *err)
{
	_cleanup_free_ char *runtime = NULL, *absolute = NULL;
	_cleanup_closedir_ DIR *dir = NULL;
	int r;

	r = steps_find_dir(runtime_dir, &runtime, err);
	if (r < 0)
		return r;
	dir = opendir(runtime);
	if (!dir)
		return errno == ENOENT ? 0 : err_set(err, -errno, "read '%s'", runtime);
	/* The caller is responsible for a directory that it named; /tmp/stepd-UID may be
	 * anyone's. */
	r = choose_runtime_dir(runtime_dir) ? 0 : steps_check_trusted(dirfd(dir), runtime, err);
	if (r < 0)
		return r;
	absolute = realpath(runtime, NULL);
	if (!absolute)
		return err_set(err, -errno, "find the runtime directory '%s'", runtime);
	return visit_below(dir, absolute, visit, userdata);
}

struct shown {
	steps_found_fn found;
	void *userdata;
};

static int show_dir(int dir_fd, _unused_ const char *path, void *userdata)
{
	struct shown *shown = userdata;

	return steps_show(dir_fd, shown->found, shown->userdata);
}

int steps_each(const char *runtime_dir, steps_found_fn found, void *userdata, struct err *err)
{
	struct shown shown = {.found = found, .userdata = userdata};

	return steps_each_dir(runtime_dir, show_dir, &shown, err);
}
