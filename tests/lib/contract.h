/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The common part of the contract tests of process tracking: a backend opened, a container created,
 * the test process in the agent's place (child subreaper, one thread), and hostile programs started
 * in the container. A failed expectation fails the cmocka test.
 */
#ifndef TESTS_LIB_CONTRACT_H
#define TESTS_LIB_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "proctrack/proctrack.h"

/* More than any step of a test may take on a busy machine. */
#define CONTRACT_PATIENCE_MS 20000

struct contract_case;

struct contract {
	struct contract_case *its_case;
	const char *backend; /* "cgroup" */
	const char *plugin_dir;
	struct proctrack *pt;
	stepd_step_rec_t job;
	uint64_t id;      /* of the container; 0 once destroyed */
	int report[2];    /* the pipe that hostile programs write pids to */
	int fds_at_start; /* descriptors of this process before all that */
};

/* The state with which a test starts. */
struct contract_case {
	const char *backend;
	const char *plugin_dir;
	char name[256]; /* as cmocka prints it once the test is over */
};

/* cmocka's: *state is the struct contract_case first, the struct contract between, and NULL
 * after. The teardown fails if a process, a container or a descriptor is left that it can't
 * account for. */
int contract_setup(void **state);
int contract_teardown(void **state);

/* Marks the test as skipped; to be followed by a return. cmocka's own skip() (1.1.5) writes "not
 * ok # SKIP", which is a failure in TAP; so the word is put behind the name. */
void contract_skip(struct contract *c, const char *why);

bool contract_is(const struct contract *c, const char *backend);

/* Starts hostile with these arguments (NULL at the end) as a member: forked, added, released. */
pid_t contract_start(struct contract *c, ...) __attribute__((sentinel));

/* The same as the task of that local id, of the job that the test has given tasks. */
pid_t contract_start_task(struct contract *c, uint32_t local_id, ...) __attribute__((sentinel));

/* The next n pids that hostile programs report. */
void contract_read(struct contract *c, pid_t *pids, int n);
pid_t contract_read_one(struct contract *c);

/* Whether nothing is reported within ms. */
bool contract_is_silent(struct contract *c, int ms);

/* The container holds exactly these, each once. Sorts pids. */
void contract_expect_members(struct contract *c, pid_t *pids, int n);

/* Signals the container, which must succeed; then it and this process's children must be gone. */
void contract_kill(struct contract *c, int signal);

/* Waits for the end of every child and orphan of this process, and reaps them. */
void contract_expect_no_child(int timeout_ms);

/* Kills one process that is a child of ours, and reaps it. */
void contract_end_child(pid_t pid);

int64_t contract_now_ms(void);

/* A step of these tasks, none of which has been started; their ranks are no local ids. */
#define CONTRACT_TASKS 3
extern const uint32_t contract_ranks[CONTRACT_TASKS];
void contract_give_tasks(struct contract *c);

/* Starts all of them in this mode, each with so many processes: pids[i] are those of task i, its
 * first one included. */
#define CONTRACT_TASK_PROCESSES 4
void contract_start_tasks(
	struct contract *c, const char *mode, pid_t pids[CONTRACT_TASKS][CONTRACT_TASK_PROCESSES]);

/* The rank that pid is listed with, which find returns, too. */
uint32_t contract_rank_of(struct contract *c, pid_t pid);

int contract_signal_task(struct contract *c, uint32_t rank, int signal);

void contract_expect_count(struct contract *c, int expected);
void contract_expect_living(const pid_t *pids, int n);
void contract_expect_ended(const pid_t *pids, int n); /* waits for it; orphans among them */

/* The tests, for contract_tests[] of test_proctrack_contract.c. */
struct contract_test {
	const char *name;
	void (*run)(void **state);
};
extern const struct contract_test contract_basic_tests[];
extern const struct contract_test contract_member_tests[];
extern const struct contract_test contract_agent_tests[];
extern const struct contract_test contract_hostile_tests[];

#endif
