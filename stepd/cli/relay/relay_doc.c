/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/relay_doc.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>

#include "stepd/base/base64.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec.h"

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the step's document");
}

static int err_broken(struct err *err)
{
	return err_say(err, -EPROTO,
		"steprun sent a document that this stepd doesn't understand: the same version has to be "
		"installed on all nodes");
}

void relay_doc_clear(struct relay_doc *doc)
{
	json_decref(doc->spec);
	strv_clear(&doc->args);
	free(doc->runtime_dir);
	doc->secret_fd = close_fd(doc->secret_fd);
	*doc = (struct relay_doc)RELAY_DOC_INIT;
}

/* ---- standard input ----------------------------------------------------------------------- */

static int is_rank(uint32_t n, void *userdata)
{
	return n == *(const uint32_t *)userdata ? -EEXIST : 0;
}

bool relay_doc_reads_stdin(const json_t *spec, const char *ranks)
{
	const json_t *in = json_object_get(spec, "stdin");
	const json_t *number = json_object_get(in, "rank");
	const char *mode = json_string_value(in) ?: json_string_value(json_object_get(in, "mode"));
	uint32_t rank;

	if (!mode)
		return false;
	if (strcmp(mode, "rank") != 0)
		return strcmp(mode, "all") == 0 || strcmp(mode, "inherit") == 0;
	rank = (uint32_t)json_integer_value(number);
	return parse_ranges(ranks, SPEC_NTASKS_MAX, is_rank, &rank) == -EEXIST;
}

/* ---- the node's part ---------------------------------------------------------------------- */

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int make_secret(const char *text, int *ret_fd)
{
	_cleanup_free_ char *bytes = strdup(text);
	_cleanup_close_ int fd = -1;
	ssize_t n;
	int r;

	if (!bytes)
		return -ENOMEM;
	n = base64_decode(bytes, strlen(bytes), bytes);
	if (n < 0)
		return -EPROTO;
	fd = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = fd < 0 ? -errno : fs_write_all(fd, bytes, (size_t)n);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	explicit_bzero(bytes, (size_t)n);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int add_wire(struct relay_doc *d, const json_t *all, int listen_fd, struct err *err)
{
	json_t *addresses = json_object_get(all, "addresses"), *wire;
	const char *secret = json_string_value(json_object_get(all, "secret"));
	int r = 0;

	if (!json_is_array(addresses))
		return 0;
	if (listen_fd < 0)
		return err_say(err, -EADDRNOTAVAIL,
			"no TCP socket can listen here, which other nodes of the step could reach");
	wire = json_object_get(d->spec, "wire");
	if (!wire) {
		wire = json_object();
		r |= json_object_set_new(d->spec, "wire", wire);
	}
	r |= json_object_set(wire, "addresses", addresses);
	r |= json_object_set_new(wire, "listen_fd", json_integer(listen_fd));
	if (r < 0)
		return no_memory(err);
	d->wired = true;
	if (!secret)
		return 0;
	r = make_secret(secret, &d->secret_fd);
	if (r == 0 && json_object_set_new(wire, "secret_fd", json_integer(d->secret_fd)) < 0)
		r = -ENOMEM;
	return r < 0 ? err_set(err, r, "take the step's secret") : 0;
}

static int add_node(
	struct relay_doc *d, const json_t *all, uint32_t id, const char *name, struct err *err)
{
	json_t *ranks = json_object_get(all, "ranks");
	const char *own = json_string_value(json_array_get(ranks, id));
	int r;

	if (!own)
		return err_broken(err);
	r = json_object_set_new(d->spec, "node",
		json_pack("{s:s, s:I, s:I, s:O, s:O*}", "name", name, "id", (json_int_t)id, "count",
			(json_int_t)json_array_size(ranks), "ranks", ranks, "list",
			json_object_get(all, "list")));
	d->reads_stdin = relay_doc_reads_stdin(d->spec, own);
	/* No task here reads it; a file is opened by the tasks. */
	if (r == 0 && !d->reads_stdin && json_object_get(json_object_get(d->spec, "stdin"), "rank"))
		r = json_object_set_new(d->spec, "stdin", json_string("none"));
	return r < 0 ? no_memory(err) : 0;
}

static int add_args(struct relay_doc *d, const json_t *all, const char *name, struct err *err)
{
	const json_t *arg, *option;
	size_t i, j;
	int r = strv_add(&d->args, "--keep-result=0"); /* as all here: 0 or -ENOMEM */

	json_array_foreach (json_object_get(all, "args"), i, arg) {
		if (!json_is_string(arg))
			return err_broken(err);
		r |= strv_add(&d->args, json_string_value(arg));
	}
	json_array_foreach (json_object_get(all, "node_files"), i, option) {
		json_array_foreach (option, j, arg)
			r |= strv_addf(&d->args, "%s%s%s", json_string_value(arg) ?: "",
				j + 1 < json_array_size(option) ? "" : ".",
				j + 1 < json_array_size(option) ? "" : name);
	}
	return r < 0 ? no_memory(err) : 0;
}

int relay_doc_read(const char *text, size_t size, uint32_t node, const char *name, int listen_fd,
	struct relay_doc *ret_doc, struct err *err)
{
	struct relay_doc *d = ret_doc;
	json_t *all = json_loadb(text ? text : "", size, JSON_REJECT_DUPLICATES, NULL);
	const char *runtime_dir = json_string_value(json_object_get(all, "runtime_dir"));
	int r = 0;

	d->spec = json_incref(json_object_get(all, "spec"));
	if (!json_is_object(d->spec))
		r = err_broken(err);
	if (r == 0 && runtime_dir) {
		d->runtime_dir = strdup(runtime_dir);
		if (!d->runtime_dir)
			r = no_memory(err);
	}
	if (r == 0)
		r = add_node(d, all, node, name, err);
	if (r == 0)
		r = add_wire(d, all, listen_fd, err);
	if (r == 0)
		r = add_args(d, all, name, err);
	json_decref(all);
	return r;
}
