/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The greeting, four frames of type HELLO, by their channel:
 *	1 child to parent	which step and nodes (in the header), how to authenticate, a nonce
 *	2 parent to child	the same
 *	3 child to parent	its proof
 *	4 parent to child	its proof
 * or 5, from the parent, a sentence: why it goes no further. So the parent, whom anybody can
 * connect to, does what is costly only for those who have proved themselves.
 */
#include <string.h>
#include <sys/socket.h>

#include "mpi/wire/net_impl.h"

#define OFFER_SIZE (4u + WIRE_NONCE_SIZE)

enum {
	HELLO_CHILD = 1,
	HELLO_PARENT,
	HELLO_CHILD_PROOF,
	HELLO_PARENT_PROOF,
	HELLO_REFUSED
};

static int put(struct conn *conn, unsigned stage, const void *data, size_t size, struct err *err)
{
	struct wire_header h = {.type = WIRE_HELLO,
		.source = conn->net->node,
		.target = conn->is_ours ? conn->talk.parent : conn->talk.child,
		.step = conn->net->step,
		.channel = (uint16_t)stage,
		.length = (uint32_t)size};

	free(conn->hello_out);
	conn->hello_out = malloc(WIRE_HEADER_SIZE + size);
	if (!conn->hello_out)
		return err_set(err, -ENOMEM, "a greeting");
	wire_header_encode(&h, conn->hello_out);
	if (size > 0)
		memcpy(conn->hello_out + WIRE_HEADER_SIZE, data, size);
	conn->hello_size = WIRE_HEADER_SIZE + size;
	conn->out_sent = 0;
	conn->stage = stage;
	return 0;
}

static int put_offer(struct conn *conn, unsigned stage, enum wire_role role, struct err *err)
{
	unsigned char offer[OFFER_SIZE];
	int r = wire_auth_random(conn->talk.nonce[role], WIRE_NONCE_SIZE, err);

	if (r < 0)
		return r;
	wire_put_u32(offer, conn->net->auth.kind);
	memcpy(offer + 4, conn->talk.nonce[role], WIRE_NONCE_SIZE);
	return put(conn, stage, offer, sizeof(offer), err);
}

static int put_proof(struct conn *conn, unsigned stage, enum wire_role role, struct err *err)
{
	unsigned char proof[WIRE_PROOF_MAX];
	size_t size;
	int r = wire_auth_prove(&conn->net->auth, &conn->talk, role, proof, &size, err);

	return r < 0 ? r : put(conn, stage, proof, size, err);
}

int hello_start(struct conn *conn, struct err *err)
{
	conn->talk.step = conn->net->step;
	conn->talk.child = conn->net->node;
	conn->talk.parent = wire_link_node(conn->net->wire, 0);
	return put_offer(conn, HELLO_CHILD, WIRE_ROLE_CHILD, err);
}

void hello_refuse(struct conn *conn, const char *why)
{
	struct err err = ERR_INIT;

	if (conn->is_ours || put(conn, HELLO_REFUSED, why, strnlen(why, 512), &err) < 0)
		return;
	(void)send(conn->fd, conn->hello_out, conn->hello_size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- what has come -------------------------------------------------------------------------- */

static int take_offer(struct conn *conn, enum wire_role role, struct err *err)
{
	const struct wire_header *h = &conn->header;
	uint32_t kind;

	if (h->length != OFFER_SIZE)
		return err_say(err, -EPROTO, "its greeting can't be read");
	kind = wire_get_u32(conn->payload->bytes);
	if (kind != conn->net->auth.kind)
		return err_say(err, -EACCES, "it authenticates by %s and this node by %s",
			wire_auth_name(kind), wire_auth_name(conn->net->auth.kind));
	memcpy(conn->talk.nonce[role], conn->payload->bytes + 4, WIRE_NONCE_SIZE);
	return 0;
}

/* Who the child says it is. */
static int take_child(struct conn *conn, struct err *err)
{
	const struct wire_header *h = &conn->header;
	const struct net *net = conn->net;
	size_t i, first = net->node > 0;

	if (h->step != net->step)
		return err_say(err, -EACCES, "it is of step %u.%u and this node of step %u.%u",
			(uint32_t)(h->step >> 32), (uint32_t)h->step, (uint32_t)(net->step >> 32),
			(uint32_t)net->step);
	if (h->target != net->node)
		return err_say(err, -EACCES, "it looks for node %u, and this is node %u", h->target,
			net->node);
	for (i = first; i < net->edges_count; i++) {
		if (wire_link_node(net->wire, i) == h->source)
			break;
	}
	if (i == net->edges_count)
		return err_say(err, -EACCES,
			"it says that it is node %u, which is none of node %u's in the tree"
			" (is the fanout the same on all nodes?)",
			h->source, net->node);
	if (net->edge[i].conn || net->edge[i].is_over)
		return err_say(err, -EALREADY, "node %u has connected before", h->source);
	conn->edge = i;
	conn->talk.step = net->step;
	conn->talk.child = h->source;
	conn->talk.parent = net->node;
	return 0;
}

static void make_keys(struct conn *conn)
{
	enum wire_role own = conn->is_ours ? WIRE_ROLE_CHILD : WIRE_ROLE_PARENT;
	enum wire_role other = conn->is_ours ? WIRE_ROLE_PARENT : WIRE_ROLE_CHILD;

	if (conn->net->auth.kind == WIRE_AUTH_NONE)
		return;
	conn->is_sealed = true;
	wire_auth_key(&conn->net->auth, &conn->talk, own, &conn->cipher_out);
	wire_auth_key(&conn->net->auth, &conn->talk, other, &conn->cipher_in);
}

static int check_proof(struct conn *conn, enum wire_role role, struct err *err)
{
	return wire_auth_check(&conn->net->auth, &conn->talk, role, conn->payload->bytes,
		conn->header.length, err);
}

static int receive_of_child(struct conn *conn, struct err *err)
{
	int r;

	if (conn->stage == 0 && conn->header.channel == HELLO_CHILD) {
		r = take_child(conn, err);
		if (r == 0)
			r = take_offer(conn, WIRE_ROLE_CHILD, err);
		return r < 0 ? r : put_offer(conn, HELLO_PARENT, WIRE_ROLE_PARENT, err);
	}
	if (conn->stage != HELLO_PARENT || conn->header.channel != HELLO_CHILD_PROOF)
		return err_say(err, -EPROTO, "its greeting can't be read");
	r = check_proof(conn, WIRE_ROLE_CHILD, err);
	if (r < 0)
		return r;
	if (conn->net->edge[conn->edge].conn || conn->net->edge[conn->edge].is_over)
		return err_say(err, -EALREADY, "node %u has connected before", conn->talk.child);
	r = put_proof(conn, HELLO_PARENT_PROOF, WIRE_ROLE_PARENT, err);
	if (r < 0)
		return r;
	make_keys(conn);
	net_known(conn->net, conn);
	return 0;
}

static int receive_of_parent(struct conn *conn, struct err *err)
{
	int r;

	if (conn->header.channel == HELLO_REFUSED)
		return err_say(err, -EACCES, "it refuses this node: %.*s", (int)conn->header.length,
			(const char *)conn->payload->bytes);
	if (conn->header.step != conn->net->step || conn->header.source != conn->talk.parent)
		return err_say(err, -EACCES, "somebody else answers there, node %u of step %u.%u",
			conn->header.source, (uint32_t)(conn->header.step >> 32),
			(uint32_t)conn->header.step);
	if (conn->stage == HELLO_CHILD && conn->header.channel == HELLO_PARENT) {
		r = take_offer(conn, WIRE_ROLE_PARENT, err);
		return r < 0 ? r : put_proof(conn, HELLO_CHILD_PROOF, WIRE_ROLE_CHILD, err);
	}
	if (conn->stage != HELLO_CHILD_PROOF || conn->header.channel != HELLO_PARENT_PROOF)
		return err_say(err, -EPROTO, "its greeting can't be read");
	r = check_proof(conn, WIRE_ROLE_PARENT, err);
	if (r < 0)
		return r;
	make_keys(conn);
	net_known(conn->net, conn);
	return 0;
}

int hello_receive(struct conn *conn, struct err *err)
{
	return conn->is_ours ? receive_of_parent(conn, err) : receive_of_child(conn, err);
}
