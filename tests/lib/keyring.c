/* SPDX-License-Identifier: BSD-3-Clause
 *
 * keyring show: prints the name of the session keyring.
 * keyring lure NAME UID: as that user, makes a session keyring of that name that everyone may
 * search, prints a line, and keeps it until standard input ends.
 */
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVERYTHING 0x3f3f3f3f

static int show(void)
{
	char text[256] = "";
	char *name;

	if (syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, text, sizeof(text) - 1) <
		0)
		return 1;
	name = strrchr(text, ';');
	puts(name ? name + 1 : text);
	return 0;
}

static int lure(const char *name, uid_t uid)
{
	long key;
	char c;

	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		return 1;
	key = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name);
	if (key < 0 || syscall(SYS_keyctl, KEYCTL_SETPERM, key, EVERYTHING) < 0)
		return 1;
	puts("ready");
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "lure") == 0)
		return lure(argv[2], (uid_t)atoi(argv[3]));
	return argc == 2 && strcmp(argv[1], "show") == 0 ? show() : 2;
}
