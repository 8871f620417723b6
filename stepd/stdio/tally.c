/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/tally.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define TALLY_MAGIC 0x796c6c6174647473u
#define TALLY_MOST  (1u << 24)

/* The file: this, the sources, the destinations. */
struct tally_head {
	uint64_t magic, sources, dests;
};

static size_t tally_size(uint64_t sources, uint64_t dests)
{
	return sizeof(struct tally_head) + sources * sizeof(struct tally_source) +
		dests * sizeof(struct tally_dest);
}

static int tally_map(struct tally *t, size_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	t->map = map;
	t->map_size = size;
	return 0;
}

static void tally_set_parts(struct tally *t, size_t sources, size_t dests)
{
	t->sources_count = sources;
	t->dests_count = dests;
	t->sources = (void *)((char *)t->map + sizeof(struct tally_head));
	t->dests = (void *)(t->sources + sources);
}

static struct tally *tally_alloc(int fd)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (t)
		t->fd = fd;
	else
		(void)close_fd(fd);
	return t;
}

/* Sealed: who maps it may rely on its size. */
static int tally_make_file(size_t size)
{
	_cleanup_close_ int fd = memfd_create("stepd-tally", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

int tally_new(size_t sources, size_t dests, const struct tally *before, struct tally **ret_tally)
{
	_cleanup_tally_ struct tally *t = NULL;
	int fd = tally_make_file(tally_size(sources, dests)), r;

	if (fd < 0)
		return fd;
	t = tally_alloc(fd);
	r = t ? tally_map(t, tally_size(sources, dests)) : -ENOMEM;
	if (r < 0)
		return r;
	*(struct tally_head *)t->map =
		(struct tally_head){.magic = TALLY_MAGIC, .sources = sources, .dests = dests};
	tally_set_parts(t, sources, dests);
	if (before) {
		memcpy(t->sources, before->sources, before->sources_count * sizeof(*t->sources));
		memcpy(t->dests, before->dests, before->dests_count * sizeof(*t->dests));
	}
	*ret_tally = take_ptr(t);
	return 0;
}

int tally_open_take(int fd, struct tally **ret_tally)
{
	_cleanup_tally_ struct tally *t = tally_alloc(fd);
	const struct tally_head *head;
	struct stat st;
	int seals, r;

	if (!t)
		return -ENOMEM;
	seals = fcntl(t->fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(t->fd, &st) < 0 ||
		(size_t)st.st_size < sizeof(*head))
		return -EPROTO;
	r = tally_map(t, (size_t)st.st_size);
	if (r < 0)
		return r;
	head = t->map;
	if (head->magic != TALLY_MAGIC || head->sources > TALLY_MOST || head->dests > TALLY_MOST ||
		tally_size(head->sources, head->dests) != t->map_size)
		return -EPROTO;
	tally_set_parts(t, head->sources, head->dests);
	*ret_tally = take_ptr(t);
	return 0;
}

struct tally *tally_free(struct tally *t)
{
	if (!t)
		return NULL;
	if (t->map)
		(void)munmap(t->map, t->map_size); /* mapped by mmap(): can't fail */
	(void)close_fd(t->fd);
	free(t);
	return NULL;
}
