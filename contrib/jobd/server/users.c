/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Users' jobs are counted as they submit, and never subtracted: a count is an upper bound. When it
 * is at the limit all jobs are counted anew, which takes some ms if there are many, and so is not
 * repeated within a second.
 */
#include "contrib/jobd/server/users.h"

#include <string.h>

#include "contrib/jobd/engine/job_array.h"
#include "contrib/jobd/server/target.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"

#define RECOUNT_MS 1000

/* Three quarters of MaxJobCount: the rest is for others. */
#define JOBS_OF_MAX(max) ((max) - (max) / 4)

struct user {
	uid_t uid;
	uint64_t jobs, bytes;
};

struct users {
	struct engine *engine;
	struct user *users;
	size_t count, capacity;
	int64_t counted_ms; /* of clock_now_ms() */
};

static uint64_t vector_bytes(char *const *v)
{
	uint64_t bytes = 0;

	for (; v && *v; v++)
		bytes += strlen(*v) + 1 + sizeof(*v);
	return bytes;
}

static uint64_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* The members that can be long; the rest is some hundred bytes. */
static uint64_t request_bytes(const struct job_request *q)
{
	return sizeof(struct job) + text_bytes(q->script) + text_bytes(q->nodelist) +
		text_bytes(q->exclude) + text_bytes(q->array) + text_bytes(q->comment) +
		vector_bytes(q->argv) + vector_bytes(q->env) +
		q->dependencies_count * sizeof(*q->dependencies);
}

/* NULL: there is no memory. */
static struct user *find_user(struct users *u, uid_t uid)
{
	struct user *grown;
	size_t i;

	for (i = 0; i < u->count; i++) {
		if (u->users[i].uid == uid)
			return &u->users[i];
	}
	grown = array_grow(u->users, &u->capacity, u->count + 1, sizeof(*u->users));
	if (!grown)
		return NULL;
	u->users = grown;
	u->users[u->count] = (struct user){.uid = uid};
	return &u->users[u->count++];
}

static int recount(struct users *u)
{
	const size_t count = engine_count_jobs(u->engine);
	const struct job *job;
	struct user *user;
	size_t i;

	u->count = 0;
	for (i = 0; i < count; i++) {
		job = engine_get_job(u->engine, i);
		user = job ? find_user(u, job->record.user_id) : NULL;
		if (job && !user)
			return -ENOMEM;
		if (!job)
			continue;
		user->jobs += !target_has_ended(job);
		user->bytes += request_bytes(&job->request);
	}
	u->counted_ms = clock_now_ms();
	return 0;
}

int users_new(struct engine *e, struct users **ret_users, struct err *err)
{
	struct users *u = calloc(1, sizeof(*u));

	if (u)
		u->engine = e;
	if (!u || recount(u) < 0) {
		(void)users_free(u);
		return err_set(err, -ENOMEM, "count the jobs of users");
	}
	*ret_users = u;
	return 0;
}

struct users *users_free(struct users *u)
{
	if (u)
		free(u->users);
	free(u);
	return NULL;
}

static int check_limits(const struct users *u, const struct user *user, uint64_t jobs,
	uint64_t bytes, struct err *err)
{
	const uint64_t max_jobs = JOBS_OF_MAX((uint64_t)engine_get_conf(u->engine)->max_job_count);

	if (user->jobs + jobs > max_jobs)
		return err_set_text(err, -EDQUOT,
			"user %lld has %llu jobs, and with these more than %llu (three quarters of "
			"MaxJobCount): wait until some have ended",
			(long long)user->uid, (unsigned long long)user->jobs,
			(unsigned long long)max_jobs);
	if (user->bytes + bytes > USERS_BYTES_MAX)
		return err_set_text(err, -EDQUOT,
			"scripts and environments of user %lld's jobs would take more than %u MB: "
			"submit with --export=NONE, or wait until some have ended",
			(long long)user->uid, USERS_BYTES_MAX >> 20);
	return 0;
}

static int count_tasks(
	const struct users *u, const struct job_request *q, uint64_t *ret_tasks, struct err *err)
{
	_cleanup_job_array_tasks_ struct job_array_tasks tasks = {.count = 1};
	int r = 0;

	if (q->array)
		r = job_array_parse(
			q->array, engine_get_conf(u->engine)->max_array_size, &tasks, err);
	if (r == 0)
		*ret_tasks = tasks.count;
	return r;
}

int users_admit(struct users *u, uid_t uid, const struct job_request *q, struct err *err)
{
	struct user *user = find_user(u, uid);
	uint64_t jobs = 0, bytes;
	int r = count_tasks(u, q, &jobs, err);

	if (r < 0)
		return r;
	if (!user)
		return err_set(err, -ENOMEM, "submit the job");
	bytes = jobs * request_bytes(q);
	r = check_limits(u, user, jobs, bytes, NULL);
	if (r < 0 && clock_now_ms() - u->counted_ms >= RECOUNT_MS) {
		if (recount(u) < 0 || !(user = find_user(u, uid)))
			return err_set(err, -ENOMEM, "submit the job");
	}
	r = check_limits(u, user, jobs, bytes, err);
	if (r == 0) {
		user->jobs += jobs;
		user->bytes += bytes;
	}
	return r;
}
