/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what a launcher hands to steprun, in any pieces: whatever pieces they come in, the
 * lines and the foreign are the same, and what a line carries has the size that the line announces.
 *
 * The input's first byte is the size of the pieces, and its highest bit whether frames are taken.
 */
#include <ev.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/base64.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
	uint64_t lines, foreign, sum;
	bool ended;
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void add(struct heard *h, const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		h->sum = h->sum * 31 + (unsigned char)text[i];
}

static void on_line(const struct channel_line *line, void *userdata)
{
	size_t size = strlen(line->text);
	struct heard *h = userdata;
	struct address address;
	char text[CHANNEL_LINE_MAX];
	const char *bytes;
	ssize_t n;

	if (line->bytes) { /* a part of a frame: how many there are is chance */
		require(size == 0 && line->bytes_size > 0);
		require(channel_get_bytes(line, &bytes) == (ssize_t)line->bytes_size);
		add(h, bytes, line->bytes_size);
		return;
	}
	require(size < CHANNEL_LINE_MAX && *line->verb && !strchr(line->verb, ' '));
	h->lines++;
	add(h, line->verb, strlen(line->verb));
	add(h, line->text, size);
	if (address_parse(line->text, &address) == 0)
		require(address.prefix <= 128);
	memcpy(text, line->text, size + 1);
	n = channel_get_bytes(line, &bytes);
	require(n <= (ssize_t)(size / 4 * 3));
	if (n < 0)
		return;
	require(line->text[n] == '\0');
	{
		char again[BASE64_SIZE(CHANNEL_LINE_MAX) + 1];

		base64_encode(line->text, (size_t)n, again);
		require(strcmp(again, text) == 0);
	}
}

static void on_rubbish(const char *text, size_t size, void *userdata)
{
	struct heard *h = userdata;

	require(size > 0 && size <= CHANNEL_LINE_MAX && text[size] == '\0');
	h->foreign++;
	add(h, text, size);
}

static void on_end(void *userdata)
{
	struct heard *h = userdata;

	require(!h->ended);
	h->ended = true;
}

static void on_probed(bool unchanged, void *userdata)
{
	struct heard *h = userdata;

	h->lines++;
	h->sum = h->sum * 31 + unchanged;
}

static struct heard hear(
	struct ev_loop *loop, const uint8_t *data, size_t size, size_t most, bool frames)
{
	static const struct channel_events events = {
		.line = on_line, .foreign = on_rubbish, .end = on_end, .probed = on_probed};
	_cleanup_(channel_free_p) struct channel *c = NULL;
	struct heard h = {0};
	size_t at, piece;
	int pair[2];

	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	require(channel_new_take(loop, pair[0], dup(pair[0]), &events, &h, &c) == 0);
	if (frames)
		channel_take_frames(c);
	for (at = 0; at < size && !h.ended; at += piece) {
		piece = most < size - at ? most : size - at;
		require(send(pair[1], data + at, piece, MSG_NOSIGNAL) == (ssize_t)piece);
		(void)ev_run(loop, EVRUN_NOWAIT);
	}
	(void)close_fd(pair[1]);
	while (!h.ended)
		(void)ev_run(loop, EVRUN_ONCE);
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ev_loop *loop;
	struct heard whole, pieces;
	bool frames;

	if (!loop)
		loop = ev_loop_new(EVFLAG_NOENV);
	if (size < 1 || size > 65536)
		return 0;
	frames = data[0] & 0x80;
	whole = hear(loop, data + 1, size - 1, size, frames);
	pieces = hear(loop, data + 1, size - 1, (size_t)(data[0] & 0x7f) + 1, frames);
	require(whole.lines == pieces.lines && whole.foreign == pieces.foreign &&
		whole.sum == pieces.sum);
	return 0;
}
