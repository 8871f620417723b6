/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/running.h"

#define SHOWN_SIZE 400 /* of a list of ranks */

int running_init(struct running *running, uint32_t ntasks)
{
	running->ntasks = ntasks;
	return bitset_init(&running->ended, ntasks);
}

void running_end(struct running *running, uint32_t rank)
{
	if (rank < running->ntasks)
		bitset_set(&running->ended, rank);
}

bool running_has_ended(const struct running *running, uint32_t rank)
{
	return rank >= running->ntasks || bitset_test(&running->ended, rank);
}

bool running_any_ended(const struct running *running)
{
	return bitset_count(&running->ended) > 0;
}

static void show(const char *words, const struct bitset *set, const char *behind)
{
	char text[SHOWN_SIZE];
	size_t size = bitset_format_list(set, text, sizeof(text));

	fprintf(stderr, "%s %s%s%s", words, text, size >= sizeof(text) ? "..." : "", behind);
}

void running_tell(const struct running *running)
{
	_cleanup_bitset_ struct bitset run = {0};
	uint32_t i;

	if (bitset_init(&run, running->ntasks) < 0)
		return;
	for (i = 0; i < running->ntasks; i++) {
		if (!bitset_test(&running->ended, i))
			bitset_set(&run, i);
	}
	fputs("steprun:", stderr);
	if (bitset_count(&run) > 0)
		show(" running: tasks", &run, running_any_ended(running) ? ";" : "");
	if (running_any_ended(running))
		show(" ended: tasks", &running->ended, "");
	fputc('\n', stderr);
}

void running_clear(struct running *running)
{
	bitset_clear(&running->ended);
}
