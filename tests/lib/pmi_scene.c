/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pmi_scene.h"

const struct rig_dialect pmi1_dialect = {
	.init = PMI1_INIT,
	.init_answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
};

const struct rig_dialect pmi2_dialect = {
	.init = PMI2_INIT,
	.init_answer = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
	.full = "cmd=fullinit;pmirank=0;threaded=FALSE;",
	.full_answer = "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=%u;size=%u;"
		       "appnum=0;debugged=FALSE;pmiverbose=FALSE;",
	.has_lengths = true,
};

const char *rig_hear(struct rig *rig, uint32_t rank)
{
	const char *heard = rig_heard(rig, rank);
	char head[32];

	if (!rig->dialect->has_lengths || !heard[0])
		return heard;
	(void)snprintf(head, sizeof(head), "%-6zu", strlen(heard + 6));
	assert_memory_equal(heard, head, 6);
	return heard + 6;
}

void rig_expect(struct rig *rig, uint32_t rank, const char *sends, const char *expects)
{
	if (sends && rig->dialect->has_lengths)
		rig_send2(rig, rank, sends);
	else if (sends)
		rig_send(rig, rank, sends);
	assert_string_equal(rig_hear(rig, rank), expects);
}

static void greet(struct rig *rig, uint32_t rank, uint32_t size)
{
	const struct rig_dialect *dialect = rig->dialect;
	char answer[200];

	rig_send(rig, rank, dialect->init);
	assert_string_equal(rig_heard(rig, rank), dialect->init_answer);
	if (!dialect->full)
		return;
	(void)snprintf(answer, sizeof(answer), dialect->full_answer, rank, size);
	rig_expect(rig, rank, dialect->full, answer);
}

void rig_open_scene(struct rig *rig, const struct rig_scene *scene)
{
	uint32_t i;

	rig_open(rig, scene->nodes, scene->size, scene->layout, 5000);
	rig->dialect = scene->dialect;
	for (i = 0; i < scene->size && !scene->are_silent; i++)
		greet(rig, i, scene->size);
}

void rig_open_all(struct rig *rig, const struct rig_dialect *dialect, uint32_t nodes, uint32_t size,
	const uint32_t *layout)
{
	const struct rig_scene scene = {
		.dialect = dialect, .nodes = nodes, .size = size, .layout = layout};

	rig_open_scene(rig, &scene);
}

/* ---- tests ---------------------------------------------------------------------------------- */

struct held {
	struct rig rig; /* first: what the test finds */
	const struct rig_scene *scene;
};

int rig_set_up(void **state)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held)
		return -1;
	held->scene = *state;
	rig_open_scene(&held->rig, held->scene);
	*state = held;
	return 0;
}

int rig_tear_down(void **state)
{
	struct held *held = *state;

	rig_close(&held->rig);
	free(held);
	return 0;
}

void rig_play(void **state)
{
	struct held *held = *state;
	const struct rig_line *line;

	for (line = held->scene->lines; line->expects; line++)
		rig_expect(&held->rig, line->rank, line->sends, line->expects);
	assert_string_equal(held->rig.log, "");
}
