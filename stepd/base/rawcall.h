/* SPDX-License-Identifier: BSD-3-Clause
 *
 * System calls that touch nothing of the C library, for a child that shares its parent's memory
 * until its exec: errno and all other thread-local state are the parent's there. rawcall() gives
 * the kernel's own answer, negative errno on failure.
 *
 * On machines other than x86-64 it goes through syscall(2) and errno, and RAWCALL_NATIVE is 0: no
 * memory may be shared there. (Linux x86-64 ABI: System V psABI, appendix A.2.)
 */
#ifndef STEPD_BASE_RAWCALL_H
#define STEPD_BASE_RAWCALL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define RAWCALL_NATIVE 1

static inline long rawcall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

/* clone3() whose child runs on a stack of its own in the same memory: it can't return from here,
 * for this frame is its parent's. args are a struct clone_args of that size, with the stack. */
static inline long rawcall_clone_onto(
	const void *args, size_t size, void (*run)(void *arg), void *arg)
{
	register void (*r8)(void *) __asm__("r8") = run;
	register void *r9 __asm__("r9") = arg;
	long r;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t" /* the outermost frame, for a debugger */
			 "movq %%r9, %%rdi\n\t"
			 "callq *%%r8\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(r)
			 : "a"(SYS_clone3), "D"(args), "S"(size), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return r;
}
#else
#define RAWCALL_NATIVE 0

static inline long rawcall6(long nr, long a, long b, long c, long d, long e, long f)
{
	long r = syscall(nr, a, b, c, d, e, f);

	return r < 0 ? -errno : r;
}

static inline long rawcall_clone_onto(
	const void *args, size_t size, void (*run)(void *arg), void *arg)
{
	(void)args;
	(void)size;
	(void)run;
	(void)arg;
	return -EOPNOTSUPP;
}
#endif

/* rawcall(SYS_..., up to six arguments) */
#define rawcall(...) rawcall_fill_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define rawcall_fill_(nr, a, b, c, d, e, f, ...)                                                   \
	rawcall6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
