/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/spawn_answer.h"

#include <string.h>

/* "0,0,-1": one for each task, as far as the answer's line and its reader have room. */
static void list_codes(const struct spawning *s, int r, uint32_t size, const int *errcodes,
	char *text, size_t text_size)
{
	size_t at = 0;
	uint32_t i;
	int code;

	text[0] = '\0';
	for (i = 0; i < size && at + 16 < text_size; i++) {
		code = (errcodes ? errcodes[i] : r) != 0 ? PMI_FAIL : PMI_OK;
		at += (size_t)snprintf(text + at, text_size - at, i ? ",%d" : "%d", code);
	}
	(void)s;
}

void spawn_answer(struct spawning *s, int r, uint32_t number, uint32_t size, const int *errcodes,
	const struct err *err)
{
	struct pmi_task *task = s->ask.task;
	char codes[700], jobid[PMI_NAME_MAX], why[200], *p;
	struct answer a;

	list_codes(s, r, size, errcodes, codes, sizeof(codes));
	answer_open(&a, &s->ask);
	answer_int(&a, "rc", r < 0 ? (s->ask.protocol == PMI_1 ? PMI_FAIL : PMI_OTHER) : PMI_OK);
	if (r < 0) {
		(void)snprintf(why, sizeof(why), "%.199s", err->text);
		for (p = why; *p && s->ask.protocol == PMI_1; p++)
			*p = *p == ' ' ? '_' : *p;
		answer_text(&a, s->ask.protocol == PMI_1 ? "msg" : "errmsg", why);
	} else {
		(void)snprintf(jobid, sizeof(jobid), "%.200s.%u", task->pmi->label, number);
		answer_text(&a, "jobid", jobid);
	}
	answer_text(&a, "errcodes", codes);
	answer_close(&a);
}
