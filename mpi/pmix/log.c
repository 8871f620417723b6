/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx_Log. The streams of tasks do not pass through this process: what is for standard output or
 * error goes into the step's log, line by line, with the rank in front. What is for syslog goes
 * there by a socket of its own: syslog(3) does not report that nobody listens, nor does libpmix,
 * whose own part for it is turned off (server.c).
 */
#include <paths.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>

#include "mpi/pmix/px.h"

static void log_text(struct px *px, const pmix_proc_t *proc, enum log_level level, const char *text)
{
	size_t len;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len)
			serve_log(px->serve, level, "rank %u: %.*s", proc->rank,
				(int)(len < 1000 ? len : 1000), text);
	}
}

/* ---- syslog ---- */

/* Where syslog reads a stream a message ends with a zero byte, which is part of what is sent. */
static int send_once(int type, const char *text, size_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = _PATH_LOG};
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		send(fd, text, size + (type == SOCK_STREAM), MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* PMIx's own default is LOG_ERR. */
static int level_of(const struct call *call)
{
	const pmix_info_t *info = call_find(call, PMIX_LOG_SYSLOG_PRI);
	int64_t number = LOG_ERR;

	if (info)
		(void)info_number(info, &number);
	return (int)(number & LOG_PRIMASK);
}

static int log_syslog(const struct call *call, const char *text)
{
	_cleanup_free_ char *message = NULL;
	time_t now = time(NULL);
	char stamp[32] = "";
	struct tm tm;
	int len, r;

	if (localtime_r(&now, &tm))
		(void)strftime(stamp, sizeof(stamp), "%b %e %T", &tm);
	len = asprintf(&message, "<%d>%s stepd-pmix[%d]: rank %u of %s: %s",
		LOG_USER | level_of(call), stamp, (int)getpid(), call->proc.rank, call->proc.nspace,
		text);
	if (len < 0) {
		message = NULL;
		return -ENOMEM;
	}
	r = send_once(SOCK_DGRAM, message, (size_t)len);
	return r == -EPROTOTYPE ? send_once(SOCK_STREAM, message, (size_t)len) : r;
}

/* ---- the upcall ---- */

static const struct channel {
	const char *key;
	bool is_syslog;
	enum log_level level; /* in the step's log */
} channels[] = {
	{PMIX_LOG_STDOUT, .level = LOG_LEVEL_INFO},
	{PMIX_LOG_STDERR, .level = LOG_LEVEL_WARNING},
	{PMIX_LOG_SYSLOG, .is_syslog = true},
	{PMIX_LOG_LOCAL_SYSLOG, .is_syslog = true},
	{PMIX_LOG_GLOBAL_SYSLOG, .is_syslog = true},
};

/* NULL: not one of ours: another one, or about the message. */
static const struct channel *channel_of(const pmix_info_t *info)
{
	if (info->value.type != PMIX_STRING || !info->value.data.string)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(channels); i++) {
		if (PMIX_CHECK_KEY(info, channels[i].key))
			return &channels[i];
	}
	return NULL;
}

void px_log(struct px *px, struct call *call)
{
	bool done = false;
	int r = 0;

	for (size_t i = 0; i < call->ninfo; i++) {
		const struct channel *channel = channel_of(&call->info[i]);
		const char *text = call->info[i].value.data.string;

		if (!channel)
			continue;
		done = true;
		if (!channel->is_syslog)
			log_text(px, &call->proc, channel->level, text);
		else if (r == 0)
			r = log_syslog(call, text);
	}
	if (r < 0)
		serve_log(px->serve, LOG_LEVEL_DEBUG, "rank %u logs to syslog: %s", call->proc.rank,
			strerror(-r));
	call_answer(call,
		r < 0          ? PMIX_ERR_NOT_AVAILABLE
			: done ? PMIX_SUCCESS
			       : PMIX_ERR_NOT_SUPPORTED);
}
