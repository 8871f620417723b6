/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who wants the tasks' output on this node. libpmix says what is asked for, but not by whom, and of
 * a request that ends not which it was. So what is asked for goes on until all that was asked has
 * ended, or all tools have gone; in between, what perhaps nobody wants goes on for DOUBTS_MAX bytes
 * (libpmix 4.2 keeps what it can't deliver).
 */
#include <string.h>

#include "mpi/pmix/iof.h"

#define DOUBTS_MAX ((uint64_t)16 << 20)

struct tool {
	struct tool *next;
	pmix_proc_t proc;
};

struct pull {
	struct pull *next;
	pmix_proc_t *procs;
	size_t nprocs;
	pmix_iof_channel_t channels;
	pmix_proc_t owner; /* of a spawn: who gets it; else nobody */
	uint64_t number;
};

/* ---- pulls ---- */

static void pull_free(struct pull *pull)
{
	free(pull->procs);
	free(pull);
}

static struct pull *add_pull(
	struct iof *iof, const pmix_proc_t *procs, size_t count, pmix_iof_channel_t channels)
{
	struct pull *pull = calloc(1, sizeof(*pull));

	if (!pull)
		return NULL;
	pull->procs = calloc(count, sizeof(*procs));
	if (!pull->procs) {
		free(pull);
		return NULL;
	}
	memcpy(pull->procs, procs, count * sizeof(*procs));
	pull->nprocs = count;
	pull->channels = channels;
	pull->number = ++iof->used;
	pull->next = iof->pulls;
	iof->pulls = pull;
	return pull;
}

uint64_t iof_pulls_add(struct iof *iof, const struct call *call)
{
	const struct pull *pull =
		add_pull(iof, call->procs, call->nprocs, (pmix_iof_channel_t)call->code);

	return pull ? pull->number : 0;
}

static bool has_owner(const struct pull *pull)
{
	return pull->owner.nspace[0] != '\0';
}

static bool covers(const struct pull *pull, const pmix_proc_t *proc, pmix_iof_channel_t channel)
{
	if (!(pull->channels & channel))
		return false;
	for (size_t i = 0; i < pull->nprocs; i++) {
		if (PMIX_CHECK_PROCID(&pull->procs[i], proc))
			return true;
	}
	return false;
}

bool iof_is_wanted(
	struct iof *iof, const pmix_proc_t *proc, pmix_iof_channel_t channel, size_t size)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next) {
		if (!covers(pull, proc, channel))
			continue;
		if (has_owner(pull))
			return true;
		n++;
	}
	if (n == 0 || n > iof->ended)
		return n > 0;
	iof->doubts += size;
	if (iof->doubts <= DOUBTS_MAX)
		return true;
	if (!iof->told_doubts)
		serve_log(iof->px->serve, LOG_LEVEL_WARNING,
			"PMIx tools have ended some of their requests for output, and libpmix does "
			"not say which: what of the rest may be unwanted is no longer delivered");
	iof->told_doubts = true;
	return false;
}

/* Those of nobody that is known are left out with the last of them. */
static void drop_pulls(struct iof *iof, const pmix_proc_t *owner)
{
	struct pull **at = &iof->pulls, *pull;
	bool had = iof->pulls;

	while ((pull = *at)) {
		if (owner ? !has_owner(pull) || !PMIX_CHECK_PROCID(&pull->owner, owner)
			  : has_owner(pull)) {
			at = &pull->next;
			continue;
		}
		*at = pull->next;
		pull_free(pull);
	}
	if (!owner) {
		iof->ended = 0;
		iof->doubts = 0;
		iof->told_doubts = false;
	}
	if (!had || iof->pulls)
		return;
	iof_deliver_drop(iof);
	iof_ask_stop(iof);
}

void iof_pulls_end_one(struct iof *iof)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next)
		n += !has_owner(pull);
	if (n == 0)
		return;
	if (++iof->ended >= n)
		drop_pulls(iof, NULL);
}

void iof_pulls_forget(struct iof *iof, uint64_t number)
{
	struct pull **at = &iof->pulls, *pull;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	pull = *at;
	if (!pull)
		return; /* the tools have gone meanwhile */
	*at = pull->next;
	pull_free(pull);
	if (!iof->pulls)
		iof_ask_stop(iof);
}

/* ---- spawns whose output somebody gets ---- */

int iof_add_spawn(struct px *px, const char *nspace, const pmix_proc_t *owner, unsigned streams)
{
	struct pull *pull;
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
	pull = add_pull(px->iof, &all, 1,
		(pmix_iof_channel_t)((streams & LINK_STDOUT ? PMIX_FWD_STDOUT_CHANNEL : 0) |
			(streams & LINK_STDERR ? PMIX_FWD_STDERR_CHANNEL : 0)));
	if (!pull)
		return -ENOMEM;
	pull->owner = *owner;
	iof_room_changed(px->iof);
	return 0;
}

void iof_drop_spawn(struct px *px, const char *nspace)
{
	struct pull **at = &px->iof->pulls, *pull;

	while ((pull = *at)) {
		if (!has_owner(pull) || !PMIX_CHECK_NSPACE(pull->procs[0].nspace, nspace)) {
			at = &pull->next;
			continue;
		}
		*at = pull->next;
		pull_free(pull);
	}
}

/* ---- tools and ranks that come and go ---- */

void iof_tool_connected(struct px *px, const pmix_proc_t *proc)
{
	struct tool *tool = calloc(1, sizeof(*tool));

	if (!tool)
		return; /* it can't pull, and is told so */
	tool->proc = *proc;
	tool->next = px->iof->tools;
	px->iof->tools = tool;
}

void iof_proc_gone(struct px *px, const pmix_proc_t *proc)
{
	struct tool **at = &px->iof->tools, *tool;

	drop_pulls(px->iof, proc);
	while (*at && !PMIX_CHECK_PROCID(&(*at)->proc, proc))
		at = &(*at)->next;
	tool = *at;
	if (!tool)
		return;
	*at = tool->next;
	free(tool);
	if (!px->iof->tools)
		drop_pulls(px->iof, NULL);
	iof_room_changed(px->iof);
	iof_deliver_next(px->iof);
}

/* ---- life ---- */

void iof_pulls_close(struct iof *iof)
{
	struct tool *tool;
	struct pull *pull;

	while ((pull = iof->pulls)) {
		iof->pulls = pull->next;
		pull_free(pull);
	}
	while ((tool = iof->tools)) {
		iof->tools = tool->next;
		free(tool);
	}
}
