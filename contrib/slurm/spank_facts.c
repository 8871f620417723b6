/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm/origin.h"
#include "contrib/slurm/spank_host.h"
#include "contrib/slurm/spank_wire.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"

/* ---- what the step is ---------------------------------------------------------------------- */

/* A file in memory comes with the only message from there. */
static int receive_file(int fd, int *ret_file)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = sizeof(byte)};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *part;
	ssize_t n;

	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	part = CMSG_FIRSTHDR(&message);
	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
		part->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EBADMSG;
	memcpy(ret_file, CMSG_DATA(part), sizeof(int));
	return 0;
}

int spank_facts_read(int fd)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int file = -1;
	int r = receive_file(fd, &file);

	if (r < 0)
		return r;
	if (lseek(file, 0, SEEK_SET) < 0)
		return -errno;
	r = fs_read_fd(file, SPANK_FACTS_MAX, &text, NULL);
	if (r < 0)
		return r;
	spank_host.facts = json_loads(text, 0, NULL);
	return spank_host.facts ? 0 : -EBADMSG;
}

const char *spank_fact_text(const char *name)
{
	return json_string_value(json_object_get(spank_host.facts, name));
}

uint64_t spank_fact_number(const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(spank_host.facts, name));
}

uint32_t spank_release(void)
{
	const char *major = spank_fact_text("version_major"),
		   *minor = spank_fact_text("version_minor");

	if (!major || !minor)
		return 0;
	return (uint32_t)(strtoul(major, NULL, 10) << 16 | strtoul(minor, NULL, 10) << 8);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* One that can't be taken at once is lost: the agent waits for nobody. */
static void send_message(char kind, char level, const char *text)
{
	char message[SPANK_MESSAGE_MAX];
	int n = snprintf(message, sizeof(message), "%c%c%s", kind, level, text);

	if (n >= (int)sizeof(message))
		n = (int)sizeof(message) - 1;
	if (spank_host.fd >= 0)
		(void)send(spank_host.fd, message, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static const char *prefix_of(enum spank_level level)
{
	static const char *const prefixes[] = {
		[SPANK_LEVEL_ERROR] = "error: ",
		[SPANK_LEVEL_DEBUG] = "debug:  ",
		[SPANK_LEVEL_DEBUG2] = "debug2: ",
		[SPANK_LEVEL_DEBUG3] = "debug3: ",
		[SPANK_LEVEL_DEBUG4] = "debug4: ",
		[SPANK_LEVEL_DEBUG5] = "debug5: ",
	};

	return prefixes[level] ? prefixes[level] : "";
}

void spank_vlog(enum spank_level level, bool plain, const char *format, va_list ap)
{
	bool show = (int)level <= SPANK_LEVEL_ERROR + (int)spank_fact_number("debug");
	char text[SPANK_TEXT_MAX], line[SPANK_TEXT_MAX + ORIGIN_SIZE + 16], origin[ORIGIN_SIZE];
	int saved = errno;

	(void)vsnprintf(text, sizeof(text), format, ap);
	origin_print(origin, spank_host.node, spank_release() >= SPANK_25_05);
	if (plain)
		(void)snprintf(line, sizeof(line), "%s", text);
	else
		(void)snprintf(line, sizeof(line), "%s %s%s", origin, prefix_of(level), text);
	if (show && spank_host.phase == SPANK_HOOK_TASK_INIT) /* its own streams are there */
		(void)dprintf(STDERR_FILENO, "%s\n", line);
	else if (show && spank_host.shows_messages)
		send_message(SPANK_WIRE_SHOW, (char)('0' + level), line);
	send_message(SPANK_WIRE_LOG, (char)('0' + level), text);
	errno = saved;
}

void spank_error(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	spank_vlog(SPANK_LEVEL_ERROR, false, format, ap);
	va_end(ap);
}

void spank_report_failure(int slurm_error)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", (unsigned)slurm_error);
	send_message(SPANK_WIRE_FAILURE, '0', text);
}
