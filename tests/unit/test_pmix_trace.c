/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libpmix writes of its clients, read.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mpi/pmix/trace.h"

static void assert_line(const char *text, const char *what, uint32_t rank)
{
	struct trace_line line;

	assert_true(trace_read_line(text, &line));
	assert_string_equal(line.nspace, "stepd.7.0.spawn-1");
	assert_int_equal(line.rank, rank);
	if (what)
		assert_string_equal(line.what, what);
	else
		assert_null(line.what);
}

static void lines_of_waiting_ranks_are_read(void **state)
{
	(void)state;
	assert_line(
		"[a:12] recvd pmix cmd FENCE from stepd.7.0.spawn-1:3 bytes 104", "PMIx_Fence", 3);
	assert_line("[a:12] [stepd.7.0.server,0] recvd pmix cmd CONNECT from [stepd.7.0.spawn-1,3] "
		    "bytes 9",
		"PMIx_Connect", 3);
	assert_line("recvd pmix cmd DISCONNECT from stepd.7.0.spawn-1:0", "PMIx_Disconnect", 0);
	assert_line("recvd pmix cmd GROUP CONSTRUCT from stepd.7.0.spawn-1:0",
		"PMIx_Group_construct", 0);
	assert_line("recvd pmix cmd GROUP DESTRUCT from stepd.7.0.spawn-1:12345 bytes 1",
		"PMIx_Group_destruct", 12345);
	assert_line("[a:12] server:modex_cbfunc reply being sent to stepd.7.0.spawn-1:3", NULL, 3);
	assert_line("recvd pmix cmd GET from stepd.7.0.spawn-1:3 bytes 104", NULL, 3);
	assert_line("recvd pmix cmd FENCED from stepd.7.0.spawn-1:3", NULL, 3);
	assert_line("server:cnct_cbfunc reply being sent to [stepd.7.0.spawn-1,4]", NULL, 4);
	assert_line("server:grp_timeout reply being sent to stepd.7.0.spawn-1:5", NULL, 5);
}

static void lines_of_commits_are_read(void **state)
{
	struct trace_line line;

	(void)state;
	assert_line("[a:12] recvd pmix cmd COMMIT from stepd.7.0.spawn-1:3 bytes 104", NULL, 3);
	assert_true(trace_read_line("recvd pmix cmd COMMIT from [stepd.7.0,3] bytes 9", &line));
	assert_true(line.commits);
	assert_true(trace_read_line("recvd pmix cmd FENCE from stepd.7.0:3 bytes 9", &line));
	assert_false(line.commits);
	assert_true(trace_read_line("server:modex_cbfunc reply being sent to stepd.7.0:3", &line));
	assert_false(line.commits);
}

static void other_lines_are_ignored(void **state)
{
	static const char *const lines[] = {
		"",
		"recvd pmix cmd ",
		"recvd pmix cmd FENCE from ",
		"recvd pmix cmd FENCE from stepd.7.0",
		"recvd pmix cmd FENCE from stepd.7.0:",
		"recvd pmix cmd FENCE from :3",
		"recvd pmix cmd FENCE from [stepd.7.0,WILDCARD]",
		"server:get_cbfunc reply being sent to stepd.7.0:3",
		"server:modex_cbfunc called with 104 bytes",
		"server:modex_cbfunc reply being sent to ",
	};
	char longest[600];
	struct trace_line line;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_false(trace_read_line(lines[i], &line));
	memset(longest, 'n', sizeof(longest));
	memcpy(longest, "recvd pmix cmd FENCE from ", 26);
	memcpy(longest + sizeof(longest) - 3, ":3", 3);
	assert_false(trace_read_line(longest, &line));
}

static struct err err;

static struct trace *start(int *ret_fd)
{
	struct trace *t = NULL;
	const char *number;

	assert_int_equal(trace_open(&t, &err), 0);
	number = getenv("PMIX_OUTPUT_STDERR_FD");
	assert_non_null(number);
	*ret_fd = atoi(number);
	return t;
}

static void write_text(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* What has been written before is read by now: a collective of a rank that is only for this. */
static uint64_t settled(struct trace *t, int fd, uint32_t rank, const char **ret_what)
{
	static uint32_t mark = 1000;
	char text[100];

	(void)snprintf(text, sizeof(text), "\nrecvd pmix cmd FENCE from a:%u\n", ++mark);
	write_text(fd, text);
	while (!trace_waited_ms(t, "a", mark, NULL))
		(void)sched_yield();
	return trace_waited_ms(t, "a", rank, ret_what);
}

static void a_trace_has_how_long_each_rank_waits(void **state)
{
	const char *what = NULL;
	char filler[20000];
	struct trace *t;
	int fd;

	(void)state;
	t = start(&fd);
	assert_true(trace_is_idle(t));
	assert_int_equal(settled(t, fd, 3, &what), 0);
	assert_false(trace_is_idle(t));
	write_text(fd, "recvd pmix cmd FENCE fro");
	assert_int_equal(settled(t, fd, 3, &what), 0);
	write_text(fd, "recvd pmix cmd CONN");
	write_text(fd, "ECT from a:3 bytes 7\nrecvd pmix cmd FENCE from b:3\n");
	assert_int_not_equal(settled(t, fd, 3, &what), 0);
	assert_string_equal(what, "PMIx_Connect");
	/* Whatever it asks for next: it is not in that any more. */
	write_text(fd, "recvd pmix cmd FENCE from a:3\n");
	assert_int_not_equal(settled(t, fd, 3, &what), 0);
	assert_string_equal(what, "PMIx_Fence");
	write_text(fd, "recvd pmix cmd GET from a:3\n");
	assert_int_equal(settled(t, fd, 3, NULL), 0);
	write_text(fd,
		"recvd pmix cmd CONNECT from a:3\nserver:cnct_cbfunc reply being sent to a:3\n");
	assert_int_equal(settled(t, fd, 3, NULL), 0);
	write_text(fd, "recvd pmix cmd CONNECT from a:3\n");
	assert_int_not_equal(settled(t, fd, 3, NULL), 0);
	trace_answered(t, "a", 3);
	trace_answered(t, "a", 3);
	assert_int_equal(settled(t, fd, 3, NULL), 0);
	assert_int_not_equal(trace_waited_ms(t, "b", 3, NULL), 0);
	/* An answer to nothing, and a line without end. */
	write_text(fd, "server:cnct_cbfunc reply being sent to a:3\n");
	memset(filler, 'x', sizeof(filler));
	filler[sizeof(filler) - 1] = '\0';
	write_text(fd, filler);
	write_text(fd, "recvd pmix cmd FENCE from a:4\n");
	assert_int_equal(settled(t, fd, 4, NULL), 0);
	assert_null(trace_close(t));
	assert_true(trace_is_idle(NULL));
	assert_int_equal(trace_waited_ms(NULL, "a", 3, NULL), 0);
}

static unsigned commits;

/* Under the trace's lock, as what reads it below. */
static void count_commit(void *userdata, const char *nspace, uint32_t rank)
{
	if (userdata == &commits && strcmp(nspace, "a") == 0 && rank == 3)
		commits++;
}

static void commits_are_reported_while_they_are_watched(void **state)
{
	static const char one[] = "recvd pmix cmd COMMIT from a:3 bytes 9\n";
	struct trace *t;
	int fd;

	(void)state;
	t = start(&fd);
	write_text(fd, one);
	(void)settled(t, fd, 3, NULL);
	assert_int_equal(commits, 0);
	trace_watch_commits(t, count_commit, &commits);
	write_text(fd, one);
	write_text(fd, "recvd pmix cmd COMMIT from b:3\nrecvd pmix cmd FENCE from a:3\n");
	write_text(fd, one);
	(void)settled(t, fd, 3, NULL);
	assert_int_equal(commits, 2);
	trace_watch_commits(t, NULL, NULL);
	write_text(fd, one);
	(void)settled(t, fd, 3, NULL);
	assert_int_equal(commits, 2);
	trace_watch_commits(NULL, count_commit, NULL);
	assert_null(trace_close(t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_waiting_ranks_are_read),
		cmocka_unit_test(other_lines_are_ignored),
		cmocka_unit_test(a_trace_has_how_long_each_rank_waits),
		cmocka_unit_test(lines_of_commits_are_read),
		cmocka_unit_test(commits_are_reported_while_they_are_watched),
	};

	return cmocka_run_group_tests_name("pmix_trace", tests, NULL, NULL);
}
