/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What --cpu-bind, --mem-bind and --distribution are given, as srun has them, taken apart: by
 * itself, without the machine. binding.h makes sets of it.
 */
#ifndef STEPD_SPEC_BIND_TEXT_H
#define STEPD_SPEC_BIND_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define BIND_REPEAT_MAX 65536u /* "N*TIMES" */
#define BIND_PLANE_MAX  65536u

enum bind_cpu {
	BIND_CPU_NONE,
	BIND_CPU_THREADS, /* these four are computed from the machine's topology */
	BIND_CPU_CORES,
	BIND_CPU_SOCKETS,
	BIND_CPU_LDOMS,
	BIND_CPU_RANK, /* by local id: the CPUs in numerical order */
	BIND_CPU_MAP,
	BIND_CPU_MASK,
	BIND_CPU_RANK_LDOM, /* the same with NUMA nodes, for all CPUs of each */
	BIND_CPU_MAP_LDOM,
	BIND_CPU_MASK_LDOM,
	BIND_CPU_MAX,
};

enum bind_mem {
	BIND_MEM_NONE,
	BIND_MEM_LOCAL, /* the NUMA nodes of the task's CPUs */
	BIND_MEM_RANK,
	BIND_MEM_MAP,
	BIND_MEM_MASK,
	BIND_MEM_MAX,
};

/* An element of a list: "3", "0xff", "3*4". */
struct bind_item {
	uint32_t number;    /* of a map */
	const char *digits; /* of a mask, hexadecimal, without "0x"; digits_len of them */
	size_t digits_len;
	uint32_t repeat;
};

struct bind_text {
	bool given;
	bool verbose;
	bool quiet;   /* requested */
	bool prefer;  /* mem_bind only */
	unsigned how; /* enum bind_cpu or enum bind_mem */
	char *list;   /* the text after the colon; NULL: no list */
	struct bind_item *items;
	size_t items_count;
};

/* The names, as in the text without a list: "cores", "map_cpu". */
extern const char *const bind_cpu_names[BIND_CPU_MAX];
extern const char *const bind_mem_names[BIND_MEM_MAX];

/* 0 or -errno; err has the fault in the text, without the field's name. */
int bind_text_parse_cpu(const char *text, struct bind_text *ret_text, struct err *err) _must_check_;
int bind_text_parse_mem(const char *text, struct bind_text *ret_text, struct err *err) _must_check_;

/* "block", "cyclic" or "plane=N", each optionally preceded by srun's distribution over nodes and
 * a colon. *ret_plane is the number of consecutive tasks on a socket, 0 for as many as fit. */
int bind_text_parse_distribution(
	const char *text, uint32_t *ret_plane, struct err *err) _must_check_;

void bind_text_clear(struct bind_text *text);

#endif
