/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/pending.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_SEC 1

struct pending {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool answered;
	bool given_up; /* by who waited */
	pmix_status_t status;
};

static void pending_free(struct pending *pending)
{
	(void)pthread_cond_destroy(&pending->changed);
	(void)pthread_mutex_destroy(&pending->lock);
	free(pending);
}

struct pending *pending_new(void)
{
	struct pending *pending = calloc(1, sizeof(*pending));
	pthread_condattr_t attr;

	if (!pending)
		return NULL;
	/* none of these fails on Linux */
	(void)pthread_mutex_init(&pending->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&pending->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	return pending;
}

pmix_status_t pending_wait(struct pending *pending, pmix_status_t otherwise)
{
	struct timespec until;
	pmix_status_t status = otherwise;
	bool answered;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until); /* can't fail */
	until.tv_sec += WAIT_SEC;
	(void)pthread_mutex_lock(&pending->lock);
	while (!pending->answered && r == 0)
		r = pthread_cond_timedwait(&pending->changed, &pending->lock, &until);
	answered = pending->answered;
	if (answered)
		status = pending->status;
	pending->given_up = true;
	(void)pthread_mutex_unlock(&pending->lock);
	if (answered)
		pending_free(pending);
	return status;
}

void pending_answer(struct pending *pending, pmix_status_t status)
{
	bool given_up;

	(void)pthread_mutex_lock(&pending->lock);
	given_up = pending->given_up;
	pending->answered = true;
	pending->status = status;
	(void)pthread_cond_signal(&pending->changed);
	(void)pthread_mutex_unlock(&pending->lock);
	if (given_up)
		pending_free(pending);
}
