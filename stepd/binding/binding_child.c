/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a task does for its binding between fork and exec.
 */
#include <linux/mempolicy.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "stepd/base/rawcall.h"
#include "stepd/binding/binding.h"
#include "stepd/spec/spec.h"

#define LIST_SIZE 200  /* of a list in a line */
#define LINE_SIZE 1024 /* below PIPE_BUF: lines of several tasks don't mix */

/* rawcall()s only, see child.h. */
int binding_apply(const struct binding *b, uint32_t local_id, uint32_t *ret_part)
{
	struct bitset set;
	long r = 0;

	if (b->cpus.table.count) {
		set = bitset_table_get(&b->cpus.table, b->cpus.of_task[local_id]);
		*ret_part = BINDING_CPUS;
		r = rawcall(SYS_sched_setaffinity, 0, set.width * sizeof(*set.words), set.words);
	}
	if (r >= 0 && b->nodes.table.count) {
		set = bitset_table_get(&b->nodes.table, b->nodes.of_task[local_id]);
		*ret_part = BINDING_MEMORY;
		/* The kernel leaves the last bit of its count out. */
		r = rawcall(SYS_set_mempolicy, b->mem_mode, set.words,
			set.width * BITSET_WORD_BITS + 1);
	}
	return r < 0 ? (int)r : 0;
}

void binding_name(
	const struct binding *b, uint32_t local_id, uint32_t part, char *text, size_t size)
{
	const struct binding_sets *sets = part == BINDING_MEMORY ? &b->nodes : &b->cpus;
	char list[LIST_SIZE] = "?";
	struct bitset set;

	if (sets->table.count) {
		set = bitset_table_get(&sets->table, sets->of_task[local_id]);
		(void)binding_show(&set, list, sizeof(list));
	}
	(void)snprintf(text, size,
		part == BINDING_MEMORY ? " its memory to the NUMA nodes %s" : " to the CPUs %s",
		list);
}

/* ---- verbose ------------------------------------------------------------------------------ */

/* A reader that is gone is the task's affair, if it writes itself: the signal is taken back. It is
 * blocked, as all are here. */
static void put_line(int fd, const char *line)
{
	const struct timespec now = {0};
	sigset_t pipe;

	if (write(fd, line, strlen(line)) >= 0 || errno != EPIPE)
		return;
	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	(void)sigtimedwait(&pipe, NULL, &now); /* -1: it was none */
}

/* "n1, task 3 (local 1, pid 4711)" */
static void name_task(const stepd_step_rec_t *job, uint32_t local_id, char *text, size_t size)
{
	(void)snprintf(text, size, "%s, task %u (local %u, pid %d)", job->node_name,
		job->task[local_id].gtid, local_id, (int)syscall(SYS_getpid));
}

static void tell_cpus(
	const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	char task[128], list[LIST_SIZE], mask[LIST_SIZE], line[LINE_SIZE];
	unsigned long words[65536 / BITSET_WORD_BITS];
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	long n = syscall(SYS_sched_getaffinity, 0, sizeof(words), words);

	name_task(job, local_id, task, sizeof(task));
	if (n < 0) {
		(void)snprintf(line, sizeof(line), "cpu-bind=%s - %s: can't be read: %s\n",
			bind_cpu_words[spec->cpu_bind.how], task, strerror(errno));
	} else {
		set.width = (size_t)n / sizeof(*words);
		if (bitset_format_hex(&set, mask, sizeof(mask)) >= sizeof(mask))
			memcpy(mask + sizeof(mask) - 4, "...", 4);
		(void)snprintf(line, sizeof(line), "cpu-bind=%s - %s: %s CPUs %s, mask %s\n",
			bind_cpu_words[spec->cpu_bind.how], task,
			spec->cpu_bind.how == BIND_CPU_NONE ? "not bound," : "bound to",
			binding_show(&set, list, sizeof(list)), mask);
	}
	put_line(fd, line);
}

static const char *mode_name(int mode)
{
	switch (mode & ~MPOL_MODE_FLAGS) {
	case MPOL_BIND:
		return "bound to";
	case MPOL_PREFERRED:
		return "prefers";
	default:
		return "not bound,";
	}
}

static void tell_memory(
	const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	char task[128], list[LIST_SIZE], line[LINE_SIZE];
	unsigned long words[SPEC_NUMA_NODES_MAX / BITSET_WORD_BITS] = {0};
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	int mode = MPOL_DEFAULT, r;

	name_task(job, local_id, task, sizeof(task));
	r = (int)syscall(SYS_get_mempolicy, &mode, words, SPEC_NUMA_NODES_MAX + 1ul, NULL, 0);
	if (r == 0 && mode == MPOL_DEFAULT)
		r = (int)syscall(SYS_get_mempolicy, NULL, words, SPEC_NUMA_NODES_MAX + 1ul, NULL,
			MPOL_F_MEMS_ALLOWED);
	if (r < 0)
		(void)snprintf(line, sizeof(line), "mem-bind=%s - %s: can't be read: %s\n",
			bind_mem_words[spec->mem_bind.how], task, strerror(errno));
	else
		(void)snprintf(line, sizeof(line), "mem-bind=%s - %s: %s NUMA nodes %s\n",
			bind_mem_words[spec->mem_bind.how], task, mode_name(mode),
			binding_show(&set, list, sizeof(list)));
	put_line(fd, line);
}

void binding_tell(const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	if (spec->cpu_bind.verbose)
		tell_cpus(spec, job, local_id, fd);
	if (spec->mem_bind.verbose)
		tell_memory(spec, job, local_id, fd);
}
