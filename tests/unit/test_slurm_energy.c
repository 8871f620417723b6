/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_energy.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/release.h"
#include "tests/lib/scratch.h"

#define UNIT_14 (UINT64_C(14) << 8) /* of the register: a joule is 2^14 */
#define JOULE   (UINT64_C(1) << 14)

static char *root;

static int make_root(void **state)
{
	static const char *const directories[] = {"dev", "dev/cpu", "dev/cpu/0", "dev/cpu/3",
		"proc", "sys", "sys/cray", "sys/cray/pm_counters"};
	size_t i;

	(void)state;
	root = scratch_make();
	for (i = 0; i < ARRAY_SIZE(directories); i++) {
		_cleanup_free_ char *path = scratch_path(root, directories[i]);

		if (mkdir(path, 0755) < 0)
			return -1;
	}
	return 0;
}

static int remove_root(void **state)
{
	(void)state;
	scratch_remove(root);
	free(root);
	return 0;
}

static void set_file(const char *name, const char *text)
{
	scratch_write(root, name, text, strlen(text), 0644);
}

static void set_cray(uint64_t joules, unsigned watts)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%" PRIu64 " J 1700000000000000 us\n", joules);
	set_file("sys/cray/pm_counters/energy", text);
	(void)snprintf(text, sizeof(text), "%u W 1700000000000000 us\n", watts);
	set_file("sys/cray/pm_counters/power", text);
}

static void set_registers(const char *name, uint64_t unit, uint64_t package, uint64_t memory)
{
	const struct {
		off_t at;
		uint64_t value;
	} registers[] = {{0x606, unit}, {0x611, package}, {0x619, memory}};
	_cleanup_free_ char *path = scratch_path(root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	size_t i;

	assert_true(fd >= 0);
	for (i = 0; i < ARRAY_SIZE(registers); i++)
		assert_int_equal(pwrite(fd, &registers[i].value, sizeof(uint64_t), registers[i].at),
			sizeof(uint64_t));
	(void)close(fd);
}

static void set_cpus(const char *vendor, unsigned family, unsigned model)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"processor\t: 0\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n"
		"model name\t: 12 of them\nphysical id\t: 0\n\n"
		"processor\t: 1\nphysical id\t: 0\n\n"
		"processor\t: 3\nphysical id\t: 1\n\n"
		"processor\t: 4\nphysical id\t: 256\n",
		vendor, family, model);
	set_file("proc/cpuinfo", text);
}

static void open_energy(struct step_energy *e, enum site_energy source, unsigned release)
{
	assert_int_equal(step_energy_open(e, source, release, root), 0);
}

static void test_none(void **state)
{
	struct step_energy e;

	(void)state;
	set_cray(1000, 300);
	open_energy(&e, SITE_ENERGY_NONE, SLURM_22_05);
	step_energy_read(&e);
	assert_false(e.is_read);
	assert_int_equal(e.joules, 0);
	step_energy_close(&e);
}

/* The mean begins with the reading of slurmstepd's start and that of the tasks', both of 0. */
static void test_cray(void **state)
{
	struct step_energy e;

	(void)state;
	set_cray(1000, 300);
	open_energy(&e, SITE_ENERGY_CRAY, SLURM_22_05);
	assert_true(e.is_read);
	step_energy_read(&e);
	assert_int_equal(e.joules, 0);
	assert_int_equal(e.watts, 300);
	assert_int_equal(e.mean_watts, 0);
	set_cray(1500, 600);
	step_energy_read(&e);
	assert_int_equal(e.joules, 500);
	assert_int_equal(e.mean_watts, 100);
	set_cray(1700, 900);
	step_energy_read(&e);
	assert_int_equal(e.joules, 700);
	assert_int_equal(e.most_joules, 700);
	assert_int_equal(e.watts, 900);
	assert_int_equal(e.most_watts, 900);
	assert_int_equal(e.mean_watts, (100 * 3 + 600) / 4);
	step_energy_close(&e);
}

/* What is no number, a counter that goes back, and one that is gone leave all as it is. */
static void test_cray_fails(void **state)
{
	static const char *const texts[] = {"", "J", "-5 J", "99999999999999999999999 J", "999 J"};
	_cleanup_free_ char *path = scratch_path(root, "sys/cray/pm_counters/energy");
	struct step_energy e;
	size_t i;

	(void)state;
	set_cray(1000, 300);
	open_energy(&e, SITE_ENERGY_CRAY, SLURM_22_05);
	set_cray(1400, 300);
	step_energy_read(&e);
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		set_file("sys/cray/pm_counters/energy", texts[i]);
		step_energy_read(&e);
		assert_int_equal(e.joules, 400);
	}
	assert_int_equal(unlink(path), 0);
	step_energy_read(&e);
	assert_int_equal(e.joules, 400);
	step_energy_close(&e);
	open_energy(&e, SITE_ENERGY_CRAY, SLURM_22_05);
	assert_false(e.is_read);
	step_energy_close(&e);
	set_cray(0, 300); /* Slurm takes it for none */
	open_energy(&e, SITE_ENERGY_CRAY, SLURM_22_05);
	assert_false(e.is_read);
	step_energy_close(&e);
}

/* Both packages and their memory, one register of which begins anew. */
static void test_rapl(void **state)
{
	int fds = scratch_count_fds();
	struct step_energy e;

	(void)state;
	set_cpus("AuthenticAMD", 25, 85);
	set_registers("dev/cpu/0/msr", UNIT_14, (UINT64_C(1) << 32) - JOULE, 5 * JOULE);
	set_registers("dev/cpu/3/msr", 0, 7 * JOULE, 0);
	open_energy(&e, SITE_ENERGY_RAPL, SLURM_26_05);
	assert_true(e.is_read);
	step_energy_read(&e);
	assert_int_equal(e.joules, 1); /* of none */
	set_registers("dev/cpu/0/msr", UNIT_14, 9 * JOULE, 15 * JOULE);
	set_registers("dev/cpu/3/msr", 0, 107 * JOULE, 0);
	step_energy_read(&e);
	assert_int_equal(e.joules, 10 + 10 + 100);
	assert_true(e.watts > 0 && e.watts <= 120);
	assert_int_equal(e.mean_watts, e.watts / 2);
	assert_int_equal(scratch_count_fds(), fds + 2);
	step_energy_close(&e);
	assert_int_equal(scratch_count_fds(), fds);
}

/* Of memory whose unit is its own, from 25.05 on. */
static void test_memory_unit(void **state)
{
	const struct {
		const char *vendor;
		unsigned family, model, release;
		uint64_t joules;
	} rows[] = {
		{"GenuineIntel", 6, 85, SLURM_26_05, 10},
		{"GenuineIntel", 6, 85, SLURM_25_05, 10},
		{"GenuineIntel", 6, 85, SLURM_24_11, 40},
		{"GenuineIntel", 6, 143, SLURM_26_05, 40},
		{"GenuineIntel", 15, 85, SLURM_26_05, 40},
		{"AuthenticAMD", 6, 85, SLURM_26_05, 40},
	};
	struct step_energy e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		set_cpus(rows[i].vendor, rows[i].family, rows[i].model);
		set_registers("dev/cpu/0/msr", UNIT_14, 0, 0);
		set_registers("dev/cpu/3/msr", UNIT_14, 0, 0);
		open_energy(&e, SITE_ENERGY_RAPL, rows[i].release);
		set_registers("dev/cpu/0/msr", UNIT_14, 0, 40 * JOULE);
		step_energy_read(&e);
		assert_int_equal(e.joules, rows[i].joules);
		step_energy_close(&e);
	}
}

/* No register, no unit in it, no package, and no processors at all. */
static void test_rapl_absent(void **state)
{
	_cleanup_free_ char *registers = scratch_path(root, "dev/cpu/0/msr");
	_cleanup_free_ char *cpus = scratch_path(root, "proc/cpuinfo");
	struct step_energy e;
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		set_cpus("GenuineIntel", 6, 85);
		set_registers("dev/cpu/0/msr", i == 1 ? 0 : UNIT_14, JOULE, JOULE);
		if (i == 0)
			assert_int_equal(unlink(registers), 0);
		if (i == 2)
			set_file("proc/cpuinfo", "processor\t: 0\n");
		if (i == 3)
			assert_int_equal(unlink(cpus), 0);
		open_energy(&e, SITE_ENERGY_RAPL, SLURM_22_05);
		assert_false(e.is_read);
		step_energy_read(&e);
		assert_int_equal(e.joules, 0);
		step_energy_close(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_cray),
		cmocka_unit_test(test_cray_fails),
		cmocka_unit_test(test_rapl),
		cmocka_unit_test(test_memory_unit),
		cmocka_unit_test(test_rapl_absent),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
