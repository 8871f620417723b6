/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client of the PMI that an engine (srun, hydra, Flux) gives to what it starts: an agent that it
 * started once a node finds the step's other agents by it. Both wire protocols, PMI-1 also over
 * TCP; what the server sends is bounded and checked, and every call ends at the deadline.
 *
 * The calls block: they are made before the agent has a loop or anything to lose.
 */
#ifndef MPI_OUTER_OUTER_H
#define MPI_OUTER_OUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define OUTER_SIZE_MAX  65536u /* processes of the engine's job */
#define OUTER_KEY_MAX   64u    /* bytes of a key */
#define OUTER_VALUE_MAX 1024u  /* bytes of a value; a server may allow less */

struct outer;

struct outer_options {
	char *const *environ; /* where the engine's variables are */
	unsigned version;     /* of the protocol: 1 or 2 */
	uint64_t timeout_ms;  /* from outer_open() to outer_finalize(); 0: for ever */
};

/* Finds the server by PMI_FD, or PMI_PORT and PMI_ID, and says hello. The descriptor of PMI_FD is
 * taken over, on failure too if it is one. */
int outer_open(const struct outer_options *options, struct outer **ret_outer,
	struct err *err) _must_check_;

uint32_t outer_get_rank(const struct outer *outer);
uint32_t outer_get_size(const struct outer *outer);

/* Keys and values hold visible ASCII other than '=' (keys only) and ';'. */
int outer_put(
	struct outer *outer, const char *key, const char *value, struct err *err) _must_check_;

/* Waits for all; then each sees what all have put. */
int outer_fence(struct outer *outer, struct err *err) _must_check_;

/* value has room for OUTER_VALUE_MAX bytes and the NUL. -ENOENT: nobody has put it. */
int outer_get(struct outer *outer, const char *key, char value[static OUTER_VALUE_MAX + 1],
	struct err *err) _must_check_;

/* Says goodbye: the engine then takes the end of the process as nothing special. */
int outer_finalize(struct outer *outer, struct err *err) _must_check_;

struct outer *outer_close(struct outer *outer);
DEFINE_CLEANUP(struct outer *, outer_close);
#define _cleanup_outer_ _cleanup_(outer_close_p)

/* Instead, for who has failed: the connection lasts as long as this process. Engines take its end
 * for the process's, and kill who may still have to say why. */
struct outer *outer_leave(struct outer *outer);

/* Whether a variable ("NAME=VALUE", or the name alone) is an engine's own for what it started, and
 * means nothing, or the wrong thing, to the tasks of a step within. */
bool outer_is_variable(const char *variable);

#endif
