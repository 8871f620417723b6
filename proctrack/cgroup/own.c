/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/own.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static const char *name_of(const char *group)
{
	const char *slash = strrchr(group, '/');

	return slash ? slash + 1 : group;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_unit(const char *name)
{
	return ends_with(name, ".service") || ends_with(name, ".scope") ||
		ends_with(name, ".slice");
}

bool own_is_our_leaf(const char *own)
{
	return strcmp(name_of(own), OWN_LEAF) == 0;
}

int own_get_above(const char *own, char **ret_above)
{
	const char *name = name_of(own);

	if (name == own || !*name || is_unit(name))
		return -ENOENT;
	*ret_above = name - own > 1 ? strndup(own, (size_t)(name - own - 1)) : strdup("/");
	return *ret_above ? 0 : -ENOMEM;
}

bool own_is_in_step(const char *own)
{
	const char *at = strstr(own, "/stepd/job_");

	return at && strstr(at, "/step_");
}

/* Whether the user's own systemd, user@UID.service, manages what is below it. */
static bool is_managed_by_user(const char *group)
{
	const char *at = strstr(group, "/user@");

	return at && strstr(at, ".service/");
}

static bool has_mark(int fd, const char *name)
{
	char value[8];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	return n == 1 && value[0] == '1';
}

bool own_is_writable(_unused_ const char *group, int fd)
{
	return faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
		faccessat(fd, ".", W_OK, AT_EACCESS) == 0;
}

bool own_is_writable_by_user(const char *group, int fd)
{
	struct stat st;

	return geteuid() != 0 && fstatat(fd, "cgroup.procs", &st, 0) == 0 &&
		st.st_uid == geteuid() && own_is_writable(group, fd);
}

bool own_is_marked(const char *group, int fd)
{
	/* user@UID.service is delegated to the user's systemd, not to what runs below. */
	return strncmp(name_of(group), "user@", strlen("user@")) != 0 &&
		(has_mark(fd, "trusted.delegate") || has_mark(fd, "user.delegate")) &&
		own_is_writable(group, fd);
}

/* Root could write anywhere: for root only systemd's word counts. */
bool own_is_delegated(const char *group, int fd)
{
	return own_is_marked(group, fd) ||
		(!is_managed_by_user(group) && own_is_writable_by_user(group, fd));
}
