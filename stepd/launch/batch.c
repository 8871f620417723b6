/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/batch.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "stepd/base/fs.h"
#include "stepd/launch/plan.h"
#include "stepd/record/registry.h"

#define SCRIPT_MODE  0500u
#define NOBODY       ((uint32_t)ACL_UNDEFINED_ID)
#define READ_EXECUTE (ACL_READ | ACL_EXECUTE)

static struct posix_acl_xattr_entry acl_entry(uint16_t tag, uint16_t perm, uint32_t id)
{
	return (struct posix_acl_xattr_entry){
		.e_tag = htole16(tag), .e_perm = htole16(perm), .e_id = htole32(id)};
}

/* The user may read the file, which stays root's: an owner could grow it until the file system of
 * all steps is full. */
static int grant_to_user(int fd, uid_t uid)
{
	const struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entry[5];
	} acl = {
		.header.a_version = htole32(POSIX_ACL_XATTR_VERSION),
		.entry =
			{
				acl_entry(ACL_USER_OBJ, READ_EXECUTE, NOBODY),
				acl_entry(ACL_USER, READ_EXECUTE, uid),
				acl_entry(ACL_GROUP_OBJ, 0, NOBODY),
				acl_entry(ACL_MASK, READ_EXECUTE, NOBODY),
				acl_entry(ACL_OTHER, 0, NOBODY),
			},
	};

	return fsetxattr(fd, "system.posix_acl_access", &acl, sizeof(acl), 0) < 0 ? -errno : 0;
}

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
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, SCRIPT_MODE);
	if (fd < 0)
		return err_set(err, -errno, "store the batch script '%s'", path);
	r = fs_write_all(fd, spec->script, spec->script_size);
	if (r == 0 && fchmod(fd, SCRIPT_MODE) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "store the batch script '%s'", path);
	r = plan->id.switches ? grant_to_user(fd, plan->id.uid) : 0;
	if (r == -EOPNOTSUPP)
		return err_say(err, r,
			"the batch script '%s' can't be made readable for user %s alone: the file "
			"system has no access control lists (mount it with them, or choose another "
			"--runtime-dir)",
			path, plan->id.user_name);
	if (r < 0)
		return err_set(err, r, "make the batch script '%s' readable for user %s", path,
			plan->id.user_name);
	return plan_set_script(plan, path, err);
}
