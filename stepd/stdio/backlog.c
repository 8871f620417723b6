/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/backlog.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "stepd/base/fs.h"
#include "stepd/process/identity.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"

#define MEMORY_SIZE  (BACKLOG_WINDOW + BACKLOG_PIECE) /* the piece to add does not count */
#define SPILL_DIR    "/var/tmp"
#define NAME_TRIES   100
#define HOLE_MIN     (1 << 20) /* space is given back in pieces of this size at least */
#define POSITION_MAX (INT64_MAX / 4)

/* The file holds [file_begin, begin) or, if these are equal, nothing; the memory [begin, end). */
struct backlog {
	struct backlog_options options;
	int64_t origin; /* position of memory[0], as long as nothing has wrapped */
	int64_t begin, end;
	int fd;              /* -1: no file yet */
	int64_t file_begin;  /* space before it was given back */
	int64_t file_origin; /* position at its offset 0 */
	bool no_holes;       /* the file system can't give space back */
	char *piece;         /* BACKLOG_PIECE bytes of the file */
	char memory[MEMORY_SIZE];
};

static size_t memory_index(const struct backlog *b, int64_t at)
{
	return (size_t)((at - b->origin) % (int64_t)MEMORY_SIZE);
}

/* Bytes up to a piece that fit behind the position without a wrap. */
static size_t piece_size(const struct backlog *b, int64_t at)
{
	size_t left = MEMORY_SIZE - memory_index(b, at);

	return left < BACKLOG_PIECE ? left : BACKLOG_PIECE;
}

int64_t backlog_end(const struct backlog *b)
{
	return b->end;
}

int64_t backlog_limit(const struct backlog *b)
{
	return b->end + (int64_t)piece_size(b, b->end) - (int64_t)MEMORY_SIZE;
}

char *backlog_piece(struct backlog *b, size_t *ret_size)
{
	assert(backlog_limit(b) <= b->begin);
	*ret_size = piece_size(b, b->end);
	return b->memory + memory_index(b, b->end);
}

void backlog_add(struct backlog *b, size_t size)
{
	assert(size <= piece_size(b, b->end));
	b->end += (int64_t)size;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool has_file_bytes(const struct backlog *b)
{
	return b->file_begin < b->begin;
}

bool backlog_in_file(const struct backlog *b, int64_t at)
{
	return at < b->begin;
}

/* Where the file system has no O_TMPFILE: a name that nobody can know before. */
static int open_and_unlink(const char *dir)
{
	_cleanup_free_ char *name = NULL;
	uint64_t random = 0;
	int fd = -EEXIST, i;

	for (i = 0; fd == -EEXIST && i < NAME_TRIES; i++) {
		free(name);
		name = NULL;
		if (getrandom(&random, sizeof(random), 0) < 0)
			return -errno;
		if (asprintf(&name, "%s/stepd-input.%016llx", dir, (unsigned long long)random) < 0)
			return -ENOMEM;
		fd = userpath_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
	}
	if (fd >= 0 && unlink(name) < 0) {
		i = -errno;
		(void)close_fd(fd);
		return i;
	}
	return fd;
}

static int open_in(const char *dir)
{
	int fd = userpath_open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);

	if (fd == -EOPNOTSUPP || fd == -EISDIR || fd == -EINVAL)
		fd = open_and_unlink(dir);
	return fd < 0 ? fd : stdfd_move_above(fd);
}

/* As the user. */
static int open_file(struct backlog *b, struct err *err)
{
	const char *dir = b->options.dir;
	int fd = dir && dir[0] == '/' ? open_in(dir) : -ENOENT;

	if (fd < 0)
		fd = open_in(SPILL_DIR);
	if (fd < 0)
		return err_set(err, fd,
			"make a file in TMPDIR or " SPILL_DIR
			" for the input that some tasks have not read");
	b->fd = fd;
	return 0;
}

static int write_all_at(int fd, const char *data, size_t size, off_t offset)
{
	ssize_t n;

	while (size > 0) {
		n = pwrite(fd, data, size, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		size -= (size_t)n;
		offset += n;
	}
	return 0;
}

static int append_to_file(struct backlog *b, int64_t from, int64_t to, struct err *err)
{
	int r = b->fd < 0 ? open_file(b, err) : 0;

	if (r < 0)
		return r;
	r = write_all_at(b->fd, b->memory + memory_index(b, from), (size_t)(to - from),
		from - b->file_origin);
	if (r == 0)
		return 0;
	(void)!ftruncate(b->fd, from - b->file_origin); /* else that part is written over */
	return err_set(err, r,
		"write the input that some tasks have not read to a file in TMPDIR or " SPILL_DIR
		" (make space there)");
}

/* Moves [from, to) to the file, as the user: quotas count for the user, and root's reserve is not
 * used. */
static int spill(struct backlog *b, int64_t from, int64_t to, struct err *err)
{
	const struct identity *id = b->options.id;
	uint64_t max = b->options.spill_max;
	int r;

	if (!has_file_bytes(b))
		b->file_begin = b->file_origin = from;
	if (max && (uint64_t)(to - (b->no_holes ? b->file_origin : b->file_begin)) > max)
		return err_set_text(err, -E2BIG,
			"the file of the input that some tasks have not read has its maximum of %llu "
			"bytes (--input-spill-max)",
			(unsigned long long)max);
	r = id ? identity_assume(id, err) : 0;
	if (r < 0)
		return r;
	r = append_to_file(b, from, to, err);
	if (id)
		identity_restore(id);
	return r;
}

static void empty_file(struct backlog *b)
{
	if (has_file_bytes(b) && ftruncate(b->fd, 0) < 0)
		b->fd = close_fd(b->fd); /* the next one is made when it is needed */
	b->file_begin = b->begin;
}

static void punch_hole(struct backlog *b, int64_t to)
{
	off_t from = b->file_begin - b->file_origin;

	if (b->no_holes || to - b->file_begin < HOLE_MIN)
		return;
	if (fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - b->file_begin) <
		0)
		b->no_holes = true;
	else
		b->file_begin = to;
}

static ssize_t read_file(struct backlog *b, int64_t at, const char **ret_data)
{
	int64_t left = b->begin - at;
	ssize_t n;

	if (!b->piece)
		b->piece = malloc(BACKLOG_PIECE);
	if (!b->piece)
		return -ENOMEM;
	do
		n = pread(b->fd, b->piece, left < BACKLOG_PIECE ? (size_t)left : BACKLOG_PIECE,
			at - b->file_origin);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	*ret_data = b->piece;
	return n;
}

/* ---- bytes --------------------------------------------------------------------------------- */

void backlog_release(struct backlog *b, int64_t lowest)
{
	assert(lowest <= b->end);
	if (lowest >= b->begin)
		empty_file(b);
	else if (has_file_bytes(b))
		punch_hole(b, lowest);
	if (lowest == b->end) /* the same few pages again and again */
		b->origin = b->begin = b->file_begin = b->end;
}

int backlog_make_space(struct backlog *b, int64_t lowest, struct err *err)
{
	int64_t limit;
	int r = 0;

	backlog_release(b, lowest);
	limit = backlog_limit(b);
	if (limit <= b->begin)
		return 0;
	if (lowest >= limit)
		b->file_begin = limit; /* it was emptied */
	else if (!b->options.spills)
		return -EAGAIN;
	else
		r = spill(
			b, has_file_bytes(b) || lowest < b->begin ? b->begin : lowest, limit, err);
	if (r == 0)
		b->begin = limit;
	return r;
}

ssize_t backlog_get(struct backlog *b, int64_t at, const char **ret_data)
{
	int64_t left = b->end - at;
	size_t size;

	if (at < b->begin)
		return at < b->file_begin ? -EIO : read_file(b, at, ret_data);
	size = piece_size(b, at);
	*ret_data = b->memory + memory_index(b, at);
	return (int64_t)size < left ? (ssize_t)size : (ssize_t)left;
}

/* ---- life ---------------------------------------------------------------------------------- */

int backlog_new(const struct backlog_options *options, struct backlog **ret_backlog)
{
	struct backlog *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->options = *options;
	b->fd = -1;
	*ret_backlog = b;
	return 0;
}

struct backlog *backlog_free(struct backlog *b)
{
	if (!b)
		return NULL;
	(void)close_fd(b->fd);
	free(b->piece);
	free(b);
	return NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

int64_t backlog_save(const struct backlog *b, int64_t lowest, struct handover *h, json_t *object)
{
	int64_t start = lowest < b->begin ? b->begin : lowest;
	size_t size = (size_t)(b->end - start), first = MEMORY_SIZE - memory_index(b, start);
	_cleanup_free_ char *bytes = size > 0 ? malloc(size) : NULL;

	if (size > 0 && !bytes) {
		handover_fail(h, -ENOMEM, "no memory for the tasks' standard input");
		return start;
	}
	if (first > size)
		first = size;
	if (size > 0) {
		memcpy(bytes, b->memory + memory_index(b, start), first);
		memcpy(bytes + first, b->memory, size - first);
		handover_put_bytes(h, object, "bytes", bytes, size);
	}
	if (lowest < b->begin) {
		handover_put_fd(h, object, "spill_fd", b->fd);
		handover_put_int(h, object, "spill_begin", b->file_begin - start);
		handover_put_int(h, object, "spill_origin", b->file_origin - start);
	}
	return start;
}

int backlog_restore(const struct backlog_options *options, const struct handover *h,
	const json_t *object, struct backlog **ret_backlog)
{
	_cleanup_backlog_ struct backlog *b = NULL;
	int r = backlog_new(options, &b);
	const char *bytes;
	size_t size = 0;

	if (r < 0)
		return r;
	b->fd = handover_get_fd(object, "spill_fd");
	b->file_begin = json_get_int(object, "spill_begin", 0);
	b->file_origin = json_get_int(object, "spill_origin", 0);
	bytes = handover_get_bytes(h, object, "bytes", &size);
	if (size > MEMORY_SIZE || b->file_begin > 0 || b->file_origin > b->file_begin ||
		b->file_origin < -POSITION_MAX || (has_file_bytes(b) && b->fd < 0))
		return -EPROTO;
	if (bytes)
		memcpy(b->memory, bytes, size);
	b->end = (int64_t)size;
	*ret_backlog = take_ptr(b);
	return 0;
}
