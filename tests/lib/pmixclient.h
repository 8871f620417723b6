/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The common part of the files of pmixclient: pmixclient.c has the verbs for what works,
 * pmixfailures.c those for what fails, pmixinvites.c groups by invitation, pmixwatch.c monitors and
 * logs.
 */
#ifndef TESTS_LIB_PMIXCLIENT_H
#define TESTS_LIB_PMIXCLIENT_H

#include <pmix.h>
#include <semaphore.h>
#include <stdbool.h>

extern pmix_proc_t me;
extern pmix_proc_t everybody;
extern uint32_t size;

/* As libpmix 4 has it, in a buffer of its own. */
const char *status_name(pmix_status_t status);
void die(const char *what, pmix_status_t status) __attribute__((noreturn));
void must(pmix_status_t status, const char *what);
void expect(pmix_status_t got, pmix_status_t wanted, const char *what);
/* "VERB RANK: TEXT" on standard output. */
void report(const char *verb, const char *text);
void report_status(const char *verb, const char *what, pmix_status_t status);
void fence(bool collect);
void put_own(void);
/* The value that put_own() of that rank puts, once it has. */
void get_of(uint32_t rank);
/* A semaphore that nothing has been posted to. */
void begin_sem(sem_t *sem);
/* Waits for a post, whatever signals come meanwhile. */
void await_post(sem_t *sem);
/* One code a run. */
void listen_for(pmix_status_t code);
/* Prints the source of the first one. */
void await_event(const char *verb);

struct verb {
	const char *name;
	int (*run)(char **args);
};
/* Ends with one that has no name. */
extern const struct verb failure_verbs[];
extern const struct verb invite_verbs[];
extern const struct verb watch_verbs[];

#endif
