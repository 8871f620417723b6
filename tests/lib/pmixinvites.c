/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups by invitation: further verbs of pmixclient. Rank 0 invites all, itself among them.
 */
#include "tests/lib/pmixclient.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP "test-invited"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static const pmix_status_t codes[] = {PMIX_GROUP_INVITED, PMIX_GROUP_CONSTRUCT_COMPLETE,
	PMIX_GROUP_INVITE_DECLINED, PMIX_ERR_PROC_ABORTED_BY_SIG};
#define CODES (sizeof(codes) / sizeof(codes[0]))
static pmix_proc_t sources[CODES];
static char groups[CODES][64]; /* whose name came with it */
static unsigned heard;         /* a bit each */

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
	(void)id;
	(void)results;
	(void)nresults;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CODES; i++) {
		if (codes[i] != status)
			continue;
		heard |= 1u << i;
		sources[i] = *source;
		for (size_t j = 0; j < ninfo; j++) {
			if (PMIX_CHECK_KEY(&info[j], PMIX_GROUP_ID))
				snprintf(groups[i], sizeof(groups[i]), "%s",
					info[j].value.data.string);
		}
	}
	pthread_cond_broadcast(&came);
	pthread_mutex_unlock(&lock);
	cbfunc(PMIX_SUCCESS, NULL, 0, NULL, NULL, cbdata);
}

/* Each by itself: libpmix notifies those before the handler of PMIx_Group_invite, which ends the
 * chain.
 */
static void listen_to(pmix_status_t code)
{
	pmix_status_t r = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);

	if (r < 0)
		die("PMIx_Register_event_handler", r);
}

/* From whom, in the order of codes. */
static size_t await_code(pmix_status_t code)
{
	size_t i = 0;

	while (i < CODES - 1 && codes[i] != code)
		i++;
	pthread_mutex_lock(&lock);
	while (!(heard & 1u << i))
		pthread_cond_wait(&came, &lock);
	pthread_mutex_unlock(&lock);
	return i;
}

static void answer_invitation(pmix_group_opt_t how)
{
	size_t i = await_code(PMIX_GROUP_INVITED), n = 0;
	pmix_info_t *results = NULL;
	char text[128];

	snprintf(text, sizeof(text), "to %s by %u", groups[i], sources[i].rank);
	report("invited", text);
	must(PMIx_Group_join(GROUP, &sources[i], how, NULL, 0, &results, &n), "PMIx_Group_join");
}

/* All ranks by name. */
static size_t everyone(pmix_proc_t *procs, size_t capacity)
{
	size_t n = 0;

	for (; n < size && n < capacity; n++)
		PMIX_LOAD_PROCID(&procs[n], me.nspace, (pmix_rank_t)n);
	return n;
}

/* Whom the server takes for its members. */
static void show_group(void)
{
	char key[] = PMIX_QUERY_GROUP_MEMBERSHIP, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys, .nqual = 1};
	pmix_info_t qualifier, *results = NULL;
	size_t n = 0;
	char text[64];

	PMIX_INFO_LOAD(&qualifier, PMIX_GROUP_ID, GROUP, PMIX_STRING);
	query.qualifiers = &qualifier;
	snprintf(text, sizeof(text), "%s", status_name(PMIx_Query_info(&query, 1, &results, &n)));
	if (n && results[0].value.type == PMIX_DATA_ARRAY)
		snprintf(text, sizeof(text), "%zu", results[0].value.data.darray->size);
	report("members", text);
}

static void leave_and_destruct(void)
{
	pmix_status_t status = PMIx_Group_leave(GROUP, NULL, 0);
	char text[64];

	snprintf(text, sizeof(text), "%s", status_name(status));
	report("left", text);
	fence(false);
	must(PMIx_Group_destruct(GROUP, NULL, 0), "PMIx_Group_destruct");
	report("invite", "gone");
	if (PMIx_Group_destruct(GROUP, NULL, 0) == PMIX_SUCCESS)
		die("a group was destructed twice", PMIX_ERROR);
	show_group();
}

/* "invite": all come. */
static int verb_invite(char **args)
{
	pmix_info_t *results = NULL;
	pmix_proc_t procs[64];
	size_t n = 0;

	(void)args;
	if (me.rank != 0) {
		listen_to(PMIX_GROUP_INVITED);
		listen_to(PMIX_GROUP_CONSTRUCT_COMPLETE);
	}
	fence(false);
	if (me.rank == 0) {
		must(PMIx_Group_invite(GROUP, procs, everyone(procs, 64), NULL, 0, &results, &n),
			"PMIx_Group_invite");
		report("invite", "complete");
	} else {
		answer_invitation(PMIX_GROUP_ACCEPT);
		(void)await_code(PMIX_GROUP_CONSTRUCT_COMPLETE);
		report("joined", groups[1]);
	}
	fence(false);
	show_group();
	leave_and_destruct();
	fence(false);
	return 0;
}

static void on_invite_over(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
	pmix_release_cbfunc_t release, void *release_data)
{
	(void)info;
	(void)ninfo;
	(void)cbdata;
	(void)release;
	(void)release_data;
	report("over", status_name(status));
}

static void invite_late(int seconds)
{
	pmix_proc_t procs[64];
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	must(PMIx_Group_invite_nb(
		     GROUP, procs, everyone(procs, 64), &info, 1, on_invite_over, NULL),
		"PMIx_Group_invite_nb");
}

/* "uninvited decline", "uninvited die", "uninvited wait": the last rank answers no, is killed, or
 * never answers, though there is a deadline of a second. */
static int verb_uninvited(char **args)
{
	bool last = me.rank == size - 1, dies = strcmp(args[0], "die") == 0;
	pmix_status_t awaited = dies ? PMIX_ERR_PROC_ABORTED_BY_SIG : PMIX_GROUP_INVITE_DECLINED;
	size_t i;
	char text[64];

	listen_to(me.rank == 0 ? awaited : PMIX_GROUP_INVITED);
	fence(false);
	if (me.rank == 0)
		invite_late(1);
	else if (!last || strcmp(args[0], "decline") == 0)
		answer_invitation(last ? PMIX_GROUP_DECLINE : PMIX_GROUP_ACCEPT);
	else
		(void)await_code(PMIX_GROUP_INVITED);
	if (last && dies)
		(void)kill(getpid(), SIGKILL);
	if (me.rank == 0 && strcmp(args[0], "wait") != 0) {
		i = await_code(awaited);
		snprintf(text, sizeof(text), "%s of %u", status_name(awaited), sources[i].rank);
		report("uninvited", text);
	}
	if (!dies)
		fence(true);
	if (PMIx_Group_destruct(GROUP, NULL, 0) == PMIX_SUCCESS)
		die("a group that was never made was destructed", PMIX_ERROR);
	report("served", "on");
	return 0;
}

const struct verb invite_verbs[] = {
	{"invite", verb_invite},
	{"uninvited", verb_uninvited},
	{NULL, NULL},
};
