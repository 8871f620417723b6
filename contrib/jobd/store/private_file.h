/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A file for a library that opens it by path, in a directory where only this process's user can
 * replace it.
 */
#ifndef JOBD_STORE_PRIVATE_FILE_H
#define JOBD_STORE_PRIVATE_FILE_H

#include <sys/types.h>

#include "stepd/base/err.h"

/* Makes the directory's last name (mode 0700) and the file (0600, empty) where they are missing.
 * dir is an absolute path without symbolic links; the directory and the file must belong to this
 * user alone, directories above to root or this user, and not be writable by others unless sticky.
 * Sets *ret_path to DIR/NAME, the caller's to free. -errno with the remedy in err.
 *
 * It opens and closes the file, which drops the locks of fcntl(2) that this process has on it. */
int private_file_make(
	const char *dir, const char *name, char **ret_path, struct err *err) _must_check_;

/* A process that has a lock of fcntl(2) on it; 0: none, or unknown. Drops the locks of this
 * process. */
pid_t private_file_find_holder(const char *path);

#endif
