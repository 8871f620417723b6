/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_usage.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/step_record.h"
#include "contrib/slurm/unpack.h"
#include "stepd/base/fs.h"

#define UNKNOWN UINT64_MAX

/* The TRES of a recorded init, in their order. */
enum {
	CPU,
	MEM,
	ENERGY,
	NODE,
	BILLING,
	FS,
	VMEM,
	PAGES,
	TRES_MAX
};

/* What is packed of one TRES. */
enum {
	MOST,
	MOST_NODE,
	MOST_TASK,
	LEAST,
	LEAST_NODE,
	LEAST_TASK,
	SUM,
	COLUMNS
};

struct record {
	uint64_t user_sec, system_sec, energy;
	uint32_t user_usec, system_usec, ids[TRES_MAX];
	uint64_t in[COLUMNS][TRES_MAX], out[COLUMNS][TRES_MAX];
};

static char *bytes;
static struct slurm_init init;

static int load(void **state)
{
	struct slurm_frame frame = {0};
	char path[PATH_MAX];
	size_t size;

	(void)state;
	(void)snprintf(
		path, sizeof(path), "%s/tests/fuzz/corpus/slurm_init/srun", getenv("top_srcdir"));
	if (fs_read(AT_FDCWD, path, SLURM_INIT_MAX, &bytes, &size) < 0 ||
		slurm_init_missing(bytes, size, &frame) != 0)
		return -1;
	slurm_init_decode(&init, bytes, &frame, 0);
	return init.error;
}

static int unload(void **state)
{
	(void)state;
	free(bytes);
	return 0;
}

static void open_usage(struct step_usage *u, uint32_t n)
{
	static const uint32_t ranks[] = {4, 9, 5};

	assert_int_equal(step_usage_open(u, &init.conf.tres, ranks, n), 0);
	u->node = 2;
}

static void take(struct step_usage *u, const char *text)
{
	json_t *tasks = json_loads(text, 0, NULL);

	assert_non_null(tasks);
	step_usage_take(u, tasks);
	json_decref(tasks);
}

static void read_columns(struct unpack *u, uint64_t columns[COLUMNS][TRES_MAX])
{
	int c, i;

	for (c = 0; c < COLUMNS; c++) {
		assert_int_equal(unpack_u32(u), TRES_MAX);
		for (i = 0; i < TRES_MAX; i++)
			columns[c][i] = unpack_u64(u);
	}
}

static void read_record(const struct step_usage *usage, struct record *r)
{
	_cleanup_pack_ struct pack p = {0};
	struct unpack u = {0};
	int i;

	step_usage_pack(usage, false, &p);
	assert_false(p.failed);
	u.data = (const uint8_t *)buffer_bytes(&p.bytes);
	u.size = buffer_size(&p.bytes);
	assert_int_equal(unpack_u8(&u), 1);
	r->user_sec = unpack_u64(&u);
	r->user_usec = unpack_u32(&u);
	r->system_sec = unpack_u64(&u);
	r->system_usec = unpack_u32(&u);
	(void)unpack_u32(&u);
	r->energy = unpack_u64(&u);
	assert_int_equal(unpack_u32(&u), TRES_MAX);
	for (i = 0; i < TRES_MAX; i++)
		r->ids[i] = unpack_u32(&u);
	assert_int_equal(unpack_u32(&u), SLURM_NO_VAL);
	read_columns(&u, r->in);
	read_columns(&u, r->out);
	assert_null(u.bad);
	assert_int_equal(u.at, u.size);
}

static void test_list(void **state)
{
	static const char *const types[] = {
		"cpu", "mem", "energy", "node", "billing", "fs", "vmem", "pages"};
	struct slurm_tres_list rest = init.conf.tres;
	struct slurm_tres tres;
	int i;

	(void)state;
	for (i = 0; i < TRES_MAX; i++) {
		assert_true(slurm_tres_next(&rest, &tres));
		assert_int_equal(tres.id, i + 1);
		assert_string_equal(tres.type, types[i]);
	}
	assert_false(slurm_tres_next(&rest, &tres));
}

static void test_none(void **state)
{
	_cleanup_pack_ struct pack p = {0};

	(void)state;
	step_usage_pack(NULL, true, &p);
	assert_int_equal(buffer_size(&p.bytes), 1);
	assert_int_equal(buffer_bytes(&p.bytes)[0], 0);
}

static void test_with_list(void **state)
{
	_cleanup_pack_ struct pack without = {0}, with = {0};
	struct step_usage u;

	(void)state;
	open_usage(&u, 1);
	step_usage_pack(&u, false, &without);
	step_usage_pack(&u, true, &with);
	assert_int_equal(buffer_size(&with.bytes), buffer_size(&without.bytes) + u.tres.size);
	assert_non_null(memmem(
		buffer_bytes(&with.bytes), buffer_size(&with.bytes), u.tres.bytes, u.tres.size));
	step_usage_clear(&u);
}

static void test_nothing_known(void **state)
{
	struct step_usage u;
	struct record r;
	int c, i;

	(void)state;
	open_usage(&u, 3);
	read_record(&u, &r);
	for (i = 0; i < TRES_MAX; i++) {
		assert_int_equal(r.ids[i], i + 1);
		for (c = 0; c < COLUMNS; c++) {
			assert_true(i == ENERGY || r.in[c][i] == UNKNOWN);
			assert_true(i == ENERGY || r.out[c][i] == UNKNOWN);
		}
	}
	assert_int_equal(r.in[MOST][ENERGY], 0);
	assert_int_equal(r.in[LEAST_NODE][ENERGY], 2);
	assert_true(r.in[MOST_TASK][ENERGY] == UNKNOWN);
	assert_int_equal(r.out[SUM][ENERGY], 0);
	step_usage_clear(&u);
}

/* Of the node: joules are taken in, watts put out. */
static void test_energy(void **state)
{
	struct step_energy energy = {.source = SITE_ENERGY_CRAY,
		.is_read = true,
		.joules = 700,
		.most_joules = 500,
		.watts = 900,
		.most_watts = 600,
		.mean_watts = 225};
	struct step_usage u;
	struct record r;

	(void)state;
	open_usage(&u, 3);
	u.energy = &energy;
	read_record(&u, &r);
	assert_int_equal(r.energy, 700);
	assert_int_equal(r.in[MOST][ENERGY], 500);
	assert_int_equal(r.in[LEAST][ENERGY], 500);
	assert_int_equal(r.in[MOST_NODE][ENERGY], 2);
	assert_true(r.in[MOST_TASK][ENERGY] == UNKNOWN);
	assert_int_equal(r.in[SUM][ENERGY], 700);
	assert_int_equal(r.out[MOST][ENERGY], 600);
	assert_int_equal(r.out[SUM][ENERGY], 225);
	/* A node without the counter is none that has taken nothing. */
	energy = (struct step_energy){.source = SITE_ENERGY_RAPL};
	read_record(&u, &r);
	assert_true(r.energy == STEP_RECORD_NO_ENERGY);
	assert_true(r.in[SUM][ENERGY] == STEP_RECORD_NO_ENERGY);
	assert_int_equal(r.out[SUM][ENERGY], 0);
	step_usage_clear(&u);
}

/* The largest, the smallest and the sum, with the ranks that have them. */
static void test_tasks(void **state)
{
	struct step_usage u;
	struct record r;

	(void)state;
	open_usage(&u, 3);
	take(&u,
		"[{\"rank\":4,\"usage\":{\"cpu_user_usec\":1500000,\"cpu_system_usec\":300,"
		"\"memory_peak_bytes\":5000,\"major_faults\":3},\"usage_sources\":"
		"{\"memory_peak_bytes\":\"rusage\"}},"
		"{\"rank\":5,\"usage\":{\"cpu_user_usec\":100,\"cpu_system_usec\":2000000,"
		"\"memory_peak_bytes\":7000},\"usage_sources\":{\"memory_peak_bytes\":\"proc\"}},"
		"{\"rank\":77,\"usage\":{\"cpu_user_usec\":1}},{\"rank\":9}]");
	read_record(&u, &r);
	assert_int_equal(r.user_sec, 1);
	assert_int_equal(r.user_usec, 500100);
	assert_int_equal(r.system_sec, 2);
	assert_int_equal(r.system_usec, 300);
	assert_int_equal(r.in[MOST][CPU], 2000);
	assert_int_equal(r.in[MOST_TASK][CPU], 5);
	assert_int_equal(r.in[MOST_NODE][CPU], 2);
	assert_int_equal(r.in[LEAST][CPU], 1500);
	assert_int_equal(r.in[LEAST_TASK][CPU], 4);
	assert_int_equal(r.in[SUM][CPU], 3500);
	assert_int_equal(r.in[MOST][MEM], 7000);
	assert_int_equal(r.in[LEAST][MEM], 5000);
	assert_int_equal(r.in[SUM][MEM], 12000);
	assert_int_equal(r.in[MOST][PAGES], 3);
	assert_int_equal(r.in[LEAST_TASK][PAGES], 4);
	assert_true(r.in[MOST][VMEM] == UNKNOWN);
	assert_true(r.out[MOST][MEM] == UNKNOWN);
	step_usage_clear(&u);
}

static void test_processes(void **state)
{
	json_t *pids = json_pack("[{s:i, s:i}, {s:i}, {s:i, s:i}]", "pid", (int)getpid(), "rank", 9,
		"pid", 1, "pid", (int)getpid(), "rank", 9);
	struct step_usage u;
	struct record r, later;

	(void)state;
	open_usage(&u, 3);
	step_usage_add_processes(&u, pids);
	step_usage_end_processes(&u);
	read_record(&u, &r);
	assert_true(r.in[MOST][MEM] > 100000 && r.in[MOST][MEM] != UNKNOWN);
	assert_true(r.in[MOST][VMEM] > r.in[MOST][MEM] && r.in[MOST][VMEM] != UNKNOWN);
	assert_true(r.in[MOST][FS] > 0 && r.in[MOST][FS] != UNKNOWN);
	assert_true(r.out[MOST][FS] != UNKNOWN);
	assert_int_equal(r.in[MOST_TASK][MEM], 9);
	/* A cgroup's peak has files in it, that of processes has not. */
	take(&u,
		"[{\"rank\":9,\"usage\":{\"memory_peak_bytes\":9000000000000},"
		"\"usage_sources\":{\"memory_peak_bytes\":\"cgroup\"}}]");
	read_record(&u, &later);
	assert_int_equal(later.in[MOST][MEM], r.in[MOST][MEM]);
	take(&u,
		"[{\"rank\":9,\"usage\":{\"memory_peak_bytes\":9000000000000},"
		"\"usage_sources\":{\"memory_peak_bytes\":\"rusage\"}}]");
	read_record(&u, &later);
	assert_int_equal(later.in[MOST][MEM], 9000000000000);
	/* No process is left, and one that has read less: what was counted stays. */
	step_usage_end_processes(&u);
	u.tasks[1].is_seen = true;
	step_usage_end_processes(&u);
	read_record(&u, &later);
	assert_true(later.in[MOST][FS] >= r.in[MOST][FS]);
	assert_int_equal(later.in[MOST][VMEM], r.in[MOST][VMEM]);
	assert_int_equal(later.in[SUM][VMEM], 0);
	json_decref(pids);
	step_usage_clear(&u);
}

/* An extern step, whose processes are of no task: all that it has used counts. */
/* What a reading finds of a task that has just ended is nothing, and not that it had none. */
static void test_zombie(void **state)
{
	siginfo_t info;
	pid_t pid = fork();
	struct step_usage u;
	struct record r;
	json_t *pids;

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	open_usage(&u, 3);
	pids = json_pack("[{s:i, s:i}]", "pid", (int)getpid(), "rank", 9);
	step_usage_add_processes(&u, pids);
	step_usage_end_processes(&u);
	json_decref(pids);
	pids = json_pack("[{s:i, s:i}]", "pid", (int)pid, "rank", 9);
	step_usage_add_processes(&u, pids);
	step_usage_end_processes(&u);
	read_record(&u, &r);
	assert_true(r.in[SUM][MEM] > 100000);
	json_decref(pids);
	step_usage_clear(&u);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_whole(void **state)
{
	json_t *pids = json_pack("[{s:i}]", "pid", (int)getpid());
	json_t *reply = json_loads("{\"usage\":{\"cpu_user_usec\":2000000,"
				   "\"cpu_system_usec\":1000000},\"usage_sources\":{}}",
		0, NULL);
	struct step_usage u;
	struct record r;

	(void)state;
	open_usage(&u, 1);
	step_usage_take_whole(&u, reply); /* not of a step with tasks */
	read_record(&u, &r);
	assert_true(r.in[MOST][CPU] == UNKNOWN);
	u.whole = true;
	step_usage_take_whole(&u, NULL);
	step_usage_take_whole(&u, reply);
	step_usage_add_processes(&u, pids);
	step_usage_end_processes(&u);
	read_record(&u, &r);
	assert_int_equal(r.in[SUM][CPU], 3000);
	assert_int_equal(r.in[MOST_TASK][CPU], 4);
	assert_true(r.in[MOST][MEM] > 100000 && r.in[MOST][MEM] != UNKNOWN);
	json_decref(reply);
	json_decref(pids);
	step_usage_clear(&u);
}

static void test_cgroup(void **state)
{
	struct step_usage u;
	struct record r;

	(void)state;
	open_usage(&u, 3);
	u.cache_counts = true;
	take(&u,
		"[{\"rank\":5,\"usage\":{\"memory_bytes\":100,\"memory_peak_bytes\":900},"
		"\"usage_sources\":{\"memory_peak_bytes\":\"cgroup\"}}]");
	read_record(&u, &r);
	assert_int_equal(r.in[MOST][MEM], 900);
	assert_int_equal(r.in[SUM][MEM], 100);
	step_usage_clear(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_with_list),
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_energy),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_zombie),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cgroup),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
