/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-selftest-pmix: a task of the step by which "stepd doctor --mpi" tries an MPI plugin that
 * serves PMIx (mpi/selftest.h). It is linked with libpmix as any program is, so that the library
 * it has is the one that a program started from the same environment would have; of what version
 * the server's is stands in PMIX_VERSION, which the server's library sets.
 */
#include <pmix.h>
#include <string.h>

#include "mpi/pmix/version.h"
#include "mpi/selftest.h"

static void get_versions(char *versions, size_t size)
{
	const char *server = getenv("PMIX_VERSION");
	char client[VERSION_SIZE], of_server[VERSION_SIZE] = "";

	version_find(PMIx_Get_version(), client);
	if (server)
		version_find(server, of_server);
	(void)snprintf(versions, size, "client=%s server=%s", client, of_server);
}

static int fail(const struct selftest *t, pmix_status_t status)
{
	char versions[160];

	get_versions(versions, sizeof(versions));
	return selftest_fail(t, "%s (%s)", PMIx_Error_string(status), versions);
}

static int check_rank(struct selftest *t, const pmix_proc_t *me, const pmix_proc_t *everybody)
{
	pmix_value_t *value = NULL;
	pmix_status_t status = PMIx_Get(everybody, PMIX_JOB_SIZE, NULL, 0, &value);
	uint32_t size;

	if (status == PMIX_SUCCESS && value->type != PMIX_UINT32)
		status = PMIX_ERR_TYPE_MISMATCH;
	size = status == PMIX_SUCCESS ? value->data.uint32 : 0;
	if (value)
		PMIX_VALUE_RELEASE(value);
	return status == PMIX_SUCCESS ? selftest_check_rank(t, me->rank, size) : fail(t, status);
}

static int put(
	struct selftest *t, _unused_ const pmix_proc_t *me, _unused_ const pmix_proc_t *everybody)
{
	char key[SELFTEST_PAIR_SIZE], text[SELFTEST_PAIR_SIZE];
	pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
	pmix_status_t status;

	selftest_make_key(t->rank, key);
	selftest_make_value(t->rank, text);
	status = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? EXIT_SUCCESS : fail(t, status);
}

static int fence(struct selftest *t, _unused_ const pmix_proc_t *me, const pmix_proc_t *everybody)
{
	bool collect = true;
	pmix_info_t info;
	pmix_status_t status;

	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	status = PMIx_Fence(everybody, 1, &info, 1);
	return status == PMIX_SUCCESS ? EXIT_SUCCESS : fail(t, status);
}

static int get(struct selftest *t, const pmix_proc_t *me, _unused_ const pmix_proc_t *everybody)
{
	uint32_t other = 1 - t->rank;
	char key[SELFTEST_PAIR_SIZE];
	pmix_value_t *value = NULL;
	pmix_status_t status;
	pmix_proc_t peer;
	int r;

	selftest_make_key(other, key);
	PMIX_LOAD_PROCID(&peer, me->nspace, other);
	status = PMIx_Get(&peer, key, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		return fail(t, status);
	r = selftest_check_value(t, other,
		value->type == PMIX_STRING && value->data.string ? value->data.string : "");
	PMIX_VALUE_RELEASE(value);
	return r;
}

static int exchange(struct selftest *t, const pmix_proc_t *me)
{
	static const struct {
		enum selftest_stage stage;
		int (*run)(struct selftest *t, const pmix_proc_t *me, const pmix_proc_t *everybody);
	} steps[] = {{SELFTEST_RANK, check_rank}, {SELFTEST_PUT, put}, {SELFTEST_FENCE, fence},
		{SELFTEST_GET, get}};
	pmix_proc_t everybody;
	int status = EXIT_SUCCESS;

	PMIX_LOAD_PROCID(&everybody, me->nspace, PMIX_RANK_WILDCARD);
	for (size_t i = 0; i < ARRAY_SIZE(steps) && status == EXIT_SUCCESS; i++) {
		selftest_at(t, steps[i].stage);
		status = steps[i].run(t, me, &everybody);
	}
	return status;
}

static int try_pmix(struct selftest *t)
{
	char versions[160];
	pmix_status_t status;
	pmix_proc_t me;
	int r;

	/* Without a server libpmix takes itself for a program of one process, and all goes well. */
	if (!getenv("PMIX_NAMESPACE"))
		return selftest_absent(t, "PMIX_NAMESPACE is not set");
	selftest_at(t, SELFTEST_INIT);
	status = PMIx_Init(&me, NULL, 0);
	if (status != PMIX_SUCCESS)
		return fail(t, status);
	r = exchange(t, &me);
	if (r != EXIT_SUCCESS)
		return r;
	selftest_at(t, SELFTEST_FINALIZE);
	status = PMIx_Finalize(NULL, 0);
	if (status != PMIX_SUCCESS)
		return fail(t, status);
	get_versions(versions, sizeof(versions));
	return selftest_done(t, versions);
}

int main(void)
{
	struct selftest t;
	int status;

	if (selftest_begin(&t) < 0) {
		(void)fprintf(
			stderr, "mpi-selftest-pmix: only for the steps of 'stepd doctor --mpi'\n");
		return EXIT_FAILURE;
	}
	status = try_pmix(&t);
	/* After a failure libpmix's thread may wait for a server that is gone. */
	_exit(status);
}
