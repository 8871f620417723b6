/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node's end of Slurm's PMIx over nodes, with what strangers at its port, hostile processes of
 * the step's user, and other nodes may do: whose credential counts, and the bounds on connections
 * and on messages in slurmd's log.
 */
#include "contrib/slurm/auth.h"
#include "contrib/slurm/pmix_nodes.h"

#include <arpa/inet.h>
#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/pmix_messages.h"
#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/site_conf.h"
#include "mpi/pmi/manager.h"
#include "stepd/base/munge_client.h"
#include "tests/lib/scratch.h"

#define NSPACE   "slurm.pmix.7.3"
#define FDS_MAX  256
#define STRANGER 12345u /* a user of neither */
#define NOBODY   ((uid_t)-1)

/* ---- munge(7), of which a credential has all in the clear ---------------------------------- */

static uid_t encoder = NOBODY; /* whose the last one is */

int munge_client_encode(_unused_ const struct munge_client *munge, _unused_ uid_t reader,
	_unused_ const void *data, _unused_ size_t size, char **ret_credential,
	_unused_ struct err *err)
{
	encoder = geteuid();
	*ret_credential = strdup("0 ");
	return *ret_credential ? 0 : -ENOMEM;
}

int slurm_auth_encode(_unused_ const struct slurm_auth *auth, uid_t reader, const void *data,
	size_t size, char **ret_text, struct err *err)
{
	return munge_client_encode(NULL, reader, data, size, ret_text, err);
}

uint32_t slurm_auth_plugin(_unused_ const struct slurm_auth *auth)
{
	return 101;
}

/* "UID PAYLOAD" */
int munge_client_decode(_unused_ const struct munge_client *munge, const char *credential,
	_unused_ bool again, void **ret_data, size_t *ret_size, uid_t *ret_uid,
	_unused_ struct err *err)
{
	char *payload;

	*ret_uid = (uid_t)strtoul(credential, &payload, 10);
	*ret_data = strdup(payload + 1);
	*ret_size = strlen(payload + 1);
	return *ret_data ? 0 : -ENOMEM;
}

int slurm_auth_check(
	_unused_ const struct slurm_auth *auth, const char *text, uid_t *ret_uid, struct err *err)
{
	_cleanup_free_ void *data = NULL;
	size_t size;
	int r = munge_client_decode(NULL, text, false, &data, &size, ret_uid, err);

	return r == 0 && size > 0 ? -EBADMSG : r;
}

/* ---- node 0 of two ------------------------------------------------------------------------- */

struct scene {
	struct log log; /* first: the hook gets only this */
	unsigned lines; /* in it */
	unsigned aborts;
	struct ev_loop *loop;
	char *dir;
	struct fifos fifos;
	struct site_conf site;
	struct slurm_init init;
	struct pmix_settings settings;
	struct pack env, tasks;
	struct pmix_nodes *nodes;
	int server;
	uint16_t port;
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

static void on_drained(_unused_ void *userdata)
{
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

/* That of the one socket here that listens at one. */
static uint16_t find_port(void)
{
	struct sockaddr_in address;
	socklen_t size;
	int fd, listens;

	for (fd = 0; fd < FDS_MAX; fd++) {
		size = sizeof(listens);
		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
			continue;
		size = sizeof(address);
		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
			address.sin_family == AF_INET)
			return ntohs(address.sin_port);
	}
	fail();
	return 0;
}

static void write_conf(struct scene *s)
{
	static const char conf[] = "NodeName=n[1-2] NodeAddr=127.0.0.1 Port=9\n";
	_cleanup_free_ char *path = scratch_path(s->dir, "slurm.conf");

	scratch_write(s->dir, "slurm.conf", conf, sizeof(conf) - 1, 0644);
	assert_int_equal(setenv("SLURM_CONF", path, 1), 0);
}

static void fill_launch(struct scene *s)
{
	static const char *const env[] = {
		"SLURM_STEP_NODELIST=n[1-2]", "SLURM_JOB_NODELIST=n[1-2]"};
	struct slurm_launch *l = &s->init.launch;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(env); i++)
		pack_text(&s->env, env[i]);
	for (i = 0; i < 2; i++) {
		pack_u16(&s->tasks, 1);
		pack_u32_array(&s->tasks, &i, 1);
	}
	l->id = (struct slurm_step_id){.job = 7, .step = 3};
	l->uid = geteuid();
	l->nnodes = l->ntasks = 2;
	l->env = (struct slurm_strs){.n = ARRAY_SIZE(env),
		.bytes = (const uint8_t *)buffer_bytes(&s->env.bytes),
		.size = buffer_size(&s->env.bytes)};
	l->node_tasks = (struct slurm_array){(uint32_t)buffer_size(&s->tasks.bytes),
		(const uint8_t *)buffer_bytes(&s->tasks.bytes)};
}

static void open_nodes(struct scene *s)
{
	const struct pmix_nodes_options options = {.loop = s->loop,
		.log = &s->log,
		.label = "7.3",
		.init = &s->init,
		.settings = &s->settings,
		.fifos = &s->fifos,
		.abort = count_abort,
		.drained = on_drained,
		.userdata = s};
	struct err err = ERR_INIT;
	int r = pmix_nodes_open(&options, &s->nodes, &err);

	if (r < 0)
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

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
	s->settings = (struct pmix_settings){
		.direct = true, .kind = SLURM_PMIX_KIND_MAX, .timeout_s = 300};
	s->init.site = &s->site;
	s->init.conf.spool_dir = s->dir;
	s->init.frame.release = SLURM_22_05;
	write_conf(s);
	fill_launch(s);
	open_nodes(s);
	s->port = find_port();
	s->server = connect_to(s->dir, "pmix");
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	(void)pmix_nodes_close(s->nodes);
	(void)close_fd(s->server);
	(void)close_fd(s->fifos.dir_fd);
	ev_loop_destroy(s->loop);
	pack_clear(&s->env);
	pack_clear(&s->tasks);
	scratch_remove(s->dir);
	free(s->dir);
	free(s);
	return 0;
}

/* ---- the server's end ---------------------------------------------------------------------- */

static void send_frame(struct scene *s, enum manager_type type, const struct bytes *body)
{
	_cleanup_bytes_ struct bytes frame = {0};
	struct slice all;

	manager_frame_add(&frame, type, slice_of(body));
	all = slice_of(&frame);
	assert_int_equal(send(s->server, all.data, all.size, MSG_NOSIGNAL), (ssize_t)all.size);
}

/* The next frame that the server gets; its body is the caller's to clear. */
static void receive_frame(struct scene *s, enum manager_type type, struct bytes *body)
{
	_cleanup_bytes_ struct bytes in = {0};
	struct manager_frame frame;
	char byte;
	ssize_t n;

	while (manager_frame_read(slice_of(&in), &frame) == 0) {
		n = recv(s->server, &byte, 1, MSG_DONTWAIT);
		assert_true(n > 0 || (n < 0 && errno == EAGAIN));
		if (n < 0)
			ev_run(s->loop, EVRUN_ONCE);
		else
			bytes_add(&in, &byte, 1);
	}
	assert_int_equal(frame.type, type);
	bytes_add(body, frame.body.data, frame.body.size);
}

static uint32_t run_fence(struct scene *s, const char *nspace)
{
	_cleanup_bytes_ struct bytes fence = {0}, end = {0};
	struct slice rest;
	uint32_t id = 0, error = 0;

	bytes_add_u32(&fence, 5);
	bytes_add_u32(&fence, 0);
	bytes_add_u32(&fence, 1);
	bytes_add_sized(&fence, slice_of_text(nspace));
	bytes_add_u32(&fence, SLURM_PMIX_WILDCARD);
	send_frame(s, MANAGER_COLLECT, &fence);
	receive_frame(s, MANAGER_COLLECTED, &end);
	rest = slice_of(&end);
	assert_true(slice_take_u32(&rest, &id) && slice_take_u32(&rest, &error));
	assert_int_equal(id, 5);
	return error;
}

/* ---- the port ------------------------------------------------------------------------------ */

static int call_port(const struct scene *s)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(s->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* As node 1, whose port it has. by_slurmd: with what stands before it. */
static void send_message(int fd, bool by_slurmd, enum slurm_pmix_type type, const struct pack *body)
{
	_cleanup_pack_ struct pack message = {0};
	struct slurm_pmix_head head = {.type = type, .node = 1, .has_port = true};
	size_t size;

	head.size = SLURM_PMIX_PORT_SIZE + (uint32_t)buffer_size(&body->bytes);
	if (by_slurmd)
		pack_u64(&message, 0);
	slurm_pmix_put_head(&message, &head, false);
	slurm_pmix_put_port(&message, 9);
	pack_raw(&message, buffer_bytes(&body->bytes), buffer_size(&body->bytes));
	size = buffer_size(&message.bytes);
	assert_int_equal(send(fd, buffer_bytes(&message.bytes), size, MSG_NOSIGNAL), (ssize_t)size);
}

static void introduce(int fd, uid_t uid, const char *payload)
{
	_cleanup_pack_ struct pack body = {0};
	char credential[64];

	(void)snprintf(credential, sizeof(credential), "%u %s", (unsigned)uid, payload);
	slurm_pmix_put_credential(&body, 101, credential);
	send_message(fd, false, SLURM_PMIX_CONNECT, &body);
}

/* Wants the data of a rank that is not there: -1 as the status of the answer. */
static void request_nothing(int fd)
{
	const struct slurm_pmix_modex modex = {
		.nspace = slice_of_text(NSPACE), .sender = slice_of_text(NSPACE), .rank = 99};
	_cleanup_pack_ struct pack body = {0};

	slurm_pmix_put_modex(&body, &modex);
	send_message(fd, false, SLURM_PMIX_MODEX, &body);
}

/* True: something has come; false: it has been closed. */
static bool is_answered(const struct scene *s, int fd)
{
	char byte;
	ssize_t n;

	while ((n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		ev_run(s->loop, EVRUN_ONCE);
	return n > 0;
}

static bool is_admitted(const struct scene *s, uid_t uid, const char *payload)
{
	_cleanup_close_ int fd = call_port(s);

	introduce(fd, uid, payload);
	request_nothing(fd);
	return is_answered(s, fd);
}

static void a_node_is_known_by_a_credential_of_root_or_the_user(void **state)
{
	const struct scene *s = *state;

	assert_false(is_admitted(s, STRANGER, ""));
	assert_true(is_admitted(s, 0, ""));
	assert_true(is_admitted(s, geteuid(), ""));
	assert_int_equal(s->aborts, 0);
}

/* Every user has those of his jobs, which SlurmUser signs, and of root's messages to him. */
static void a_credential_made_for_something_else_admits_nobody(void **state)
{
	const struct scene *s = *state;

	assert_false(is_admitted(s, 0, "a job"));
	assert_false(is_admitted(s, geteuid(), "a job"));
}

/* The port that a message has may be that of a process of the user's, which would get it. */
static void a_node_introduces_itself_as_the_user(void **state)
{
	const struct pack nothing = {0};
	struct scene *s = *state;
	_cleanup_close_ int fd = connect_to(s->dir, "stepd.slurm.pmix.7.3");
	uid_t own = geteuid();

	if (own == 0)
		s->init.launch.uid = STRANGER;
	encoder = NOBODY;
	send_message(fd, true, SLURM_PMIX_MODEX, &nothing);
	while (encoder == NOBODY)
		ev_run(s->loop, EVRUN_ONCE);
	assert_int_equal(encoder, s->init.launch.uid);
	assert_int_equal(geteuid(), own);
}

/* A process of the user's could begin any number of them. */
static void a_node_has_few_connections(void **state)
{
	enum {
		CALLS = 12
	};
	const struct scene *s = *state;
	int fds[CALLS], i, left = 0;

	for (i = 0; i < CALLS; i++) {
		fds[i] = call_port(s);
		introduce(fds[i], geteuid(), "");
	}
	/* The answers go by the first one: each of the others is open until it is closed. */
	request_nothing(fds[0]);
	assert_true(is_answered(s, fds[0]));
	for (i = CALLS - 1; i >= 8; i--)
		assert_false(is_answered(s, fds[i]));
	for (i = 0; i < CALLS; i++) {
		char byte;

		left += recv(fds[i], &byte, 1, MSG_DONTWAIT) != 0;
		(void)close_fd(fds[i]);
	}
	assert_int_equal(left, 8);
	assert_true(is_admitted(s, geteuid(), ""));
}

static void send_garbage(int fd)
{
	static const char garbage[SLURM_PMIX_HEAD_SIZE];

	assert_int_equal(
		send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), (ssize_t)sizeof(garbage));
}

/* What follows, and may be all that a fence waits for, can't be found. */
static void a_node_that_sends_garbage_ends_the_step(void **state)
{
	const struct scene *s = *state;
	_cleanup_close_ int unknown = call_port(s), fd = call_port(s);

	send_garbage(unknown);
	assert_false(is_answered(s, unknown));
	assert_int_equal(s->aborts, 0);
	introduce(fd, geteuid(), "");
	send_garbage(fd);
	assert_false(is_answered(s, fd));
	assert_int_equal(s->aborts, 1);
}

/* ---- fences -------------------------------------------------------------------------------- */

static void fences_that_fail_are_reported_once(void **state)
{
	struct scene *s = *state;
	int i;

	for (i = 0; i < 3; i++)
		assert_int_equal(run_fence(s, "another"), ESRCH);
	assert_int_equal(s->lines, 1);
	/* Without data, and of fewer nodes than the tree has branches, one ends where it begins. */
	assert_int_equal(run_fence(s, NSPACE), 0);
	assert_int_equal(s->lines, 1);
	assert_int_equal(s->aborts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_node_is_known_by_a_credential_of_root_or_the_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_credential_made_for_something_else_admits_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_node_introduces_itself_as_the_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_node_has_few_connections, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_node_that_sends_garbage_ends_the_step, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			fences_that_fail_are_reported_once, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
