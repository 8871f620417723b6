/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-selftest pmi1|pmi2|env: a task of the step by which "stepd doctor --mpi" tries an MPI plugin,
 * speaking PMI-1 or PMI-2, or reading no more than its environment (mpi/selftest.h).
 */
#include <string.h>

#include "mpi/pmi/client.h"
#include "mpi/selftest.h"

/* Less than the doctor waits, so that this can report where it hung. */
#define TIMEOUT_MS 9000u

extern char **environ;

/* The client's messages are for an agent that an engine has started: drops the parts that do not
 * apply here. */
static int fail(const struct selftest *t, const struct err *err)
{
	static const char server[] = "the engine's PMI server ";
	const size_t len = sizeof(server) - 1;

	if (err->code == -ETIMEDOUT)
		return selftest_fail(t, "the PMI server does not answer in time");
	if (err->code == -ECONNRESET || err->code == -EPIPE)
		return selftest_fail(t, "the PMI server has hung up");
	if (strncmp(err->text, server, len) == 0)
		return selftest_fail(t, "the PMI server %s", err->text + len);
	return selftest_fail(t, "%s", err->text);
}

static int exchange(struct selftest *t, struct pmi_client *o, struct err *err)
{
	char key[SELFTEST_PAIR_SIZE], value[SELFTEST_PAIR_SIZE], got[PMI_CLIENT_VALUE_MAX + 1];
	uint32_t other = 1 - t->rank;
	int r;

	selftest_at(t, SELFTEST_PUT);
	selftest_make_key(t->rank, key);
	selftest_make_value(t->rank, value);
	r = pmi_client_put(o, key, value, err);
	if (r < 0)
		return fail(t, err);
	selftest_at(t, SELFTEST_FENCE);
	r = pmi_client_fence(o, err);
	if (r < 0)
		return fail(t, err);
	selftest_at(t, SELFTEST_GET);
	selftest_make_key(other, key);
	r = pmi_client_get(o, key, got, err);
	return r < 0 ? fail(t, err) : selftest_check_value(t, other, got);
}

static int try_pmi(struct selftest *t, unsigned version)
{
	const struct pmi_client_options options = {
		.environ = environ, .version = version, .timeout_ms = TIMEOUT_MS};
	_cleanup_pmi_client_ struct pmi_client *o = NULL;
	struct err err = ERR_INIT;
	int status;

	if (!getenv("PMI_FD") && !getenv("PMI_PORT"))
		return selftest_absent(t, "neither PMI_FD nor PMI_PORT is set");
	selftest_at(t, SELFTEST_INIT);
	if (pmi_client_open(&options, &o, &err) < 0)
		return fail(t, &err);
	selftest_at(t, SELFTEST_RANK);
	status = selftest_check_rank(t, pmi_client_get_rank(o), pmi_client_get_size(o));
	if (status == EXIT_SUCCESS)
		status = exchange(t, o, &err);
	if (status != EXIT_SUCCESS)
		return status;
	selftest_at(t, SELFTEST_FINALIZE);
	if (pmi_client_finalize(o, &err) < 0)
		return fail(t, &err);
	return selftest_done(t, "");
}

int main(int argc, char **argv)
{
	const char *kind = argc == 2 ? argv[1] : "";
	struct selftest t;

	if (selftest_begin(&t) < 0 ||
		(strcmp(kind, "pmi1") != 0 && strcmp(kind, "pmi2") != 0 &&
			strcmp(kind, "env") != 0)) {
		(void)fprintf(stderr, "mpi-selftest: only for the steps of 'stepd doctor --mpi'\n");
		return EXIT_FAILURE;
	}
	if (strcmp(kind, "env") == 0)
		return selftest_done(&t, ""); /* it has found its rank and the step's size */
	return try_pmi(&t, kind[3] == '1' ? 1 : 2);
}
