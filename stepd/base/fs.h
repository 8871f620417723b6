/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small files and directories, relative to a directory descriptor (AT_FDCWD for a plain path).
 * All return 0 or a count, or -errno. Every descriptor is O_CLOEXEC at birth.
 */
#ifndef STEPD_BASE_FS_H
#define STEPD_BASE_FS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

/* Reads the whole file into *ret_text, NUL-terminated and the caller's to free; *ret_size, if it
 * is not NULL, is its length without the NUL. -EFBIG above max_bytes. The buffer grows, so that
 * the kernel's files are read in as few calls as they allow (a cgroup.procs read in pieces loses
 * entries). */
int fs_read(int dirfd, const char *name, size_t max_bytes, char **ret_text,
	size_t *ret_size) _must_check_;

/* The same from the position of an open descriptor, which stays open. */
int fs_read_fd(int fd, size_t max_bytes, char **ret_text, size_t *ret_size) _must_check_;

/* Opens a regular file to read it, below a directory that a hostile user may have made: follows
 * no link at its end and waits for no writer. Returns the descriptor; -ELOOP for a link, -EBADMSG
 * for anything else than a regular file. */
int fs_open_regular(int dirfd, const char *name) _must_check_;

/* The directory of that name ("." is dirfd itself, which does not move). NULL: errno has the
 * reason.
 */
DIR *fs_opendir(int dirfd, const char *name);

#define DIRNAMES_PIECE_MAX 4096

/* The names in a directory, read by the descriptor itself and a few at a time: readdir(3) takes a
 * descriptor of its own, and a thousand names before it gives the first. Calls fn for each name
 * from fd's position on, "." and ".." too, until it returns other than 0, which is returned. type
 * is one of DT_... of <dirent.h>. At most piece_bytes are read before fn gets them, up to
 * DIRNAMES_PIECE_MAX: 20 for a name and its length, in eights. -errno where the directory can't
 * be read, -EINVAL where one name takes more. */
typedef int (*dirnames_fn)(const char *name, uint8_t type, void *userdata);
int dirnames_each(int fd, size_t piece_bytes, dirnames_fn fn, void *userdata) _must_check_;

/* Removes all that is in a directory, in a tree that a hostile user may have made: no link is
 * followed, and its depth takes neither descriptors nor memory, but for mounts in mounts. What is
 * mounted in it is emptied, too, and stays. 0, or -errno of one of the entries that are left. */
int fs_empty_directory(int fd) _must_check_;

/* Writes text in one write(2), as the kernel's files want it. The file must exist. */
int fs_write(int dirfd, const char *name, const char *text) _must_check_;

/* Writes all of size bytes to fd, over short writes and EINTR. */
int fs_write_all(int fd, const void *data, size_t size) _must_check_;

/* Waits until something can be read from fd, or its end, at most until then (clock_now_ms()): 1; 0:
 * the time is over. */
int fs_wait_readable(int fd, int64_t until_ms) _must_check_;

/* A sealed file in memory with these bytes, at its beginning: its descriptor. name is for /proc. */
int fs_memory(const char *name, const void *data, size_t size) _must_check_;

/* Replaces name by a file with these bytes and mode, so that a reader sees the old one or the
 * new one, whole. With sync it is on the disk, name and all, when this returns. */
int fs_write_atomic(int dirfd, const char *name, const void *data, size_t size, mode_t mode,
	bool sync) _must_check_;

/* A file that is to replace name later. Its blocks are there already, so that a file system
 * that has filled up meanwhile does not matter. It has a name of its own beside name, which holds
 * this process's pid and ends with ".new". */
struct fs_spare {
	int fd; /* -1: there is none */
	char *temp;
};
#define FS_SPARE_INIT ((struct fs_spare){.fd = -1})

/* With blocks for size bytes, where the file system can reserve them. */
int fs_spare_make(int dirfd, const char *name, mode_t mode, size_t size,
	struct fs_spare *ret_spare) _must_check_;

/* Reserves blocks for size bytes in an existing one; it never shrinks. */
int fs_spare_grow(const struct fs_spare *spare, size_t size) _must_check_;

/* Writes and renames it, as fs_write_atomic(), and clears spare, even when that fails. */
int fs_spare_use(struct fs_spare *spare, int dirfd, const char *name, const void *data, size_t size,
	bool sync) _must_check_;

/* Whether this is the name of such a file. */
bool fs_is_spare(const char *name);

/* Removes it. */
void fs_spare_clear(struct fs_spare *spare, int dirfd);

/* A new, empty file that replaces name, open for writing: the old one stays for those that have it
 * open. */
int fs_replace(int dirfd, const char *name, mode_t mode) _must_check_;

/* Gives a file of this process's user the mode, which has no bits for others; the user may read it,
 * too, and the group, if it is not (gid_t)-1, and execute it if its owner may. -EOPNOTSUPP where
 * the file system has no access control lists: then only its owner may. */
int fs_set_readers(int fd, mode_t mode, uid_t uid, gid_t gid) _must_check_;

/* Refuses a file that others than this process's user or root could change: 0, or -EPERM with the
 * reason in err. path only names the thing in the text. */
int fs_check_trusted(int fd, const char *path, struct err *err) _must_check_;

/* The same for every directory above path up to the root, or up to one that is above the file
 * trusted (may be NULL), too: others could replace the contents of a directory that they can
 * write, unless it is sticky as /tmp is. */
int fs_check_parents(const char *path, const char *trusted, struct err *err) _must_check_;

/* Where an open file is, without symbolic links, as the kernel has it in /proc. 0 or -errno. */
int fs_find_path(int fd, char path[static PATH_MAX]) _must_check_;

/* All of this for an open file: the file, the directories above path, and those above the file to
 * which path leads, since a link may lead from a trusted directory to one that is not. */
int fs_check_file(int fd, const char *path, struct err *err) _must_check_;

/* Sends a descriptor over a Unix socket, with one byte, which is 0. -EAGAIN on a socket that does
 * not block. */
int fs_send_descriptor(int socket_fd, int fd) _must_check_;

/* Refuses descriptors that a peer sends to this socket (Linux 6.16; older kernels can't): to
 * close one may take long (a TCP socket that lingers, a dead file server), and this process would
 * have to. */
void fs_refuse_descriptors(int socket_fd);

/* ---- paths that a user has chosen ---------------------------------------------------------- */

/* Opens paths that a user has chosen, in a process that has more privileges than that user: a
 * fresh child of root's agent, or the agent itself with the user's effective ids.
 *
 * No link of /proc to an open file, a directory or a program is followed (/proc/PID/fd/N and
 * /dev/fd/N, cwd, root, exe, map_files): these bypass the permissions of the path. Nor is a file
 * of /proc opened: one of /proc/self shows the process as it was, root's, whichever process reads
 * it later. openat2(2) does it (Linux 5.6); without that the path is walked here, name by name.
 *
 * All calls are rawcall()s: for a child that shares its parent's memory. */

/* open(2): a descriptor or -errno. -ELOOP also for a link of /proc, -EXDEV for a file of it. */
int userpath_open(const char *path, int flags, mode_t mode);

/* The same for an absolute path, to which the directory root is "/": that of another mount
 * namespace, say. root -1: this process's own. */
int userpath_open_in(int root, const char *path, int flags, mode_t mode);

/* chdir(2). 0 or -errno; -ELOOP as above. */
int userpath_chdir(const char *path);

/* What these two codes mean, for a message; NULL for any other. */
const char *userpath_explain(int error);

#endif
