/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "stepd/cli/relay/address.h"

static void test_texts(void **state)
{
	static const char *const texts[] = {
		"10.0.0.7/24", "0.0.0.0/0", "255.255.255.255/32", "fd00::7/64", "::1/128", "::/0"};
	char text[ADDRESS_TEXT_SIZE];
	struct address a;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(address_parse(texts[i], &a), 0);
		assert_string_equal(address_format(&a, text, sizeof(text)), texts[i]);
	}
	assert_int_equal(address_parse("10.0.0.7/24", &a), 0);
	assert_string_equal(address_format_port(&a, 80, text, sizeof(text)), "10.0.0.7:80");
	assert_int_equal(address_parse("fd00::7/64", &a), 0);
	assert_string_equal(address_format_port(&a, 65535, text, sizeof(text)), "[fd00::7]:65535");
}

static void test_wrong_texts(void **state)
{
	static const char *const texts[] = {"", "/", "/24", "10.0.0.7", "10.0.0.7/", "10.0.0.7/33",
		"10.0.0.7/-1", "10.0.0/24", "10.0.0.7/2x", "fd00::7/129", "fd00::7", "fd00:::7/64",
		"n1/24", "10.0.0.7/24/24", "fd00::7%eth0/64",
		"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc/64"};
	struct address a;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(address_parse(texts[i], &a), -EINVAL);
}

/* ---- the choice --------------------------------------------------------------------------- */

/* texts: of each node, up to NULL; chosen: of each, the text. NULL: there is no choice. */
#define NODES 3
static void chooses(const char *const texts[NODES][4], const char *const *chosen)
{
	struct address_node nodes[NODES] = {0};
	char text[ADDRESS_TEXT_SIZE];
	size_t choice[NODES], i;

	for (i = 0; i < NODES; i++) {
		while (texts[i][nodes[i].count]) {
			assert_int_equal(address_parse(texts[i][nodes[i].count],
						 &nodes[i].list[nodes[i].count]),
				0);
			nodes[i].count++;
		}
	}
	assert_int_equal(address_choose(nodes, NODES, choice), chosen != NULL);
	for (i = 0; chosen && i < NODES; i++) {
		assert_true(choice[i] < nodes[i].count);
		assert_string_equal(
			address_format(&nodes[i].list[choice[i]], text, sizeof(text)), chosen[i]);
	}
}

static void test_common_network(void **state)
{
	(void)state;
	chooses((const char *const[NODES][4]){{"10.0.0.1/24"}, {"10.0.0.2/24"}, {"10.0.0.3/24"}},
		(const char *const[]){"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"});
	/* In another order, and some that not all have. */
	chooses((const char *const[NODES][4]){{"192.168.1.1/24", "10.0.0.1/24"},
			{"10.0.0.2/24", "172.16.0.1/16"}, {"192.168.1.3/24", "10.0.0.3/24"}},
		(const char *const[]){"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"});
	/* Networks that do not end at a byte. */
	chooses((const char *const[NODES][4]){{"10.0.0.1/25", "10.1.0.1/20"},
			{"10.0.0.200/25", "10.1.15.2/20"}, {"10.0.0.3/25", "10.1.8.3/20"}},
		(const char *const[]){"10.1.0.1/20", "10.1.15.2/20", "10.1.8.3/20"});
}

static void test_ipv6(void **state)
{
	(void)state;
	chooses((const char *const[NODES][4]){{"10.0.0.1/24", "fd00::1/64"}, {"fd00::2/64"},
			{"10.0.0.3/24", "fd00::3/64"}},
		(const char *const[]){"fd00::1/64", "fd00::2/64", "fd00::3/64"});
}

static void test_bridges(void **state)
{
	(void)state;
	/* A bridge of containers has the same address everywhere. */
	chooses((const char *const[NODES][4]){{"172.17.0.1/16", "10.0.0.1/24"},
			{"172.17.0.1/16", "10.0.0.2/24"}, {"172.17.0.1/16", "10.0.0.3/24"}},
		(const char *const[]){"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"});
	chooses((const char *const[NODES][4]){{"172.17.0.1/16"}, {"172.17.0.2/16"},
			{"172.17.0.1/16"}},
		NULL);
}

static void test_no_network(void **state)
{
	(void)state;
	chooses((const char *const[NODES][4]){{"10.0.0.1/24"}, {"10.0.1.1/24"}, {"10.0.2.1/24"}},
		NULL);
	chooses((const char *const[NODES][4]){{"10.0.0.1/24"}, {"10.0.0.2/16"}, {"10.0.0.3/24"}},
		NULL);
	chooses((const char *const[NODES][4]){{"10.0.0.1/24"}, {0}, {"10.0.0.3/24"}}, NULL);
	chooses((const char *const[NODES][4]){{0}, {0}, {0}}, NULL);
}

static void test_this_machine(void **state)
{
	struct address list[ADDRESS_MAX];
	uint16_t port = 0;
	int fd, on = 0;
	socklen_t size = sizeof(on);

	(void)state;
	assert_true(address_list(NULL, list) <= ADDRESS_MAX);
	assert_int_equal(address_list("lo", list), 0);
	assert_int_equal(address_list("no-such-if", list), 0);
	fd = address_listen(&port);
	assert_true(fd >= 0 && port > 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size), 0);
	assert_int_equal(on, 1);
	(void)close_fd(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_wrong_texts),
		cmocka_unit_test(test_common_network),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_bridges),
		cmocka_unit_test(test_no_network),
		cmocka_unit_test(test_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
