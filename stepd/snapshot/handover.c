/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/snapshot/handover.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"

/* One agent's state: 65,536 tasks with their buffers and more. */
#define SIZE_MAX_BYTES ((size_t)16 << 30)

struct handover {
	json_t *root;
	bool trial;
	/* writing: the bytes after the document, and the descriptors that survive */
	struct buffer bytes;
	int *fds;
	size_t fds_count, fds_capacity;
	int failure;
	char why[ERR_TEXT_SIZE / 2];
	/* reading: the whole file */
	char *map;
	size_t map_size;
	size_t bytes_at;
};

/* ---- writing ------------------------------------------------------------------------------- */

struct handover *handover_new(const char *version)
{
	struct handover *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->root = json_pack("{s:i, s:s}", "version", HANDOVER_VERSION, "from", version);
	if (!h->root) {
		free(h);
		return NULL;
	}
	return h;
}

json_t *handover_root(const struct handover *h)
{
	return h->root;
}

void handover_fail(struct handover *h, int code, const char *why)
{
	if (h->failure)
		return;
	h->failure = code;
	(void)snprintf(h->why, sizeof(h->why), "%s", why);
}

static void handover_no_memory(struct handover *h)
{
	handover_fail(h, -ENOMEM, "save the agent's state: no memory");
}

/* Returns value, borrowed, or NULL if it could not be added. */
static json_t *put(struct handover *h, json_t *object, const char *name, json_t *value)
{
	if (object && json_object_set_new(object, name, value) == 0)
		return value;
	if (!object)
		json_decref(value);
	handover_no_memory(h);
	return NULL;
}

static json_t *handover_append(struct handover *h, json_t *array, json_t *value)
{
	if (array && json_array_append_new(array, value) == 0)
		return value;
	if (!array)
		json_decref(value);
	handover_no_memory(h);
	return NULL;
}

json_t *handover_put_object(struct handover *h, json_t *object, const char *name)
{
	return put(h, object, name, json_object());
}

json_t *handover_put_array(struct handover *h, json_t *object, const char *name)
{
	return put(h, object, name, json_array());
}

json_t *handover_append_object(struct handover *h, json_t *array)
{
	return handover_append(h, array, json_object());
}

json_t *handover_append_array(struct handover *h, json_t *array)
{
	return handover_append(h, array, json_array());
}

void handover_append_int(struct handover *h, json_t *array, int64_t value)
{
	(void)handover_append(h, array, json_integer(value));
}

void handover_append_text(struct handover *h, json_t *array, const char *text)
{
	(void)handover_append(h, array, json_string(text));
}

void handover_put_int(struct handover *h, json_t *object, const char *name, int64_t value)
{
	(void)put(h, object, name, json_integer(value));
}

void handover_put_bool(struct handover *h, json_t *object, const char *name, bool value)
{
	(void)put(h, object, name, json_boolean(value));
}

void handover_put_json_take(struct handover *h, json_t *object, const char *name, json_t *value)
{
	(void)put(h, object, name, value);
}

/* With a NUL after each text, so that texts can be read in the mapping. */
void handover_put_bytes(
	struct handover *h, json_t *object, const char *name, const void *data, size_t size)
{
	size_t at = buffer_size(&h->bytes);

	if (buffer_add(&h->bytes, data, size) < 0 || buffer_add(&h->bytes, "", 1) < 0) {
		handover_no_memory(h);
		return;
	}
	(void)put(h, object, name, json_pack("[I, I]", (json_int_t)at, (json_int_t)size));
}

/* JSON's strings are UTF-8, names of files any bytes. */
void handover_put_text(struct handover *h, json_t *object, const char *name, const char *text)
{
	json_t *value = text ? json_string(text) : NULL;

	if (value)
		(void)put(h, object, name, value);
	else if (text)
		handover_put_bytes(h, object, name, text, strlen(text));
}

void handover_put_strv(
	struct handover *h, json_t *object, const char *name, const struct strv *texts)
{
	_cleanup_buffer_ struct buffer all = {0};
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < texts->n; i++)
		r = buffer_add(&all, texts->v[i], strlen(texts->v[i]) + 1);
	if (r < 0)
		handover_no_memory(h);
	else
		handover_put_bytes(h, object, name, buffer_bytes(&all), buffer_size(&all));
}

void handover_add_fd(struct handover *h, int fd)
{
	if (fd <= STDERR_FILENO)
		return; /* none, or one that survives anyway */
	if (array_reserve(h->fds, h->fds_capacity, h->fds_count + 1) == 0)
		h->fds[h->fds_count++] = fd;
	else
		handover_no_memory(h);
}

void handover_put_fd(struct handover *h, json_t *object, const char *name, int fd)
{
	handover_put_int(h, object, name, fd);
	handover_add_fd(h, fd);
}

void handover_set_held(struct handover *h)
{
	handover_put_bool(h, h->root, "held", true);
}

bool handover_is_held(const struct handover *h)
{
	return json_get_bool(h->root, "held", false);
}

static bool names_fd(const char *name)
{
	const char *last = strrchr(name, '_');

	return strcmp(last ? last + 1 : name, "fd") == 0;
}

static int each_fd_in(json_t *value, handover_fd_fn fn, void *userdata)
{
	const char *name;
	json_t *member;
	size_t i;
	int r = 0, fd;

	json_array_foreach (value, i, member) {
		r = each_fd_in(member, fn, userdata);
		if (r < 0)
			return r;
	}
	json_object_foreach (value, name, member) {
		fd = (int)json_integer_value(member);
		if (!json_is_integer(member) || !names_fd(name) || fd < 0) {
			r = each_fd_in(member, fn, userdata);
		} else {
			fd = fn(value, fd, userdata);
			r = fd < -1 ? fd : 0;
			if (r == 0)
				(void)json_integer_set(member, fd); /* it is an integer */
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int handover_each_fd(struct handover *h, handover_fd_fn fn, void *userdata)
{
	return each_fd_in(h->root, fn, userdata);
}

int64_t handover_deadline_ns(double left_sec)
{
	return (int64_t)clock_now_ns() + (int64_t)(left_sec * 1e9);
}

double handover_left_sec(int64_t deadline_ns)
{
	int64_t left = deadline_ns - (int64_t)clock_now_ns();

	return left > 0 ? (double)left / 1e9 : 0.;
}

static int write_all(const struct handover *h, int fd)
{
	_cleanup_free_ char *text = json_dumps(h->root, JSON_COMPACT);
	int r = text ? fs_write_all(fd, text, strlen(text) + 1) : -ENOMEM;

	return r < 0 ? r : fs_write_all(fd, buffer_bytes(&h->bytes), buffer_size(&h->bytes));
}

int handover_finish(struct handover *h, struct err *err)
{
	static const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
	_cleanup_close_ int fd = -1;
	int r;

	if (h->failure)
		return err_set_text(err, h->failure, "%s", h->why);
	fd = memfd_create("stepd-handover", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = fd < 0 ? -errno : write_all(h, fd);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "save the agent's state") : take_fd(&fd);
}

int handover_set_inherited(const struct handover *h, bool inherited)
{
	size_t i;
	int r = 0;

	for (i = 0; i < h->fds_count; i++) {
		if (fcntl(h->fds[i], F_SETFD, inherited ? 0 : FD_CLOEXEC) < 0)
			r = -errno;
	}
	return r;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int map_file(struct handover *h, int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	void *map;

	if (size <= 0 || (size_t)size > SIZE_MAX_BYTES)
		return size < 0 ? -errno : -EPROTO;
	map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	h->map = map;
	h->map_size = (size_t)size;
	return 0;
}

static int handover_parse(struct handover *h, struct err *err)
{
	const char *end = memchr(h->map, '\0', h->map_size);
	json_error_t error;
	json_int_t version;

	if (!end)
		return handover_err_part("whole", err);
	h->bytes_at = (size_t)(end + 1 - h->map);
	h->root = json_loads(h->map, 0, &error);
	if (!h->root)
		return err_set_text(err, -EPROTO, "the handover is not JSON: %s", error.text);
	version = json_integer_value(json_object_get(h->root, "version"));
	if (version != HANDOVER_VERSION)
		return err_set_text(err, -EPROTONOSUPPORT,
			"the handover has version %lld, and this program reads version %d: it is %s "
			"than the agent",
			(long long)version, HANDOVER_VERSION,
			version < HANDOVER_VERSION ? "too much newer" : "older");
	return 0;
}

int handover_open(int fd, bool trial, struct handover **ret_handover, struct err *err)
{
	_cleanup_handover_ struct handover *h = calloc(1, sizeof(*h));
	int r = h ? map_file(h, fd) : -ENOMEM;

	if (r < 0)
		return err_set(err, r, "read the handover");
	h->trial = trial;
	r = handover_parse(h, err);
	if (r < 0)
		return r;
	*ret_handover = take_ptr(h);
	return 0;
}

bool handover_is_trial(const struct handover *h)
{
	return h->trial;
}

const char *handover_get_version(const struct handover *h)
{
	return json_get_text(h->root, "from", "?");
}

const char *handover_get_bytes(
	const struct handover *h, const json_t *object, const char *name, size_t *ret_size)
{
	const json_t *value = json_object_get(object, name);
	json_int_t at = json_integer_value(json_array_get(value, 0));
	json_int_t size = json_integer_value(json_array_get(value, 1));
	size_t there = h->map_size - h->bytes_at;

	if (json_array_size(value) != 2 || at < 0 || size < 0 || (size_t)at >= there ||
		(size_t)size >= there - (size_t)at)
		return NULL;
	*ret_size = (size_t)size;
	return h->map + h->bytes_at + at;
}

const char *handover_get_text(const struct handover *h, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	size_t size;

	return json_is_string(value) ? json_string_value(value)
				     : handover_get_bytes(h, object, name, &size);
}

int handover_copy_text(
	const struct handover *h, const json_t *object, const char *name, char **ret_text)
{
	const char *text = handover_get_text(h, object, name);
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	*ret_text = copy;
	return 0;
}

int handover_copy_strv(
	const struct handover *h, const json_t *object, const char *name, struct strv *texts)
{
	size_t size = 0, at, len;
	const char *all = handover_get_bytes(h, object, name, &size);
	int r = 0;

	for (at = 0; r == 0 && all && at < size; at += len + 1) {
		len = strnlen(all + at, size - at);
		r = strv_add_take(texts, strndup(all + at, len));
	}
	return r;
}

int handover_get_fd(const json_t *object, const char *name)
{
	int64_t fd = json_get_int(object, name, -1);

	return fd >= 0 && fd <= INT32_MAX && fcntl((int)fd, F_GETFD) >= 0 ? (int)fd : -1;
}

int handover_err_part(const char *part, struct err *err)
{
	return err_set_text(err, -EPROTO, "the handover's %s is invalid", part);
}

struct handover *handover_free(struct handover *h)
{
	if (!h)
		return NULL;
	json_decref(h->root);
	if (h->map)
		(void)munmap(h->map, h->map_size); /* mapped by mmap(): can't fail */
	buffer_clear(&h->bytes);
	free(h->fds);
	free(h);
	return NULL;
}
