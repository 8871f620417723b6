/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/decision.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PROFILE_NONE 1u

void slurm_init_decode(
	struct slurm_init *init, const void *data, const struct slurm_frame *frame, int error)
{
	*init = (struct slurm_init){.error = error, .frame = *frame};
	if (error)
		return;
	init->error = slurm_init_decode_conf(data, frame, &init->conf, &init->err);
	if (init->error < 0)
		return;
	init->error = slurm_launch_decode(data, frame, &init->conf, &init->launch, &init->err);
	init->has_launch = init->error == 0 || init->launch.id.job;
}

/* ---- the reasons --------------------------------------------------------------------------- */

static bool is_plugin(const char *value, const char *none)
{
	return value && *value && strcmp(value, none) != 0;
}

static bool has_unknown_release(const struct slurm_init *i)
{
	return i->error == -EPROTONOSUPPORT;
}

static bool has_switch(const struct slurm_init *i)
{
	return i->launch.switch_plugin;
}

static bool is_unreadable(const struct slurm_init *i)
{
	return i->error;
}

/* Slurm sets x11 for the agent that forwards, the one of the extern step. */
static bool wants_x11(const struct slurm_init *i)
{
	return i->launch.x11 && i->launch.kind == SLURM_KIND_EXTERN;
}

static bool is_step_manager(const struct slurm_init *i)
{
	return i->launch.has_job;
}

static bool wants_container(const struct slurm_init *i)
{
	return i->launch.container && *i->launch.container;
}

static bool wants_namespace(const struct slurm_init *i)
{
	return is_plugin(i->conf.namespace_plugin, "job_container/none") &&
		is_plugin(i->conf.namespace_plugin, "namespace/none");
}

static bool wants_profile(const struct slurm_init *i)
{
	return (i->launch.profile & ~PROFILE_NONE) ||
		is_plugin(i->conf.profile_type, "acct_gather_profile/none");
}

static bool wants_tls(const struct slurm_init *i)
{
	return is_plugin(i->conf.tls_type, "tls/none");
}

static bool always(_unused_ const struct slurm_init *i)
{
	return true;
}

static const struct reason_row {
	const char *name;
	bool (*holds)(const struct slurm_init *init);
	const char *text;
} rows[SLURM_REASON_MAX] = {
	[SLURM_REASON_RELEASE] = {"release", has_unknown_release,
		"slurmd speaks a protocol that is not known here"},
	[SLURM_REASON_SWITCH] = {"switch", has_switch,
		"a switch plugin's data have no length in this release"},
	[SLURM_REASON_UNREADABLE] = {"unreadable", is_unreadable,
		"what slurmd sent is not understood"},
	[SLURM_REASON_X11] = {"x11", wants_x11, "X11 forwarding is Slurm's own"},
	[SLURM_REASON_STEP_MANAGER] = {"stepmgr", is_step_manager,
		"it manages the job's steps (enable_stepmgr)"},
	[SLURM_REASON_CONTAINER] = {"container", wants_container, "it runs in an OCI container"},
	[SLURM_REASON_NAMESPACE] = {"namespace", wants_namespace,
		"the job has a namespace by a plugin of Slurm"},
	[SLURM_REASON_PROFILE] = {"profile", wants_profile,
		"it is profiled (AcctGatherProfileType)"},
	[SLURM_REASON_TLS] = {"tls", wants_tls, "connections are encrypted (TLSType)"},
	[SLURM_REASON_NOT_SERVED] = {"not-served", always,
		"steps are not served yet by this release"},
};

enum slurm_reason slurm_decide(const struct slurm_init *init)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].holds(init))
			return (enum slurm_reason)i;
	}
	assert(!"the last row always holds");
	return SLURM_REASON_NOT_SERVED;
}

const char *slurm_reason_text(enum slurm_reason reason)
{
	return rows[reason].text;
}

const char *slurm_reason_name(enum slurm_reason reason)
{
	return rows[reason].name;
}

/* What an operator needs besides: the number, or the place. */
static void print_detail(const struct slurm_init *init, enum slurm_reason reason, FILE *out)
{
	switch (reason) {
	case SLURM_REASON_RELEASE:
		(void)fprintf(out, " (%u)", init->frame.release);
		break;
	case SLURM_REASON_SWITCH:
		(void)fprintf(out, " (plugin %u)", init->launch.switch_plugin);
		break;
	case SLURM_REASON_UNREADABLE:
		(void)fprintf(
			out, ": %s", init->err.code ? init->err.text : strerror(-init->error));
		break;
	case SLURM_REASON_NAMESPACE:
		(void)fprintf(out, " (%s)", init->conf.namespace_plugin);
		break;
	default:
		break;
	}
}

void slurm_reason_print(const struct slurm_init *init, enum slurm_reason reason,
	char text[static SLURM_REASON_SIZE])
{
	FILE *out = fmemopen(text, SLURM_REASON_SIZE, "w");

	text[0] = '\0';
	if (!out)
		return; /* without memory there is no text */
	(void)fputs(rows[reason].text, out);
	print_detail(init, reason, out);
	(void)fclose(out); /* text has what fits */
	text[SLURM_REASON_SIZE - 1] = '\0';
}
