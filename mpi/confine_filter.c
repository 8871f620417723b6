/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Run when stepd is built: writes the filter of MPI service processes (confine.h) as C to standard
 * output, made by libseccomp for the machine that it runs on. What a server of PMI needs is what
 * libpmix 4.2, hwloc, MUNGE, libev and the C library with its name services were seen to call by
 * strace(1), and what other versions of them are likely to.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config.h"
#include "stepd/base/cleanup.h"

/* Stands for the service's own pid, which nobody knows yet: no pid is as high. */
#define OWN_PID 0x7e57ed00u

#define CODE_MAX 4096

/* Machines on which confine.c can set what a refused system call returns, and so reports it. */
#if defined(__x86_64__) || defined(__aarch64__)
#define REFUSE SCMP_ACT_TRAP
#else
#define REFUSE SCMP_ACT_ERRNO(ENOSYS)
#endif

#ifdef __s390__
#define CLONE_FLAGS 1 /* which argument it is */
#else
#define CLONE_FLAGS 0
#endif

/* System calls that a machine does not have are skipped. */
static const char *const allowed[] = {
	/* files */
	"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat",
	"dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
	"fchmod", "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr",
	"flock", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents",
	"getdents64", "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1",
	"inotify_rm_watch", "ioctl", "lchown", "lgetxattr", "link", "linkat", "listxattr",
	"llistxattr", "lseek", "lstat", "memfd_create", "mkdir", "mkdirat", "name_to_handle_at",
	"newfstatat", "open", "openat", "openat2", "pipe", "pipe2", "pread64", "preadv", "preadv2",
	"pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
	"rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "stat", "statfs", "statx",
	"symlink", "symlinkat", "sync_file_range", "tee", "truncate", "umask", "unlink", "unlinkat",
	"utime", "utimensat", "utimes", "write", "writev",
	/* memory; what is loaded later, and what a library compiles, is executable */
	"brk", "get_mempolicy", "madvise", "mbind", "membarrier", "mincore", "mlock", "mlock2",
	"mmap", "move_pages", "mprotect", "mremap", "msync", "munlock", "munmap", "pkey_alloc",
	"pkey_free", "pkey_mprotect", "set_mempolicy",
	/* waiting */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
	"eventfd", "eventfd2", "futex", "futex_waitv", "pause", "pidfd_open", "poll", "ppoll",
	"pselect6", "restart_syscall", "select", "signalfd", "signalfd4", "wait4", "waitid",
	/* time */
	"alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday",
	"nanosleep", "setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun",
	"timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
	"times",
	/* sockets, those that there are */
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt",
	"listen", "recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg",
	"sendto", "setsockopt", "shutdown",
	/* itself, and questions */
	"arch_prctl", "capget", "exit", "exit_group", "get_robust_list", "getcpu", "getegid",
	"geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
	"getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid",
	"getuid", "riscv_flush_icache", "riscv_hwprobe", "rseq", "rt_sigaction", "rt_sigpending",
	"rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
	"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
	"sched_getparam", "sched_getscheduler", "sched_setaffinity", "sched_yield",
	"set_robust_list", "set_tid_address", "sigaltstack", "sysinfo", "uname"};

/* Younger than some libseccomp that must do; from 424 on they are the same on all machines. */
static const int allowed_numbers[] = {452 /* fchmodat2 */, 453 /* map_shadow_stack */,
	454 /* futex_wake */, 455 /* futex_wait */, 456 /* futex_requeue */, 462 /* mseal */,
	464 /* getxattrat */, 465 /* listxattrat */};

/* No library of a server comes here: only code that has taken it over does. */
static const char *const deadly[] = {"acct", "add_key", "adjtimex", "bpf", "capset", "chroot",
	"clock_adjtime", "clock_settime", "delete_module", "execve", "execveat", "finit_module",
	"fsconfig", "fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl",
	"kexec_file_load", "kexec_load", "mount", "mount_setattr", "move_mount",
	"open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
	"process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot",
	"setdomainname", "setfsgid", "setfsuid", "setgid", "setgroups", "sethostname", "setns",
	"setregid", "setresgid", "setresuid", "setreuid", "settimeofday", "setuid", "swapoff",
	"swapon", "syslog", "umount2", "unshare", "userfaultfd", "vhangup"};

/* Libraries try them and have another way: not worth a report. The arguments of clone3(2) are
 * where no filter can read them, so that threads are made by clone(2). */
static const char *const absent[] = {"clone3", "io_uring_setup"};

/* What a process may want to know or set of itself; PR_SET_DUMPABLE would open its memory to the
 * user's other processes. */
static const int prctls[] = {PR_CAPBSET_READ, PR_GET_DUMPABLE, PR_GET_NAME, PR_GET_NO_NEW_PRIVS,
	PR_GET_PDEATHSIG, PR_GET_SECCOMP, PR_GET_SECUREBITS, PR_GET_TIMERSLACK, PR_SET_NAME,
	PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, PR_SET_TIMERSLACK, 0x53564d41 /* PR_SET_VMA */};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6};

/* getifaddrs(3), and the owner of the other end of a connection. */
static const int netlinks[] = {NETLINK_ROUTE, NETLINK_SOCK_DIAG};

#define INT(n)                                                                                     \
	0xffffffffu, (scmp_datum_t)(unsigned)(n) /* the kernel reads an int of an argument         \
						  */

/* ---- rules ---------------------------------------------------------------------------------- */

static int filter_add(scmp_filter_ctx f, uint32_t action, const char *name, unsigned n,
	const struct scmp_arg_cmp *conditions)
{
	int number = seccomp_syscall_resolve_name(name);

	/* Negative: this machine has it not, or not by itself. */
	return number < 0 ? 0 : seccomp_rule_add_array(f, action, number, n, conditions);
}

static int add_all(scmp_filter_ctx f, uint32_t action, const char *const *names, size_t count)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < count; i++)
		r = filter_add(f, action, names[i], 0, NULL);
	return r;
}

static int add_numbers(scmp_filter_ctx f)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_SIZE(allowed_numbers); i++)
		r = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, allowed_numbers[i], 0, NULL);
	return r;
}

/* A thread, not a process, in no namespace of its own. */
static int add_clone(scmp_filter_ctx f)
{
	const unsigned spaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
		CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
	const struct scmp_arg_cmp thread = SCMP_CMP(CLONE_FLAGS, SCMP_CMP_MASKED_EQ,
		spaces | CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM);

	return filter_add(f, SCMP_ACT_ALLOW, "clone", 1, &thread);
}

static int add_sockets(scmp_filter_ctx f)
{
	struct scmp_arg_cmp c[2] = {SCMP_A0(SCMP_CMP_MASKED_EQ, INT(AF_UNIX))};
	int r = filter_add(f, SCMP_ACT_ALLOW, "socketpair", 1, c);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_SIZE(families); i++) {
		c[0] = SCMP_A0(SCMP_CMP_MASKED_EQ, INT(families[i]));
		r = filter_add(f, SCMP_ACT_ALLOW, "socket", 1, c);
	}
	c[0] = SCMP_A0(SCMP_CMP_MASKED_EQ, INT(AF_NETLINK));
	for (i = 0; r == 0 && i < ARRAY_SIZE(netlinks); i++) {
		c[1] = SCMP_A2(SCMP_CMP_MASKED_EQ, INT(netlinks[i]));
		r = filter_add(f, SCMP_ACT_ALLOW, "socket", 2, c);
	}
	return r;
}

/* To itself; and whether another is there. */
static int add_signals(scmp_filter_ctx f)
{
	const struct scmp_arg_cmp own = SCMP_A0(SCMP_CMP_MASKED_EQ, INT(OWN_PID));
	const struct scmp_arg_cmp none = SCMP_A1(SCMP_CMP_MASKED_EQ, INT(0));
	int r = filter_add(f, SCMP_ACT_ALLOW, "kill", 1, &own);

	if (r == 0)
		r = filter_add(f, SCMP_ACT_ALLOW, "kill", 1, &none);
	if (r == 0)
		r = filter_add(f, SCMP_ACT_ALLOW, "tgkill", 1, &own);
	return r == 0 ? filter_add(f, SCMP_ACT_ALLOW, "rt_tgsigqueueinfo", 1, &own) : r;
}

static int add_own(scmp_filter_ctx f)
{
	struct scmp_arg_cmp c = SCMP_A0(SCMP_CMP_MASKED_EQ, INT(0));
	int r = filter_add(f, SCMP_ACT_ALLOW, "prlimit64", 1, &c);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_SIZE(prctls); i++) {
		c = SCMP_A0(SCMP_CMP_MASKED_EQ, INT(prctls[i]));
		r = filter_add(f, SCMP_ACT_ALLOW, "prctl", 1, &c);
	}
	return r;
}

static int add_rules(scmp_filter_ctx f)
{
	int r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (r == 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree of numbers */
	if (r == 0)
		r = add_all(f, SCMP_ACT_ALLOW, allowed, ARRAY_SIZE(allowed));
	if (r == 0)
		r = add_all(f, SCMP_ACT_KILL_PROCESS, deadly, ARRAY_SIZE(deadly));
	if (r == 0)
		r = add_all(f, SCMP_ACT_ERRNO(ENOSYS), absent, ARRAY_SIZE(absent));
	if (r == 0)
		r = add_numbers(f);
	if (r == 0)
		r = add_clone(f);
	if (r == 0)
		r = add_sockets(f);
	if (r == 0)
		r = add_signals(f);
	return r == 0 ? add_own(f) : r;
}

/* ---- as C ----------------------------------------------------------------------------------- */

static int print_code(int fd)
{
	static struct sock_filter code[CODE_MAX];
	ssize_t size = pread(fd, code, sizeof(code), 0), i, pids = 0;

	if (size <= 0 || (size_t)size == sizeof(code))
		return size < 0 ? -errno : -EFBIG;
	size /= (ssize_t)sizeof(*code);
	for (i = 0; i < size; i++)
		pids += BPF_CLASS(code[i].code) == BPF_JMP && code[i].k == OWN_PID;
	if (pids == 0)
		return -ENOTRECOVERABLE; /* where confine.c would not find what to replace */
	printf("/* Made by mpi/confine_filter.c. */\n#define CONFINE_OWN_PID 0x%xu\n"
	       "static const struct sock_filter confine_code[] = {\n",
		OWN_PID);
	for (i = 0; i < size; i++)
		printf("\t{0x%02x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf,
			code[i].k);
	printf("};\n");
	return fflush(stdout) == 0 ? 0 : -errno;
}

int main(void)
{
	scmp_filter_ctx f = seccomp_init(REFUSE);
	_cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);
	int r = f && fd >= 0 ? add_rules(f) : -ENOMEM;

	if (r == 0)
		r = seccomp_export_bpf(f, fd);
	if (r == 0)
		r = print_code(fd);
	seccomp_release(f);
	if (r < 0)
		(void)fprintf(stderr, "confine_filter: %s\n", strerror(-r));
	return r < 0;
}
