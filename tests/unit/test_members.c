/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks by lines of parents, and signals by them, with lists of the test's own, which also play
 * what a busy machine does between two of them.
 */
#include "proctrack/members.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "stepd/base/proc.h"
#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

#define NONE STEPD_MEMBER_NO_RANK

/* A chain of n processes, each the child of the one before; the first is ours. */
static void start_chain(pid_t *pids, int n)
{
	int ends[2], i;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	for (i = 0; pid == 0; i++) {
		pid = getpid();
		if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		pid = i + 1 < n ? fork() : 1;
		while (pid > 0)
			pause();
	}
	assert_true(pid > 0);
	for (i = 0; i < n; i++)
		assert_int_equal(read(ends[0], &pids[i], sizeof(pids[i])), sizeof(pids[i]));
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void end_chain(const pid_t *pids, int n)
{
	while (n-- > 1)
		assert_int_equal(kill(pids[n], SIGKILL), 0); /* init reaps it */
	child_end(pids[0]);
}

static uint32_t rank_in(const stepd_member_t *members, int n, pid_t pid)
{
	int i;

	for (i = 0; i < n && members[i].pid != pid; i++)
		;
	assert_true(i < n);
	return members[i].rank;
}

static void ranks_of_a_backend_are_checked(void **state)
{
	stepd_member_t members[] = {{10, 3}, {11, 4}, {12, 3}, {13, NONE}, {14, 9}, {15, 0}};
	const stepd_step_task_info_t tasks[] = {
		{.id = 0, .gtid = 9, .pid = 100}, {.id = 1, .gtid = 3, .pid = 0}};
	static const uint32_t wanted[] = {3, NONE, 3, NONE, 9, NONE};
	size_t i;

	(void)state;
	assert_int_equal(members_check_ranks(members, ARRAY_SIZE(members), tasks, 2), 0);
	for (i = 0; i < ARRAY_SIZE(members); i++)
		assert_int_equal(members[i].rank, wanted[i]);
	assert_int_equal(members_check_ranks(members, ARRAY_SIZE(members), NULL, 0), 0);
	for (i = 0; i < ARRAY_SIZE(members); i++)
		assert_int_equal(members[i].rank, NONE);
}

static void leaders_are_the_tasks_that_live(void **state)
{
	const stepd_step_task_info_t tasks[] = {{.id = 0, .gtid = 9, .pid = 100},
		{.id = 1, .gtid = 3, .pid = 0}, {.id = 2, .gtid = 5, .pid = 101}};
	_cleanup_free_ struct member_seed *seeds = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(members_get_leaders(tasks, 3, &seeds, &n), 0);
	assert_int_equal(n, 2); /* one has ended */
	assert_true(seeds[0].pid == 100 && seeds[0].rank == 9);
	assert_true(seeds[1].pid == 101 && seeds[1].rank == 5);
}

/* A line goes through who is no member, and ends at the nearest that is known. */
static void a_line_of_parents_ends_at_the_nearest_known_member(void **state)
{
	pid_t chain[4], other = child_start(0);
	struct member_seed seeds[2];

	(void)state;
	start_chain(chain, 4);
	stepd_member_t members[] = {
		{other, NONE}, {chain[3], NONE}, {chain[1], NONE}, {1, NONE}, {getpid(), NONE}};
	int n = ARRAY_SIZE(members);

	seeds[0] = (struct member_seed){.pid = chain[0], .rank = 5};
	assert_int_equal(members_rank(members, n, seeds, 1), 0);
	assert_int_equal(rank_in(members, n, chain[1]), 5);
	assert_int_equal(rank_in(members, n, chain[3]), 5);
	assert_int_equal(rank_in(members, n, other), NONE);
	assert_int_equal(rank_in(members, n, 1), NONE);
	assert_int_equal(rank_in(members, n, getpid()), NONE);
	end_chain(chain, 4);
	child_end(other);
}

static void the_nearest_known_rank_of_a_line_counts(void **state)
{
	pid_t chain[4];
	struct member_seed seeds[2];

	(void)state;
	start_chain(chain, 4);
	stepd_member_t members[] = {{chain[3], NONE}, {chain[2], 8}, {chain[1], NONE}};

	seeds[0] = (struct member_seed){.pid = chain[0], .rank = 5};
	seeds[1] = (struct member_seed){
		.pid = chain[1], .start_ticks = child_stat(chain[1]).start_ticks + 1, .rank = 6};
	assert_int_equal(members_rank(members, 3, seeds, 2), 0);
	assert_int_equal(rank_in(members, 3, chain[3]), 8); /* a member that has one */
	assert_int_equal(rank_in(members, 3, chain[2]), 8);
	assert_int_equal(rank_in(members, 3, chain[1]), 5); /* the seed is another process */
	end_chain(chain, 4);
}

static void a_process_that_has_ended_has_no_rank(void **state)
{
	pid_t gone = child_start(0);
	stepd_member_t members[] = {{gone, NONE}};
	struct member_seed seeds[] = {{.pid = gone, .rank = 5}};

	(void)state;
	child_end(gone);
	assert_int_equal(members_rank(members, 1, seeds, 1), 0);
	assert_int_equal(members[0].rank, NONE);
	assert_int_equal(members_rank(NULL, 0, seeds, 1), 0);
	assert_int_equal(members_rank(members, 1, NULL, 0), 0);
}

/* ---- signals ------------------------------------------------------------------------------ */

struct script {
	stepd_member_t members[4];
	int n;
	int lists;
	pid_t end_at_second; /* between the look at it and the list that confirms it */
	pid_t stranger;      /* what has its pid then, and is no member */
};

static int list(void *ctx, uint64_t id, stepd_member_t **ret_members, int *ret_count)
{
	struct script *s = ctx;
	stepd_member_t *members;

	(void)id;
	if (++s->lists == 2 && s->end_at_second) {
		child_end(s->end_at_second);
		(void)poll(NULL, 0, 30); /* a start time is counted in ticks of 10 ms */
		s->stranger = child_start(s->end_at_second);
		s->n = 0;
	}
	members = calloc((size_t)s->n + 1, sizeof(*members));
	assert_non_null(members);
	memcpy(members, s->members, (size_t)s->n * sizeof(*members));
	*ret_members = members;
	*ret_count = s->n;
	return 0;
}

static void set_seed(struct members_target *target, pid_t pid)
{
	target->seed = calloc(1, sizeof(*target->seed));
	assert_non_null(target->seed);
	target->seed[0] = (struct member_seed){.pid = pid, .rank = target->rank};
	target->n_seeds = target->seed_capacity = 1;
}

static void expect_status(pid_t pid, int signal)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), signal);
}

/* Those of the rank, by the list or by the line, and nobody else. */
static void a_signal_reaches_the_members_of_its_rank_alone(void **state)
{
	pid_t seed = child_start(0), known = child_start(0), other = child_start(0);
	struct script s = {.members = {{seed, NONE}, {known, 7}, {other, 8}}, .n = 3};
	_cleanup_members_target_ struct members_target target = {
		.list = list, .ctx = &s, .rank = 7};

	(void)state;
	set_seed(&target, seed);
	assert_int_equal(members_find(&target), 2);
	assert_int_equal(members_signal(&target, SIGUSR1), 0);
	expect_status(seed, SIGUSR1);
	expect_status(known, SIGUSR1);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	child_end(other);
}

static void members_without_a_rank_alone_are_signalled_on_request(void **state)
{
	pid_t seed = child_start(0), known = child_start(0);
	struct script s = {.members = {{seed, NONE}, {known, 7}}, .n = 2};
	_cleanup_members_target_ struct members_target target = {
		.list = list, .ctx = &s, .rank = 7, .unranked_only = true};

	(void)state;
	set_seed(&target, seed);
	assert_int_equal(members_signal(&target, SIGKILL), 0);
	expect_status(seed, SIGKILL);
	assert_int_equal(waitpid(known, NULL, WNOHANG), 0);
	child_end(known);
}

/* What has the pid of one that was seen is not hit. */
static void a_process_with_a_reused_pid_is_not_signalled(void **state)
{
	pid_t seed = child_start(0);
	struct script s = {.members = {{seed, NONE}}, .n = 1, .end_at_second = seed};
	_cleanup_members_target_ struct members_target target = {
		.list = list, .ctx = &s, .rank = 7};

	(void)state;
	set_seed(&target, seed);
	assert_int_equal(members_signal(&target, SIGTERM), -ESRCH);
	if (s.stranger == -EPERM || s.stranger == -ENOSYS)
		return; /* the kernel does not let us choose a pid */
	assert_int_equal(s.stranger, seed);
	assert_int_equal(waitpid(seed, NULL, WNOHANG), 0);
	child_end(seed);
}

/* One that was found is met again though its parent, by which it was, has ended meanwhile. */
static void a_member_is_found_again_when_its_parent_has_ended(void **state)
{
	pid_t chain[2];
	struct script s = {.n = 1};
	_cleanup_members_target_ struct members_target target = {
		.list = list, .ctx = &s, .rank = 7, .descendants_only = true};

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start_chain(chain, 2);
	s.members[0] = (stepd_member_t){chain[1], NONE};
	set_seed(&target, chain[0]);
	assert_int_equal(members_find(&target), 1);
	child_end(chain[0]);
	assert_int_equal(members_signal(&target, SIGUSR1), 0);
	expect_status(chain[1], SIGUSR1);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_of_a_backend_are_checked),
		cmocka_unit_test(leaders_are_the_tasks_that_live),
		cmocka_unit_test(a_line_of_parents_ends_at_the_nearest_known_member),
		cmocka_unit_test(the_nearest_known_rank_of_a_line_counts),
		cmocka_unit_test(a_process_that_has_ended_has_no_rank),
		cmocka_unit_test(a_signal_reaches_the_members_of_its_rank_alone),
		cmocka_unit_test(members_without_a_rank_alone_are_signalled_on_request),
		cmocka_unit_test(a_process_with_a_reused_pid_is_not_signalled),
		cmocka_unit_test(a_member_is_found_again_when_its_parent_has_ended),
	};

	return cmocka_run_group_tests_name("members", tests, NULL, NULL);
}
