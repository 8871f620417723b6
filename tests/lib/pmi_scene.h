/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Conversations with the servers of pmi_rig.h, as unit tests hold them: a protocol is what its
 * tasks say first and how its messages stand on the line, a scene is a step whose tasks have said
 * it.
 */
#ifndef TESTS_LIB_PMI_SCENE_H
#define TESTS_LIB_PMI_SCENE_H

#include "pmi_rig.h"

struct rig_dialect {
	const char *init, *init_answer;
	/* The next message, NULL: none; its answer has the rank and the size. */
	const char *full, *full_answer;
	bool has_lengths; /* of messages from then on, in both directions */
};

#define PMI1_INIT "cmd=init pmi_version=1 pmi_subversion=1\n"
#define PMI2_INIT "cmd=init pmi_version=2 pmi_subversion=0\n"

extern const struct rig_dialect pmi1_dialect, pmi2_dialect;

/* A task sends that, and gets this. sends NULL: it sends nothing, and still gets this. */
struct rig_line {
	uint32_t rank;
	const char *sends, *expects;
};

struct rig_scene {
	const struct rig_dialect *dialect;
	uint32_t nodes, size;
	const uint32_t *layout; /* as in rig_open() */
	bool are_silent;        /* the tasks have sent nothing yet */
	/* For rig_play(), which wants nothing logged; the last one hears NULL. */
	const struct rig_line *lines;
};

void rig_open_scene(struct rig *rig, const struct rig_scene *scene);
void rig_open_all(struct rig *rig, const struct rig_dialect *dialect, uint32_t nodes, uint32_t size,
	const uint32_t *layout);

/* The output for the task, as rig_heard(); of PMI-2 the body of the one message. */
const char *rig_hear(struct rig *rig, uint32_t rank);
void rig_expect(struct rig *rig, uint32_t rank, const char *sends, const char *expects);

/* For cmocka: *state is the scene before rig_set_up(), and its rig after. rig_play() is a test of
 * nothing but lines. */
int rig_set_up(void **state);
int rig_tear_down(void **state);
void rig_play(void **state);

/* Rows of a table of tests. */
#define TEST_OF(its_name, function, scene)                                                         \
	{                                                                                          \
		.name = its_name, .test_func = function, .initial_state = scene,                   \
		.setup_func = rig_set_up, .teardown_func = rig_tear_down                           \
	}
#define IN_SCENE(test, its_dialect, its_nodes, its_size, its_layout)                               \
	TEST_OF(#test, test,                                                                       \
		(&(struct rig_scene){.dialect = &(its_dialect),                                    \
			.nodes = (its_nodes),                                                      \
			.size = (its_size),                                                        \
			.layout = (its_layout)}))
#define PLAY(scene) TEST_OF(#scene, rig_play, (void *)(uintptr_t) & (scene))

#endif
