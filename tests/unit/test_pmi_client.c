/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "mpi/pmi/client.h"
#include "stepd/cli/bootstrap.h"
#include "stepd/cli/cli.h"

const char stepd_version[] = "1.2.3";

/* ---- variables ------------------------------------------------------------------------------ */

static void the_engines_pmi_is_found_by_its_variables(void **state)
{
	static const char *const engines[] = {"PMI_FD=6", "PMI_RANK", "PMIX_NAMESPACE=x",
		"PMI2_X=", "HYDI_CONTROL_FD=7", "MPI_LOCALRANKID=0", "SLURM_PROCID=1",
		"SLURM_LAUNCH_NODE_IPADDR=x", "SLURM_STEP_ID=1", "SLURM_MPI_TYPE=pmi2",
		"FLUX_TASK_RANK=0", "SLURMD_NODENAME=n", "OMPI_COMM_WORLD_RANK=3"};
	static const char *const others[] = {"PATH=/bin", "PMI", "PM_X=1", "MPI_LOCALRANKIDS=0",
		"SLURM_JOB_ID=5", "SLURM_JOB_ACCOUNT=a", "SLURM_CLUSTER_NAME=c", "SLURM_CONF=/x",
		"SLURM_SUBMIT_DIR=/", "OMPI_MCA_btl=self", "FLUX_URI=local:", "XPMI_FD=1", ""};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!pmi_client_is_variable(engines[i]))
			fail_msg("%s is an engine's", engines[i]);
	}
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		if (pmi_client_is_variable(others[i]))
			fail_msg("%s is no engine's", others[i]);
	}
}

static void a_missing_engine_is_reported(void **state)
{
	char fd[] = "PMI_FD=0", port[] = "PMI_PORT=127.0.0.1:1";
	char *const none[] = {NULL}, *const no_rank[] = {fd, NULL}, *const no_id[] = {port, NULL};
	struct pmi_client_options options = {.environ = none, .version = 1};
	struct pmi_client *client = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(pmi_client_open(&options, &client, &err), -ENOENT);
	options.environ = no_rank;
	assert_int_equal(pmi_client_open(&options, &client, &err), -EINVAL);
	assert_string_equal(err.text, "PMI_FD is set, but PMI_RANK is 'not' and PMI_SIZE 'not'");
	options.environ = no_id;
	assert_true(pmi_client_open(&options, &client, &err) < 0);
	assert_non_null(strstr(err.text, "127.0.0.1:1"));
	assert_null(client);
}

/* ---- cards ---------------------------------------------------------------------------------- */

#define SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void the_card_of_an_agent_is_read(void **state)
{
	char text[] = "stepd-1,0.9,n1,[fe80::1%eth0]:5,7,2,3," SECRET,
	     plain[] = "stepd-1,,n1,,1,0,0,";
	struct bootstrap_card card;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(bootstrap_read_card(text, &card, &err), 0);
	assert_string_equal(card.version, "0.9");
	assert_string_equal(card.name, "n1");
	assert_string_equal(card.address, "[fe80::1%eth0]:5");
	assert_int_equal(card.job, 7);
	assert_int_equal(card.step, 2);
	assert_int_equal(card.local_ntasks, 3);
	assert_string_equal(card.secret, SECRET);
	assert_int_equal(bootstrap_read_card(plain, &card, &err), 0);
	assert_string_equal(card.address, "");
	assert_string_equal(card.secret, "");
}

static void malformed_cards_are_refused(void **state)
{
	static const char *const wrong[] = {"", "stepd-1", "stepd-2,1,n1,a:1,1,0,0,",
		"stepd-1,1,n1,a:1,1,0,0", "stepd-1,1,n1,a:1,1,0,0,,", "stepd-1,1,,a:1,1,0,0,",
		"stepd-1,1,-n,a:1,1,0,0,", "stepd-1,1,n1,a,1,0,0,", "stepd-1,1,n1,a:1,0,0,0,",
		"stepd-1,1,n1,a:1,x,0,0,", "stepd-1,1,n1,a:1,1,-1,0,",
		"stepd-1,1,n1,a:1,1,0,65537,", "stepd-1,1,n1,a:1,1,0,0,abc",
		("stepd-1,1,n1,a:1,1,0,0,X" SECRET)};
	struct bootstrap_card card;
	struct err err;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_free_ char *copy = strdup(wrong[i]);

		err = (struct err)ERR_INIT;
		assert_int_equal(bootstrap_read_card(copy, &card, &err), -EPROTO);
		assert_true(*err.text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_engines_pmi_is_found_by_its_variables),
		cmocka_unit_test(a_missing_engine_is_reported),
		cmocka_unit_test(the_card_of_an_agent_is_read),
		cmocka_unit_test(malformed_cards_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
