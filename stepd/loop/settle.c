/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/settle.h"

#include <assert.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

/* Longer than a step of a short program lasts. */
#define DELAY_S    0.1
#define STATUS_MAX (64u << 10)
/* Below the stack as far as the kernel maps nothing else there (stack_guard_gap, 256 pages). */
#define STACK_MAX (512u << 10)

static void trim_heap(void)
{
#ifdef __GLIBC__
	(void)malloc_trim(0);
#endif
}

/* Below this function's frame, and the page of those that it calls, nothing is alive. */
static void trim_stack(uintptr_t page)
{
	uintptr_t end = ((uintptr_t)__builtin_frame_address(0) & -page) - page;

	if (gettid() == getpid()) /* below another thread's stack may be something */
		(void)madvise((void *)(end - STACK_MAX), STACK_MAX, MADV_DONTNEED);
}

/* Code that was relocated is no copy of its file. */
static bool has_relocated_code(const struct dl_phdr_info *object)
{
	const ElfW(Dyn) *d = NULL;
	size_t i;

	for (i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	}
	for (; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_TEXTREL ||
			(d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL)))
			return true;
	}
	return false;
}

/* What is in its file as it is here: whole pages that nobody writes. */
static int unmap_object(struct dl_phdr_info *object, _unused_ size_t size, void *userdata)
{
	const uintptr_t *page = userdata;
	size_t i;

	assert(page);
	if (object->dlpi_addr == getauxval(AT_SYSINFO_EHDR) || has_relocated_code(object))
		return 0;
	for (i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &object->dlpi_phdr[i];
		uintptr_t begin = (object->dlpi_addr + p->p_vaddr) & -*page;
		uintptr_t end = (object->dlpi_addr + p->p_vaddr + p->p_memsz) & -*page;

		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) && begin < end)
			(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
	}
	return 0;
}

/* Unknown: yes. */
static bool is_traced(void)
{
	_cleanup_free_ char *text = NULL;
	uint64_t tracer;

	return fs_read(AT_FDCWD, "/proc/self/status", STATUS_MAX, &text, NULL) < 0 ||
		parse_line_u64(text, "TracerPid:", &tracer) < 0 || tracer != 0;
}

void settle_now(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool traced = is_traced();

	trim_heap();
	trim_stack(page);
	if (!traced)
		(void)dl_iterate_phdr(unmap_object, &page); /* always 0 */
}

static void settle_on_timer(
	_unused_ struct ev_loop *loop, _unused_ ev_timer *timer, _unused_ int revents)
{
	settle_now();
}

void settle_init(struct settle *s)
{
	*s = (struct settle){0};
	ev_timer_init(&s->timer, settle_on_timer, DELAY_S, 0.);
}

void settle_start(struct settle *s, struct ev_loop *loop)
{
	s->started = true;
	ev_timer_stop(loop, &s->timer);
	ev_timer_set(&s->timer, DELAY_S, 0.);
	ev_timer_start(loop, &s->timer);
}

void settle_again(struct settle *s, struct ev_loop *loop)
{
	if (s->started)
		settle_start(s, loop);
}

void settle_stop(struct settle *s, struct ev_loop *loop)
{
	ev_timer_stop(loop, &s->timer);
}
