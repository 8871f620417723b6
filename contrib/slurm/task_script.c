/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/task_script.h"

#include "contrib/slurm/bind.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/strv.h"

static bool is_given(const char *text)
{
	return text && *text;
}

bool task_script_has_prolog(const struct slurm_launch *launch, const struct site_conf *site)
{
	return is_given(launch->task_prolog) || is_given(site->task_prolog);
}

bool task_script_has_epilog(const struct slurm_launch *launch, const struct site_conf *site)
{
	return is_given(launch->task_epilog) || is_given(site->task_epilog);
}

static int add_prolog(struct strv *args, const char *name, const char *path)
{
	return is_given(path) ? strv_addf(args, "%s=%s", name, path) : 0;
}

int task_script_add(const struct slurm_launch *l, const struct site_conf *site, const char *node,
	const char *task_program, struct strv *args)
{
	const char *cpu = site->binds ? bind_cpu_kind(l) : NULL;
	const char *mem = site->binds ? bind_mem_kind(l) : NULL;
	int r = 0;

	if (!cpu && !mem && !task_script_has_prolog(l, site))
		return 0;
	r |= strv_add(args, task_program);
	r |= strv_addf(args, "node=%s", node);
	if (l->cred_release >= SLURM_25_05)
		r |= strv_add(args, "timed");
	if (cpu && l->cred_release >= SLURM_23_02)
		r |= strv_add(args, "unbound");
	if (cpu)
		r |= strv_addf(args, "cpu_bind=%s", cpu);
	if (mem)
		r |= strv_addf(args, "mem_bind=%s", mem);
	r |= add_prolog(args, "site_prolog", site->task_prolog);
	r |= add_prolog(args, "user_prolog", l->task_prolog);
	r |= strv_add(args, "--");
	return r ? -ENOMEM : 0;
}
