/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ownership by scope. Every owned local carries one of these attributes and is initialised (NULL,
 * -1); what leaves the scope leaves it through take_ptr() or take_fd().
 */
#ifndef STEPD_BASE_CLEANUP_H
#define STEPD_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn)       __attribute__((cleanup(fn)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _must_check_        __attribute__((warn_unused_result))
#define _unused_            __attribute__((unused))
#define _noreturn_          __attribute__((noreturn))
#define _cleanup_free_      _cleanup_(cleanup_free)
#define _cleanup_close_     _cleanup_(cleanup_close)
#define _cleanup_fclose_    _cleanup_(cleanup_fclose)
#define _cleanup_closedir_  _cleanup_(cleanup_closedir)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Defines fn_p(), the cleanup of a pointer whose destructor is fn(). */
#define DEFINE_CLEANUP(type, fn)                                                                   \
	static inline void fn##_p(type *p)                                                         \
	{                                                                                          \
		if (*p)                                                                            \
			(void)fn(*p);                                                              \
	}                                                                                          \
	struct cleanup_needs_a_semicolon

#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) *take_p_ = &(p);                                                     \
		__typeof__(p) take_v_ = *take_p_;                                                  \
		*take_p_ = NULL;                                                                   \
		take_v_;                                                                           \
	})

/* The same of a struct that is empty when it is all zero. */
#define take_struct(s)                                                                             \
	({                                                                                         \
		__typeof__(s) taken_ = (s);                                                        \
		(s) = (__typeof__(s)){0};                                                          \
		taken_;                                                                            \
	})

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

/* Closes fd if it is one, with errno unchanged; returns -1 for the caller's variable. */
static inline int close_fd(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd); /* the descriptor is gone whatever close() returns */
	errno = saved;
	return -1;
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	*fd = close_fd(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		(void)fclose(*f); /* a caller that needs the bytes has flushed and checked */
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

#endif
