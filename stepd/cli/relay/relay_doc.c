/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/relay_doc.h"

#include <string.h>

#include "stepd/base/base64.h"
#include "stepd/base/bitset.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/backlog.h"

static int relay_doc_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the step's document");
}

static int err_broken(struct err *err)
{
	return err_set_text(err, -EPROTO,
		"steprun sent a document that this stepd doesn't understand: the same version has to be "
		"installed on all nodes");
}

void relay_doc_clear(struct relay_doc *doc)
{
	json_decref(doc->all);
	strv_clear(&doc->args);
	doc->secret_fd = close_fd(doc->secret_fd);
	identity_clear(&doc->id);
	doc->parsed = spec_free(doc->parsed);
	*doc = (struct relay_doc)RELAY_DOC_INIT;
}

/* ---- standard input ------------------------------------------------------------------------ */

static int is_rank(uint32_t n, void *userdata)
{
	return n == *(const uint32_t *)userdata ? -EEXIST : 0;
}

static int is_in_set(uint32_t n, void *userdata)
{
	return bitset_test(userdata, n) ? -EEXIST : 0;
}

static int add_to_set(uint32_t n, void *userdata)
{
	bitset_set(userdata, n);
	return 0;
}

/* The spec is valid: a list as text, or an array. Without memory nobody has one, and the agent says
 * so. */
bool relay_doc_has_pty(const json_t *spec, const char *ranks)
{
	_cleanup_bitset_ struct bitset set = {0};
	const json_t *list = json_object_get(spec, "pty"), *rank;
	size_t i;

	if (!list || bitset_init(&set, SPEC_NTASKS_MAX) < 0)
		return false;
	if (json_is_string(list) &&
		parse_ranges(json_string_value(list), SPEC_NTASKS_MAX, add_to_set, &set) < 0)
		return false;
	json_array_foreach (list, i, rank)
		add_to_set((uint32_t)json_integer_value(rank), &set);
	return parse_ranges(ranks, SPEC_NTASKS_MAX, is_in_set, &set) == -EEXIST;
}

bool relay_doc_reads_stdin(const json_t *spec, const char *ranks)
{
	const json_t *in = json_object_get(spec, "stdin");
	const json_t *number = json_object_get(in, "rank");
	const char *mode = json_string_value(in) ?: json_string_value(json_object_get(in, "mode"));
	uint32_t rank;

	if (!mode)
		return false;
	if (strcmp(mode, "rank") != 0 && json_object_get(spec, "pty"))
		return strcmp(mode, "all") == 0 && relay_doc_has_pty(spec, ranks);
	if (strcmp(mode, "rank") != 0)
		return strcmp(mode, "all") == 0 || strcmp(mode, "inherit") == 0;
	rank = (uint32_t)json_integer_value(number);
	return parse_ranges(ranks, SPEC_NTASKS_MAX, is_rank, &rank) == -EEXIST;
}

/* Tasks that share one input get each byte once. */
static uint32_t count_readers(const struct spec *spec)
{
	uint32_t n = 0, i;

	if (spec->in.mode == SPEC_STREAM_INHERIT)
		return 1;
	for (i = 0; spec->pty_count > 0 && i < spec->local_ntasks; i++)
		n += spec_has_pty(spec, spec->ranks[i]);
	return spec->pty_count > 0 ? n : spec->local_ntasks;
}

/* The spec that the agent reads, without its descriptors, which are the agent's alone. */
static int parse_spec(struct relay_doc *d, struct err *err)
{
	json_auto_t *doc = json_copy(d->spec);

	if (!doc)
		return relay_doc_no_memory(err);
	(void)json_object_del(doc, "wire"); /* it may have none */
	return spec_from_json(doc, &d->parsed, err);
}

int relay_doc_open_backlog(
	struct relay_doc *d, struct backlog **ret_backlog, bool *ret_drops, struct err *err)
{
	const json_t *in = json_object_get(d->spec, "stdin");
	const char *mode = json_string_value(in) ?: json_get_text(in, "mode", "");
	int r;

	*ret_backlog = NULL;
	if (!d->reads_stdin || strcmp(mode, "rank") == 0 ||
		json_array_size(json_object_get(d->all, "ranks")) < 2)
		return 0;
	r = parse_spec(d, err);
	if (r == 0)
		r = identity_resolve(d->parsed, &d->id, err);
	if (r < 0)
		return r;
	d->readers = count_readers(d->parsed);
	*ret_drops = d->parsed->input_overflow == SPEC_OVERFLOW_DROP;
	r = backlog_new(&(const struct backlog_options){.spills = d->parsed->input_overflow ==
					SPEC_OVERFLOW_SPILL,
				.spill_max = d->parsed->input_spill_max,
				.dir = strv_env_get(&d->parsed->env, "TMPDIR"),
				.id = &d->id},
		ret_backlog);
	return r < 0 ? err_set(err, r, "standard input: make a buffer") : 0;
}

/* ---- the terminal -------------------------------------------------------------------------- */

json_t *relay_terminal_pack(const struct relay_terminal *t)
{
	char modes[BASE64_SIZE(sizeof(t->modes)) + 1];

	base64_encode(&t->modes, sizeof(t->modes), modes);
	return json_pack("{s:s, s:[i, i, i, i], s:b, s:b}", "modes", modes, "size", t->size.ws_row,
		t->size.ws_col, t->size.ws_xpixel, t->size.ws_ypixel, "out", t->is_out, "err",
		t->is_err);
}

/* Modes of another size are those of another machine's kernel: the terminal has its own, then. */
static void read_modes(const char *text, struct relay_terminal *t)
{
	char bytes[BASE64_SIZE(sizeof(t->modes)) + 1];

	if (strlen(text) >= sizeof(bytes))
		return;
	t->has_modes = base64_decode(text, strlen(text), bytes) == (ssize_t)sizeof(t->modes);
	if (t->has_modes)
		memcpy(&t->modes, bytes, sizeof(t->modes));
}

/* Only a node that has such a rank gets one; output goes there only where the node reads it, too:
 * else it is never raw. */
static void read_terminal(struct relay_doc *d, const char *ranks)
{
	const json_t *object = json_object_get(d->all, "terminal"), *size;
	struct relay_terminal *t = &d->terminal;

	d->has_terminal = object && relay_doc_has_pty(d->spec, ranks);
	if (!d->has_terminal)
		return;
	size = json_object_get(object, "size");
	t->size = (struct winsize){
		.ws_row = (unsigned short)json_integer_value(json_array_get(size, 0)),
		.ws_col = (unsigned short)json_integer_value(json_array_get(size, 1)),
		.ws_xpixel = (unsigned short)json_integer_value(json_array_get(size, 2)),
		.ws_ypixel = (unsigned short)json_integer_value(json_array_get(size, 3))};
	t->is_out = d->reads_stdin && json_get_bool(object, "out", false);
	t->is_err = d->reads_stdin && json_get_bool(object, "err", false);
	read_modes(json_get_text(object, "modes", ""), t);
}

/* ---- the node's part ----------------------------------------------------------------------- */

static int relay_doc_open_secret(const char *text, int *ret_fd)
{
	_cleanup_free_ char *bytes = strdup(text);
	ssize_t n;

	if (!bytes)
		return -ENOMEM;
	n = base64_decode(bytes, strlen(bytes), bytes);
	if (n < 0)
		return -EPROTO;
	*ret_fd = fs_memory("secret", bytes, (size_t)n);
	explicit_bzero(bytes, (size_t)n);
	return *ret_fd < 0 ? *ret_fd : 0;
}

static int add_wire(struct relay_doc *d, int listen_fd, struct err *err)
{
	json_t *addresses = json_object_get(d->all, "addresses"), *wire;
	const char *secret = json_get_text(d->all, "secret", NULL);
	int r = 0;

	if (!json_is_array(addresses))
		return 0;
	if (listen_fd < 0)
		return err_set_text(err, -EADDRNOTAVAIL,
			"no TCP socket can listen here for the step's other nodes");
	wire = json_object_get(d->spec, "wire");
	if (!wire) {
		wire = json_object();
		r |= json_object_set_new(d->spec, "wire", wire);
	}
	r |= json_object_set(wire, "addresses", addresses);
	r |= json_object_set_new(wire, "listen_fd", json_integer(listen_fd));
	if (r < 0)
		return relay_doc_no_memory(err);
	d->wired = true;
	if (!secret)
		return 0;
	r = relay_doc_open_secret(secret, &d->secret_fd);
	(void)json_object_del(d->all, "secret"); /* it is there */
	if (r == 0 && json_object_set_new(wire, "secret_fd", json_integer(d->secret_fd)) < 0)
		r = -ENOMEM;
	return r < 0 ? err_set(err, r, "take the step's secret") : 0;
}

static int add_node(struct relay_doc *d, uint32_t id, const char *name, struct err *err)
{
	json_t *ranks = json_object_get(d->all, "ranks");
	const char *own = json_string_value(json_array_get(ranks, id));
	int r;

	if (!own)
		return err_broken(err);
	r = json_object_set_new(d->spec, "node",
		json_pack("{s:s, s:I, s:I, s:O, s:O*}", "name", name, "id", (json_int_t)id, "count",
			(json_int_t)json_array_size(ranks), "ranks", ranks, "list",
			json_object_get(d->all, "list")));
	d->reads_stdin = relay_doc_reads_stdin(d->spec, own);
	read_terminal(d, own);
	/* No task here reads it; a file is opened by the tasks. */
	if (r == 0 && !d->reads_stdin && json_object_get(json_object_get(d->spec, "stdin"), "rank"))
		r = json_object_set_new(d->spec, "stdin", json_string("none"));
	return r < 0 ? relay_doc_no_memory(err) : 0;
}

static int add_args(struct relay_doc *d, const char *name, struct err *err)
{
	const json_t *arg, *option;
	size_t i, j;
	int r = strv_add(&d->args, "--keep-result=0"); /* as all here: 0 or -ENOMEM */

	json_array_foreach (json_object_get(d->all, "args"), i, arg) {
		if (!json_is_string(arg))
			return err_broken(err);
		r |= strv_add(&d->args, json_string_value(arg));
	}
	json_array_foreach (json_object_get(d->all, "node_files"), i, option) {
		json_array_foreach (option, j, arg)
			r |= strv_addf(&d->args, "%s%s%s", json_string_value(arg) ?: "",
				j + 1 < json_array_size(option) ? "" : ".",
				j + 1 < json_array_size(option) ? "" : name);
	}
	return r < 0 ? relay_doc_no_memory(err) : 0;
}

int relay_doc_read(const char *text, size_t size, uint32_t node, const char *name, int listen_fd,
	struct relay_doc *ret_doc, struct err *err)
{
	struct relay_doc *d = ret_doc;
	int r;

	d->all = json_loadb(text ? text : "", size, JSON_REJECT_DUPLICATES, NULL);
	d->spec = json_get_object(d->all, "spec");
	d->runtime_dir = json_get_text(d->all, "runtime_dir", NULL);
	if (!d->spec)
		return err_broken(err);
	r = add_node(d, node, name, err);
	if (r == 0)
		r = add_wire(d, listen_fd, err);
	return r < 0 ? r : add_args(d, name, err);
}
