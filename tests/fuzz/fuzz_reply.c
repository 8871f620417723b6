/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as an agent's answers: frames are cut the same however they arrive, and each is refused
 * with a reason or keeps the promises of client.h.
 */
#include <jansson.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/client/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_reply(const char *text, size_t size)
{
	_cleanup_reply_ struct reply reply = {0};
	const char *why = NULL;
	int r = reply_parse(text, size, &reply, &why);

	require((r == -EPROTO) == (why != NULL));
	require((r == 0) == (reply.parameters != NULL));
	if (r < 0)
		return;
	require(json_is_object(reply.parameters));
	require(!reply.error || (reply.error[0] && !reply.continues));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data, *end = data + size, *nul;
	struct stream stream;
	const char *frame;
	size_t length;
	int fd[2];

	if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		return 0;
	stream_init(&stream, fd[0]);
	require(send(fd[1], data, size, MSG_DONTWAIT) == (ssize_t)size);
	(void)close(fd[1]);
	while ((nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL)) {
		require(stream_next(&stream, 0, &frame, &length) == 0);
		require(length == (size_t)(nul - at) && memcmp(frame, at, length) == 0);
		check_reply(frame, length);
		at = nul + 1;
	}
	require(stream_next(&stream, 0, &frame, &length) == -ECONNRESET);
	stream_clear(&stream);
	return 0;
}
