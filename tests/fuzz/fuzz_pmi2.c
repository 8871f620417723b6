/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any fields as PMI-2 messages with right lengths, of three tasks on two nodes that have begun to
 * talk: each answer is a message with a right length, and nothing is held at the end. The bodies
 * are also parsed alone.
 *
 * The input: messages up to a zero byte; the first byte of each names the task.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/pmi/codec.h"
#include "pmi_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_parser(const char *body, size_t size)
{
	_cleanup_bytes_ struct bytes again = {0};
	_cleanup_pmi_message_ struct pmi_message m = {0}, second = {0};
	char *copy = malloc(size + 1), key[64];
	struct pmi_writer w;
	struct pmi_frame f;
	size_t i;

	require(copy != NULL);
	memcpy(copy, body, size);
	if (pmi2_parse(copy, size, &m) == 0) {
		/* Written again, it has the same values. */
		pmi_write_begin(&w, &again, PMI_2);
		for (i = 0; i < m.count; i++) {
			(void)snprintf(key, sizeof(key), "k%zu", i);
			pmi_write_field(&w, key, m.fields[i].value);
		}
		require(pmi_write_end(&w) == 0 &&
			pmi_frame_find(PMI_2, slice_of(&again), PMI2_BODY_MAX, &f) == 0 &&
			f.total == bytes_size(&again));
		require(pmi2_parse(again.held.data + f.begin, f.size, &second) == 0 &&
			second.count == m.count);
		for (i = 0; i < m.count; i++)
			require(m.fields[i].value.size == second.fields[i].value.size &&
				memcmp(m.fields[i].value.data, second.fields[i].value.data,
					m.fields[i].value.size) == 0);
	}
	free(copy);
}

static void check_answers(struct rig *rig, uint32_t rank)
{
	struct slice out = pmi_output(rig_task(rig, rank));
	struct pmi_frame f;

	if (pmi_has_ended(rig_task(rig, rank)))
		return;
	while (out.size > 0 && out.data[0] != 'c') {
		require(pmi_frame_find(PMI_2, out, PMI2_BODY_MAX, &f) == 0);
		out.data += f.total;
		out.size -= f.total;
	}
	(void)rig_heard(rig, rank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t layout[] = {0, 1, 1};
	const uint8_t *end = data + size, *zero;
	struct rig rig;
	char head[32];
	uint32_t rank;
	size_t n;

	rig_open(&rig, 2, 3, layout, 1000);
	for (rank = 0; rank < 3; rank++) {
		rig_send(&rig, rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
		rig_send2(&rig, rank, "cmd=fullinit;");
		(void)rig_heard(&rig, rank);
	}
	while (end - data > 1) {
		rank = *data++ % 3;
		zero = memchr(data, '\0', (size_t)(end - data));
		n = (size_t)((zero ? zero : end) - data);
		if (n > 0) {
			check_parser((const char *)data, n);
			(void)snprintf(head, sizeof(head), "%-6zu", n);
			rig_send(&rig, rank, head);
			rig_send_bytes(&rig, rank, data, n);
			check_answers(&rig, rank);
		} else {
			rig_pass(&rig, 500);
		}
		data += n + (zero ? 1 : 0);
	}
	rig_close(&rig);
	return 0;
}
