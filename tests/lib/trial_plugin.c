/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin of the made-up kind "trial", built several times: with -DVARIANT_good as it should be,
 * with another VARIANT_... with one fault. Every call is noted as a line of the file that
 * $TRIAL_LOG names, so that a test sees what was called, how often and in which order.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepd/api/plugin.h"

STEPD_EXPORT int trial_p_required(void);
STEPD_EXPORT int trial_p_optional(void);

#if defined(VARIANT_wrongkind)
const char plugin_type[] = "proctrack/wrongkind";
#elif defined(VARIANT_longerkind) /* begins as the kind does */
const char plugin_type[] = "trials/longerkind";
#elif defined(VARIANT_misnamed)
const char plugin_type[] = "trial/other";
#elif !defined(VARIANT_notype)
#define QUOTE_(x) #x
#define QUOTE(x)  QUOTE_(x)
const char plugin_type[] = "trial/" QUOTE(VARIANT);
#endif

#if !defined(VARIANT_noname)
const char plugin_name[] = "a plugin on trial";
#endif

#if defined(VARIANT_otherversion)
const uint32_t plugin_version = STEPD_API_VERSION + 0x010000u;
#elif !defined(VARIANT_noversion)
const uint32_t plugin_version = STEPD_API_VERSION;
#endif

static void note(const char *what)
{
	const char *path = getenv("TRIAL_LOG");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		return;
	if (dprintf(fd, "%s\n", what) < 0)
		abort();
	(void)close(fd);
}

#if !defined(VARIANT_noinit)
int init(void)
{
	note("init");
#if defined(VARIANT_initfails)
	errno = EACCES;
	return SLURM_ERROR;
#elif defined(VARIANT_initmute)
	errno = 0;
	return SLURM_ERROR;
#else
	return SLURM_SUCCESS;
#endif
}
#endif

#if !defined(VARIANT_nofini)
void fini(void)
{
	note("fini");
}
#endif

#if defined(VARIANT_unusable)
int plugin_probe(char *text, size_t size)
{
	memset(text, 'x', size); /* forgets the end */
	return SLURM_ERROR;
}
#elif !defined(VARIANT_bare)
int plugin_probe(char *text, size_t size)
{
	note("probe");
	(void)snprintf(text, size, "fit for a trial");
	return SLURM_SUCCESS;
}
#endif

#if defined(VARIANT_good)
int plugin_checkup(stepd_tell_fn report, void *ctx)
{
	report(ctx,
		&(stepd_finding_t){.id = "good.first",
			.level = STEPD_FINDING_NOTE,
			.text = "a first finding"});
	report(ctx,
		&(stepd_finding_t){
			.id = "good.second", .level = STEPD_FINDING_OK, .text = "a second one"});
	return SLURM_SUCCESS;
}
#elif defined(VARIANT_unusable)
int plugin_checkup(__attribute__((unused)) stepd_tell_fn report, __attribute__((unused)) void *ctx)
{
	errno = EACCES;
	return SLURM_ERROR;
}
#elif defined(VARIANT_noversion) /* forgets errno */
int plugin_checkup(__attribute__((unused)) stepd_tell_fn report, __attribute__((unused)) void *ctx)
{
	errno = 0;
	return SLURM_ERROR;
}
#endif

#if !defined(VARIANT_nosymbol)
int trial_p_required(void)
{
	note("required");
	return 41;
}
#endif

#if !defined(VARIANT_bare)
int trial_p_optional(void)
{
	note("optional");
	return 42;
}
#endif

#if defined(VARIANT_unresolved)
extern int trial_nobody_has_this(void);
STEPD_EXPORT int trial_p_calls_nobody(void);

int trial_p_calls_nobody(void)
{
	return trial_nobody_has_this();
}
#endif
