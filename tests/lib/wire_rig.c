/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/wire_rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define JOB 77u

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* ---- the events of nodes ------------------------------------------------------------------ */

static void on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct rig_node *n = userdata;

	must(from == block->node && channel == 5);
	n->messages++;
	n->message_bytes += block->size;
}

static void on_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	(void)userdata;
	(void)set_id;
	(void)snprintf(text, size, "rank 0");
}

static void on_lost(void *userdata, uint32_t node, const struct err *err)
{
	struct rig_node *n = userdata;

	(void)node;
	n->lost++;
	(void)snprintf(n->lost_text, sizeof(n->lost_text), "%s", err->text);
}

static void on_left(void *userdata)
{
	struct rig_node *n = userdata;

	n->left++;
}

static const struct wire_events events = {
	.message = on_message, .missing = on_missing, .lost = on_lost, .left = on_left};

static void on_done(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct rig_node *n = userdata;
	bool is_right = r == 0 && count == n->rig->count;
	size_t i, j;

	for (i = 0; i < count; i++) {
		const unsigned char *bytes = blocks[i].data;

		is_right = is_right && blocks[i].node == i && blocks[i].size == n->rig->size;
		for (j = 0; is_right && j < blocks[i].size; j++)
			is_right = bytes[j] == (unsigned char)(i + j + (j >> 8));
	}
	n->ends++;
	n->good += is_right;
	n->end_code = r;
	(void)snprintf(n->end_text, sizeof(n->end_text), "%s", err ? err->text : "");
}

void rig_fence(struct rig *rig, uint32_t node, uint64_t timeout_ms)
{
	_cleanup_bitset_ struct bitset all = {.words = NULL};
	_cleanup_free_ unsigned char *bytes = malloc(rig->size + 1);
	struct iovec iov = {bytes, rig->size};
	struct err err = ERR_INIT;
	uint32_t i;
	size_t j;

	must(bytes && bitset_init(&all, rig->count) == 0);
	for (i = 0; i < rig->count; i++)
		bitset_set(&all, i);
	for (j = 0; j < rig->size; j++)
		bytes[j] = (unsigned char)(node + j + (j >> 8));
	must(wire_fence(rig->node[node].wire, &(struct wire_set){all, 1}, &iov, 1, timeout_ms,
		     on_done, &rig->node[node], &err) == 0);
}

/* ---- the nodes ---------------------------------------------------------------------------- */

static bool open_listen(struct rig *rig, uint32_t i, const char *host)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	struct sockaddr_in a4 = {.sin_family = AF_INET};
	bool is_v6 = strchr(host, ':') != NULL;
	struct sockaddr *a = is_v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	socklen_t size = is_v6 ? sizeof(a6) : sizeof(a4);
	int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
		inet_pton(a->sa_family, host,
			is_v6 ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr) != 1 ||
		bind(fd, a, size) < 0 || listen(fd, 16) < 0 || getsockname(fd, a, &size) < 0) {
		(void)close_fd(fd);
		return false;
	}
	rig->listen_fd[i] = fd;
	(void)snprintf(rig->address[i], sizeof(rig->address[i]), is_v6 ? "[%s]:%u" : "%s:%u", host,
		ntohs(is_v6 ? a6.sin6_port : a4.sin_port));
	rig->addresses[i] = rig->address[i];
	return true;
}

bool rig_open(struct rig *rig, uint32_t count, uint32_t fanout, const char *host)
{
	uint32_t i;

	must(count <= RIG_NODES_MAX);
	memset(rig, 0, sizeof(*rig));
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	rig->count = count;
	rig->connect_timeout_ms = 20000;
	for (i = 0; i < count; i++) {
		struct rig_node *n = &rig->node[i];

		if (!open_listen(rig, i, host)) {
			while (i-- > 0)
				(void)close_fd(rig->listen_fd[i]);
			ev_loop_destroy(rig->loop);
			return false;
		}
		(void)snprintf(rig->name[i], sizeof(rig->name[i]), "n%u", i);
		rig->names[i] = rig->name[i];
		n->rig = rig;
		n->job.job_id = JOB;
		n->job.nodeid = i;
		n->job.nnodes = count;
		n->job.uid = getuid();
		n->job.node_names = rig->names;
		n->net.addresses = rig->addresses;
		n->net.listen_fd = rig->listen_fd[i];
		n->net.auth = "secret";
		n->net.secret = "a secret of this step alone";
		n->net.secret_size = 27;
		n->net.fanout = fanout;
	}
	return true;
}

void rig_start(struct rig *rig, uint32_t node)
{
	struct rig_node *n = &rig->node[node];
	struct wire_net_options o = {.job = &n->job,
		.wire = &n->net,
		.events = &events,
		.userdata = n,
		.connect_timeout_ms = rig->connect_timeout_ms};
	struct err err = ERR_INIT;

	rig->listen_fd[node] = -1; /* taken, whatever comes of it */
	if (wire_net_open(rig->loop, &o, &n->wire, &err) == 0)
		return;
	(void)fprintf(stderr, "%s\n", err.text);
	abort();
}

void rig_start_all(struct rig *rig)
{
	uint32_t i;

	/* children first: their parents are there later */
	for (i = rig->count; i-- > 0;)
		rig_start(rig, i);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void on_limit(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)timer;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
	const struct rig *rig = prepare->data;

	(void)revents;
	if (rig->until(rig))
		ev_break(loop, EVBREAK_ALL);
}

bool rig_run(struct rig *rig, bool (*until)(const struct rig *rig), uint64_t limit_ms)
{
	if (until(rig))
		return true;
	rig->until = until;
	ev_now_update(rig->loop);
	ev_timer_init(&rig->limit, on_limit, (double)limit_ms / 1000., 0.);
	ev_prepare_init(&rig->condition, on_prepare);
	rig->condition.data = rig;
	ev_timer_start(rig->loop, &rig->limit);
	ev_prepare_start(rig->loop, &rig->condition);
	/* what breaks the loop before it waits lets it look once more */
	ev_set_timeout_collect_interval(rig->loop, 0.);
	(void)ev_run(rig->loop, 0);
	ev_timer_stop(rig->loop, &rig->limit);
	ev_prepare_stop(rig->loop, &rig->condition);
	return until(rig);
}

void rig_close(struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		rig->node[i].wire = wire_close(rig->node[i].wire);
		(void)close_fd(rig->listen_fd[i]);
	}
	ev_loop_destroy(rig->loop);
}
