/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/launch/batch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "stepd/agent/launch/plan.h"
#include "stepd/agent/registry.h"
#include "stepd/base/fs.h"

int batch_store_script(struct plan *plan, const struct registry *reg, struct err *err)
{
	const struct spec *spec = plan->spec;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&path, "%s/script", registry_get_path(reg)) < 0)
		return err_set(err, -ENOMEM, "store the batch script");
	(void)unlinkat(registry_get_dirfd(reg), "script", 0); /* a dead agent's, if it is there */
	fd = openat(registry_get_dirfd(reg), "script",
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
	if (fd < 0)
		return err_set(err, -errno, "store the batch script '%s'", path);
	r = fs_write_all(fd, spec->script, spec->script_size);
	if (r == 0 &&
		(fchmod(fd, 0500) < 0 ||
			(plan->id.switches && fchown(fd, plan->id.uid, plan->id.gid) < 0)))
		r = -errno;
	if (r < 0)
		return err_set(err, r, "store the batch script '%s'", path);
	return plan_set_script(plan, path, err);
}
