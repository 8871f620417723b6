/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_energy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contrib/slurm/release.h"
#include "stepd/base/fs.h"

#define COUNTER_SIZE_MAX 256u
#define CPUINFO_SIZE_MAX (16u << 20)
#define PACKAGES_MAX     256u /* Slurm's */

/* The registers. */
#define MSR_POWER_UNIT     0x606
#define MSR_PACKAGE_ENERGY 0x611
#define MSR_MEMORY_ENERGY  0x619

/* A counter of 32 bits, made one of 64. */
struct counter {
	uint32_t low, high;
};

struct step_energy_package {
	int fd; /* of a processor's registers */
	struct counter package, memory;
};

static void energy_path(const struct step_energy *e, const char *name, char path[static PATH_MAX])
{
	(void)snprintf(path, PATH_MAX, "%s%s", e->root, name);
}

static void add_watts(struct step_energy *e)
{
	e->mean_watts =
		(uint32_t)(((uint64_t)e->mean_watts * e->readings + e->watts) / (e->readings + 1));
}

/* ---- pm_counters --------------------------------------------------------------------------- */

/* "12345 J 1700000000000000 us" */
static bool read_counter(const struct step_energy *e, const char *name, uint64_t *ret_n)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *end;

	energy_path(e, name, path);
	if (fs_read(AT_FDCWD, path, COUNTER_SIZE_MAX, &text, NULL) < 0)
		return false;
	errno = 0;
	*ret_n = strtoull(text, &end, 10);
	return errno == 0 && end != text && text[0] != '-';
}

static bool read_joules(const struct step_energy *e, uint64_t *ret_joules)
{
	return read_counter(e, "/sys/cray/pm_counters/energy", ret_joules);
}

/* The mean has the watts of the reading before. slurmstepd's first one is that of its start. */
static void count_cray(struct step_energy *e)
{
	uint64_t now, watts = 0;

	if (!read_joules(e, &now) || now < e->last)
		return;
	(void)read_counter(e, "/sys/cray/pm_counters/power", &watts);
	e->joules = now - e->first;
	e->last = now;
	if (e->readings == 0)
		e->readings = 1;
	else
		add_watts(e);
	e->readings++;
	e->watts = watts;
}

static bool open_cray(struct step_energy *e)
{
	return read_joules(e, &e->first) && e->first > 0;
}

/* ---- rapl ---------------------------------------------------------------------------------- */

static bool read_register(int fd, off_t which, uint64_t *ret_value)
{
	return fd >= 0 && pread(fd, ret_value, sizeof(*ret_value), which) == sizeof(*ret_value);
}

static uint64_t read_energy(int fd, off_t which, struct counter *counter)
{
	uint64_t value = 0;

	if (read_register(fd, which, &value)) {
		if ((uint32_t)value < counter->low)
			counter->high++;
		counter->low = (uint32_t)value;
	}
	return (uint64_t)counter->high << 32 | counter->low;
}

static uint64_t read_packages(struct step_energy *e)
{
	double joules = 0;
	size_t i;

	for (i = 0; i < e->packages_count; i++) {
		struct step_energy_package *p = &e->packages[i];

		joules += (double)read_energy(p->fd, MSR_PACKAGE_ENERGY, &p->package) * e->unit;
		joules +=
			(double)read_energy(p->fd, MSR_MEMORY_ENERGY, &p->memory) * e->memory_unit;
	}
	return (uint64_t)joules;
}

/* Slurm takes 0 for no reading, and 1 in its place. */
static void count_rapl(struct step_energy *e)
{
	uint64_t now = read_packages(e);
	time_t time_now = time(NULL);

	if (now < e->last)
		return;
	e->joules = now > e->first ? now - e->first : 1;
	if (e->readings > 0) {
		e->watts = now - e->last;
		if (time_now > e->last_time)
			e->watts /= (uint64_t)(time_now - e->last_time);
		add_watts(e);
	}
	e->readings++;
	e->last = now;
	e->last_time = time_now;
}

/* Those whose memory has a unit of its own, as Linux has them (intel_rapl_common.c,
 * rapl_defaults_hsw_server). */
static bool has_memory_unit(unsigned family, unsigned model)
{
	static const unsigned models[] = {63, 79, 85, 87, 106, 108, 133};
	size_t i;

	for (i = 0; family == 6 && i < ARRAY_SIZE(models); i++) {
		if (models[i] == model)
			return true;
	}
	return false;
}

static int add_package(struct step_energy *e, unsigned cpu)
{
	struct step_energy_package *more =
		reallocarray(e->packages, e->packages_count + 1, sizeof(*more));
	char name[48], path[PATH_MAX];

	if (!more)
		return -ENOMEM;
	(void)snprintf(name, sizeof(name), "/dev/cpu/%u/msr", cpu);
	energy_path(e, name, path);
	more[e->packages_count++] =
		(struct step_energy_package){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)};
	e->packages = more;
	return 0;
}

/* What /proc/cpuinfo has of the processors: one of each package, and which they are. */
struct cpuinfo {
	bool seen[PACKAGES_MAX];
	unsigned cpu, family, model;
	bool is_intel;
};

static int take_line(struct step_energy *e, struct cpuinfo *info, const char *line)
{
	unsigned package;

	if (sscanf(line, "processor : %u", &info->cpu) == 1 ||
		sscanf(line, "cpu family : %u", &info->family) == 1 ||
		sscanf(line, "model : %u", &info->model) == 1)
		return 0;
	if (strncmp(line, "vendor_id", strlen("vendor_id")) == 0)
		info->is_intel = strstr(line, "GenuineIntel");
	if (sscanf(line, "physical id : %u", &package) != 1 || package >= PACKAGES_MAX ||
		info->seen[package])
		return 0;
	info->seen[package] = true;
	return add_package(e, info->cpu);
}

static int find_packages(struct step_energy *e, struct cpuinfo *info)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *line, *rest;
	int r = 0;

	energy_path(e, "/proc/cpuinfo", path);
	if (fs_read(AT_FDCWD, path, CPUINFO_SIZE_MAX, &text, NULL) < 0)
		return 0;
	for (line = strtok_r(text, "\n", &rest); line && r == 0; line = strtok_r(NULL, "\n", &rest))
		r = take_line(e, info, line);
	return r;
}

static int open_rapl(struct step_energy *e, unsigned release)
{
	struct cpuinfo info = {0};
	uint64_t units = 0;
	int r = find_packages(e, &info);

	if (r < 0)
		return r;
	if (e->packages_count == 0 || !read_register(e->packages[0].fd, MSR_POWER_UNIT, &units) ||
		units == 0)
		return 0;
	e->unit = e->memory_unit = 1.0 / (double)(UINT32_C(1) << (units >> 8 & 0x1f));
	if (release >= SLURM_25_05 && info.is_intel && has_memory_unit(info.family, info.model))
		e->memory_unit = 1.0 / (1 << 16);
	e->is_read = true;
	e->first = read_packages(e);
	e->last_time = time(NULL);
	return 0;
}

/* ---- either -------------------------------------------------------------------------------- */

int step_energy_open(
	struct step_energy *e, enum site_energy source, unsigned release, const char *root)
{
	int r = 0;

	*e = (struct step_energy){.source = source, .root = strdup(root)};
	if (!e->root)
		return -ENOMEM;
	if (source == SITE_ENERGY_CRAY)
		e->is_read = open_cray(e);
	else if (source == SITE_ENERGY_RAPL)
		r = open_rapl(e, release);
	e->last = e->first;
	if (r < 0)
		step_energy_close(e);
	return r;
}

void step_energy_close(struct step_energy *e)
{
	size_t i;

	for (i = 0; i < e->packages_count; i++)
		(void)close_fd(e->packages[i].fd);
	free(e->packages);
	free(e->root);
	*e = (struct step_energy){0};
}

void step_energy_read(struct step_energy *e)
{
	if (!e->is_read)
		return;
	if (e->source == SITE_ENERGY_CRAY)
		count_cray(e);
	else
		count_rapl(e);
	if (e->most_joules < e->joules)
		e->most_joules = e->joules;
	if (e->most_watts < e->watts)
		e->most_watts = e->watts;
}
