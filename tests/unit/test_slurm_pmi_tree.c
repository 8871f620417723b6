/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node's end of Slurm's tree of PMI-2, with what a hostile process of the step's user may do at
 * both of its sockets: the bounds on memory and on messages in slurmd's log.
 */
#include "contrib/slurm/pmi_tree.h"

#include <arpa/inet.h>
#include <endian.h>
#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/pmi_messages.h"
#include "contrib/slurm/site_conf.h"
#include "tests/lib/scratch.h"

struct scene {
	struct log log; /* first: the hook gets only this */
	unsigned lines; /* in it */
	unsigned aborts;
	struct ev_loop *loop;
	char *dir;
	struct fifos fifos;
	struct site_conf site;
	struct slurm_init init;
	struct pack env;
	struct pmi_tree *tree;
	int srun; /* listens and takes nothing */
	int server;
};

static int count_line(
	const struct log *log, _unused_ enum log_level level, _unused_ const char *text)
{
	((struct scene *)log)->lines++;
	return 0;
}

static void count_abort(_unused_ const char *text, void *userdata)
{
	((struct scene *)userdata)->aborts++;
}

static int connect_to(const char *dir, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void set_env(struct scene *s, uint16_t port)
{
	char entry[48];

	(void)snprintf(entry, sizeof(entry), "SLURM_PMI2_SRUN_PORT=%u", port);
	pack_text(&s->env, entry);
	s->init.launch.env = (struct slurm_strs){.n = 1,
		.bytes = (const uint8_t *)buffer_bytes(&s->env.bytes),
		.size = buffer_size(&s->env.bytes)};
}

static void listen_as_srun(struct scene *s)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->srun = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->srun >= 0);
	assert_int_equal(bind(s->srun, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(s->srun, 64), 0);
	assert_int_equal(getsockname(s->srun, (struct sockaddr *)&address, &size), 0);
	s->init.launch.srun = address;
	set_env(s, ntohs(address.sin_port));
}

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct pmi_tree_options options;
	struct err err = ERR_INIT;

	assert_non_null(s);
	s->log = (struct log){.send = count_line, .fd = -1, .most = LOG_LEVEL_WARNING};
	s->loop = ev_loop_new(EVFLAG_NOENV);
	assert_non_null(s->loop);
	s->dir = scratch_make();
	s->fifos.path = s->dir;
	s->fifos.dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(s->fifos.dir_fd >= 0);
	s->site.slurm_user = geteuid();
	s->site.tree_width = 50;
	s->init.launch.nnodes = 2;
	s->init.site = &s->site;
	s->init.conf.spool_dir = s->dir;
	s->init.conf.node_name = "n1";
	s->init.launch.id = (struct slurm_step_id){.job = 7, .step = 3};
	s->init.launch.uid = geteuid();
	listen_as_srun(s);
	options = (struct pmi_tree_options){.loop = s->loop,
		.log = &s->log,
		.label = "7.3",
		.init = &s->init,
		.fifos = &s->fifos,
		.abort = count_abort,
		.userdata = s};
	assert_int_equal(pmi_tree_open(&options, &s->tree, &err), 0);
	s->server = connect_to(s->dir, "pmi");
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	(void)pmi_tree_close(s->tree);
	(void)close_fd(s->server);
	(void)close_fd(s->srun);
	(void)close_fd(s->fifos.dir_fd);
	ev_loop_destroy(s->loop);
	pack_clear(&s->env);
	scratch_remove(s->dir);
	free(s->dir);
	free(s);
	return 0;
}

/* All of it: what has no space yet is taken by the loop. */
static void send_all(struct scene *s, int fd, struct slice bytes)
{
	ssize_t n;

	while (bytes.size > 0) {
		n = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		assert_true(n > 0 || errno == EAGAIN);
		if (n < 0)
			ev_run(s->loop, EVRUN_ONCE);
		else
			(void)slice_take(&bytes, (size_t)n, &(struct slice){0});
	}
}

static void send_frame(struct scene *s, enum manager_type type, const struct bytes *body)
{
	_cleanup_bytes_ struct bytes frame = {0};

	manager_frame_add(&frame, type, slice_of(body));
	send_all(s, s->server, slice_of(&frame));
}

/* The next frame that the server gets; its body is the caller's to clear. */
static void receive_frame(struct scene *s, enum manager_type type, struct bytes *body)
{
	_cleanup_bytes_ struct bytes in = {0};
	struct manager_frame frame;
	char piece[4096];
	ssize_t n;

	while (manager_frame_read(slice_of(&in), &frame) == 0) {
		n = recv(s->server, piece, sizeof(piece), MSG_DONTWAIT);
		assert_true(n > 0 || (n < 0 && errno == EAGAIN));
		if (n < 0)
			ev_run(s->loop, EVRUN_ONCE);
		else
			bytes_add(&in, piece, (size_t)n);
	}
	assert_int_equal(frame.type, type);
	bytes_add(body, frame.body.data, frame.body.size);
}

/* ---- queries ------------------------------------------------------------------------------- */

/* What is held for srun is of a process of root's. */
static void a_query_has_no_more_than_others_have(void **state)
{
	_cleanup_bytes_ struct bytes query = {0}, answer = {0};
	_cleanup_free_ char *port = calloc(1, SLURM_PMI_QUERY_MAX);
	struct scene *s = *state;
	struct slice rest;
	uint32_t id = 0, status = 0;

	assert_non_null(port);
	bytes_add_u32(&query, 5);
	bytes_add_u32(&query, MANAGER_PUBLISH);
	bytes_add_sized(&query, slice_of_text("name"));
	bytes_add_sized(&query, (struct slice){port, SLURM_PMI_QUERY_MAX});
	send_frame(s, MANAGER_QUERY, &query);
	receive_frame(s, MANAGER_ANSWER, &answer);
	rest = slice_of(&answer);
	assert_true(slice_take_u32(&rest, &id) && slice_take_u32(&rest, &status));
	assert_int_equal(id, 5);
	assert_int_equal(status, MANAGER_FULL);
	assert_int_equal(s->lines, 0);
}

/* ---- fences -------------------------------------------------------------------------------- */

/* As slurmd brings it, of a number that the node has not come to. */
static void send_fenced(struct scene *s, uint32_t number)
{
	_cleanup_pack_ struct pack p = {0};
	int fd = connect_to(s->dir, "sock.pmi2.7.3");

	pack_u32(&p, geteuid());
	pack_u32(&p, sizeof(uint16_t) + sizeof(uint32_t));
	pack_u16(&p, SLURM_PMI_FENCED);
	pack_u32(&p, number);
	send_all(s, fd, (struct slice){buffer_bytes(&p.bytes), buffer_size(&p.bytes)});
	(void)close_fd(fd);
}

static uint32_t receive_fenced(struct scene *s)
{
	_cleanup_bytes_ struct bytes body = {0};
	struct slice rest;
	uint32_t error = 0;

	receive_frame(s, MANAGER_FENCED, &body);
	rest = slice_of(&body);
	assert_true(slice_take_u32(&rest, &error));
	return error;
}

static void a_fence_that_fails_is_reported_once(void **state)
{
	const struct bytes nothing = {0};
	struct scene *s = *state;
	unsigned i;

	send_frame(s, MANAGER_FENCE, &nothing);
	ev_run(s->loop, EVRUN_ONCE); /* the server is there */
	ev_run(s->loop, EVRUN_ONCE);
	send_fenced(s, 9);
	assert_int_equal(receive_fenced(s), EIO);
	assert_int_equal(s->aborts, 1);
	assert_int_equal(s->lines, 1);
	for (i = 0; i < 3; i++) {
		send_frame(s, MANAGER_FENCE, &nothing);
		send_fenced(s, 9);
		assert_int_equal(receive_fenced(s), EIO);
	}
	assert_int_equal(s->aborts, 1);
	assert_int_equal(s->lines, 1);
}

/* What is under way is taken: all of it has been sent. */
static void run_all(struct scene *s)
{
	unsigned i;

	for (i = 0; i < 16; i++)
		ev_run(s->loop, EVRUN_NOWAIT);
}

static void a_server_that_has_ended_waits_for_no_fence(void **state)
{
	const struct bytes nothing = {0};
	struct scene *s = *state;

	send_frame(s, MANAGER_FENCE, &nothing);
	run_all(s);
	s->server = close_fd(s->server);
	run_all(s);
	send_fenced(s, 9);
	run_all(s);
	assert_int_equal(s->aborts, 0);
	assert_int_equal(s->lines, 0);
}

static void a_server_that_sends_no_frames_is_given_up(void **state)
{
	struct scene *s = *state;
	char byte;

	send_frame(s, MANAGER_FENCED, &(struct bytes){0});
	run_all(s);
	assert_int_equal(recv(s->server, &byte, 1, MSG_DONTWAIT), 0);
	assert_int_equal(s->aborts, 0);
	assert_int_equal(s->lines, 1);
}

/* ---- the launch message -------------------------------------------------------------------- */

/* What srun has of a component is what any process of a user's can send. */
static void a_node_that_is_not_in_the_step_is_refused(void **state)
{
	struct scene *s = *state;
	struct pmi_tree_options options = {.loop = s->loop,
		.log = &s->log,
		.label = "7.3",
		.init = &s->init,
		.fifos = &s->fifos,
		.abort = count_abort,
		.userdata = s,
		.node_id = 2};
	struct pmi_tree *tree = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(pmi_tree_open(&options, &tree, &err), -EBADMSG);
	assert_string_equal(err.text, "the message has node 2 of 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_query_has_no_more_than_others_have, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_fence_that_fails_is_reported_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_server_that_has_ended_waits_for_no_fence, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_server_that_sends_no_frames_is_given_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_node_that_is_not_in_the_step_is_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
