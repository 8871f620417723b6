/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests of the client library: a runtime directory, a scripted agent that may be started
 * in it, a connection and its error. After <cmocka.h>.
 */
#ifndef TESTS_LIB_CLIENT_RIG_H
#define TESTS_LIB_CLIENT_RIG_H

#include "stepd/api/client.h"
#include "tests/lib/fake_agent.h"
#include "tests/lib/scratch.h"

#define LONG_MS 300000 /* for what comes at once; a guard against hanging */

struct rig {
	char *runtime;
	char *directory; /* of the agent's step, 7.0 on n1 */
	struct fake_agent agent;
	struct stepd_client *client;
	struct stepd_error error;
	char *reply;
	int fds;
};

static inline int rig_begin(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	if (!rig)
		return -1;
	rig->runtime = scratch_make();
	rig->directory = scratch_path(rig->runtime, "n1_7.0");
	rig->fds = scratch_count_fds();
	*state = rig;
	return 0;
}

/* Every test gives back each descriptor. */
static inline int rig_end(void **state)
{
	struct rig *rig = *state;
	int fds, before = rig->fds;

	free(rig->reply);
	stepd_disconnect(rig->client);
	fds = scratch_count_fds();
	fake_agent_stop(&rig->agent);
	scratch_remove(rig->runtime);
	if (fds != before)
		print_error("%d descriptors before, %d after\n", before, fds);
	free(rig->runtime);
	free(rig->directory);
	free(rig);
	return fds - before;
}

#endif
