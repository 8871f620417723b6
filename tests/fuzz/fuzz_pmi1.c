/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what two tasks on two nodes say, from the first on, in any pieces: the server comes
 * back, its output in PMI-1 is lines, and at the end nothing is held.
 *
 * The input is pieces: a byte of which bit 7 is the task, bits 0 to 6 the size; 127: time passes;
 * 126: the task hangs up.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pmi_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t layout[] = {0, 1};
	const uint8_t *end = data + size;
	const char *heard;
	struct rig rig;
	uint32_t rank;
	size_t n;

	rig_open(&rig, 2, 2, layout, 1000);
	while (data < end) {
		rank = *data >> 7;
		n = *data++ & 127;
		if (n == 127) {
			rig_pass(&rig, 500);
			continue;
		}
		if (n == 126) {
			pmi_hung_up(rig_task(&rig, rank), NULL);
			rig_settle(&rig);
			continue;
		}
		n = n < (size_t)(end - data) ? n : (size_t)(end - data);
		rig_send_bytes(&rig, rank, data, n);
		data += n;
		heard = rig_heard(&rig, rank);
		require(heard[0] == '\0' || strncmp(heard, "cmd=", 4) == 0 || heard[0] == ' ' ||
			(heard[0] >= '0' && heard[0] <= '9'));
	}
	rig_pass(&rig, 100000);
	require(pmi_next_ms(rig.nodes[0].pmi) == 0 || pmi_next_ms(rig.nodes[0].pmi) > rig.now_ms);
	rig_close(&rig);
	return 0;
}
