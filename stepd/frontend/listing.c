/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/listing.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

/* Looks at processes between two turns of the loop: some milliseconds. */
#define LOOKS_MAX 256

/* ---- text ------------------------------------------------------------------------------------ */

static void add_bytes(struct text *text, const char *p, size_t size)
{
	size_t room = text->room ? text->room : 512;
	char *grown;

	while (room - text->size < size)
		room *= 2;
	if (room > text->room && !text->failed) {
		grown = realloc(text->p, room);
		text->failed = !grown;
		if (grown) {
			text->p = grown;
			text->room = room;
		}
	}
	if (text->failed)
		return;
	memcpy(text->p + text->size, p, size);
	text->size += size;
}

void text_add(struct text *text, const char *piece)
{
	add_bytes(text, piece, strlen(piece));
}

void text_add_number(struct text *text, int64_t n)
{
	char digits[24], *p = digits + sizeof(digits);
	uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (n < 0)
		*--p = '-';
	add_bytes(text, p, (size_t)(digits + sizeof(digits) - p));
}

void text_clear(struct text *text)
{
	free(text->p);
	*text = (struct text){0};
}

/* ---- listings -------------------------------------------------------------------------------- */

static void clear(struct kept *kept)
{
	struct listing *l = (struct listing *)kept;

	if (l->clear)
		l->clear(l);
	ev_timer_stop(kept->m->a->loop, &l->turn);
	(void)close_fd(l->proc_fd);
	text_clear(&l->text);
	free(l->elements);
}

static void on_turn(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	assert(w->data);
	listing_run(w->data);
}

static void on_drained(struct control_call *call, void *userdata)
{
	(void)call;
	assert(userdata);
	listing_run(userdata);
}

void *listing_new(struct methods *m, struct control_call *call, size_t size, const char *field,
	bool (*add)(struct listing *l))
{
	struct listing *l = kept_new(m, call, KEPT_LISTING, size, clear);

	assert(size >= sizeof(*l));
	if (!l)
		return NULL;
	l->field = field;
	l->add = add;
	l->proc_fd = -1;
	ev_timer_init(&l->turn, on_turn, 0., 0.);
	l->turn.data = l;
	return l;
}

static void begin_piece(struct listing *l)
{
	l->text.size = 0;
	l->in_piece = 0;
	text_add(&l->text, "{\"");
	text_add(&l->text, l->field);
	text_add(&l->text, l->one ? "\":" : "\":[");
}

/* FindPid's. */
static void answer_none(struct listing *l)
{
	struct control_call *call = l->kept.call;
	pid_t pid = *(const pid_t *)l->elements;

	kept_free(&l->kept);
	answer_no_process(call, pid);
}

/* What has been gathered, if there was memory for it; the call has got its error if not. */
static bool take_text(struct listing *l, struct text *ret_text)
{
	struct control_call *call = l->kept.call;

	if (l->text.failed) {
		kept_free(&l->kept);
		control_no_memory(call);
		return false;
	}
	*ret_text = l->text;
	l->text = (struct text){0};
	return true;
}

/* The answer may find that the caller has gone: l is no more then, as after the last one. */
static void answer(struct listing *l, bool last)
{
	struct control_call *call = l->kept.call;
	struct text text;

	if (!take_text(l, &text))
		return;
	if (last) {
		kept_free(&l->kept);
		control_reply_text(call, text.p, text.size);
	} else {
		control_call_on_drained(call, on_drained, l);
		control_reply_more_text(call, text.p, text.size);
	}
	text_clear(&text);
}

static void fill(struct listing *l)
{
	size_t looked = 0, before;

	while (l->at < l->n && l->in_piece < l->piece_max) {
		if (l->looks && looked++ == LOOKS_MAX)
			return;
		before = l->text.size;
		if (l->in_piece)
			text_add(&l->text, ",");
		if (l->add(l))
			l->in_piece++;
		else
			l->text.size = before;
		l->at++;
	}
}

void listing_run(struct listing *l)
{
	if (l->proc_fd < 0 && l->looks)
		l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->text.size == 0)
		begin_piece(l);
	fill(l);
	if (l->at < l->n && l->in_piece < l->piece_max) {
		ev_timer_set(&l->turn, 0., 0.);
		ev_timer_start(l->kept.m->a->loop, &l->turn);
		return;
	}
	text_add(&l->text, l->one ? "}" : "]}");
	if (l->at == l->n && l->one && l->in_piece == 0)
		answer_none(l);
	else
		answer(l, l->at == l->n);
}
