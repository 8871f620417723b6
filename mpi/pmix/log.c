/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx_Log. The streams of tasks do not pass through this process: what is for standard output or
 * error goes into the step's log, line by line, with the rank in front. libpmix itself takes what
 * is for syslog.
 */
#include <string.h>
#include <syslog.h>

#include "mpi/pmix/px.h"

static void log_text(struct px *px, const pmix_proc_t *proc, enum log_level level, const char *text)
{
	size_t len;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len)
			serve_log(px->serve, level, "rank %u: %.*s", proc->rank,
				(int)(len < 1000 ? len : 1000), text);
	}
}

void px_log(struct px *px, struct call *call)
{
	bool done = false, refused = false;
	const pmix_info_t *info;

	for (size_t i = 0; i < call->ninfo; i++) {
		info = &call->info[i];
		if (PMIX_CHECK_KEY(info, PMIX_LOG_STDERR) && info->value.type == PMIX_STRING)
			log_text(px, &call->proc, LOG_LEVEL_WARNING, info->value.data.string);
		else if (PMIX_CHECK_KEY(info, PMIX_LOG_STDOUT) && info->value.type == PMIX_STRING)
			log_text(px, &call->proc, LOG_LEVEL_INFO, info->value.data.string);
		else if ((PMIX_CHECK_KEY(info, PMIX_LOG_SYSLOG) ||
				 PMIX_CHECK_KEY(info, PMIX_LOG_LOCAL_SYSLOG) ||
				 PMIX_CHECK_KEY(info, PMIX_LOG_GLOBAL_SYSLOG)) &&
			info->value.type == PMIX_STRING)
			syslog(LOG_ERR, "rank %u of %s: %s", call->proc.rank, call->proc.nspace,
				info->value.data.string);
		else {
			if (PMIX_CHECK_KEY(info, PMIX_LOG_EMAIL) ||
				PMIX_CHECK_KEY(info, PMIX_LOG_GLOBAL_DATASTORE) ||
				PMIX_CHECK_KEY(info, PMIX_LOG_JOB_RECORD))
				refused = true;
			continue;
		}
		done = true;
	}
	call_answer(call,
		done              ? PMIX_SUCCESS
			: refused ? PMIX_ERR_NOT_SUPPORTED
				  : PMIX_ERR_NOT_FOUND);
}
