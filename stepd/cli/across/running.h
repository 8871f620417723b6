/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which tasks of a step run, as far as is known.
 */
#ifndef STEPD_CLI_ACROSS_RUNNING_H
#define STEPD_CLI_ACROSS_RUNNING_H

#include "stepd/base/bitset.h"

struct running {
	struct bitset ended;
	uint32_t ntasks;
};

/* 0 or -ENOMEM. */
int running_init(struct running *running, uint32_t ntasks) _must_check_;
void running_end(struct running *running, uint32_t rank);

/* Whether that task has ended, which a rank that is none of the step's has; whether any has. */
bool running_has_ended(const struct running *running, uint32_t rank);
bool running_any_ended(const struct running *running);

/* A line on standard error. */
void running_tell(const struct running *running);

void running_clear(struct running *running);

#endif
