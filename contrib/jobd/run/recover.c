/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Recovery after a restart of jobd. The store has the pid of each agent, and the boot that this pid
 * is of. An agent that is gone has left its result, or its step without an agent; if neither, it
 * never got its spec, and its step may be started, unless the machine was restarted.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "contrib/jobd/run/run_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"

#define KEY_SIZE 96

static void make_key(char key[KEY_SIZE], uint32_t job_id, uint32_t step_id, const char *node)
{
	(void)snprintf(key, KEY_SIZE, "%u/%u/%.64s", job_id, step_id, node);
}

static int add_row(const struct store_step *step, void *userdata, struct err *err)
{
	char key[KEY_SIZE];

	make_key(key, step->job_id, step->step_id, step->node);
	return json_object_set_new(userdata, key, json_string(step->agent)) < 0
		? err_set(err, -ENOMEM, "read the steps of the store")
		: 0;
}

struct row {
	unsigned restarts;
	int pid;
	unsigned long long start_ticks;
	char boot_id[BOOT_ID_SIZE];
};

/* As agent_store() has written it. */
static bool find_row(const json_t *rows, const struct agent *a, struct row *ret_row)
{
	const char *text;
	char key[KEY_SIZE];

	make_key(key, a->job->id, a->batch ? STEP_ID_BATCH : STEP_ID_EXTERN, a->node->name);
	text = json_get_text(rows, key, "");
	return sscanf(text, "%u %d %llu %39s", &ret_row->restarts, &ret_row->pid,
		       &ret_row->start_ticks, ret_row->boot_id) == 4 &&
		ret_row->restarts == a->job->restarts;
}

bool agent_has_left_something(const struct agent *a)
{
	_cleanup_free_ char *name = agent_file(a, "result"), *directory = agent_directory(a);

	/* Without memory to know it nothing is started. */
	return !name || !directory || faccessat(a->job->run->dir_fd, name, F_OK, 0) == 0 ||
		access(directory, F_OK) == 0;
}

static time_t boot_time(void)
{
	struct timespec up = {0};

	(void)clock_gettime(CLOCK_BOOTTIME, &up); /* it is always there */
	return time(NULL) - up.tv_sec;
}

static void lose_agent(struct agent *a)
{
	a->lost = true;
	(void)snprintf(a->why, sizeof(a->why), "the machine was started again");
	a->state = AGENT_ENDED;
}

static void recover_agent(struct agent *a, const json_t *rows)
{
	struct run *run = a->job->run;
	struct row row;
	bool same_boot;

	if (!find_row(rows, a, &row)) {
		/* It never got its spec; unless the store lost that, as it may when the machine
		 * stops. */
		if (a->leaves)
			a->state = AGENT_ENDED;
		else if (a->job->job->last_start_time < boot_time())
			lose_agent(a);
		return;
	}
	a->stored = a->found = true;
	same_boot = strcmp(row.boot_id, run->boot_id) == 0;
	a->state = AGENT_STARTING;
	if (same_boot && row.pid > 0 && pidref_open(row.pid, row.start_ticks, &a->process) == 0) {
		agent_watch(a);
	} else if (!same_boot && !agent_has_left_something(a)) {
		lose_agent(a);
	} else if (agent_has_left_something(a)) {
		agent_take_end(a);
	} else {
		a->state = AGENT_NONE;
	}
}

static int recover_job(struct run *run, struct job *job, const json_t *rows, struct err *err)
{
	struct run_job *j = run_job_new(run, job, err);
	uint32_t i;

	if (!j)
		return -ENOMEM;
	for (i = 0; i < j->count; i++) {
		recover_agent(j->agents[i], rows);
		if (j->agents[i]->state == AGENT_RUNNING)
			agent_settle(j->agents[i]);
		else if (j->agents[i]->leaves && j->agents[i]->state == AGENT_NONE)
			j->agents[i]->state = AGENT_ENDED;
	}
	run_want_work(j);
	return 0;
}

/* ---- files that are left -----------------------------------------------------------------------
 */

static bool is_wanted(struct run *run, const char *name)
{
	const struct job *job;
	unsigned id, restarts;

	if (sscanf(name, "%u.%u.", &id, &restarts) != 2)
		return true; /* not ours */
	job = engine_find_job(run->engine, id);
	return job && job->launched && job->restarts == restarts;
}

static void remove_files(struct run *run)
{
	_cleanup_closedir_ DIR *dir = fs_opendir(run->dir_fd, ".");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!is_wanted(run, entry->d_name))
			(void)unlinkat(run->dir_fd, entry->d_name, 0); /* the next start tries */
	}
}

int run_recover(struct run *run, struct err *err)
{
	json_auto_t *rows = json_object();
	size_t i;
	int r = 0;

	if (!rows)
		return err_set(err, -ENOMEM, "read the steps of the store");
	if (run->options.store)
		r = store_each_step(run->options.store, add_row, rows, err);
	for (i = 0; r == 0 && i < engine_count_jobs(run->engine); i++) {
		struct job *job = engine_get_job(run->engine, i);

		if (job && job->launched && !job->runner_data)
			r = recover_job(run, job, rows, err);
	}
	if (r == 0)
		remove_files(run);
	return r;
}
