/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/confine.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "config.h"

#ifdef HAVE_LIBSECCOMP
#include "mpi/confine_filter.h"
#endif

/* ---- capabilities --------------------------------------------------------------------------- */

#define ALL_LOCKS                                                                                  \
	(SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |          \
		SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* A bit that is locked by now stays as it is, and the call would fail with another value for it. */
static int lock_securebits(void)
{
	int now = prctl(PR_GET_SECUREBITS), wanted = SECBIT_NOROOT | SECBIT_NO_CAP_AMBIENT_RAISE;

	if (now < 0)
		return -errno;
	wanted &= ~((now & ALL_LOCKS) >> 1);
	return prctl(PR_SET_SECUREBITS, now | wanted | ALL_LOCKS) < 0 && errno != EPERM ? -errno
											: 0;
}

int confine_drop_bounds(void)
{
	int cap = 0;

	/* EINVAL: there are no more. EPERM: a process that may not drop one may drop none. */
	while (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
		cap++;
	return errno == EINVAL || errno == EPERM ? lock_securebits() : -errno;
}

int confine_drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	/* EINVAL: before Linux 4.3 there are no ambient ones. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* ---- the filter ----------------------------------------------------------------------------- */

#ifdef HAVE_LIBSECCOMP

#define REPORTED_MAX 1024 /* numbers of system calls; those above are not reported */

static struct {
	int link_fd;
	_Atomic unsigned char done[REPORTED_MAX];
} reports; /* of a signal handler, which is passed nothing */

bool confine_has_filter(void)
{
	return true;
}

static size_t line_put(char *text, size_t at, const char *what)
{
	size_t len = strlen(what);

	memcpy(text + at, what, len);
	return at + len;
}

static size_t put_number(char *text, size_t at, unsigned n)
{
	char digits[12];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	return line_put(text, at, digits + i);
}

/* By hand: this runs in a signal handler, in any thread, between any two instructions. */
static void report(unsigned number)
{
	char text[256];
	size_t n;

	if (number >= REPORTED_MAX || reports.done[number]++)
		return;
	n = line_put(text, 0,
		"{\"do\": \"log\", \"level\": \"warning\", \"text\": \"the service process was refused "
		"the system call ");
	n = put_number(text, n, number);
	n = line_put(text, n, "; if a newer library needs it: mpi_filter in stepd.conf(5)\"}");
	(void)!send(reports.link_fd, text, n,
		MSG_NOSIGNAL | MSG_DONTWAIT); /* nowhere else to report it */
}

static int errno_of(int number)
{
	switch (number) {
	case SYS_socket:
	case SYS_socketpair:
		return EAFNOSUPPORT;
	case SYS_clone:
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
#endif
	case SYS_kill:
	case SYS_tgkill:
	case SYS_prctl:
	case SYS_prlimit64:
		return EPERM;
	default:
		return ENOSYS; /* for which libraries have another way */
	}
}

/* The return value of the system call. */
static void set_result(ucontext_t *context, _unused_ int result)
{
#if defined(__x86_64__)
	context->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
	context->uc_mcontext.regs[0] = (unsigned long long)result;
#else
	(void)context; /* the filter of these gives an errno itself, and nothing comes here */
#endif
}

static void on_refused(_unused_ int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	report((unsigned)info->si_syscall);
	set_result(context, -errno_of(info->si_syscall));
	errno = saved;
}

/* CONFINE_OWN_PID in the filter stands for this process. */
static void fill_in_pid(struct sock_filter *filter, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (BPF_CLASS(filter[i].code) == BPF_JMP && filter[i].k == CONFINE_OWN_PID)
			filter[i].k = (unsigned)getpid();
	}
}

int confine_filter(int link_fd)
{
	struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sock_filter filter[ARRAY_SIZE(confine_code)];
	struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

	memcpy(filter, confine_code, sizeof(filter));
	fill_in_pid(filter, ARRAY_SIZE(filter));
	reports.link_fd = link_fd;
	if (sigaction(SIGSYS, &action, NULL) < 0)
		return -errno;
	/* Before Linux 5.16 a filter slows down each branch, unless it requests the opposite, which
	 * Linux 4.17 knows: no code of others runs in here, against which that would help. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		    &program) == 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
		return 0;
	return errno == EINVAL || errno == ENOSYS ? -EOPNOTSUPP : -errno;
}

#else

bool confine_has_filter(void)
{
	return false;
}

int confine_filter(_unused_ int link_fd)
{
	return -EOPNOTSUPP;
}

#endif
