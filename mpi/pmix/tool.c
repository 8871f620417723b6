/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tools that connect: debuggers, those that ask. They find the server by the file that libpmix
 * leaves in the session directory, which only its owner and root can open. What they say of their
 * user has been compared with what the kernel says, before libpmix heard of them (admit.h).
 */
#include <stdio.h>

#include "mpi/pmix/px.h"

void px_tool(struct px *px, struct call *call)
{
	char nspace[PMIX_MAX_NSLEN + 1];
	pmix_proc_t proc;

	(void)snprintf(
		nspace, sizeof(nspace), "%.220s.tool-%u.%u", px->names.base, px->node, ++px->tools);
	PMIX_LOAD_PROCID(&proc, nspace, 0);
	serve_log(px->serve, LOG_LEVEL_INFO, "a PMIx tool has connected, as %s", nspace);
	iof_tool_connected(px, &proc);
	call_answer_tool(call, PMIX_SUCCESS, &proc);
}
