/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A relay that starts no agent: it attaches steprun to the one that a step has on this node, as
 * stepctl attach does, and carries the records of that connection (stepd/stdio/attach_wire.h)
 * unchanged. steprun's document has for it, beside runtime_dir, the object
 *	attach       step "7.0", and the parameters of the operation Attach but for ranks that are
 *	             those of all nodes
 *
 * To steprun:
 *
 *	attached FIELD=N...   terminal, input, ntasks, nodes: the agent's reply; order: that of
 *	                      bytes in numbers, BYTE_ORDER; node=NAME is the agent's
 *	absent step|ranks     there is no such step here, or none of these ranks
 *	say, out, ack, end    as of any relay: out are records
 *
 * From steprun:
 *
 *	in                    records
 */
#ifndef STEPD_CLI_RELAY_ATTACHMENT_H
#define STEPD_CLI_RELAY_ATTACHMENT_H

#include "stepd/cli/relay/streams.h"

struct json_t;

struct attachment {
	const struct carrier *to;
	struct outlet out;
	struct inlet in;
	void (*ended)(int code, void *userdata);
	void *userdata;
};

#define ATTACHMENT_INIT                                                                            \
	{                                                                                          \
		.out = OUTLET_INIT, .in = INLET_INIT                                               \
	}

/* Calls the agent, and waits for its reply. node is this node's name. ended is called once, from
 * here or from the loop. */
void attachment_start(struct attachment *a, const struct carrier *to, const struct json_t *doc,
	const char *node, void (*ended)(int code, void *userdata), void *userdata);
void attachment_close(struct attachment *a);

#endif
