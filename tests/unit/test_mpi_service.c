/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The start of an MPI service process and what the agent keeps of it, where a whole step would take
 * too long or can't be brought to fail; and the link's messages.
 */
#include "mpi/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stepd/api/env.h"
#include "tests/lib/scratch.h"
#include "tests/lib/service_rig.h"

static int count_fds(void **state)
{
	static int before;

	before = scratch_count_fds();
	*state = &before;
	return 0;
}

static int same_fds(void **state)
{
	return scratch_count_fds() - *(int *)*state;
}

static int stay_oneself(void *userdata)
{
	return userdata ? -EPERM : 0;
}

static struct mpi_service_options options(bool may_become)
{
	static bool no;

	return (struct mpi_service_options){
		.become = stay_oneself,
		.meanwhile = service_wait_for,
		.message = service_no_message,
		.userdata = may_become ? NULL : &no,
		.start_timeout_ms = 30000,
		.cgroup_fd = -1,
	};
}

static int start(const stepd_step_rec_t *job, stepd_mpi_service_fn main, void *userdata,
	const struct mpi_service_options *o, struct mpi_service **ret_service, struct err *err)
{
	int r = mpi_service_start(job, main, userdata, true, o, ret_service, err);

	return r < 0 ? r : mpi_service_wait(*ret_service, err);
}

_noreturn_ static int hang(const stepd_mpi_service_t *service)
{
	(void)service;
	for (;;)
		(void)pause();
}

static int send_environ(const stepd_mpi_service_t *service)
{
	(void)!link_send_take(service->link_fd,
		json_pack("{s:s, s:[s, s]}", "do", "environ", "set", "A=1", "B=2"), NULL, 0);
	(void)!link_send_take(service->link_fd,
		json_pack("{s:s, s:i, s:[s]}", "do", "environ", "local", 1, "set", "B=3"), NULL, 0);
	(void)!link_send_take(service->link_fd, json_pack("{s:s}", "do", "ready"), NULL, 0);
	/* what the task of local id 1 writes comes here */
	return write(service->task_fd[1], "x", 1) == 1 ? hang(service) : 1;
}

static void a_service_that_is_not_ready_in_time_is_killed(void **state)
{
	stepd_step_rec_t job = {.node_tasks = 2};
	struct mpi_service_options o = options(true);
	struct mpi_service *s = NULL;
	struct err err = ERR_INIT;

	(void)state;
	o.start_timeout_ms = 300;
	assert_int_equal(start(&job, hang, NULL, &o, &s, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "it was not ready after 300 ms"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_null(mpi_service_free(s));
}

static void some_message(const json_t *object, void *userdata)
{
	(void)object;
	(void)userdata;
}

/* Never ready, and never silent either. */
_noreturn_ static int chat(const stepd_mpi_service_t *service)
{
	struct pollfd p = {.fd = service->link_fd, .events = POLLOUT};

	for (;;) {
		if (link_send_take(service->link_fd, json_pack("{s:s}", "do", "chat"), NULL, 0) ==
			-EAGAIN)
			(void)poll(&p, 1, -1);
	}
}

static void a_service_without_end_of_messages_is_killed(void **state)
{
	stepd_step_rec_t job = {.node_tasks = 1};
	struct mpi_service_options o = options(true);
	struct mpi_service *s = NULL;
	struct err err = ERR_INIT;

	(void)state;
	o.start_timeout_ms = 300;
	o.message = some_message;
	assert_int_equal(start(&job, chat, NULL, &o, &s, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "it was not ready after 300 ms"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_null(mpi_service_free(s));
}

/* The same entry again and again: what it costs counts, not what is left of it. */
static int send_much_environ(const stepd_mpi_service_t *service)
{
	bool own = service->userdata != NULL;
	struct pollfd p = {.fd = service->link_fd, .events = POLLOUT};
	char text[1100] = "A=";
	json_t *message;
	int i, r;

	memset(text + 2, 'a', 1000);
	for (i = 0; i < 2000; i++) {
		message = json_pack("{s:s, s:[s]}", "do", "environ", "set", text);
		if (own)
			(void)json_object_set_new(message, "local", json_integer(0));
		while ((r = link_send_take(service->link_fd, json_incref(message), NULL, 0)) ==
			-EAGAIN)
			(void)poll(&p, 1, -1);
		json_decref(message);
		if (r < 0)
			break;
	}
	return hang(service);
}

static void too_much_environment_is_refused(void **state)
{
	stepd_step_rec_t job = {.node_tasks = 1};
	struct mpi_service_options o = options(true);
	struct mpi_service *s = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(start(&job, send_much_environ, NULL, &o, &s, &err), -E2BIG);
	assert_non_null(strstr(err.text, "more than 1048576 bytes of environment for all tasks"));
	assert_null(mpi_service_free(s));
	assert_int_equal(start(&job, send_much_environ, &job, &o, &s, &err), -E2BIG);
	assert_non_null(strstr(err.text, "more than 65536 bytes of environment for a task"));
	assert_null(mpi_service_free(s));
}

/* The agent's end: no descriptor ever gets a number there. */
static void a_message_with_descriptors_is_refused_at_the_agents_end(void **state)
{
	_cleanup_link_message_ struct link_message m = LINK_MESSAGE_INIT;
	int fds[2], before;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	before = scratch_count_fds();
	assert_int_equal(link_send_take(fds[1], json_pack("{s:i}", "a", 1), fds, 2), 0);
	assert_int_equal(link_send_take(fds[1], json_pack("{s:i}", "a", 2), NULL, 0), 0);
	assert_int_equal(link_receive_bare(fds[0], &m), -EBADMSG);
	assert_int_equal(link_receive_bare(fds[0], &m), 0);
	assert_int_equal(json_integer_value(json_object_get(m.object, "a")), 2);
	assert_int_equal(scratch_count_fds(), before);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_service_that_can_not_become_the_user_fails(void **state)
{
	stepd_step_rec_t job = {.node_tasks = 1};
	struct mpi_service_options o = options(false);
	struct mpi_service *s = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(start(&job, hang, NULL, &o, &s, &err), -EIO);
	assert_non_null(strstr(err.text, "it can't become the user: Operation not permitted"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_null(mpi_service_free(s));
}

static void check_env(const struct mpi_service *s, uint32_t local_id, const char *b)
{
	char **env = calloc(1, sizeof(*env));
	size_t i;

	assert_non_null(env);
	assert_int_equal(mpi_service_environ(s, local_id, &env), 0);
	assert_string_equal(stepd_env_get(env, "A"), "1");
	assert_string_equal(stepd_env_get(env, "B"), b);
	for (i = 0; env[i]; i++)
		free(env[i]);
	free(env);
}

static void end(struct mpi_service *s)
{
	assert_int_equal(kill(mpi_service_get_pid(s), SIGKILL), 0);
	assert_int_equal(waitpid(mpi_service_get_pid(s), NULL, 0), mpi_service_get_pid(s));
	assert_null(mpi_service_free(s));
}

static void a_service_has_the_environment_and_descriptor_of_each_task(void **state)
{
	stepd_step_rec_t job = {.node_tasks = 2};
	struct mpi_service_options o = options(true);
	struct mpi_service *s = NULL;
	char own[] = "B=4", *entries[] = {own, NULL};
	char c;

	(void)state;
	assert_int_equal(start(&job, send_environ, NULL, &o, &s, NULL), 0);
	check_env(s, 0, "2");
	check_env(s, 1, "3");
	assert_int_equal(read(mpi_service_task_fd(s, 1), &c, 1), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(mpi_service_task_fd(s, 2), -1);
	assert_int_equal(mpi_service_add_task_take(s, 2, open("/dev/null", O_RDONLY), entries), 0);
	assert_true(mpi_service_task_fd(s, 2) >= 0);
	check_env(s, 2, "4");
	mpi_service_close_task_fds(s);
	assert_int_equal(mpi_service_task_fd(s, 1), -1);
	end(s);
}

/* As after an upgrade: the tasks before it are not known. */
static void a_restored_service_has_the_common_environment(void **state)
{
	_cleanup_strv_ struct strv common = {0};
	struct mpi_service *s = NULL;

	(void)state;
	assert_int_equal(strv_add(&common, "BOTH=yes"), 0);
	assert_int_equal(mpi_service_restore(4711, -1, true, &common, &s), 0);
	assert_int_equal(mpi_service_get_pid(s), 4711);
	assert_true(mpi_service_has_task_fds(s));
	assert_string_equal(mpi_service_common(s)->v[0], "BOTH=yes");
	assert_int_equal(mpi_service_add_task_take(s, 5, -1, NULL), 0);
	assert_int_equal(mpi_service_task_fd(s, 5), -1);
	assert_null(mpi_service_free(s));
}

/* ---- the link ------------------------------------------------------------------------------- */

static void messages_and_descriptors_pass_the_link(void **state)
{
	struct link_message m = LINK_MESSAGE_INIT;
	char *large = malloc(LINK_SIZE_MAX + 1);
	int link[2], fds[2] = {0, 1}, i;

	(void)state;
	assert_non_null(large);
	memset(large, 'x', LINK_SIZE_MAX);
	large[LINK_SIZE_MAX] = '\0';
	assert_int_equal(link_pair(link, NULL), 0);
	assert_int_equal(link_receive(link[0], &m), -EAGAIN);
	assert_int_equal(
		link_send_take(link[0], json_pack("{s:s}", "a", large), NULL, 0), -EMSGSIZE);
	assert_int_equal(link_send_take(link[0], NULL, NULL, 0), -ENOMEM);
	large[LINK_SIZE_MAX - 8] = '\0'; /* {"a":""} is as long as it may be */
	assert_int_equal(link_send_take(link[0], json_pack("{s:s}", "a", large), fds, 2), 0);
	assert_int_equal(link_receive(link[1], &m), 0);
	assert_int_equal(json_string_length(json_object_get(m.object, "a")), LINK_SIZE_MAX - 8);
	assert_int_equal(m.fds_count, 2);
	assert_int_equal(fcntl(m.fds[1], F_GETFD), FD_CLOEXEC);
	link_message_clear(&m);
	for (i = 0; i < 3; i++) {
		static const char *const rubbish[] = {"[1]", "{\"a\":1,\"a\":2}", "{\"a\":"};

		assert_true(write(link[0], rubbish[i], strlen(rubbish[i])) > 0);
		assert_int_equal(link_receive(link[1], &m), -EBADMSG);
	}
	(void)close(link[0]);
	assert_int_equal(link_receive(link[1], &m), -EPIPE);
	assert_int_equal(link_send_take(link[1], json_pack("{s:i}", "a", 1), NULL, 0), -EPIPE);
	(void)close(link[1]);
	free(large);
}

/* What it has sent is read though it has gone, and has read nothing itself. */
static void the_last_messages_of_a_closed_link_are_read(void **state)
{
	struct link_message m = LINK_MESSAGE_INIT;
	int link[2];

	(void)state;
	assert_int_equal(link_pair(link, NULL), 0);
	assert_int_equal(link_send_take(link[1], json_pack("{s:i}", "a", 1), NULL, 0), 0);
	assert_int_equal(link_send_take(link[0], json_pack("{s:i}", "a", 2), NULL, 0), 0);
	(void)close(link[0]);
	assert_int_equal(link_receive(link[1], &m), 0);
	assert_int_equal(json_integer_value(json_object_get(m.object, "a")), 2);
	link_message_clear(&m);
	assert_int_equal(link_receive(link[1], &m), -EPIPE);
	(void)close(link[1]);
}

static void a_full_link_does_not_block(void **state)
{
	int link[2], r = 0, n;

	(void)state;
	assert_int_equal(link_pair(link, NULL), 0);
	for (n = 0; r == 0 && n < 100000; n++)
		r = link_send_take(link[0], json_pack("{s:s}", "do", "log"), NULL, 0);
	assert_int_equal(r, -EAGAIN);
	(void)close(link[0]);
	(void)close(link[1]);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, count_fds, same_fds)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_service_that_is_not_ready_in_time_is_killed),
		TEST(a_service_without_end_of_messages_is_killed),
		TEST(too_much_environment_is_refused),
		TEST(a_message_with_descriptors_is_refused_at_the_agents_end),
		TEST(a_service_that_can_not_become_the_user_fails),
		TEST(a_service_has_the_environment_and_descriptor_of_each_task),
		TEST(a_restored_service_has_the_common_environment),
		TEST(messages_and_descriptors_pass_the_link),
		TEST(the_last_messages_of_a_closed_link_are_read),
		TEST(a_full_link_does_not_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
