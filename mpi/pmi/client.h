/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client of the PMI that an engine (srun, hydra, Flux) gives to what it starts: an agent that it
 * started once a node finds the step's other agents by it. Both wire protocols, PMI-1 also over
 * TCP; what the server sends is bounded and checked, and every call ends at the deadline.
 *
 * The calls block: they are made before the agent has a loop or anything to lose.
 */
#ifndef MPI_PMI_CLIENT_H
#define MPI_PMI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define PMI_CLIENT_SIZE_MAX  65536u /* processes of the engine's job */
#define PMI_CLIENT_KEY_MAX   64u    /* bytes of a key */
#define PMI_CLIENT_VALUE_MAX 1024u  /* bytes of a value; a server may allow less */

struct pmi_client;

struct pmi_client_options {
	char *const *environ; /* where the engine's variables are */
	unsigned version;     /* of the protocol: 1 or 2 */
	uint64_t timeout_ms;  /* from pmi_client_open() to pmi_client_finalize(); 0: for ever */
};

/* Finds the server by PMI_FD, or PMI_PORT and PMI_ID, and initialises the protocol. The descriptor
 * of PMI_FD is taken over, on failure too if it is one. */
int pmi_client_open(const struct pmi_client_options *options, struct pmi_client **ret_client,
	struct err *err) _must_check_;

uint32_t pmi_client_get_rank(const struct pmi_client *client);
uint32_t pmi_client_get_size(const struct pmi_client *client);

/* Keys and values hold visible ASCII other than '=' (keys only) and ';'. */
int pmi_client_put(struct pmi_client *client, const char *key, const char *value,
	struct err *err) _must_check_;

/* Waits for all; then each sees what all have put. */
int pmi_client_fence(struct pmi_client *client, struct err *err) _must_check_;

/* value has PMI_CLIENT_VALUE_MAX bytes and one for the NUL. -ENOENT: nobody has put it. */
int pmi_client_get(struct pmi_client *client, const char *key,
	char value[static PMI_CLIENT_VALUE_MAX + 1], struct err *err) _must_check_;

/* The engine then takes the end of the process as nothing special. */
int pmi_client_finalize(struct pmi_client *client, struct err *err) _must_check_;

struct pmi_client *pmi_client_close(struct pmi_client *client);
DEFINE_CLEANUP(struct pmi_client *, pmi_client_close);
#define _cleanup_pmi_client_ _cleanup_(pmi_client_close_p)

/* After a failure: the connection lasts as long as this process. Engines take its end for the
 * process's, and kill a process that may still have to report why. */
struct pmi_client *pmi_client_leave(struct pmi_client *client);

/* Whether a variable ("NAME=VALUE", or the name alone) is an engine's own for what it started, and
 * means nothing, or the wrong thing, to the tasks of a step within. */
bool pmi_client_is_variable(const char *variable);

#endif
