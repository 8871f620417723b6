/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/dirnames.h"

#include <assert.h>
#include <sys/syscall.h>

/* What getdents64(2) writes; the C library's struct has a name of 256 bytes. */
struct name_record {
	uint64_t inode;
	int64_t next;
	uint16_t size; /* of this record */
	uint8_t type;
	char name[];
};

int dirnames_each(int fd, size_t piece_bytes, dirnames_fn fn, void *userdata)
{
	char names[DIRNAMES_PIECE_MAX] __attribute__((aligned(__alignof__(struct name_record))));
	const struct name_record *record;
	ssize_t n, at;
	int r;

	assert(piece_bytes <= sizeof(names));
	while ((n = syscall(SYS_getdents64, fd, names, piece_bytes)) > 0) {
		for (at = 0; at < n; at += record->size) {
			record = (const struct name_record *)(names + at);
			r = fn(record->name, record->type, userdata);
			if (r != 0)
				return r;
		}
	}
	return n < 0 ? -errno : 0;
}
