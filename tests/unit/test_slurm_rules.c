/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rules of slurm_handover: what they hold for, and texts that are none.
 */
#include "contrib/slurm/rules.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A step of user 1001, whose groups are 100, 5000 and 5001, in the partition "debug". */
struct sample {
	uint32_t gids[2];
	struct slurm_launch launch;
};

static void sample_make(struct sample *s, enum slurm_step_kind kind)
{
	static const char partition[] = "debug\0data of a switch plugin";

	*s = (struct sample){.gids = {htonl(5000), htonl(5001)},
		.launch = {.kind = kind, .uid = 1001, .gid = 100}};
	s->launch.cred_gids = (struct slurm_array){2, (const uint8_t *)s->gids};
	s->launch.cred_partition =
		(struct slurm_array){sizeof(partition), (const uint8_t *)partition};
}

/* The rule that holds for the sample, or "" for none. */
static const char *find(const char *text, enum slurm_step_kind kind)
{
	static char found[256];
	_cleanup_rules_ struct rules rules = {0};
	struct err err = ERR_INIT;
	struct sample s;
	const char *rule;

	sample_make(&s, kind);
	assert_int_equal(rules_parse(text, &rules, &err), 0);
	rule = rules_find(&rules, &s.launch, &err);
	assert_int_equal(err.code, 0);
	(void)snprintf(found, sizeof(found), "%s", rule ? rule : "");
	return found;
}

static void test_rules(void **state)
{
	static const struct {
		const char *text, *rule;
	} rows[] = {
		{"", ""},
		{"no", ""},
		{" , ", ""},
		{"user 1001", "user 1001"},
		{"user root", ""},
		{"user not root", "user not root"},
		{"user not root 1001", ""},
		{"user root 1001 root", "user root 1001 root"},
		{"group 100", "group 100"},
		{"group 5001", "group 5001"},
		{"group 5002 5003", ""},
		{"group not 5001", ""},
		{"group not 5002", "group not 5002"},
		{"partition debug", "partition debug"},
		{"partition debu", ""},
		{"partition debug2 long", ""},
		{"partition not debug", ""},
		{"partition not", NULL},
		{"kind batch", "kind batch"},
		{"kind srun interactive", ""},
		{"kind not batch", ""},
		{"user root,partition long ,\tkind \t batch  ", "kind \t batch"},
		{"partition debug, user 1001", "partition debug"},
		{"user not 1001, partition not debug", ""},
		{"user not 1001, partition not long", "partition not long"},
	};
	struct rules rules = {0};
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].rule)
			assert_string_equal(find(rows[i].text, SLURM_KIND_BATCH), rows[i].rule);
		else
			assert_int_equal(rules_parse(rows[i].text, &rules, &err), -EINVAL);
	}
	assert_string_equal(find("kind batch", SLURM_KIND_SRUN), "");
	assert_string_equal(find("kind extern", SLURM_KIND_EXTERN), "kind extern");
}

static void test_faults(void **state)
{
	static const struct {
		const char *text, *fault;
	} rows[] = {
		{"usr root", "'usr root' must begin with 'user', 'group', 'partition' or 'kind'"},
		{"user", "'user' has no name of a user"},
		{"user root, partition not", "'partition not' has no name of a partition"},
		{"root", "'root' must begin with 'user', 'group', 'partition' or 'kind'"},
		{"kind btch",
			"'kind btch': 'btch' is none of the kinds 'srun', 'batch', 'extern', "
			"'interactive' and 'het'"},
		{"no, user root", "'no' must begin with 'user', 'group', 'partition' or 'kind'"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rules rules = {0};
		struct err err = ERR_INIT;

		assert_int_equal(rules_parse(rows[i].text, &rules, &err), -EINVAL);
		assert_string_equal(err.text, rows[i].fault);
		assert_int_equal(rules.n, 0);
	}
}

/* It holds then, whatever it says: the site wants something handed over. */
static void test_unknown(void **state)
{
	static const struct {
		const char *text, *why;
		bool no_groups, no_partition;
	} rows[] = {
		{"user no-such-user", "there is no user 'no-such-user'", false, false},
		{"user not no-such-user", "there is no user 'no-such-user'", false, false},
		{"group not no-such-group", "there is no group 'no-such-group'", false, false},
		{"group 5001", "the job's credential has no groups", true, false},
		{"partition not debug", "the job's credential has no partition", false, true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_rules_ struct rules rules = {0};
		struct err err = ERR_INIT;
		struct sample s;

		sample_make(&s, SLURM_KIND_SRUN);
		if (rows[i].no_groups)
			s.launch.cred_gids.n = 0;
		if (rows[i].no_partition)
			s.launch.cred_partition.n = 0;
		assert_int_equal(rules_parse(rows[i].text, &rules, &err), 0);
		assert_string_equal(rules_find(&rules, &s.launch, &err), rows[i].text);
		assert_string_equal(err.text, rows[i].why);
		assert_int_equal(rules_check(&rules, 0, &err) < 0, i < 3);
		assert_string_equal(rules_text(&rules, 0), rows[i].text);
	}
}

static void test_partition(void **state)
{
	struct slurm_launch launch = {0};
	struct sample s;

	(void)state;
	sample_make(&s, SLURM_KIND_SRUN);
	assert_string_equal(slurm_launch_partition(&s.launch), "debug");
	s.launch.cred_partition.n = strlen("debug"); /* without its end */
	assert_null(slurm_launch_partition(&s.launch));
	assert_null(slurm_launch_partition(&launch));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_partition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
