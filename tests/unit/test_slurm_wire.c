/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/wire.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A request as a client sends it. */
struct message {
	uint8_t data[WIRE_REQUEST_MAX + 16];
	size_t size;
};

static void add(struct message *m, const void *data, size_t size)
{
	assert_true(m->size + size <= sizeof(m->data));
	memcpy(m->data + m->size, data, size);
	m->size += size;
}

static void add_i32(struct message *m, int32_t n)
{
	add(m, &n, sizeof(n));
}

static void make_signal(struct message *m, int32_t signal, int32_t length)
{
	static const uint8_t details[WIRE_DETAILS_MAX] = {'x'};

	m->size = 0;
	add_i32(m, WIRE_SIGNAL);
	add_i32(m, signal);
	add_i32(m, 9);
	add_i32(m, length);
	if (length >= 0 && length <= WIRE_DETAILS_MAX)
		add(m, details, (size_t)length);
	add_i32(m, 1000);
}

/* A certificate of so many bytes before the rest; -1: not even its size. */
static void make_attach(struct message *m, int certificate_size, uint32_t key_size)
{
	static const uint8_t zeros[WIRE_KEY_MAX], certificate[WIRE_CERTIFICATE_MAX];
	uint8_t address[128] = {0};
	const struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 7};
	const uint16_t version = WIRE_22_05;

	m->size = 0;
	memcpy(address, &in, sizeof(in));
	add_i32(m, WIRE_ATTACH);
	if (certificate_size >= 0)
		add_i32(m, certificate_size);
	if (certificate_size > 0 && certificate_size <= (int)sizeof(certificate))
		add(m, certificate, (size_t)certificate_size);
	add(m, address, sizeof(address));
	address[0] = 10; /* IPv6 */
	add(m, address, sizeof(address));
	add_i32(m, (int32_t)key_size);
	if (key_size <= sizeof(zeros))
		add(m, zeros, key_size);
	add_i32(m, 1000);
	add(m, &version, sizeof(version));
}

static void test_attach(void **state)
{
	struct wire_request r;
	struct message m;
	size_t cut;

	(void)state;
	make_attach(&m, -1, 5);
	for (cut = 4; cut < m.size; cut++)
		assert_int_equal(wire_parse_request(m.data, cut, WIRE_22_05, &r), 0);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_22_05, &r), (int)m.size);
	assert_int_equal(r.kind, WIRE_ATTACH);
	assert_int_equal(r.attach.io.sin_port, 7);
	assert_int_equal(r.attach.response.sin_family, 0);
	assert_int_equal(r.attach.key_size, 5);
	assert_int_equal(r.attach.uid, 1000);
	assert_int_equal(r.attach.version, WIRE_22_05);
	make_attach(&m, -1, WIRE_KEY_MAX);
	assert_true(m.size <= WIRE_REQUEST_MAX);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_22_05, &r), (int)m.size);
	make_attach(&m, -1, WIRE_KEY_MAX + 1);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_22_05, &r), -EMSGSIZE);
	assert_false(r.attach.encrypted);
}

/* From 25.05 on, where only a client of TLS sends one. */
static void test_certificate(void **state)
{
	struct wire_request r;
	struct message m;
	size_t cut;

	(void)state;
	make_attach(&m, 0, 5);
	for (cut = 4; cut < m.size; cut++)
		assert_int_equal(wire_parse_request(m.data, cut, WIRE_25_05, &r), 0);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_25_05, &r), (int)m.size);
	assert_false(r.attach.encrypted);
	assert_int_equal(r.attach.io.sin_port, 7);
	assert_int_equal(r.attach.uid, 1000);
	make_attach(&m, 5, 5);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_26_05, &r), (int)m.size);
	assert_true(r.attach.encrypted);
	assert_int_equal(r.attach.io.sin_port, 7);
	make_attach(&m, WIRE_CERTIFICATE_MAX, WIRE_KEY_MAX);
	assert_true(m.size <= WIRE_REQUEST_MAX);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_26_05, &r), (int)m.size);
	make_attach(&m, WIRE_CERTIFICATE_MAX + 1, 5);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_26_05, &r), -EMSGSIZE);
}

/* Numbers that came with a release. */
static void test_later(void **state)
{
	static const struct {
		int32_t kind;
		uint16_t since;
		int size;
	} rows[] = {
		{WIRE_SLUID, WIRE_25_11, 4},
		{WIRE_NAMESPACES, WIRE_25_11, 4},
		{WIRE_MEM_UPDATE, WIRE_26_05, 12},
	};
	struct wire_request r = {0};
	struct message m;
	size_t i, cut;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		m.size = 0;
		add_i32(&m, rows[i].kind);
		add(&m, &(uint64_t){512}, 8);
		for (cut = 0; cut <= m.size; cut++)
			assert_int_equal(wire_parse_request(m.data, cut, rows[i].since, &r),
				(int)cut < rows[i].size ? 0 : rows[i].size);
		assert_int_equal(r.kind, rows[i].kind);
		assert_int_equal(
			wire_parse_request(m.data, m.size, (uint16_t)(rows[i].since - 256), &r),
			-EOPNOTSUPP);
	}
	assert_int_equal(r.memory_mb, 512);
}

static void test_hello(void **state)
{
	static const struct {
		int32_t said;
		int result;
		uint16_t version;
	} rows[] = {
		{WIRE_22_05, 4, WIRE_22_05},
		{WIRE_22_05 + 1, 4, WIRE_22_05 + 1},
		{WIRE_26_11, 4, WIRE_26_11},
		{WIRE_26_11 + 1, 4, WIRE_26_11},
		{INT32_MAX, 4, WIRE_26_11},
		{WIRE_22_05 - 1, -EPROTONOSUPPORT, 0},
		{0, -EPROTONOSUPPORT, 0},
		{-1, -EPROTONOSUPPORT, 0},
		{INT32_MIN, -EPROTONOSUPPORT, 0},
	};
	uint16_t version;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		version = 0;
		assert_int_equal(wire_parse_hello(&rows[i].said, 4, &version), rows[i].result);
		assert_int_equal(version, rows[i].version);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(wire_parse_hello(&rows[0].said, i, &version), 0);
}

/* Every request of every version has its size, whatever it is cut at and followed by. */
static void test_sizes(void **state)
{
	static const struct {
		int32_t kind;
		int before_23_11, after;
	} rows[] = {
		{WIRE_STATE, 4, 4},
		{WIRE_PID_IN_CONTAINER, 8, 8},
		{WIRE_DAEMON_PID, 4, 4},
		{WIRE_SUSPEND, 6, 4},
		{WIRE_RESUME, 6, 4},
		{WIRE_TERMINATE, 4, 4},
		{WIRE_TASK_INFO, 4, 4},
		{WIRE_LIST_PIDS, 4, 4},
		{WIRE_MEM_LIMITS, 4, 4},
		{WIRE_UID, 4, 4},
		{WIRE_NODEID, 4, 4},
		{WIRE_ADD_PID, 8, 8},
		{WIRE_X11_DISPLAY, 4, 4},
		{WIRE_NAMESPACE, 4, 4},
		{WIRE_SIGNAL, 20, 20},
	};
	struct wire_request request;
	struct message m;
	size_t i, cut;
	int version, size;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		m.size = 0;
		add_i32(&m, rows[i].kind);
		add(&m, (int32_t[]){0, 0, 0, 0}, 16);
		for (version = WIRE_22_05; version <= WIRE_26_11; version += 256) {
			size = version < WIRE_23_11 ? rows[i].before_23_11 : rows[i].after;
			for (cut = 0; cut <= m.size; cut++)
				assert_int_equal(wire_parse_request(
							 m.data, cut, (uint16_t)version, &request),
					(int)cut < size ? 0 : size);
			assert_int_equal(request.kind, rows[i].kind);
		}
	}
}

static void test_signal(void **state)
{
	static const int32_t lengths[] = {0, 1, 17, WIRE_DETAILS_MAX};
	struct wire_request request = {0};
	struct message m;
	size_t i, cut;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		make_signal(&m, 15, lengths[i]);
		for (cut = 0; cut < m.size; cut++)
			assert_int_equal(wire_parse_request(m.data, cut, WIRE_22_05, &request), 0);
		assert_int_equal(
			wire_parse_request(m.data, m.size, WIRE_22_05, &request), (int)m.size);
		assert_int_equal(request.signal, 15);
		assert_int_equal(request.flags, 9);
	}
}

static void make_completion(struct message *m, uint16_t version, int32_t length)
{
	static const uint8_t accounting[WIRE_ACCOUNTING_MAX] = {1};

	m->size = 0;
	add(m, (int32_t[]){WIRE_COMPLETION, 3, 7, 256}, 16);
	if (version >= WIRE_24_05)
		add(m, "step!", 5);
	add_i32(m, length);
	if (length >= 0 && length <= WIRE_ACCOUNTING_MAX)
		add(m, accounting, (size_t)length);
}

static void test_completion(void **state)
{
	static const int32_t lengths[] = {0, 1, 1100, WIRE_ACCOUNTING_MAX};
	static const int32_t bad[] = {-1, INT32_MIN, WIRE_ACCOUNTING_MAX + 1, INT32_MAX};
	struct wire_request request = {0};
	struct message m;
	size_t i, cut;
	int version;

	(void)state;
	for (version = WIRE_22_05; version <= WIRE_26_11; version += 256) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			make_completion(&m, (uint16_t)version, lengths[i]);
			for (cut = 0; cut < m.size; cut++)
				assert_int_equal(wire_parse_request(
							 m.data, cut, (uint16_t)version, &request),
					0);
			assert_int_equal(
				wire_parse_request(m.data, m.size, (uint16_t)version, &request),
				(int)m.size);
			assert_int_equal(request.first, 3);
			assert_int_equal(request.last, 7);
			assert_int_equal(request.status, 256);
			assert_int_equal(request.record_size, lengths[i]);
			assert_ptr_equal((const char *)request.record + lengths[i],
				(const char *)m.data + m.size);
			request = (struct wire_request){0};
		}
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			make_completion(&m, (uint16_t)version, bad[i]);
			assert_int_equal(
				wire_parse_request(m.data, m.size, (uint16_t)version, &request),
				-EMSGSIZE);
		}
	}
	assert_int_equal(request.last, 0); /* set on success only */
}

static void test_notify(void **state)
{
	static const int32_t bad[] = {-1, INT32_MIN, WIRE_DETAILS_MAX + 1, INT32_MAX};
	struct wire_request request = {0};
	struct message m = {0};
	size_t i, cut;

	(void)state;
	add_i32(&m, WIRE_NUMBER_NOTIFY);
	add_i32(&m, 6);
	add(&m, "later", 6);
	for (cut = 0; cut < m.size; cut++)
		assert_int_equal(wire_parse_request(m.data, cut, WIRE_22_05, &request), 0);
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_22_05, &request), (int)m.size);
	assert_int_equal(request.kind, WIRE_NOTIFY);
	assert_string_equal(request.text, "later");
	/* As long as it may be, and without an end of its own. */
	m.size = 0;
	add_i32(&m, WIRE_NUMBER_NOTIFY);
	add_i32(&m, WIRE_DETAILS_MAX);
	memset(m.data + m.size, 'x', WIRE_DETAILS_MAX);
	m.size += WIRE_DETAILS_MAX;
	assert_int_equal(wire_parse_request(m.data, m.size, WIRE_22_05, &request), (int)m.size);
	assert_int_equal(strlen(request.text), WIRE_DETAILS_MAX);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		m.size = 0;
		add_i32(&m, WIRE_NUMBER_NOTIFY);
		add_i32(&m, bad[i]);
		assert_int_equal(
			wire_parse_request(m.data, m.size, WIRE_22_05, &request), -EMSGSIZE);
	}
}

static void test_refused(void **state)
{
	static const int32_t unknown[] = {
		-1, 0, 2, 3, 6, 13, 27, 29, 31, WIRE_NOTIFY, 4004, 4023, INT32_MIN, INT32_MAX};
	static const int32_t lengths[] = {-1, INT32_MIN, WIRE_DETAILS_MAX + 1, INT32_MAX};
	struct wire_request request = {.pid = 77};
	struct message m;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_int_equal(
			wire_parse_request(&unknown[i], 4, WIRE_26_11, &request), -EOPNOTSUPP);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		make_signal(&m, 15, lengths[i]);
		assert_int_equal(wire_parse_request(m.data, 16, WIRE_26_11, &request), -EMSGSIZE);
	}
	assert_int_equal(request.pid, 77); /* set on success only */
}

static void assert_bytes(struct wire_answer *a, const void *bytes, size_t size)
{
	assert_false(a->failed);
	assert_int_equal(buffer_size(&a->bytes), size);
	assert_memory_equal(a->bytes.data, bytes, size);
	wire_answer_clear(a);
}

static void test_states(void **state)
{
	static const struct {
		enum wire_state state;
		int32_t before_23_11, after;
	} rows[] = {
		{WIRE_NOT_RUNNING, 0, 0},
		{WIRE_STARTING, 1, 1},
		{WIRE_RUNNING, 2, 2},
		{WIRE_CANCELLED, 3, 3},
		{WIRE_ENDING, 3, 4},
	};
	struct wire_answer a = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		wire_put_state(&a, WIRE_23_11 - 1, rows[i].state);
		assert_bytes(&a, &rows[i].before_23_11, 4);
		wire_put_state(&a, WIRE_23_11, rows[i].state);
		assert_bytes(&a, &rows[i].after, 4);
	}
}

static void test_answers(void **state)
{
	static const int32_t good[] = {0, 0}, failed[] = {-1, EPERM};
	static const uint64_t limits[] = {5, 6};
	struct wire_answer a = {0};

	(void)state;
	wire_put_result(&a, 0);
	assert_bytes(&a, good, 8);
	wire_put_result(&a, EPERM);
	assert_bytes(&a, failed, 8);
	wire_put_mem_limits(&a, WIRE_26_05 - 1, 5, 6);
	assert_bytes(&a, limits, 16);
	wire_put_mem_limits(&a, WIRE_26_05, 5, 6);
	assert_bytes(&a, limits, 8);
}

static void test_task(void **state)
{
	const struct wire_task task = {
		.local_id = 1, .rank = 0xfffffff0, .pid = 77, .exited = true, .wait_status = -2};
	struct wire_answer a = {0};
	uint8_t wanted[17] = {0};

	(void)state;
	memcpy(wanted, &(int32_t){1}, 4);
	memcpy(wanted + 4, &(uint32_t){0xfffffff0}, 4);
	memcpy(wanted + 8, &(int32_t){77}, 4);
	wanted[12] = 1;
	memcpy(wanted + 13, &(int32_t){-2}, 4);
	wire_put_task(&a, &task);
	assert_bytes(&a, wanted, 17);
}

static void test_long_list(void **state)
{
	_cleanup_wire_answer_ struct wire_answer a = {0};
	uint32_t i, n;

	(void)state;
	wire_begin_list(&a);
	for (i = 0; i < 100000; i++) {
		wire_put_u32(&a, i);
		wire_count_entry(&a);
	}
	assert_int_equal(buffer_size(&a.bytes), 4 + 4 * 100000);
	memcpy(&n, a.bytes.data, 4);
	assert_int_equal(n, 100000);
	memcpy(&n, a.bytes.data + 4 * 100000, 4);
	assert_int_equal(n, 99999);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_certificate),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_completion),
		cmocka_unit_test(test_notify),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_task),
		cmocka_unit_test(test_long_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
