/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes from an MPI service process, which is the user's, to the agent, which is root: they are
 * a message or are refused, and a spawn that is taken is one whose numbers hold together. The first
 * byte decides whether the rest is sent as it is, or follows "do": "spawn" in a message.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/link.h"
#include "stepd/step/join_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* The values that the agent computes with later. */
static void check_group(const struct join_request *request, const struct join_group *group)
{
	uint32_t i;

	require(group->argv.n > 0 && group->argv.v[group->argv.n] == NULL);
	require(group->count > 0 && (uint64_t)group->rank + group->count <= request->size);
	for (i = 0; i < group->count; i++) {
		char **entries = NULL;

		require(join_group_environ(group, i, &entries) == 0);
		free(entries);
	}
}

static void check_spawn(const json_t *message)
{
	_cleanup_join_request_ struct join_request request = {0};
	struct err err = ERR_INIT;
	uint64_t count = 0, after = 0;
	int64_t id;
	size_t i;

	if (join_request_id(message, &id, &err) < 0 ||
		join_request_read(message, &request, &err) < 0) {
		require(err.text[0] != '\0' && strlen(err.text) < ERR_TEXT_SIZE);
		return;
	}
	require(request.id == id && request.number > 0 && request.groups_count > 0);
	require((uint64_t)request.first_rank + request.size <= UINT32_MAX);
	for (i = 0; i < request.groups_count; i++) {
		check_group(&request, &request.groups[i]);
		require(request.groups[i].rank >= after); /* ranks ascend */
		after = (uint64_t)request.groups[i].rank + request.groups[i].count;
		count += request.groups[i].count;
	}
	require(count == request.count && count <= JOIN_TASKS_MAX);
}

static void send_one(int fd, const uint8_t *data, size_t size, bool is_spawn)
{
	static const char head[] = "{\"do\":\"spawn\",";
	char *text = malloc(sizeof(head) + size);
	size_t n = 0;

	require(text);
	if (is_spawn) {
		n = sizeof(head) - 1;
		memcpy(text, head, n);
	}
	memcpy(text + n, data, size);
	require(send(fd, text, n + size, MSG_NOSIGNAL) == (ssize_t)(n + size));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;
	struct err err = ERR_INIT;
	int fds[2], r;

	if (size < 2 || size > LINK_SIZE_MAX)
		return 0;
	require(link_pair(fds, &err) == 0);
	send_one(fds[1], data + 1, size - 1, data[0] & 1);
	r = link_receive_bare(fds[0], &message);
	require(r == 0 || r == -EBADMSG);
	if (r == 0)
		check_spawn(message.object);
	(void)close(fds[0]);
	(void)close(fds[1]);
	return 0;
}
