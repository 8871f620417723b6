/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parts of a served step: the size of srun's window, the programs of its tasks, and the order in
 * which srun hears of them.
 */
#include "contrib/slurm/window.h"

#include <arpa/inet.h>
#include <ev.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "contrib/slurm/auth.h"
#include "contrib/slurm/launch.h"
#include "contrib/slurm/pack.h"
#include "contrib/slurm/programs.h"
#include "contrib/slurm/served_impl.h"
#include "contrib/slurm/site_conf.h"

/* Strings as a message has them. */
static struct slurm_strs pack_strs(struct pack *p, const char *const *texts)
{
	uint32_t n = 0;

	for (; texts[n]; n++)
		pack_text(p, texts[n]);
	assert_false(p->failed);
	return (struct slurm_strs){.n = n,
		.bytes = (const uint8_t *)buffer_bytes(&p->bytes),
		.size = buffer_size(&p->bytes)};
}

/* ---- the window ---------------------------------------------------------------------------- */

struct srun {
	struct ev_loop *loop;
	int listener, fd;
	unsigned resized;
	struct log log;
	struct window *window;
};

static void on_resized(void *userdata)
{
	struct srun *s = userdata;

	s->resized++;
}

static void srun_listen(struct srun *s, struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->listener >= 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)address, size), 0);
	assert_int_equal(listen(s->listener, 1), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)address, &size), 0);
}

/* Sends bytes, and waits until all sizes in them have arrived. */
static void srun_send(struct srun *s, const void *bytes, size_t size, unsigned columns)
{
	struct winsize now = {0};

	assert_int_equal(send(s->fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
	while (now.ws_col != columns) {
		ev_run(s->loop, EVRUN_ONCE);
		assert_int_equal(ioctl(window_get_slave(s->window), TIOCGWINSZ, &now), 0);
	}
}

static void assert_size(const struct srun *s, unsigned columns, unsigned rows)
{
	struct winsize size;

	assert_int_equal(ioctl(window_get_slave(s->window), TIOCGWINSZ, &size), 0);
	assert_int_equal(size.ws_col, columns);
	assert_int_equal(size.ws_row, rows);
}

static void test_window(void **state)
{
	struct srun s = {.log = {.fd = -1}};
	struct slurm_launch launch = {0};
	char port[32];
	const char *const env[] = {"SLURM_PTY_WIN_COL=90", port, "SLURM_PTY_WIN_ROW=30", NULL};
	struct window_options options = {
		.log = &s.log, .launch = &launch, .resized = on_resized, .userdata = &s};
	_cleanup_pack_ struct pack p = {0};
	struct err err = ERR_INIT;

	(void)state;
	srun_listen(&s, &launch.srun);
	(void)snprintf(port, sizeof(port), "SLURM_PTY_PORT=%u", ntohs(launch.srun.sin_port));
	launch.srun.sin_port = 0;
	launch.env = pack_strs(&p, env);
	options.loop = s.loop = ev_loop_new(EVFLAG_NOENV);
	assert_int_equal(window_open(&options, &s.window, &err), 0);
	assert_size(&s, 90, 30);

	window_follow(s.window);
	s.fd = accept4(s.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(s.fd >= 0);
	srun_send(&s, "\0\x64\0\x28", 4, 100);
	assert_size(&s, 100, 40);
	assert_int_equal(s.resized, 1);
	/* A part of one, and two at once of which the last one counts. */
	srun_send(&s, "\0\x65\0\x29\1", 5, 101);
	assert_size(&s, 101, 41);
	srun_send(&s, "\x2c\0\x2a\0\x0a\0\x0b", 7, 10);
	assert_size(&s, 10, 11);
	assert_int_equal(s.resized, 3);

	(void)close_fd(s.fd);
	ev_run(s.loop, 0); /* until nothing is watched any more */
	assert_size(&s, 10, 11);
	s.window = window_close(s.window);
	(void)close_fd(s.listener);
	ev_loop_destroy(s.loop);
}

static void test_window_without_srun(void **state)
{
	struct srun s = {.log = {.fd = -1}};
	struct slurm_launch launch = {0};
	struct window_options options = {.log = &s.log, .launch = &launch, .resized = on_resized};
	struct err err = ERR_INIT;

	(void)state;
	options.loop = s.loop = ev_loop_new(EVFLAG_NOENV);
	assert_int_equal(window_open(&options, &s.window, &err), 0);
	assert_size(&s, 0, 0);
	window_follow(s.window); /* it has no port */
	ev_run(s.loop, 0);
	s.window = window_close(s.window);
	ev_loop_destroy(s.loop);
}

/* ---- programs ------------------------------------------------------------------------------ */

static int read_programs(
	const char *const *argv, uint32_t flags, struct programs *programs, struct err *err)
{
	_cleanup_pack_ struct pack p = {0};
	struct slurm_launch launch = {.ntasks = 4, .flags = flags, .argv = pack_strs(&p, argv)};

	return programs_read(&launch, programs, err);
}

static void test_one_program(void **state)
{
	static const char *const argv[] = {"list", "0-3 x", NULL};
	_cleanup_programs_ struct programs programs = {0};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(read_programs(argv, 0, &programs, &err), 0);
	assert_null(programs.tasks);
	assert_int_equal(programs.names.n, 1);
	assert_string_equal(programs.names.v[0], "list");
	assert_int_equal(read_programs((const char *const[]){NULL}, 0, &programs, &err), -EBADMSG);
}

static void test_list(void **state)
{
	static const char *const argv[] = {"list", "0,2 a %t:%o\n1 b\n* a\n", "more", NULL};
	_cleanup_programs_ struct programs programs = {0};
	json_auto_t *want = json_pack(
		"[{s:i, s:[s,s,s]}, {s:i, s:[s,s,s]}, {s:s, s:[s,s]}, {s:s, s:[s,s]}]", "rank", 0,
		"argv", "a", "0:0", "more", "rank", 2, "argv", "a", "2:1", "more", "ranks", "1",
		"argv", "b", "more", "ranks", "3", "argv", "a", "more");
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(want);
	assert_int_equal(read_programs(argv, SLURM_FLAG_MULTI_PROG, &programs, &err), 0);
	assert_true(json_equal(programs.tasks, want));
	assert_int_equal(programs.names.n, 2);
	assert_string_equal(programs.names.v[0], "a");
	assert_string_equal(programs.names.v[1], "b");
}

/* Of a component the list has the ranks of the component, and the tasks those of the whole. */
static void test_list_of_component(void **state)
{
	static const char *const argv[] = {"list", "0 a %t\n1-2 b\n* c\n", NULL};
	_cleanup_programs_ struct programs programs = {0};
	_cleanup_pack_ struct pack p = {0};
	const struct slurm_launch launch = {.kind = SLURM_KIND_HET,
		.ntasks = 4,
		.het = {.job = 7, .offset = 1, .task_offset = 5, .ntasks = 9},
		.flags = SLURM_FLAG_MULTI_PROG,
		.argv = pack_strs(&p, argv)};
	json_auto_t *want = json_pack("[{s:i, s:[s,s]}, {s:[i,i], s:[s]}, {s:[i], s:[s]}]", "rank",
		5, "argv", "a", "0", "ranks", 6, 7, "argv", "b", "ranks", 8, "argv", "c");
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(want);
	assert_int_equal(programs_read(&launch, &programs, &err), 0);
	assert_true(json_equal(programs.tasks, want));
}

static void test_bad_lists(void **state)
{
	static const struct {
		const char *const argv[4];
		int error;
	} rows[] = {
		{{"list"}, -EBADMSG},
		{{"list", "0-2 a\n"}, -EINVAL}, /* rank 3 has none */
		{{"list", "0-4 a\n"}, -ERANGE},
		{{"list", "* a \"b\"\n"}, -EOPNOTSUPP},
		{{"list", "* a b\\ c\n"}, -EOPNOTSUPP},
		{{"list", "* a %s\n"}, -EOPNOTSUPP},
		{{"list", "* a %\n"}, -EOPNOTSUPP},
		{{"list", "* \344\n"}, -EILSEQ},
		{{"list", "* a\n", "\344"}, -EILSEQ},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_programs_ struct programs programs = {0};
		struct err err = ERR_INIT;

		assert_int_equal(
			read_programs(rows[i].argv, SLURM_FLAG_MULTI_PROG, &programs, &err),
			rows[i].error);
		assert_null(programs.tasks);
	}
}

/* An end that srun is told of first is the end of a task that it does not know. */
static void test_order_of_reports(void **state)
{
	const struct log log = {.fd = -1};
	const struct slurm_init init = {
		.frame = {.release = SLURM_22_05, .client_release = SLURM_22_05}};
	const struct slurm_launch launch = {.resp_ports = {1, (const uint8_t *)"\0\1"}};
	uint32_t rank = 0;
	struct served_task task = {0};
	struct served s = {.init = &init,
		.launch = &launch,
		.log = &log,
		.streams = {.io = (struct srun_io *)&rank}, /* there is one */
		.tasks = {.n = 1, .ranks = &rank, .whole_ranks = &rank, .v = &task},
		.reports = {.to_srun = {.tries = 2, .first_s = 0.001, .longest_s = 0.001}}};
	const struct site_conf site = {.munge_socket = (char *)"/nowhere/munge"};
	struct err err = ERR_INIT;

	(void)state;
	if (slurm_auth_open(&site, SLURM_22_05, &s.auth, &err) == -EOPNOTSUPP)
		skip();
	s.loop = ev_loop_new(EVFLAG_NOENV);
	served_reports_init(&s);
	served_report_launch(&s);
	served_end_task(&s, &task, 0);
	served_report_ends(&s);
	assert_false(task.reported);
	assert_int_equal(s.reports.deliveries, 1);

	/* No message leaves without munged: the first one is given up, then the second one. */
	while (!task.reported)
		ev_run(s.loop, EVRUN_ONCE);
	assert_int_equal(s.reports.deliveries, 1);
	assert_true(served_reports_are_pending(&s.reports));
	ev_run(s.loop, 0);
	assert_false(served_reports_are_pending(&s.reports));
	s.auth = slurm_auth_close(s.auth);
	ev_loop_destroy(s.loop);
}

/* slurmd waits, and it is a process of root's that reads them. */
static void test_large_lists(void **state)
{
	enum {
		SIZE = 17 << 20 /* by four tasks it is too much */
	};
	_cleanup_free_ char *text = malloc(SIZE + 1);
	const char *const marks[] = {"list", "* a %t\n", text, NULL},
			  *const plain[] = {"list", "* a\n", text, NULL};
	_cleanup_programs_ struct programs programs = {0}, few = {0};
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', SIZE);
	text[SIZE] = '\0';
	assert_int_equal(read_programs(marks, SLURM_FLAG_MULTI_PROG, &programs, &err), -E2BIG);
	assert_int_equal(read_programs(plain, SLURM_FLAG_MULTI_PROG, &few, &err), 0);
}

static void test_many_programs(void **state)
{
	enum {
		MANY = 1025
	};
	_cleanup_buffer_ struct buffer list = {0};
	_cleanup_programs_ struct programs programs = {0};
	_cleanup_pack_ struct pack p = {0};
	struct slurm_launch launch = {.ntasks = MANY, .flags = SLURM_FLAG_MULTI_PROG};
	struct err err = ERR_INIT;
	char line[32];
	int i, n;

	(void)state;
	for (i = 0; i < MANY; i++) {
		n = snprintf(line, sizeof(line), "%d p%d\n", i, i);
		assert_int_equal(buffer_add(&list, line, (size_t)n + (i == MANY - 1)), 0);
	}
	launch.argv = pack_strs(&p, (const char *const[]){"list", buffer_bytes(&list), NULL});
	assert_int_equal(programs_read(&launch, &programs, &err), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_of_reports),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_window_without_srun),
		cmocka_unit_test(test_one_program),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_of_component),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_large_lists),
		cmocka_unit_test(test_many_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
