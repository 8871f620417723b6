/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step's tasks run: the message's arguments, or with "srun --multi-prog" the lines of its
 * file, which srun sends as the second argument, with its own further ones behind it.
 */
#ifndef SLURM_PROGRAMS_H
#define SLURM_PROGRAMS_H

#include "stepd/base/err.h"
#include "stepd/base/strv.h"

struct json_t;
struct slurm_launch;

struct programs {
	struct json_t *tasks; /* the spec's field; NULL: all have the message's arguments */
	struct strv names;    /* of programs, each once */
};

/* -EBADMSG, -EINVAL, -ERANGE, -EILSEQ, -EOPNOTSUPP: there is none, or the file has a fault, is not
 * UTF-8, or has what Slurm reads in another way. */
int programs_read(const struct slurm_launch *launch, struct programs *ret_programs,
	struct err *err) _must_check_;

void programs_clear(struct programs *programs);
#define _cleanup_programs_ _cleanup_(programs_clear)

#endif
