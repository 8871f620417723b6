/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All relays are connected: each becomes a node of the step, and all get the step's document.
 */
#include <string.h>
#include <sys/random.h>

#include "stepd/base/base64.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"
#include "stepd/cli/across/session.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/spec/spec.h"

#define SECRET_SIZE 32u
#define NO_NODE     UINT32_MAX

/* ---- which relay is which node ------------------------------------------------------------- */

/* The step's node of that name, with or without its domain. */
static uint32_t find_name(const struct session *s, const char *name)
{
	const struct strv *names = &s->options->nodes;
	size_t len = strcspn(name, "."), i;

	for (i = 0; i < names->n; i++) {
		if (strcmp(names->v[i], name) == 0)
			return (uint32_t)i;
	}
	for (i = 0; i < names->n; i++) {
		if (strcspn(names->v[i], ".") == len && strncmp(names->v[i], name, len) == 0)
			return (uint32_t)i;
	}
	return NO_NODE;
}

static void assign_node(struct session *s, struct node *n, uint32_t id)
{
	n->id = id;
	s->by_id[id] = n->relay;
}

/* One command has started all, on nodes of its choice: assigns them by name where names are
 * unique, else by the launcher's number. */
static void assign_nodes(struct session *s)
{
	uint32_t i, id, next = 0;

	for (id = 0; id < s->count; id++)
		s->by_id[id] = NO_NODE;
	for (i = 0; i < s->count; i++) {
		struct node *n = &s->nodes[i];

		id = s->options->launcher.at_once ? find_name(s, n->name) : i;
		n->id = NO_NODE;
		if (id != NO_NODE && s->by_id[id] == NO_NODE)
			assign_node(s, n, id);
	}
	for (i = 0; i < s->count; i++) {
		if (s->nodes[i].id == NO_NODE && s->by_id[i] == NO_NODE)
			assign_node(s, &s->nodes[i], i);
	}
	for (i = 0; i < s->count; i++) {
		while (s->nodes[i].id == NO_NODE && s->by_id[next] != NO_NODE)
			next++;
		if (s->nodes[i].id == NO_NODE)
			assign_node(s, &s->nodes[i], next);
	}
}

static struct node *get_node(const struct session *s, uint32_t id)
{
	return &s->nodes[s->by_id[id]];
}

/* Given names have precedence; two relays may have sent the same name. */
static int name_nodes(struct session *s)
{
	const struct strv *names = &s->options->nodes;
	uint32_t id, before;
	char *name;

	for (id = 0; id < s->count; id++) {
		struct node *n = get_node(s, id);

		for (before = 0; before < id && strcmp(get_node(s, before)->name, n->name) != 0;
			before++)
			;
		if (names->n == 0 && before == id)
			continue;
		if (names->n > 0)
			name = strdup(names->v[id]);
		else if (asprintf(&name, "%s-%u", n->name, id) < 0)
			name = NULL;
		if (!name)
			return -ENOMEM;
		free(n->name);
		n->name = name;
	}
	return 0;
}

/* ---- the wire ------------------------------------------------------------------------------ */

/* Whether the nodes' MPI services are connected. */
static bool is_wired(const struct session *s)
{
	const char *mpi = json_get_text(s->options->run.doc, "mpi", NULL);

	return s->count > 1 && mpi && strcmp(mpi, "none") != 0 && strcmp(mpi, "mpi/none") != 0;
}

static const struct address loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}, .prefix = 8};

static json_t *pack_addresses(const struct session *s)
{
	_cleanup_free_ struct address_node *nodes = calloc(s->count, sizeof(*nodes));
	_cleanup_free_ size_t *choice = calloc(s->count, sizeof(*choice));
	bool local = s->options->launcher.kind == LAUNCHER_LOCAL;
	char text[ADDRESS_TEXT_SIZE];
	json_t *list = json_array();
	uint32_t id;
	int r = nodes && choice && list ? 0 : -1;

	for (id = 0; r == 0 && id < s->count; id++)
		nodes[id] = get_node(s, id)->addresses;
	/* Without a network that all share, their first addresses are used: they are routed, or
	 * on one machine. */
	if (r == 0 && !local && !address_choose(nodes, s->count, choice))
		memset(choice, 0, s->count * sizeof(*choice));
	for (id = 0; r == 0 && id < s->count; id++) {
		const struct node *n = get_node(s, id);
		const struct address *address = local || n->addresses.count == 0
			? &loopback
			: &n->addresses.list[choice[id]];

		r = json_array_append_new(list,
			json_string(address_format_port(address, n->port, text, sizeof(text))));
	}
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* In base64. */
static int session_make_secret(char text[static BASE64_SIZE(SECRET_SIZE) + 1])
{
	unsigned char secret[SECRET_SIZE];

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return -EIO;
	base64_encode(secret, sizeof(secret), text);
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

/* ---- the document -------------------------------------------------------------------------- */

/* Each node has files of its own; a relative name is below the directory where the relay starts. */
static json_t *pack_files(const struct run_options *o)
{
	json_t *files = json_array();
	int r = 0;

	if (o->trace)
		r |= json_array_append_new(files, json_pack("[s, s]", "--trace", o->trace));
	if (o->sample)
		r |= json_array_append_new(files,
			json_pack("[s, o, s]", "--sample",
				json_sprintf("%llums", (unsigned long long)o->sample_interval_ms),
				o->sample));
	return r == 0 ? files : NULL;
}

static json_t *pack_args(const struct run_options *o)
{
	_cleanup_strv_ struct strv args = {0};
	json_t *list = json_array();
	int r = session_agent_args(o, &args);
	size_t i;

	for (i = 0; i < args.n; i++)
		r |= json_array_append_new(list, json_string(args.v[i]));
	return r == 0 ? list : NULL;
}

/* NULL: no memory, or no random bytes. */
static char *make_doc(const struct session *s)
{
	const struct run_options *o = &s->options->run;
	_cleanup_free_ char **names = calloc(s->count, sizeof(*names)), *list = NULL;
	char secret[BASE64_SIZE(SECRET_SIZE) + 1] = "", *text = NULL;
	const char *auth = json_get_text(json_object_get(o->doc, "wire"), "auth", "secret");
	bool wired = is_wired(s);
	json_t *array = json_array(), *all;
	int r = names && array ? 0 : -ENOMEM;
	uint32_t id;

	for (id = 0; r == 0 && id < s->count; id++) {
		names[id] = get_node(s, id)->name;
		r = json_array_append_new(array, json_string(names[id]));
	}
	if (r == 0)
		list = hostlist_make(names, s->count);
	if (r == 0 && wired && strcmp(auth, "secret") == 0)
		r = session_make_secret(secret);
	all = json_pack("{s:O, s:o, s:o, s:s, s:o, s:o, s:s*, s:s*, s:o*}", "spec", o->doc, "ranks",
		layout_json(&s->options->layout), "nodes", array, "list", list, "args",
		pack_args(o), "node_files", pack_files(o), "runtime_dir", o->runtime_dir, "secret",
		*secret ? secret : NULL, "terminal", s->typing.active ? typing_pack(s) : NULL);
	if (r == 0 && wired)
		r = json_object_set_new(all, "addresses", pack_addresses(s));
	if (r == 0 && all)
		text = json_dumps(all, JSON_COMPACT);
	explicit_bzero(secret, sizeof(secret));
	json_decref(all);
	return text;
}

/* ---- input --------------------------------------------------------------------------------- */

static void session_on_input(const void *bytes, size_t size, void *userdata)
{
	struct session *s = userdata;
	uint32_t readers = 0, one = 0, i;

	if (size == 0) {
		session_send_all(s, "eof", "");
		return;
	}
	for (i = 0; i < s->count; i++) {
		if (s->nodes[i].reads_stdin) {
			readers++;
			one = i;
		}
	}
	if (readers == 1 && s->nodes[one].conn->channel)
		channel_send_bytes(s->nodes[one].conn->channel, one, "in", bytes, size);
	if (readers > 1)
		conns_send_bytes_all(&s->conns, "in", bytes, size);
}

static int find_readers(struct session *s)
{
	const json_t *doc = s->options->run.doc;
	uint32_t id;

	for (id = 0; id < s->count; id++) {
		_cleanup_free_ char *ranks = layout_text(&s->options->layout, id);
		struct node *n = get_node(s, id);

		if (!ranks)
			return -ENOMEM;
		n->reads_stdin = relay_doc_reads_stdin(doc, ranks);
		n->has_pty = relay_doc_has_pty(doc, ranks);
		typing_add_node(s, n);
	}
	return 0;
}

static void start_input(struct session *s)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		if (s->nodes[i].reads_stdin) {
			input_start(&s->input, s->loop, session_on_input, s);
			return;
		}
	}
}

/* ------------------------------------------------------------------------------------------- */

static void send_go(struct session *s)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		const struct node *n = &s->nodes[i];

		if (n->conn->channel)
			channel_sendf(n->conn->channel, n->relay, "go", "%u %s", n->id, n->name);
	}
}

/* A node without an address can't be reached by others, unless none has one: then all are on one
 * machine. */
static bool check_addresses(const struct session *s)
{
	const char *ifname = s->options->launcher.ifname;
	uint32_t without = 0, id;
	const char *name = NULL;

	if (!is_wired(s) || s->options->launcher.kind == LAUNCHER_LOCAL)
		return true;
	for (id = s->count; id > 0; id--) {
		if (get_node(s, id - 1)->addresses.count == 0) {
			name = get_node(s, id - 1)->name;
			without++;
		}
	}
	if (without == 0 || (without == s->count && !ifname))
		return true;
	if (ifname)
		user_report("node %s has no address on the interface %s (--wire-ifname), by which "
			    "others could reach it",
			name, ifname);
	else
		user_report("node %s has no address by which others could reach it", name);
	return false;
}

static void assign_fail(struct session *s)
{
	s->launch_failed = true;
	session_end(s, false);
}

/* ---- the document -------------------------------------------------------------------------- */

void session_forget_doc(struct session *s)
{
	if (s->doc.text)
		explicit_bzero(s->doc.text, s->doc.size); /* it has the secret */
	free(s->doc.text);
	s->doc = (struct doc_sender){0};
}

static void begin_tasks(struct session *s)
{
	uint32_t i;

	s->assigned = true;
	typing_update(s);
	send_go(s);
	for (i = 0; i < s->signals.n; i++)
		session_send_all(s, "signal", s->signals.v[i]);
	start_input(s);
}

/* How much of it the slowest relay has. */
static size_t doc_got_least(const struct session *s)
{
	size_t least = SIZE_MAX;
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		const struct node *n = &s->nodes[i];

		if (n->reports_doc && n->state == NODE_CONNECTED && n->doc_got < least)
			least = n->doc_got;
	}
	return least;
}

void session_send_doc(struct session *s)
{
	struct doc_sender *doc = &s->doc;
	size_t least = doc_got_least(s), piece;

	if (!doc->text)
		return;
	if (s->ending) {
		session_forget_doc(s);
		return;
	}
	while (doc->sent < doc->size && (doc->sent < least || doc->sent - least < DOC_WINDOW)) {
		piece = doc->size - doc->sent < DOC_REPORT_SIZE ? doc->size - doc->sent
								: DOC_REPORT_SIZE;
		conns_send_bytes_all(&s->conns, "doc", doc->text + doc->sent, piece);
		doc->sent += piece;
	}
	if (doc->sent < doc->size)
		return;
	session_forget_doc(s);
	begin_tasks(s);
}

void session_assign(struct session *s)
{
	int r;

	ev_timer_stop(s->loop, &s->launch);
	assign_nodes(s);
	r = name_nodes(s);
	if (r == 0 && !check_addresses(s)) {
		assign_fail(s);
		return;
	}
	typing_begin(s);
	s->doc.text = r < 0 ? NULL : make_doc(s);
	if (!s->doc.text || find_readers(s) < 0) {
		user_report("no memory to send the step to its nodes");
		assign_fail(s);
		return;
	}
	s->doc.size = strlen(s->doc.text);
	session_send_doc(s);
}
