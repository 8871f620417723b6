/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The programs by which "stepd doctor --mpi" tries MPI plugins: two tasks of a step that put a
 * value each, fence, and get the other's. They report what they do on standard output, each line in
 * one write(2), so that those of two tasks don't mix:
 *	RANK at STAGE           it begins with that; what stands last is where it hangs
 *	RANK absent WHY         nobody has left it a server of its kind
 *	RANK failed STAGE WHY
 *	RANK done USEC WORD...  all went well, in so many microseconds; text for people and programs
 */
#ifndef MPI_SELFTEST_H
#define MPI_SELFTEST_H

#include <stdint.h>

#include "stepd/base/cleanup.h"

#define SELFTEST_SIZE 2u
/* Bytes of WHY and of words; those that would break the line become blanks. */
#define SELFTEST_TEXT_MAX 400u

enum selftest_stage {
	SELFTEST_INIT,
	SELFTEST_RANK, /* which rank of how many it is */
	SELFTEST_PUT,
	SELFTEST_FENCE,
	SELFTEST_GET,
	SELFTEST_FINALIZE,
	SELFTEST_STAGE_MAX,
};

extern const char *const selftest_stage_names[SELFTEST_STAGE_MAX];

struct selftest {
	uint32_t rank; /* by SLURM_PROCID */
	enum selftest_stage stage;
	uint64_t begin_ns;
};

/* The words that follow the rank. */
#define SELFTEST_AT     "at"
#define SELFTEST_ABSENT "absent"
#define SELFTEST_FAILED "failed"
#define SELFTEST_DONE   "done"

/* 0, or -EINVAL: this is no task of a step of two. */
int selftest_begin(struct selftest *t) _must_check_;

/* Before each stage. */
void selftest_at(struct selftest *t, enum selftest_stage stage);

/* These return the program's exit status. */
int selftest_absent(const struct selftest *t, const char *why) _must_check_;
int selftest_fail(const struct selftest *t, const char *fmt, ...) _printf_(2, 3) _must_check_;
int selftest_done(const struct selftest *t, const char *details) _must_check_;

/* Whether the server has the values of the agent: EXIT_SUCCESS, or the failure. */
int selftest_check_rank(const struct selftest *t, uint32_t rank, uint32_t size) _must_check_;

/* The key and the value of a rank, and whether another's is what it must be. */
#define SELFTEST_PAIR_SIZE 32u
void selftest_make_key(uint32_t rank, char key[static SELFTEST_PAIR_SIZE]);
void selftest_make_value(uint32_t rank, char value[static SELFTEST_PAIR_SIZE]);
int selftest_check_value(const struct selftest *t, uint32_t rank, const char *got) _must_check_;

#endif
