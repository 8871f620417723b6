/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tokens of auth/slurm: what a credential says, and those for messages from a daemon's socket.
 */
#include "contrib/slurm/token.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/auth.h"
#include "contrib/slurm/credential.h"
#include "contrib/slurm/release.h"
#include "contrib/slurm/sack.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/base64.h"
#include "tests/lib/scratch.h"

#define NOBODY ((uid_t)-1)

/* ---- a job's credential ---------------------------------------------------------------------- */

/* "HEADER.CLAIMS.SIGNATURE" with the claims in base64url. */
static char *make_text(const char *claims)
{
	size_t size = strlen(claims), i;
	_cleanup_free_ char *middle = malloc(BASE64_SIZE(size) + 1);
	char *text = NULL;

	assert_non_null(middle);
	base64_encode(claims, size, middle);
	for (i = 0; middle[i]; i++)
		middle[i] = middle[i] == '+' ? '-' : middle[i] == '/' ? '_' : middle[i];
	middle[strcspn(middle, "=")] = '\0';
	assert_true(asprintf(&text, "eyJhbGciOiJIUzI1NiJ9.%s.c2lnbmF0dXJl", middle) > 0);
	return text;
}

static int read_claims(const char *claims, struct slurm_token *ret_token)
{
	_cleanup_free_ char *text = make_text(claims);

	*ret_token = (struct slurm_token){0};
	return slurm_token_read_credential(text, strlen(text) + 1, ret_token);
}

static void test_credential(void **state)
{
	/* "?>~" in all places of base64: its last two characters are those of the other alphabet.
	 */
	static const char *const payloads[][2] = {{"Pz5+", "?>~"}, {"Pz5-", "?>~"},
		{"fn5+Pw==", "~~~?"}, {"fn5+Pw", "~~~?"}, {"", ""}};
	struct slurm_token token;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(payloads); i++) {
		_cleanup_free_ char *claims = NULL;

		assert_true(asprintf(&claims,
				    "{\"iat\":1,\"context\":\"launch\",\"uid\":1000,\"gid\":50,"
				    "\"host\":\"\303\274\",\"payload\":\"%s\"}",
				    payloads[i][0]) > 0);
		assert_int_equal(read_claims(claims, &token), 0);
		assert_int_equal(token.uid, 1000);
		assert_int_equal(token.gid, 50);
		assert_int_equal(token.payload_size, strlen(payloads[i][1]));
		assert_memory_equal(token.payload, payloads[i][1], token.payload_size);
		free(token.payload);
	}
}

static void test_no_credential(void **state)
{
	static const char *const claims[] = {"", "[]", "{}", "{\"context\":\"launch\"",
		"{\"context\":\"sack\",\"uid\":1,\"gid\":1,\"payload\":\"\"}",
		"{\"uid\":1,\"gid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"gid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"uid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"uid\":-1,\"gid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"uid\":4294967295,\"gid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"uid\":\"1\",\"gid\":1,\"payload\":\"\"}",
		"{\"context\":\"launch\",\"uid\":1,\"gid\":1}",
		"{\"context\":\"launch\",\"uid\":1,\"gid\":1,\"payload\":7}",
		"{\"context\":\"launch\",\"uid\":1,\"gid\":1,\"payload\":\"*\"}",
		"{\"context\":\"launch\",\"uid\":1,\"gid\":1,\"payload\":\"A\"}"};
	static const char *const texts[] = {
		"", ".", "..", "a.b", "e30", "e30.e30", "*.*.*", "..e30."};
	struct slurm_token token;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(claims); i++) {
		if (read_claims(claims[i], &token) != -EBADMSG)
			fail_msg("%s", claims[i]);
	}
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(
			slurm_token_read_credential(texts[i], strlen(texts[i]), &token), -EBADMSG);
	assert_int_equal(slurm_token_read_credential("", SLURM_TOKEN_MAX + 1, &token), -EBADMSG);
}

/* ---- tokens for messages --------------------------------------------------------------------- */

struct daemon {
	char *dir, *path;
	int fd;
	pid_t pid;
};

static int set_up(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct daemon *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	d->dir = scratch_make();
	d->path = scratch_path(d->dir, "socket");
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", d->path);
	assert_int_equal(bind(d->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(d->fd, 8), 0);
	assert_int_equal(setenv("SLURM_SACK_SOCKET", d->path, 1), 0);
	*state = d;
	return 0;
}

static int tear_down(void **state)
{
	struct daemon *d = *state;

	assert_int_equal(unsetenv("SLURM_SACK_SOCKET"), 0);
	(void)close_fd(d->fd);
	scratch_remove(d->dir);
	free(d->path);
	free(d->dir);
	free(d);
	return 0;
}

static const uint8_t request[] = {
	42, 0, 0, 0, 0, 19, 0, 0, 0xfa, 0x01, 0, 0, 0, 7, 0, 0, 0, 3, 'a', 0, 'b'};

/* Answers once with these bytes, if the request is that one. */
static void serve(struct daemon *d, const uint8_t *wanted, size_t wanted_size, const void *answer,
	size_t size)
{
	d->pid = fork();
	if (d->pid == 0) {
		int fd = accept(d->fd, NULL, NULL);
		uint8_t got[64];
		size_t n = 0;

		while (n < wanted_size) {
			ssize_t k = read(fd, got + n, sizeof(got) - n);

			if (k <= 0)
				_exit(2);
			n += (size_t)k;
		}
		if (n != wanted_size || memcmp(got, wanted, n) != 0)
			_exit(3);
		_exit(write(fd, answer, size) == (ssize_t)size ? 0 : 4);
	}
}

static int ask(struct daemon *d, char **ret_token, struct err *err)
{
	const struct sack sack = {.release = SLURM_24_11, .slurm_user = NOBODY};
	int status, r = sack_make_token(&sack, 7, "a\0b", 3, ret_token, err);

	assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
	assert_int_equal(status, 0);
	return r;
}

static void test_token(void **state)
{
	struct daemon *d = *state;
	_cleanup_free_ char *token = NULL;
	struct err err = ERR_INIT;

	serve(d, request, sizeof(request), "\0\0\0\6a.b.c", 10);
	assert_int_equal(ask(d, &token, &err), 0);
	assert_string_equal(token, "a.b.c");
}

static void test_bad_tokens(void **state)
{
	static const struct {
		const char *answer;
		size_t size;
		int r;
	} rows[] = {{"", 0, -ECONNRESET}, {"\0\0", 2, -ECONNRESET}, {"\0\0\0\0", 4, -EBADMSG},
		{"\0\0\0\6a.b", 7, -ECONNRESET}, {"\0\0\0\5a.b.c", 9, -EBADMSG},
		{"\0\0\0\6a\0b.c", 10, -EBADMSG}, {"\377\377\377\377", 4, -EBADMSG}};
	struct daemon *d = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;
		char *token = NULL;

		serve(d, request, sizeof(request), rows[i].answer, rows[i].size);
		assert_int_equal(ask(d, &token, &err), rows[i].r);
		assert_null(token);
	}
}

static void test_no_daemon(void **state)
{
	const struct sack sack = {.release = SLURM_24_11, .slurm_user = NOBODY};
	struct daemon *d = *state;
	struct err err = ERR_INIT;
	char *token = NULL, many[200];

	d->fd = close_fd(d->fd);
	assert_int_equal(sack_make_token(&sack, 7, "", 0, &token, &err), -ECONNREFUSED);
	assert_int_equal(unlink(d->path), 0);
	assert_int_equal(sack_make_token(&sack, 7, "", 0, &token, &err), -ENOENT);
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = '\0';
	assert_int_equal(setenv("SLURM_SACK_SOCKET", many, 1), 0);
	assert_int_equal(sack_make_token(&sack, 7, "", 0, &token, &err), -ENAMETOOLONG);
}

/* A socket that a user has put there is believed by nobody else. */
static void test_stranger(void **state)
{
	const struct sack sack = {.release = SLURM_24_11, .slurm_user = NOBODY};
	struct daemon *d = *state;
	struct err err = ERR_INIT;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char *token = NULL;
	int status, ready[2];
	char byte;
	pid_t pid;

	if (getuid() != 0)
		skip();
	assert_int_equal(chmod(d->dir, 0777), 0);
	assert_int_equal(unlink(d->path), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", d->path);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork(); /* the peer is who has called listen() */
	if (pid == 0) {
		int fd = setresuid(54321, 54321, 54321) < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM, 0);

		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
			_exit(1);
		(void)!write(ready[1], "", 1);
		(void)pause();
		_exit(0);
	}
	assert_int_equal(close(ready[1]), 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(close(ready[0]), 0);
	assert_int_equal(sack_make_token(&sack, 7, "", 0, &token, &err), -EPERM);
	assert_int_equal(err.code, -EPERM);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* By the site's AuthType. */
static void test_auth(void **state)
{
	const struct site_conf site = {.uses_tokens = true, .slurm_user = NOBODY};
	struct daemon *d = *state;
	struct slurm_auth *auth = NULL;
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	int status;

	assert_int_equal(slurm_auth_open(&site, SLURM_24_11, &auth, &err), 0);
	assert_int_equal(slurm_auth_plugin(auth), 103);
	assert_null(slurm_auth_munge(auth));
	serve(d, request, sizeof(request), "\0\0\0\6a.b.c", 10);
	assert_int_equal(slurm_auth_encode(auth, 7, "a\0b", 3, &text, &err), 0);
	assert_string_equal(text, "a.b.c");
	assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
	assert_int_equal(status, 0);
	auth = slurm_auth_close(auth);
}

/* slurmd has checked the signature; whom it is for is compared here. */
static void test_check(void **state)
{
	const struct site_conf site = {.uses_tokens = true, .slurm_user = NOBODY};
	struct slurm_launch launch = {.kind = SLURM_KIND_SRUN,
		.claimed_uid = SLURM_NO_VAL,
		.claimed_gid = SLURM_NO_VAL,
		.cred_signature = {4, (const uint8_t *)"a.b"},
		.has_token = true,
		.token_uid = 1000,
		.token_gid = 50,
		.uid = 1000,
		.gid = 50};
	struct slurm_auth *auth = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(slurm_auth_open(&site, SLURM_24_11, &auth, &err), 0);
	assert_int_equal(credential_check(&launch, auth, 0, &err), 0);
	launch.uid = 0;
	assert_int_equal(credential_check(&launch, auth, 0, &err), -EACCES);
	launch.uid = 1000;
	launch.gid = 0;
	assert_int_equal(credential_check(&launch, auth, 0, &err), -EACCES);
	launch.gid = 50;
	launch.has_token = false; /* a credential of munge's, which nobody here can check */
	assert_int_equal(credential_check(&launch, auth, 0, &err), -EACCES);
	auth = slurm_auth_close(auth);
	if (slurm_auth_open(&(struct site_conf){0}, SLURM_24_11, &auth, &err) == 0) {
		launch.has_token = true;
		assert_int_equal(credential_check(&launch, auth, 0, &err), -EACCES);
	}
	auth = slurm_auth_close(auth);
}

/* ---- whose a token is ------------------------------------------------------------------------ */

static int read_message(const char *claims, struct slurm_token *ret_token)
{
	_cleanup_free_ char *text = make_text(claims);

	return slurm_token_read_message(text, ret_token);
}

static void test_message(void **state)
{
	static const char *const bad[] = {"{\"context\":\"launch\",\"uid\":1,\"gid\":1}",
		"{\"context\":\"sack\",\"uid\":1,\"gid\":1,\"payload\":\"YQ==\"}",
		"{\"context\":\"sack\",\"gid\":1}", "{\"context\":\"auth\",\"uid\":1}", "[]"};
	struct slurm_token token = {0};
	size_t i;

	(void)state;
	assert_int_equal(read_message("{\"context\":\"sack\",\"uid\":7,\"gid\":8}", &token), 0);
	assert_int_equal(token.uid, 7);
	assert_int_equal(read_message("{\"context\":\"auth\",\"uid\":0,\"gid\":0}", &token), 0);
	assert_int_equal(token.uid, 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(read_message(bad[i], &token), -EBADMSG);
}

static const uint8_t check_request[] = {
	42, 0, 0, 0, 0, 15, 0, 0, 0xfa, 0x02, 0, 0, 0, 3, 'a', 'b', 0};

/* It holds for who has the key; nothing else does. */
static void test_checked(void **state)
{
	static const struct {
		const char *answer;
		size_t size;
		int r;
	} rows[] = {{"\0\0\0\0", 4, 0}, {"\0\0\0\1", 4, -EACCES}, {"\377\377\377\377", 4, -EACCES},
		{"\0\0", 2, -ECONNRESET}, {"", 0, -ECONNRESET}};
	const struct sack sack = {.release = SLURM_24_11, .slurm_user = NOBODY};
	struct daemon *d = *state;
	size_t i;
	int status;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;

		serve(d, check_request, sizeof(check_request), rows[i].answer, rows[i].size);
		assert_int_equal(sack_check_token(&sack, "ab", &err), rows[i].r);
		assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_credential),
		cmocka_unit_test(test_no_credential),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_message),
		cmocka_unit_test_setup_teardown(test_checked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_token, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_tokens, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_daemon, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stranger, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_auth, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
