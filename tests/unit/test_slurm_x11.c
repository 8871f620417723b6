/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs of X, the display, and an srun that has the X server: who is served, what srun is told,
 * and that each byte comes through with a bound. The file with the cookie is not made here.
 */
#include "contrib/slurm/x11.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <ev.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/rpc.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/xauthority.h"
#include "stepd/base/clock.h"
#include "tests/lib/fake_auth.h"
#include "tests/lib/scratch.h"

#define STRANGER    54321
#define PATIENCE_MS 60000
#define MANY        (2u << 20)

/* ---- what is not the subject ----------------------------------------------------------------- */

struct xauthority {
	unsigned display;
};
static struct xauthority file;
static int file_result;
static unsigned files_made, files_removed;

int xauthority_make(
	const struct xauthority_options *options, struct xauthority **ret_file, struct err *err)
{
	assert_string_equal(options->cookie, "0123");
	assert_string_equal(options->directory, "/scratch/n1");
	if (file_result < 0)
		return err_set(err, file_result, "make it");
	files_made++;
	file.display = options->display;
	*ret_file = &file;
	return 0;
}

const char *xauthority_get_path(_unused_ const struct xauthority *f)
{
	return "/scratch/n1/.Xauthority";
}

struct xauthority *xauthority_remove(struct xauthority *f, _unused_ const struct log *log)
{
	files_removed += f != NULL;
	return NULL;
}

/* ---- the rig --------------------------------------------------------------------------------- */

struct rig {
	struct ev_loop *loop;
	int srun_fd; /* listens */
	struct site_conf site;
	struct slurm_init init;
	struct log log;
	struct x11 *x11;
	size_t fds;
};

static void on_moment(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)timer;
	(void)revents;
}

/* What is awaited may be done by the kernel or a child: the loop waits for a moment at most. */
static void turn(struct rig *r)
{
	ev_timer moment;

	ev_timer_init(&moment, on_moment, 0.0001, 0.);
	ev_timer_start(r->loop, &moment);
	(void)ev_run(r->loop, EVRUN_ONCE);
	ev_timer_stop(r->loop, &moment);
}

/* A condition that takes some turns of the loop. */
#define comes(rig_, condition_)                                                                    \
	({                                                                                         \
		int64_t comes_until_ = clock_now_ms() + PATIENCE_MS;                               \
		bool comes_met_;                                                                   \
		while (!(comes_met_ = (condition_)) && clock_now_ms() < comes_until_)              \
			turn(rig_);                                                                \
		comes_met_;                                                                        \
	})

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);

	assert_non_null(r);
	r->fds = scratch_count_fds();
	r->loop = ev_loop_new(EVFLAG_NOENV);
	r->srun_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(r->srun_fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(r->srun_fd, 512), 0);
	assert_int_equal(getsockname(r->srun_fd, (struct sockaddr *)&address, &size), 0);
	r->log = (struct log){.fd = -1};
	r->site.tmp_pattern = (char *)"/scratch/%n";
	r->init = (struct slurm_init){.site = &r->site,
		.frame.client_release = SLURM_22_05,
		.conf = {.node_name = "n1", .hostname = "host"},
		.launch = {.uid = getuid(),
			.id = {.job = 7, .step = SLURM_STEP_EXTERN, .het_component = SLURM_NO_VAL},
			.x11 = {.flags = 1,
				.host = "127.0.0.1",
				.port = ntohs(address.sin_port),
				.cookie = "0123",
				.target = "/tmp/.X11-unix/X3"}}};
	file_result = 0;
	files_made = files_removed = 0;
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	r->x11 = x11_close(r->x11);
	assert_int_equal(files_removed, files_made);
	(void)close(r->srun_fd);
	ev_loop_destroy(r->loop);
	assert_int_equal(scratch_count_fds(), r->fds);
	free(r);
	return 0;
}

static int try_open(struct rig *r, struct err *err)
{
	const struct x11_options options = {.loop = r->loop, .log = &r->log, .init = &r->init};

	return x11_open(&options, &r->x11, err);
}

static void open_display(struct rig *r)
{
	struct err err = ERR_INIT;

	assert_int_equal(try_open(r, &err), 0);
	assert_int_equal(file.display, x11_get_display(r->x11));
	assert_string_equal(x11_get_path(r->x11), "/scratch/n1/.Xauthority");
}

static int connect_to(unsigned display)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(6000 + display)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		fd = close_fd(fd);
	return fd;
}

static int begin_program(struct rig *r)
{
	int fd = connect_to(x11_get_display(r->x11));

	assert_true(fd >= 0);
	return fd;
}

static int accept_at_srun(struct rig *r)
{
	int fd = -1;

	assert_true(comes(r, (fd = accept4(r->srun_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0));
	return fd;
}

/* The message, with its length. */
static struct buffer read_message(struct rig *r, int fd)
{
	struct buffer in = {0};
	char byte;

	while (slurm_rpc_size(buffer_bytes(&in), buffer_size(&in)) <= 0 ||
		(size_t)slurm_rpc_size(buffer_bytes(&in), buffer_size(&in)) > buffer_size(&in)) {
		assert_true(comes(r, recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1));
		assert_int_equal(recv(fd, &byte, 1, 0), 1);
		assert_int_equal(buffer_add(&in, &byte, 1), 0);
	}
	return in;
}

static void answer(int fd, uint32_t result)
{
	const struct slurm_rpc rpc = {
		.version = SLURM_22_05, .type = SLURM_RESPONSE_RC, .reader = (uid_t)-1};
	_cleanup_pack_ struct pack message = {0}, body = {0};
	struct err err = ERR_INIT;

	pack_u32(&body, result);
	assert_int_equal(slurm_rpc_encode(NULL, &rpc, &body, &message, &err), 0);
	/* With the first bytes of the X server, which has no reason to send any. */
	assert_int_equal(buffer_add(&message.bytes, "X", 1), 0);
	assert_int_equal(
		send(fd, buffer_bytes(&message.bytes), buffer_size(&message.bytes), MSG_NOSIGNAL),
		(ssize_t)buffer_size(&message.bytes));
}

/* A program's connection that srun has agreed to: its two ends. */
static void begin_pair(struct rig *r, int *program_fd, int *srun_fd)
{
	char byte;

	*program_fd = begin_program(r);
	*srun_fd = accept_at_srun(r);
	{
		_cleanup_buffer_ struct buffer message = read_message(r, *srun_fd);

		assert_true(buffer_size(&message) > 0);
	}
	answer(*srun_fd, 0);
	assert_true(comes(r, recv(*program_fd, &byte, 1, MSG_DONTWAIT) == 1));
	assert_int_equal(byte, 'X');
}

static bool is_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* ---- the display ----------------------------------------------------------------------------- */

static void test_displays(void **state)
{
	struct rig *r = *state;
	int fds[X11_DISPLAY_MAX - X11_DISPLAY_MIN + 1];
	struct err err = ERR_INIT;
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		struct sockaddr_in address = {.sin_family = AF_INET,
			.sin_port = htons((uint16_t)(6000 + X11_DISPLAY_MIN + i)),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(listen(fds[i], 1), 0);
	}
	assert_int_equal(try_open(r, &err), -EADDRINUSE);
	assert_int_equal(files_made, 0);
	fds[37] = close_fd(fds[37]);
	open_display(r);
	assert_int_equal(x11_get_display(r->x11), X11_DISPLAY_MIN + 37);
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close_fd(fds[i]);
}

static void test_no_host(void **state)
{
	struct rig *r = *state;
	struct err err = ERR_INIT;

	r->init.launch.x11.host = NULL;
	assert_int_equal(try_open(r, &err), -EADDRNOTAVAIL);
	r->init.launch.x11.host = "host.invalid";
	assert_int_equal(try_open(r, &err), -EADDRNOTAVAIL);
}

static void test_no_file(void **state)
{
	struct rig *r = *state;
	struct err err = ERR_INIT;

	file_result = -EACCES;
	assert_int_equal(try_open(r, &err), -EACCES);
	assert_true(connect_to(X11_DISPLAY_MIN) < 0);
}

static void test_no_home(void **state)
{
	struct rig *r = *state;
	struct err err = ERR_INIT;

	r->site.has_home_xauthority = true;
	assert_int_equal(try_open(r, &err), -ENOENT);
}

/* ---- srun ------------------------------------------------------------------------------------ */

static void check_message(struct rig *r, const char *body, size_t size)
{
	int program, srun;

	open_display(r);
	program = begin_program(r);
	srun = accept_at_srun(r);
	{
		_cleanup_buffer_ struct buffer message = read_message(r, srun);
		const char *bytes = buffer_bytes(&message);
		uint16_t type;

		memcpy(&type, bytes + 8, sizeof(type));
		assert_int_equal(ntohs(type), SLURM_SRUN_NET_FORWARD);
		assert_memory_equal(bytes + buffer_size(&message) - size, body, size);
	}
	(void)close(program);
	(void)close(srun);
}

static void test_message(void **state)
{
	static const char body[] = "\0\0\0\7"
				   "\0\0\0\0"
				   "\0\0"
				   "\0\0\0\x12/tmp/.X11-unix/X3";

	check_message(*state, body, sizeof(body));
}

static void test_message_26_05(void **state)
{
	static const char body[] = "\0\0\0\0"
				   "\0\0\0\0"
				   "\0\0\0\7"
				   "\xff\xff\xff\xfc"
				   "\xff\xff\xff\xfe"
				   "\0\0\0\0"
				   "\x17\x77"
				   "\0\0\0\5host";
	struct rig *r = *state;

	r->init.frame.client_release = SLURM_26_05;
	r->init.launch.x11.target = "host";
	r->init.launch.x11.target_port = 6007;
	check_message(r, body, sizeof(body));
}

static void test_refusal(void **state)
{
	struct rig *r = *state;
	int program, srun;

	open_display(r);
	program = begin_program(r);
	srun = accept_at_srun(r);
	{
		_cleanup_buffer_ struct buffer message = read_message(r, srun);

		assert_true(buffer_size(&message) > 0);
	}
	answer(srun, 1);
	assert_true(comes(r, is_closed(program)));
	(void)close(program);
	(void)close(srun);
}

static void test_no_srun(void **state)
{
	struct rig *r = *state;
	int program;

	open_display(r);
	r->srun_fd = close_fd(r->srun_fd);
	program = begin_program(r);
	assert_true(comes(r, is_closed(program)));
	(void)close(program);
}

/* It waits for srun, and has given up meanwhile; or the job is over. */
static void test_gone(void **state)
{
	struct rig *r = *state;
	int program, srun;

	open_display(r);
	program = begin_program(r);
	srun = accept_at_srun(r);
	(void)close(program);
	answer(srun, 0);
	assert_true(comes(r, is_closed(srun)));
	(void)close(srun);
	program = begin_program(r);
	srun = accept_at_srun(r);
	r->x11 = x11_close(r->x11);
	assert_true(is_closed(program));
	(void)close(program);
	(void)close(srun);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t send_all_that_fits(struct rig *r, int fd, const char *bytes, size_t size)
{
	size_t sent = 0;
	unsigned idle = 0;

	while (sent < size && idle < 200) {
		ssize_t n = send(fd, bytes + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		turn(r);
	}
	return sent;
}

static void check_direction(struct rig *r, int from, int to)
{
	const int small = 4096;
	char *sent = malloc(MANY), *got = malloc(MANY);
	size_t size, n = 0;

	assert_true(sent && got);
	for (size = 0; size < MANY; size++)
		sent[size] = (char)(size * 31 + size / 251);
	assert_int_equal(setsockopt(from, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_int_equal(setsockopt(to, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	size = send_all_that_fits(r, from, sent, MANY);
	while (n < size) {
		ssize_t k = 0;

		assert_true(comes(r, (k = recv(to, got + n, MANY - n, MSG_DONTWAIT)) > 0));
		n += (size_t)k;
	}
	assert_int_equal(n, size);
	assert_memory_equal(got, sent, size);
	free(sent);
	free(got);
}

static void test_bytes(void **state)
{
	struct rig *r = *state;
	int program, srun;

	open_display(r);
	begin_pair(r, &program, &srun);
	check_direction(r, program, srun);
	check_direction(r, srun, program);
	/* One side is done, and gets what the other one sends yet. */
	assert_int_equal(shutdown(program, SHUT_WR), 0);
	assert_true(comes(r, is_closed(srun)));
	assert_int_equal(send(srun, "last", 4, MSG_NOSIGNAL), 4);
	{
		char text[8] = "";

		assert_true(comes(r, recv(program, text, 4, MSG_DONTWAIT) == 4));
		assert_string_equal(text, "last");
	}
	assert_int_equal(shutdown(srun, SHUT_WR), 0);
	assert_true(comes(r, is_closed(program)));
	(void)close(program);
	(void)close(srun);
}

/* A side that is gone with bytes to come: the other one knows. */
static void test_broken(void **state)
{
	struct rig *r = *state;
	int program, srun, i;

	open_display(r);
	for (i = 0; i < 2; i++) {
		begin_pair(r, &program, &srun);
		assert_int_equal(send(i ? srun : program, "unread", 6, 0), 6);
		turn(r);
		(void)close(i ? program : srun);
		assert_true(comes(r, is_closed(i ? srun : program)));
		(void)close(i ? srun : program);
	}
}

/* ---- who is served --------------------------------------------------------------------------- */

static void test_stranger(void **state)
{
	struct rig *r = *state;
	char byte;
	int status;
	pid_t pid;

	if (getuid() != 0)
		skip();
	open_display(r);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
			_exit(2);
		fd = connect_to(x11_get_display(r->x11));
		_exit(fd >= 0 && recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
	}
	assert_true(comes(r, waitpid(pid, &status, WNOHANG) == pid));
	assert_int_equal(status, 0);
	assert_int_equal(accept4(r->srun_fd, NULL, NULL, SOCK_CLOEXEC), -1);
}

static void test_too_many(void **state)
{
	struct rig *r = *state;
	int fds[X11_CONNECTIONS_MAX + 1];
	unsigned i;

	open_display(r);
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = begin_program(r);
		turn(r);
	}
	assert_true(comes(r, is_closed(fds[X11_CONNECTIONS_MAX])));
	assert_false(is_closed(fds[0]));
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Displays are the machine's: these are nobody else's. */
static void use_own_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	_cleanup_close_ int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		err(99, "bring up the loopback device of a network namespace");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_displays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_host, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_home, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_message, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_message_26_05, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_srun, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_broken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stranger, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
	};

	use_own_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
