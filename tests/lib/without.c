/* SPDX-License-Identifier: BSD-3-Clause
 *
 * without CALL... -- COMMAND [ARG...]: runs a command on a kernel that lacks these system calls:
 * a seccomp filter answers them with ENOSYS. For the ways around that older kernels need.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 8

static const struct {
	const char *name;
	int number;
} known[] = {
	{"bpf", SYS_bpf},
	{"clone3", SYS_clone3},
	{"close_range", SYS_close_range},
	{"keyctl", SYS_keyctl},
	{"openat2", SYS_openat2},
	{"pidfd_open", SYS_pidfd_open},
};

static int number_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].name, name) == 0)
			return known[i].number;
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct sock_filter code[1 + CALLS_MAX * 2 + 1];
	struct sock_fprog program = {.filter = code};
	unsigned short n = 0;
	int i, number;

	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (i = 1; i < argc && i <= CALLS_MAX && strcmp(argv[i], "--") != 0; i++) {
		number = number_of(argv[i]);
		if (number < 0) {
			fprintf(stderr, "without: no call '%s' is known here\n", argv[i]);
			return 2;
		}
		code[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (ENOSYS & SECCOMP_RET_DATA));
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	if (i >= argc - 1) {
		fprintf(stderr, "Usage: without CALL... -- COMMAND [ARG...]\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		perror("without: seccomp");
		return 77;
	}
	(void)execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
