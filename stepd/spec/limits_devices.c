/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices by name and by number, and those that no program can do without.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "stepd/spec/limits.h"
#include "stepd/base/parse.h"

#define DEV       "/dev/"
#define MAJOR_MAX 4095u    /* MINORBITS of the kernel is 20 */
#define MINOR_MAX 1048575u /* of 32 bits */

/* ---- by number ---------------------------------------------------------------------------- */

static int parse_number(const char *text, bool any, uint32_t most, uint32_t *ret_n)
{
	if (any && strcmp(text, "*") == 0) {
		*ret_n = STEPD_DEVICE_ANY;
		return 0;
	}
	return parse_u32(text, 0, most, ret_n);
}

/* "MAJOR:MINOR", with any either as "*". */
static int parse_numbers(const char *text, bool any, uint32_t *ret_major, uint32_t *ret_minor)
{
	const char *colon = strchr(text, ':');
	uint32_t major = 0, minor = 0;
	char first[16];
	int r;

	if (!colon || (size_t)(colon - text) >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, (size_t)(colon - text));
	first[colon - text] = '\0';
	r = parse_number(first, any, MAJOR_MAX, &major);
	if (r == 0)
		r = parse_number(colon + 1, any, MINOR_MAX, &minor);
	if (r < 0)
		return r;
	*ret_major = major;
	*ret_minor = minor;
	return 0;
}

int limits_device_parse_numbers(const char *text, uint32_t *ret_major, uint32_t *ret_minor)
{
	return parse_numbers(text, false, ret_major, ret_minor);
}

int limits_device_parse(const char *text, stepd_device_rule_t *ret_rule)
{
	int r;

	if (!text[0] || !strchr("abc", text[0]) || text[1] != ' ')
		return -EINVAL;
	r = parse_numbers(text + 2, true, &ret_rule->major, &ret_rule->minor);
	if (r == 0)
		ret_rule->type = text[0];
	return r;
}

/* ---- by name ------------------------------------------------------------------------------ */

bool limits_device_is_path(const char *text)
{
	return strncmp(text, DEV, strlen(DEV)) == 0 && text[strlen(DEV)];
}

static int open_node(int dev_fd, const char *name, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | resolve,
	};
	int fd = (int)syscall(SYS_openat2, dev_fd, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* A node at its own place may be anywhere below /dev, for only root makes nodes; a link only on
 * /dev itself, where udev makes those in disk/by-id and the like: not in /dev/shm, where anybody
 * does, nor out of /dev. */
static int open_device(const char *path)
{
	_cleanup_close_ int dev_fd = open(DEV, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dev_fd < 0)
		return -errno;
	fd = open_node(dev_fd, path + strlen(DEV), RESOLVE_NO_SYMLINKS);
	return fd == -ELOOP ? open_node(dev_fd, path + strlen(DEV), RESOLVE_NO_XDEV) : fd;
}

int limits_device_find(const char *path, stepd_device_rule_t *ret_rule, struct err *err)
{
	_cleanup_close_ int fd = open_device(path);
	struct stat st;

	if (fd == -EXDEV)
		return err_say(err, fd,
			"'%s' leads out of /dev or over a link on another file system; give the device "
			"itself",
			path);
	if (fd == -ENOSYS) /* before Linux 5.6 */
		return err_say(err, fd,
			"'%s' can't be looked up safely by this kernel; give its numbers", path);
	if (fd < 0)
		return err_set(err, fd, "look up the device '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "look up the device '%s'", path);
	if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
		return err_say(err, -ENODEV, "'%s' is no device", path);
	ret_rule->type = S_ISCHR(st.st_mode) ? 'c' : 'b';
	ret_rule->major = major(st.st_rdev);
	ret_rule->minor = minor(st.st_rdev);
	return 0;
}

/* ---- always allowed ------------------------------------------------------------------------ */

/* Numbers are those of Documentation/admin-guide/devices.txt of Linux. What containers have, and
 * no more: shells, scripts and terminals need it, and none of it is hardware. */
const stepd_device_rule_t *limits_default_devices(size_t *ret_count)
{
	enum {
		ALL = STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD,
	};
	static const stepd_device_rule_t rules[] = {
		{.type = 'c', .major = 1, .minor = 3, .access = ALL},                  /* null */
		{.type = 'c', .major = 1, .minor = 5, .access = ALL},                  /* zero */
		{.type = 'c', .major = 1, .minor = 7, .access = ALL},                  /* full */
		{.type = 'c', .major = 1, .minor = 8, .access = ALL},                  /* random */
		{.type = 'c', .major = 1, .minor = 9, .access = ALL},                  /* urandom */
		{.type = 'c', .major = 5, .minor = 0, .access = ALL},                  /* tty */
		{.type = 'c', .major = 5, .minor = 1, .access = ALL},                  /* console */
		{.type = 'c', .major = 5, .minor = 2, .access = ALL},                  /* ptmx */
		{.type = 'c', .major = 136, .minor = STEPD_DEVICE_ANY, .access = ALL}, /* pts */
	};

	*ret_count = ARRAY_SIZE(rules);
	return rules;
}
