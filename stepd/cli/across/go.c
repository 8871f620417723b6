/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All relays are here: each gets its place in the step, and all get the step's document.
 */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>

#include "stepd/base/base64.h"
#include "stepd/base/hostlist.h"
#include "stepd/cli/across/across_impl.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/spec/spec.h"

#define SECRET_SIZE 32u
#define NO_NODE     UINT32_MAX

static const json_t *get_doc(const struct across *a)
{
	return a->options->run.doc;
}

/* ---- which relay is which node ------------------------------------------------------------ */

/* The step's node of that name, with or without its domain. */
static uint32_t find_name(const struct across *a, const char *name)
{
	const struct strv *names = &a->options->nodes;
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

static void place_node(struct across *a, struct node *n, uint32_t id)
{
	n->id = id;
	a->by_id[id] = n->relay;
}

/* One command has started all, each where it liked: by name, as far as names are clear, then by the
 * number that the launcher gave it. */
static void place_all(struct across *a)
{
	uint32_t i, id, next = 0;

	for (id = 0; id < a->count; id++)
		a->by_id[id] = NO_NODE;
	for (i = 0; i < a->count; i++) {
		struct node *n = &a->nodes[i];

		id = a->options->launcher.at_once ? find_name(a, n->name) : i;
		n->id = NO_NODE;
		if (id != NO_NODE && a->by_id[id] == NO_NODE)
			place_node(a, n, id);
	}
	for (i = 0; i < a->count; i++) {
		if (a->nodes[i].id == NO_NODE && a->by_id[i] == NO_NODE)
			place_node(a, &a->nodes[i], i);
	}
	for (i = 0; i < a->count; i++) {
		while (a->nodes[i].id == NO_NODE && a->by_id[next] != NO_NODE)
			next++;
		if (a->nodes[i].id == NO_NODE)
			place_node(a, &a->nodes[i], next);
	}
}

static struct node *get_node(const struct across *a, uint32_t id)
{
	return &a->nodes[a->by_id[id]];
}

/* Names that were given hold; of relays that told their own, one may be there twice. */
static int name_nodes(struct across *a)
{
	const struct strv *names = &a->options->nodes;
	uint32_t id, before;
	char *name;

	for (id = 0; id < a->count; id++) {
		struct node *n = get_node(a, id);

		for (before = 0; before < id && strcmp(get_node(a, before)->name, n->name) != 0;
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

/* ---- the wire ----------------------------------------------------------------------------- */

/* Whether the nodes' MPI services have anything to say to each other. */
static bool is_wired(const struct across *a)
{
	const char *mpi = json_string_value(json_object_get(get_doc(a), "mpi"));

	return a->count > 1 && mpi && strcmp(mpi, "none") != 0 && strcmp(mpi, "mpi/none") != 0;
}

static const struct address loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}, .prefix = 8};

static json_t *pack_addresses(const struct across *a)
{
	_cleanup_free_ struct address_node *nodes = calloc(a->count, sizeof(*nodes));
	_cleanup_free_ size_t *choice = calloc(a->count, sizeof(*choice));
	bool local = a->options->launcher.kind == LAUNCHER_LOCAL;
	char text[ADDRESS_TEXT_SIZE];
	json_t *list = json_array();
	uint32_t id;
	int r = nodes && choice && list ? 0 : -1;

	for (id = 0; r == 0 && id < a->count; id++)
		nodes[id] = get_node(a, id)->addresses;
	/* Where there is no network that all share, by their first addresses: they are routed, or
	 * on one machine. */
	if (r == 0 && !local && !address_choose(nodes, a->count, choice))
		memset(choice, 0, a->count * sizeof(*choice));
	for (id = 0; r == 0 && id < a->count; id++) {
		const struct node *n = get_node(a, id);
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

static int add_secret(json_t *all)
{
	char text[BASE64_SIZE(SECRET_SIZE) + 1];
	unsigned char secret[SECRET_SIZE];
	int r;

	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return -EIO;
	base64_encode(secret, sizeof(secret), text);
	r = json_object_set_new(all, "secret", json_string(text));
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(text, sizeof(text));
	return r;
}

static int add_wire(const struct across *a, json_t *all)
{
	const json_t *wire = json_object_get(get_doc(a), "wire");
	const char *auth = json_string_value(json_object_get(wire, "auth")) ?: "secret";

	if (!is_wired(a))
		return 0;
	if (json_object_set_new(all, "addresses", pack_addresses(a)) < 0)
		return -ENOMEM;
	return strcmp(auth, "secret") == 0 ? add_secret(all) : 0;
}

/* ---- the document ------------------------------------------------------------------------- */

static json_t *pack_names(const struct across *a, char ***ret_names)
{
	char **names = calloc(a->count, sizeof(*names));
	json_t *list = json_array();
	uint32_t id;
	int r = names && list ? 0 : -1;

	for (id = 0; r == 0 && id < a->count; id++) {
		names[id] = get_node(a, id)->name;
		r = json_array_append_new(list, json_string(names[id]));
	}
	*ret_names = names;
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

static int add_names(const struct across *a, json_t *all)
{
	_cleanup_free_ char **names = NULL, *list = NULL;
	json_t *array = pack_names(a, &names);
	int r = json_object_set_new(all, "nodes", array);

	if (r == 0)
		list = hostlist_make(names, a->count);
	return list ? json_object_set_new(all, "list", json_string(list)) : -1;
}

static int add_arg(json_t *args, const char *option, const char *value)
{
	if (!value)
		return 0;
	return json_array_append_new(args, json_sprintf("--%s=%s", option, value));
}

/* Files are one node's each; a relative name is so below the directory where the relay starts. */
static int add_files(const struct run_options *o, json_t *all)
{
	json_t *files = json_array();
	char interval[32];
	int r = 0;

	if (o->trace)
		r |= json_array_append_new(files, json_pack("[s, s]", "--trace", o->trace));
	(void)snprintf(
		interval, sizeof(interval), "%llums", (unsigned long long)o->sample_interval_ms);
	if (o->sample)
		r |= json_array_append_new(
			files, json_pack("[s, s, s]", "--sample", interval, o->sample));
	r |= json_object_set_new(all, "node_files", files);
	return r;
}

static int add_args(const struct across *a, json_t *all)
{
	const struct run_options *o = &a->options->run;
	json_t *args = json_array();
	int r = 0;

	r |= add_arg(args, "config", o->config);
	r |= add_arg(args, "plugin-dir", o->plugin_dir);
	r |= add_arg(args, "runtime-dir", o->runtime_dir);
	if (o->usage)
		r |= json_array_append_new(args, json_string("--usage"));
	if (o->verbosity)
		r |= json_array_append_new(
			args, json_string(o->verbosity > 0 ? "--verbose" : "--quiet"));
	r |= json_object_set_new(all, "args", args);
	if (o->runtime_dir)
		r |= json_object_set_new(all, "runtime_dir", json_string(o->runtime_dir));
	return r | add_files(o, all);
}

static char *make_doc(const struct across *a)
{
	json_t *all = json_pack("{s:O, s:o}", "spec", a->options->run.doc, "ranks",
		layout_json(&a->options->layout));
	char *text = NULL;

	if (all && add_names(a, all) == 0 && add_args(a, all) == 0 && add_wire(a, all) == 0)
		text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

/* ---- input -------------------------------------------------------------------------------- */

static void on_bytes(const void *bytes, size_t size, void *userdata)
{
	struct across *a = userdata;
	uint32_t readers = 0, one = 0, i;

	for (i = 0; i < a->count; i++) {
		if (a->nodes[i].reads_stdin) {
			readers++;
			one = i;
		}
	}
	if (readers == 1 && a->nodes[one].conn->channel)
		channel_send_bytes(a->nodes[one].conn->channel, one, "in", bytes, size);
	for (i = 0; readers > 1 && i < a->conns_count; i++) {
		if (a->conns[i].channel)
			channel_send_bytes(a->conns[i].channel, CHANNEL_ALL, "in", bytes, size);
	}
}

static void on_input_end(void *userdata)
{
	across_send_all(userdata, "eof", "");
}

static int begin_input(struct across *a)
{
	static const struct input_events events = {.bytes = on_bytes, .end = on_input_end};
	bool any = false;
	uint32_t id;

	for (id = 0; id < a->count; id++) {
		_cleanup_free_ char *ranks = layout_text(&a->options->layout, id);

		if (!ranks)
			return -ENOMEM;
		get_node(a, id)->reads_stdin = relay_doc_reads_stdin(get_doc(a), ranks);
		any = any || get_node(a, id)->reads_stdin;
	}
	if (!any)
		return 0;
	a->input = input_new(a->loop, STDIN_FILENO, &events, a);
	return a->input ? 0 : -ENOMEM;
}

/* ------------------------------------------------------------------------------------------- */

static void send_go(struct across *a)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		struct node *n = &a->nodes[i];

		n->state = NODE_GOING;
		if (n->conn->channel)
			channel_sendf(n->conn->channel, n->relay, "go", "%u %s", n->id, n->name);
	}
}

/* Where others could not reach a node. All without an address are on one machine that has none. */
static bool check_addresses(const struct across *a)
{
	const char *ifname = a->options->launcher.ifname;
	uint32_t without = 0, id;
	const char *name = NULL;

	if (!is_wired(a) || a->options->launcher.kind == LAUNCHER_LOCAL)
		return true;
	for (id = a->count; id > 0; id--) {
		if (get_node(a, id - 1)->addresses.count == 0) {
			name = get_node(a, id - 1)->name;
			without++;
		}
	}
	if (without == 0 || (without == a->count && !ifname))
		return true;
	if (ifname)
		across_say("node %s has no address on the interface %s (--wire-ifname), by which "
			   "others could reach it",
			name, ifname);
	else
		across_say("node %s has no address by which others could reach it", name);
	return false;
}

static void fail(struct across *a)
{
	a->launch_failed = true;
	across_end(a, false);
}

void across_go(struct across *a)
{
	_cleanup_free_ char *text = NULL;
	uint32_t i;
	int r;

	ev_timer_stop(a->loop, &a->launch);
	place_all(a);
	r = name_nodes(a);
	if (r == 0 && !check_addresses(a)) {
		fail(a);
		return;
	}
	text = r < 0 ? NULL : make_doc(a);
	if (text)
		r = begin_input(a);
	if (!text || r < 0) {
		across_say("there is no memory to hand out the step");
		fail(a);
		return;
	}
	a->going = true;
	for (i = 0; i < a->conns_count; i++) {
		if (a->conns[i].channel)
			channel_send_bytes(
				a->conns[i].channel, CHANNEL_ALL, "doc", text, strlen(text));
	}
	explicit_bzero(text, strlen(text));
	send_go(a);
	for (i = 0; i < a->signals.n; i++)
		across_send_all(a, "signal", a->signals.v[i]);
}
