/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "mpi/pmi_client/message.h"
#include "mpi/pmi_client/pmi_client.h"
#include "stepd/cli/bootstrap.h"
#include "stepd/cli/version.h"

const char stepd_version[] = "1.2.3";

/* ---- messages ------------------------------------------------------------------------------- */

static int find(unsigned version, const char *text, size_t *ret_size, size_t *ret_begin)
{
	return message_find(version, text, strlen(text), ret_size, ret_begin);
}

static void test_find_line(void **state)
{
	static char text[MESSAGE_MAX + 2];
	size_t size = 0, begin = 0;

	(void)state;
	assert_int_equal(find(1, "", &size, &begin), -EAGAIN);
	assert_int_equal(find(1, "cmd=x", &size, &begin), -EAGAIN);
	assert_int_equal(find(1, "cmd=x\ncmd=y\n", &size, &begin), 0);
	assert_int_equal(size, 6);
	assert_int_equal(begin, 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(message_find(1, text, MESSAGE_MAX, &size, &begin), -EAGAIN);
	assert_int_equal(message_find(1, text, MESSAGE_MAX + 1, &size, &begin), -EMSGSIZE);
	text[MESSAGE_MAX] = '\n';
	assert_int_equal(message_find(1, text, MESSAGE_MAX + 1, &size, &begin), 0);
	text[MESSAGE_MAX] = 'x';
	text[MESSAGE_MAX + 1] = '\n';
	assert_int_equal(message_find(1, text, MESSAGE_MAX + 2, &size, &begin), -EMSGSIZE);
}

static void test_find_counted(void **state)
{
	static const char *const wrong[] = {
		"      ", "12 4  ", "-1    ", "+1    ", "cmd=in", "1\n    ", "0x10  "};
	size_t size = 0, begin = 0, i;

	(void)state;
	assert_int_equal(find(2, "12   ", &size, &begin), -EAGAIN);
	assert_int_equal(find(2, "6     cmd=a", &size, &begin), -EAGAIN);
	assert_int_equal(find(2, "6     cmd=a;", &size, &begin), 0);
	assert_int_equal(size, 12);
	assert_int_equal(begin, 6);
	assert_int_equal(find(2, "     6cmd=a;6", &size, &begin), 0);
	assert_int_equal(size, 12);
	assert_int_equal(find(2, "000006cmd=a;", &size, &begin), 0);
	assert_int_equal(find(2, "  6   cmd=a;", &size, &begin), 0);
	assert_int_equal(find(2, "0     ", &size, &begin), 0);
	assert_int_equal(size, 6);
	assert_int_equal(find(2, "8193  ", &size, &begin), -EMSGSIZE);
	assert_int_equal(find(2, "999999", &size, &begin), -EMSGSIZE);
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(find(2, wrong[i], &size, &begin), -EPROTO);
}

/* wanted: "key=value|..." */
static void is_message(unsigned version, const char *text, const char *wanted)
{
	_cleanup_free_ char *copy = strdup(text);
	char all[256] = "";
	struct message m;
	size_t used = 0, i;

	assert_non_null(copy);
	assert_int_equal(message_parse(version, copy, &m), 0);
	for (i = 0; i < m.count; i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s=%s", i ? "|" : "",
			m.fields[i].key, m.fields[i].value);
	assert_string_equal(all, wanted);
}

static void is_none(unsigned version, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	struct message m;

	assert_non_null(copy);
	assert_int_equal(message_parse(version, copy, &m), -EPROTO);
}

static void test_parse(void **state)
{
	char many[1024] = "cmd=x";
	size_t i;

	(void)state;
	is_message(1, "cmd=maxes kvsname_max=256", "cmd=maxes|kvsname_max=256");
	is_message(1, "  cmd=x   a=  b=c ", "cmd=x|a=|b=c");
	is_message(1, "cmd=get_result rc=0 value=a b=c  d ", "cmd=get_result|rc=0|value=a b=c  d ");
	is_message(2, "cmd=a;b=c;", "cmd=a|b=c");
	is_message(2, "cmd=a;b=c d=e", "cmd=a|b=c d=e");
	is_message(2, "cmd=a;b=x;;y;c=;;;", "cmd=a|b=x;y|c=;");
	is_none(1, "");
	is_none(1, "a=b cmd=x");
	is_none(1, "cmd=x word");
	is_none(1, "cmd=x =y");
	is_none(2, "");
	is_none(2, "cmd");
	is_none(2, "cmd=x;word;");
	is_none(2, ";cmd=x;");
	for (i = 1; i < MESSAGE_FIELDS_MAX; i++)
		(void)strncat(many, " a=b", sizeof(many) - strlen(many) - 1);
	{
		_cleanup_free_ char *copy = strdup(many);
		struct message m;

		assert_int_equal(message_parse(1, copy, &m), 0);
		assert_null(message_get(&m, "c"));
		assert_string_equal(message_get(&m, "a"), "b");
	}
	(void)strncat(many, " a=b", sizeof(many) - strlen(many) - 1);
	is_none(1, many);
}

/* ---- variables ------------------------------------------------------------------------------ */

static void test_variables(void **state)
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

static void test_without_engine(void **state)
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

static void test_card(void **state)
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

static void test_wrong_cards(void **state)
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
		cmocka_unit_test(test_find_line),
		cmocka_unit_test(test_find_counted),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_without_engine),
		cmocka_unit_test(test_card),
		cmocka_unit_test(test_wrong_cards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
