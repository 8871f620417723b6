/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/lookup.h"

#define ADMIN    500
#define OWNER    1000
#define STRANGER 1001

static const struct requests_step normal = {.owner = OWNER, .admin = ADMIN};
static const struct requests_step secret = {.owner = OWNER, .admin = ADMIN, .private = true};
static const struct requests_step batch = {.owner = OWNER, .admin = ADMIN, .batch = true};
static const struct requests_step adopting = {
	.owner = OWNER, .admin = ADMIN, .adopts = true, .leaders = true};
static const struct requests_step led = {
	.owner = OWNER, .admin = ADMIN, .batch = true, .leaders = true};

/* The answer to a process that is a member now. */
static int32_t add_to(const struct requests_step *step, const struct wire_request *request)
{
	_cleanup_requests_plan_ struct requests_plan plan = {0};
	_cleanup_wire_answer_ struct wire_answer a = {0};
	int32_t n;

	assert_int_equal(requests_make_plan(request, step, &plan), 0);
	assert_int_equal(plan.answer(&plan, NULL, WIRE_26_11, &a), 0);
	assert_int_equal(buffer_size(&a.bytes), sizeof(n));
	memcpy(&n, a.bytes.data, sizeof(n));
	return n;
}

static void test_access(void **state)
{
	static const struct {
		enum requests_access access;
		bool owner, stranger, private_stranger;
	} rows[] = {
		{REQUESTS_ROOT, false, false, false},
		{REQUESTS_ADMIN, false, false, false},
		{REQUESTS_OWNER, true, false, false},
		{REQUESTS_ANYONE, true, true, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(requests_may(&secret, rows[i].access, 0));
		assert_int_equal(requests_may(&secret, rows[i].access, ADMIN),
			rows[i].access != REQUESTS_ROOT);
		assert_int_equal(requests_may(&normal, rows[i].access, OWNER), rows[i].owner);
		assert_int_equal(requests_may(&secret, rows[i].access, OWNER), rows[i].owner);
		assert_int_equal(requests_may(&normal, rows[i].access, STRANGER), rows[i].stranger);
		assert_int_equal(
			requests_may(&secret, rows[i].access, STRANGER), rows[i].private_stranger);
	}
}

/* What each request becomes, and who may ask for it. */
static void test_plans(void **state)
{
	static const struct {
		struct wire_request request;
		const struct requests_step *step;
		enum requests_access access;
		const char *method, *parameters;
		int error;
	} rows[] = {
		{{.kind = WIRE_STATE}, &normal, REQUESTS_ANYONE, "Describe", NULL, 0},
		{{.kind = WIRE_DAEMON_PID}, &normal, REQUESTS_ANYONE, "Describe", NULL, 0},
		{{.kind = WIRE_UID}, &normal, REQUESTS_ANYONE, "Describe", NULL, 0},
		{{.kind = WIRE_NODEID}, &normal, REQUESTS_ANYONE, "Describe", NULL, 0},
		{{.kind = WIRE_MEM_LIMITS}, &normal, REQUESTS_ANYONE, NULL, NULL, 0},
		{{.kind = WIRE_TASK_INFO}, &normal, REQUESTS_ANYONE, "ListTasks", NULL, 0},
		{{.kind = WIRE_LIST_PIDS}, &normal, REQUESTS_ANYONE, "ListPids",
			"{\"start_ticks\":false}", 0},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = 12}, &normal, REQUESTS_ANYONE, "FindPids",
			"{\"pids\":[12]}", 0},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = 0}, &normal, REQUESTS_ANYONE, NULL, NULL,
			0},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = -5}, &normal, REQUESTS_ANYONE, NULL, NULL,
			0},
		{{.kind = WIRE_SUSPEND}, &normal, REQUESTS_ADMIN, "Suspend", NULL, 0},
		{{.kind = WIRE_RESUME}, &normal, REQUESTS_ADMIN, "Resume", NULL, 0},
		{{.kind = WIRE_COMPLETION, .first = 1, .last = 2}, &normal, REQUESTS_ADMIN, NULL,
			NULL, 0},
		{{.kind = WIRE_TERMINATE}, &normal, REQUESTS_OWNER, "Terminate",
			"{\"kill_sequence\":\"KILL\"}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 15}, &normal, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"15\",\"leader\":false}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 64}, &normal, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"64\",\"leader\":false}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 0}, &normal, REQUESTS_OWNER, "Describe", NULL, 0},
		{{.kind = WIRE_SIGNAL, .signal = 65}, &normal, REQUESTS_OWNER, NULL, NULL, EINVAL},
		{{.kind = WIRE_SIGNAL, .signal = -1}, &normal, REQUESTS_OWNER, NULL, NULL, EINVAL},
		{{.kind = WIRE_SIGNAL, .signal = 253}, &normal, REQUESTS_OWNER, NULL, NULL, EINVAL},
		{{.kind = WIRE_SIGNAL, .signal = 991}, &normal, REQUESTS_OWNER, "Terminate", NULL,
			0},
		{{.kind = WIRE_SIGNAL, .signal = 995}, &normal, REQUESTS_OWNER, NULL, NULL,
			EOPNOTSUPP},
		{{.kind = WIRE_SIGNAL, .signal = 996}, &normal, REQUESTS_ADMIN, "Notify",
			"{\"message\":\"the job's time limit is reached\"}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 997}, &normal, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"9\",\"leader\":false}", 0},
		/* the flag for the script alone is for batch steps */
		{{.kind = WIRE_SIGNAL, .signal = 2, .flags = 1}, &normal, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"2\",\"leader\":false}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 2, .flags = 1}, &batch, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"2\",\"leader\":true}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 2, .flags = 9}, &batch, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"2\",\"leader\":false}", 0},
		/* with proctrack/cgroup, too, which signals a step's first processes alone */
		{{.kind = WIRE_SIGNAL, .signal = 2}, &led, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"2\",\"leader\":true}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 2, .flags = 8}, &led, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"2\",\"leader\":false}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 9}, &led, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"9\",\"leader\":false}", 0},
		/* an extern step */
		{{.kind = WIRE_ADD_PID, .pid = 12}, &adopting, REQUESTS_ROOT, "AddPid",
			"{\"pid\":12}", 0},
		{{.kind = WIRE_ADD_PID, .pid = 0}, &adopting, REQUESTS_ROOT, NULL, NULL, EINVAL},
		{{.kind = WIRE_ADD_PID, .pid = -12}, &adopting, REQUESTS_ROOT, NULL, NULL, EINVAL},
		{{.kind = WIRE_ADD_PID, .pid = 12}, &normal, REQUESTS_ROOT, NULL, NULL, EINVAL},
		{{.kind = WIRE_SIGNAL, .signal = 15}, &adopting, REQUESTS_OWNER, "Terminate", NULL,
			0},
		{{.kind = WIRE_SIGNAL, .signal = 9}, &adopting, REQUESTS_OWNER, "Terminate",
			"{\"kill_sequence\":\"KILL\"}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 991}, &adopting, REQUESTS_OWNER, "Terminate", NULL,
			0},
		{{.kind = WIRE_SIGNAL, .signal = 997}, &adopting, REQUESTS_OWNER, "Terminate",
			"{\"kill_sequence\":\"KILL\"}", 0},
		{{.kind = WIRE_SIGNAL, .signal = 10}, &adopting, REQUESTS_OWNER, "Signal",
			"{\"signal\":\"10\",\"leader\":false}", 0},
		{{.kind = WIRE_X11_DISPLAY}, &normal, REQUESTS_OWNER, NULL, NULL, 0},
		{{.kind = WIRE_NAMESPACE}, &normal, REQUESTS_OWNER, NULL, NULL, 0},
		{{.kind = WIRE_NAMESPACES}, &normal, REQUESTS_OWNER, NULL, NULL, 0},
		{{.kind = WIRE_SLUID}, &normal, REQUESTS_ANYONE, NULL, NULL, 0},
		{{.kind = WIRE_MEM_UPDATE}, &normal, REQUESTS_ADMIN, NULL, NULL, 0},
		{{.kind = WIRE_NOTIFY, .text = "a \"text\""}, &normal, REQUESTS_ADMIN, "Notify",
			"{\"message\":\"a \\\"text\\\"\"}", 0},
		{{.kind = WIRE_NOTIFY, .text = "\344"}, &normal, REQUESTS_ADMIN, NULL, NULL,
			EILSEQ},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_requests_plan_ struct requests_plan plan = {0};

		assert_int_equal(requests_make_plan(&rows[i].request, rows[i].step, &plan), 0);
		if (plan.access != rows[i].access || plan.error != rows[i].error ||
			!plan.method != !rows[i].method || !plan.parameters != !rows[i].parameters)
			fail_msg("row %zu: access %d, error %d, %s(%s)", i, plan.access, plan.error,
				plan.method, plan.parameters);
		if (plan.method)
			assert_string_equal(plan.method, rows[i].method);
		if (plan.parameters)
			assert_string_equal(plan.parameters, rows[i].parameters);
	}
}

/* The answer to a request, from an agent's answers: NULL is where none was asked. */
static int answer(const struct wire_request *request, uint16_t version, const char *const *replies,
	struct wire_answer *a)
{
	_cleanup_requests_plan_ struct requests_plan plan = {0};
	json_t *reply;
	int r = 0;

	assert_int_equal(requests_make_plan(request, &normal, &plan), 0);
	if (!replies[0])
		return plan.answer(&plan, NULL, version, a);
	for (; *replies && r == 0; replies++) {
		reply = json_loads(*replies, 0, NULL);
		assert_non_null(reply);
		r = plan.answer(&plan, reply, version, a);
		json_decref(reply);
	}
	return r;
}

static void test_numbers(void **state)
{
	static const char describe[] =
		"{\"state\": \"suspended\", \"agent_pid\": 12, \"uid\": 4294967294, \"node_id\": 3}";
	static const struct {
		struct wire_request request;
		const char *reply;
		uint32_t wanted;
		size_t size;
	} rows[] = {
		{{.kind = WIRE_STATE}, describe, 2, 4},
		{{.kind = WIRE_DAEMON_PID}, describe, 12, 4},
		{{.kind = WIRE_UID}, describe, 4294967294, 4},
		{{.kind = WIRE_NODEID}, describe, 3, 4},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = 1}, "{\"found\": []}", 0, 1},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = 1}, "{\"found\": [{\"pid\": 1}]}", 1, 1},
		{{.kind = WIRE_PID_IN_CONTAINER, .pid = 0}, NULL, 0, 1},
		{{.kind = WIRE_NAMESPACE}, NULL, 0, 4},
		{{.kind = WIRE_NAMESPACES}, NULL, 0, 4},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_wire_answer_ struct wire_answer a = {0};
		const char *const replies[] = {rows[i].reply, NULL};
		uint32_t n = 0;

		assert_int_equal(answer(&rows[i].request, WIRE_26_11, replies, &a), 0);
		assert_int_equal(buffer_size(&a.bytes), rows[i].size);
		memcpy(&n, a.bytes.data, buffer_size(&a.bytes));
		assert_int_equal(n, rows[i].wanted);
	}
}

/* Of an extern step that forwards X11. */
static void test_display(void **state)
{
	static const char path[] = "/tmp/.Xauthority-1";
	const struct wire_request request = {.kind = WIRE_X11_DISPLAY};
	const struct requests_step step = {.owner = OWNER, .display = 21, .xauthority = path};
	_cleanup_requests_plan_ struct requests_plan plan = {0};
	_cleanup_wire_answer_ struct wire_answer none = {0}, a = {0};
	const char *const replies[] = {NULL};
	int32_t n[2] = {-1, -1};

	(void)state;
	assert_int_equal(answer(&request, WIRE_26_11, replies, &none), 0);
	assert_int_equal(buffer_size(&none.bytes), sizeof(n));
	memcpy(n, none.bytes.data, sizeof(n));
	assert_int_equal(n[0], 0);
	assert_int_equal(n[1], 0);
	assert_int_equal(requests_make_plan(&request, &step, &plan), 0);
	assert_int_equal(plan.access, REQUESTS_OWNER);
	assert_int_equal(plan.answer(&plan, NULL, WIRE_26_11, &a), 0);
	assert_int_equal(buffer_size(&a.bytes), sizeof(n) + sizeof(path));
	memcpy(n, a.bytes.data, sizeof(n));
	assert_int_equal(n[0], 21);
	assert_int_equal(n[1], sizeof(path));
	assert_string_equal(buffer_bytes(&a.bytes) + sizeof(n), path);
}

/* Where the job has one; it is open only as long as the plan is there. */
static void test_namespace(void **state)
{
	const struct requests_step step = {.owner = OWNER, .name_space = "/proc/self/ns/mnt"};
	const struct requests_step broken = {.owner = OWNER, .name_space = "/nowhere/.ns"};
	const struct wire_request one = {.kind = WIRE_NAMESPACE}, all = {.kind = WIRE_NAMESPACES};
	const struct {
		const struct wire_request *request;
		const struct requests_step *step;
		bool has_fd;
		int32_t first, n;
	} rows[] = {
		{&one, &step, true, 0, 1}, /* the descriptor's number */
		{&all, &step, true, 1, 2},
		{&one, &broken, false, -1, 1},
		{&all, &broken, false, 0, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_requests_plan_ struct requests_plan plan = {0};
		_cleanup_wire_answer_ struct wire_answer a = {0};
		int32_t n[2] = {0};
		int fd;

		assert_int_equal(requests_make_plan(rows[i].request, rows[i].step, &plan), 0);
		assert_int_equal(plan.access, REQUESTS_OWNER);
		assert_int_equal(plan.answer(&plan, NULL, WIRE_26_11, &a), 0);
		assert_int_equal(a.has_fd, rows[i].has_fd);
		assert_int_equal(buffer_size(&a.bytes), rows[i].n * sizeof(n[0]));
		memcpy(n, a.bytes.data, buffer_size(&a.bytes));
		if (rows[i].has_fd && rows[i].n == 1)
			assert_int_equal(n[0], a.fd);
		else
			assert_int_equal(n[0], rows[i].first);
		assert_int_equal(n[1], rows[i].n == 2 ? CLONE_NEWNS : 0);
		if (!rows[i].has_fd)
			continue;
		fd = a.fd;
		assert_int_equal(ioctl(fd, NS_GET_NSTYPE), CLONE_NEWNS);
		requests_plan_clear(&plan);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
}

/* nss_slurm's: a process of the job's, or one that does not have to be. */
static void test_lookups(void **state)
{
	static char *names[] = {(char *)"staff", (char *)"video", NULL};
	static uint32_t gids[] = {50, 44};
	struct lookup_user user = {.name = "ann",
		.gecos = "",
		.home = "/home/ann",
		.shell = "/bin/sh",
		.uid = 1000,
		.gid = 50,
		.gids = gids,
		.group_names = {.v = names, .n = 2}};
	const struct requests_step step = {.owner = OWNER, .user = &user};
	static const char member[] = "{\"found\": [{\"pid\": 7}]}", stranger[] = "{\"found\": []}";
	static const struct {
		enum wire_kind kind;
		struct wire_lookup lookup;
		const char *reply; /* of FindPids; NULL: it is not called */
		int32_t found;
		size_t size;
	} rows[] = {
		{WIRE_USER, {.match = WIRE_MATCH_NAME, .id = 1000}, member, 1, 52},
		{WIRE_USER, {.match = WIRE_MATCH_NAME, .name = "ann"}, member, 1, 52},
		{WIRE_USER, {.match = WIRE_MATCH_NAME, .id = 1000}, stranger, 0, 4},
		{WIRE_USER, {.match = WIRE_MATCH_NAME, .id = 1, .name = "an"}, member, 0, 4},
		{WIRE_USER, {.match = WIRE_MATCH_MEMBER}, member, 1, 52},
		{WIRE_USER, {.match = WIRE_MATCH_MEMBER}, stranger, 0, 4},
		{WIRE_USER, {.match = WIRE_MATCH_ALWAYS}, NULL, 1, 52},
		{WIRE_USER, {.match = 3, .id = 1000}, member, 0, 4},
		{WIRE_GROUPS, {.match = WIRE_MATCH_NAME, .id = 44}, member, 1, 29},
		{WIRE_GROUPS, {.match = WIRE_MATCH_NAME, .name = "staff"}, member, 1, 29},
		{WIRE_GROUPS, {.match = WIRE_MATCH_NAME, .id = 44}, stranger, 0, 4},
		{WIRE_GROUPS, {.match = WIRE_MATCH_NAME, .id = 45}, member, 0, 4},
		{WIRE_GROUPS, {.match = WIRE_MATCH_ALWAYS}, NULL, 2, 54},
		{WIRE_GROUPS, {.match = WIRE_MATCH_MEMBER}, stranger, 0, 4},
		{WIRE_GROUPS, {.match = -1, .id = 44}, member, 0, 4},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct wire_request request = {
			.kind = rows[i].kind, .pid = 7, .lookup = rows[i].lookup};
		_cleanup_requests_plan_ struct requests_plan plan = {0};
		_cleanup_wire_answer_ struct wire_answer a = {0};
		json_t *reply = rows[i].reply ? json_loads(rows[i].reply, 0, NULL) : NULL;
		int32_t found;

		assert_int_equal(requests_make_plan(&request, &step, &plan), 0);
		assert_int_equal(!plan.method, !reply);
		assert_int_equal(plan.answer(&plan, reply, WIRE_22_05, &a), 0);
		json_decref(reply);
		memcpy(&found, a.bytes.data, sizeof(found));
		if (found != rows[i].found || buffer_size(&a.bytes) != rows[i].size)
			fail_msg("row %zu: %d, %zu bytes", i, found, buffer_size(&a.bytes));
	}
	user.shell = NULL; /* an entry is whole, or there is none */
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_wire_answer_ struct wire_answer a = {0};

		if (rows[i].kind != WIRE_USER)
			continue;
		lookup_put_user(&user, &rows[i].lookup, true, &a);
		assert_int_equal(buffer_size(&a.bytes), sizeof(int32_t));
	}
}

/* An adapter's steps have no credential. */
static void test_no_user(void **state)
{
	static const enum wire_kind kinds[] = {WIRE_USER, WIRE_GROUPS};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct wire_request request = {.kind = kinds[i], .pid = 7};
		_cleanup_requests_plan_ struct requests_plan plan = {0};
		_cleanup_wire_answer_ struct wire_answer a = {0};
		const int32_t none = 0;

		assert_int_equal(requests_make_plan(&request, &normal, &plan), 0);
		assert_null(plan.method);
		assert_int_equal(plan.answer(&plan, NULL, WIRE_22_05, &a), 0);
		assert_int_equal(buffer_size(&a.bytes), sizeof(none));
		assert_memory_equal(a.bytes.data, &none, sizeof(none));
	}
}

static void test_tasks(void **state)
{
	static const char *const replies[] = {
		"{\"tasks\": [{\"rank\": 8, \"local_id\": 0, \"state\": \"new\"},"
		"{\"rank\": 9, \"local_id\": 1, \"state\": \"running\", \"pid\": 77}]}",
		"{\"tasks\": [{\"rank\": 10, \"local_id\": 2, \"state\": \"ended\", \"wait_status\": "
		"256}, {\"rank\": 11, \"local_id\": 3, \"state\": \"lost\"}]}",
		NULL};
	static const struct wire_task wanted[] = {
		{.local_id = 0, .rank = 8, .pid = -1, .exited = false, .wait_status = -1},
		{.local_id = 1, .rank = 9, .pid = 77, .exited = false, .wait_status = -1},
		{.local_id = 2, .rank = 10, .pid = -1, .exited = true, .wait_status = 256},
		{.local_id = 3, .rank = 11, .pid = -1, .exited = true, .wait_status = -1},
	};
	_cleanup_wire_answer_ struct wire_answer a = {0}, b = {0};
	size_t i;

	(void)state;
	wire_put_u32(&b, ARRAY_SIZE(wanted));
	for (i = 0; i < ARRAY_SIZE(wanted); i++)
		wire_put_task(&b, &wanted[i]);
	assert_int_equal(
		answer(&(struct wire_request){.kind = WIRE_TASK_INFO}, WIRE_22_05, replies, &a), 0);
	assert_int_equal(buffer_size(&a.bytes), 4 + 4 * 17);
	assert_int_equal(buffer_size(&b.bytes), buffer_size(&a.bytes));
	assert_memory_equal(a.bytes.data, b.bytes.data, buffer_size(&a.bytes));
}

static void test_pids(void **state)
{
	static const char *const replies[] = {
		"{\"pids\": [{\"pid\": 5, \"rank\": 0}, {\"pid\": 6}]}", "{\"pids\": []}",
		"{\"pids\": [{\"pid\": 7}]}", NULL};
	static const char *const none[] = {"{\"pids\": []}", NULL};
	static const uint32_t wanted[] = {3, 5, 6, 7};
	const struct wire_request request = {.kind = WIRE_LIST_PIDS};
	_cleanup_wire_answer_ struct wire_answer a = {0}, b = {0};

	(void)state;
	assert_int_equal(answer(&request, WIRE_22_05, replies, &a), 0);
	assert_int_equal(buffer_size(&a.bytes), sizeof(wanted));
	assert_memory_equal(a.bytes.data, wanted, sizeof(wanted));
	assert_int_equal(answer(&request, WIRE_22_05, none, &b), 0);
	assert_int_equal(buffer_size(&b.bytes), 4);
	assert_memory_equal(b.bytes.data, &(uint32_t){0}, 4);
}

static void test_nonsense(void **state)
{
	static const struct {
		int kind;
		const char *reply;
	} rows[] = {
		{WIRE_STATE, "{}"},
		{WIRE_STATE, "{\"state\": 1}"},
		{WIRE_STATE, "{\"state\": \"dancing\"}"},
		{WIRE_UID, "{\"uid\": \"0\"}"},
		{WIRE_UID, "{\"uid\": -1}"},
		{WIRE_UID, "{\"uid\": 4294967296}"},
		{WIRE_UID, "[]"},
		{WIRE_LIST_PIDS, "{}"},
		{WIRE_LIST_PIDS, "{\"pids\": {}}"},
		{WIRE_LIST_PIDS, "{\"pids\": [1]}"},
		{WIRE_LIST_PIDS, "{\"pids\": [{\"pid\": 0}]}"},
		{WIRE_LIST_PIDS, "{\"pids\": [{\"pid\": 1}, {\"pid\": 2147483648}]}"},
		{WIRE_TASK_INFO, "{\"tasks\": [{}]}"},
		{WIRE_TASK_INFO, "{\"tasks\": [{\"rank\": 1, \"local_id\": 0}]}"},
		{WIRE_TASK_INFO, "{\"tasks\": null}"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_wire_answer_ struct wire_answer a = {0};
		const char *const replies[] = {rows[i].reply, NULL};

		if (answer(&(struct wire_request){.kind = (enum wire_kind)rows[i].kind}, WIRE_26_11,
			    replies, &a) != -EPROTO)
			fail_msg("%s is an answer", rows[i].reply);
	}
}

/* A process that an extern step gets is limited by it: lowered, never raised. */
static void test_adopted_limits(void **state)
{
	struct requests_step step = adopting;
	struct wire_request request = {.kind = WIRE_ADD_PID};
	struct rlimit before, as, rss;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	request.pid = pid;
	assert_int_equal(prlimit(pid, RLIMIT_AS, NULL, &before), 0);
	step.adopted_rss = 3 << 20;
	assert_int_equal(add_to(&step, &request), 0);
	assert_int_equal(prlimit(pid, RLIMIT_RSS, NULL, &rss), 0);
	assert_int_equal(prlimit(pid, RLIMIT_AS, NULL, &as), 0);
	assert_true(rss.rlim_cur == 3 << 20 && rss.rlim_max == 3 << 20);
	assert_memory_equal(&as, &before, sizeof(as));
	step.adopted_rss = 5 << 20;
	step.adopted_as = 7 << 20;
	assert_int_equal(add_to(&step, &request), 0);
	assert_int_equal(prlimit(pid, RLIMIT_RSS, NULL, &rss), 0);
	assert_int_equal(prlimit(pid, RLIMIT_AS, NULL, &as), 0);
	assert_true(rss.rlim_cur == 3 << 20 && rss.rlim_max == 3 << 20);
	assert_true(as.rlim_cur == 7 << 20 && as.rlim_max == 7 << 20);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(add_to(&step, &request), 0); /* its end is no failure */
}

static void test_adopted_limit_that_fails(void **state)
{
	struct requests_step step = adopting;
	const struct wire_request request = {.kind = WIRE_ADD_PID, .pid = getppid()};
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		step.adopted_rss = 3 << 20;
		if (setgroups(0, NULL) < 0 || setgid(STRANGER) < 0 || setuid(STRANGER) < 0)
			_exit(9);
		_exit(add_to(&step, &request) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* An action has words for its failure, a query has none. */
static void test_failure(void **state)
{
	static const int32_t wanted[] = {-1, EPERM};
	int kind;

	(void)state;
	for (kind = 0; kind < WIRE_KIND_MAX; kind++) {
		_cleanup_requests_plan_ struct requests_plan plan = {0};
		_cleanup_wire_answer_ struct wire_answer a = {0};
		const struct wire_request request = {.kind = (enum wire_kind)kind};
		bool acts = kind == WIRE_SIGNAL || kind == WIRE_SUSPEND || kind == WIRE_RESUME ||
			kind == WIRE_TERMINATE || kind == WIRE_NOTIFY || kind == WIRE_COMPLETION ||
			kind == WIRE_ADD_PID || kind == WIRE_MEM_UPDATE;
		bool is_short =
			kind == WIRE_NOTIFY || kind == WIRE_ADD_PID || kind == WIRE_MEM_UPDATE;
		size_t size = is_short ? 4 : 8;

		if (!wire_kind_name(kind))
			continue;
		assert_int_equal(requests_make_plan(&request, &normal, &plan), 0);
		assert_int_equal(requests_fail(&plan, EPERM, &a), acts);
		assert_int_equal(buffer_size(&a.bytes), acts ? size : 0);
		if (acts)
			assert_memory_equal(a.bytes.data, wanted, size);
	}
	assert_int_equal(requests_errno(-EBUSY), 4027);
	assert_int_equal(requests_errno(-ECONNRESET), ESRCH);
	assert_int_equal(requests_errno(-ETIMEDOUT), ETIMEDOUT);
}

/* The process of a step that slurmd has started is there after its tasks. */
static void test_signal_that_finds_none(void **state)
{
	static const struct requests_step served = {
		.owner = OWNER, .admin = ADMIN, .outlives_tasks = true};
	static const struct {
		enum wire_kind kind;
		const struct requests_step *step;
		int code;
		int32_t wanted[2];
	} rows[] = {
		{WIRE_SIGNAL, &served, -EBUSY, {0, 0}},
		{WIRE_SIGNAL, &served, -ECONNRESET, {0, 0}},
		{WIRE_TERMINATE, &served, -EBUSY, {0, 0}},
		{WIRE_TERMINATE, &served, -ENOENT, {0, 0}},
		{WIRE_SIGNAL, &served, -EPERM, {-1, EPERM}},
		{WIRE_TERMINATE, &served, -ETIMEDOUT, {-1, ETIMEDOUT}},
		{WIRE_SUSPEND, &served, -EBUSY, {-1, 4027}},
		{WIRE_RESUME, &served, -ECONNRESET, {-1, ESRCH}},
		{WIRE_SIGNAL, &normal, -EBUSY, {-1, 4027}},
		{WIRE_TERMINATE, &normal, -ECONNRESET, {-1, ESRCH}},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_requests_plan_ struct requests_plan plan = {0};
		_cleanup_wire_answer_ struct wire_answer a = {0};
		const struct wire_request request = {.kind = rows[i].kind, .signal = SIGTERM};

		assert_int_equal(requests_make_plan(&request, rows[i].step, &plan), 0);
		assert_true(requests_fail(&plan, requests_errno(rows[i].code), &a));
		assert_int_equal(buffer_size(&a.bytes), sizeof(rows[i].wanted));
		assert_memory_equal(a.bytes.data, rows[i].wanted, sizeof(rows[i].wanted));
	}
}

/* A TERM alone does not end what ignores it: it takes nothing from a signal with a KILL. */
static void test_stronger_end(void **state)
{
	static const struct {
		int earlier, later, stronger;
	} rows[] = {
		{0, SIGTERM, SIGTERM},
		{0, 991, 991},
		{0, SIGKILL, SIGKILL},
		{SIGTERM, 991, 991},
		{SIGTERM, SIGKILL, SIGKILL},
		{991, SIGTERM, 991},
		{991, SIGKILL, SIGKILL},
		{SIGKILL, SIGTERM, SIGKILL},
		{SIGKILL, 991, SIGKILL},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
			requests_stronger_end(rows[i].earlier, rows[i].later), rows[i].stronger);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_display),
		cmocka_unit_test(test_namespace),
		cmocka_unit_test(test_lookups),
		cmocka_unit_test(test_no_user),
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_adopted_limits),
		cmocka_unit_test(test_adopted_limit_that_fails),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_signal_that_finds_none),
		cmocka_unit_test(test_stronger_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
