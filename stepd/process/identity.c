/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/process/identity.h"

#include <assert.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#include "stepd/base/parse.h"
#include "stepd/base/rawcall.h"
#include "stepd/spec/spec.h"

#define ENTRY_SIZE_MAX (1u << 20)

/* Looks a user up by name, or by uid where name is NULL. 0, -ENOENT or -errno; the strings of
 * *pw stand in *buf. */
static int lookup_user(const char *name, uid_t uid, struct passwd *pw, char **buf)
{
	_cleanup_free_ char *buffer = NULL;
	struct passwd *found = NULL;
	size_t size = 1024;
	int r;

	do {
		free(buffer);
		buffer = malloc(size);
		if (!buffer)
			return -ENOMEM;
		r = name ? getpwnam_r(name, pw, buffer, size, &found)
			 : getpwuid_r(uid, pw, buffer, size, &found);
		size *= 2;
	} while (r == ERANGE && size <= ENTRY_SIZE_MAX);
	if (r == 0 && !found)
		return -ENOENT;
	*buf = take_ptr(buffer);
	return -r;
}

static int lookup_group(const char *name, gid_t *ret_gid)
{
	_cleanup_free_ char *buffer = NULL;
	struct group gr, *found = NULL;
	size_t size = 1024;
	uint32_t n;
	int r;

	if (parse_u32(name, 0, UINT32_MAX - 1, &n) == 0) {
		*ret_gid = n;
		return 0;
	}
	do {
		free(buffer);
		buffer = malloc(size);
		if (!buffer)
			return -ENOMEM;
		r = getgrnam_r(name, &gr, buffer, size, &found);
		size *= 2;
	} while (r == ERANGE && size <= ENTRY_SIZE_MAX);
	if (r || !found)
		return r ? -r : -ENOENT;
	*ret_gid = gr.gr_gid;
	return 0;
}

/* Fills uid and its entry of the user database; gid stays (gid_t)-1 without an entry. */
static int resolve_user(const char *user, struct identity *id, struct err *err)
{
	_cleanup_free_ char *buf = NULL;
	struct passwd pw = {0};
	uint32_t n;
	int r;

	id->uid = geteuid();
	if (user && parse_u32(user, 0, UINT32_MAX - 1, &n) == 0) {
		id->uid = n;
		user = NULL;
	}
	r = lookup_user(user, id->uid, &pw, &buf);
	if (r < 0 && (user || r != -ENOENT))
		return r == -ENOENT
			? err_set_text(err, r, "uid: there is no user '%s' on this node", user)
			: err_set(err, r, "uid: look up user '%s'", user ? user : "of the agent");
	id->gid = r == 0 ? pw.pw_gid : (gid_t)-1;
	if (r == 0) {
		id->uid = pw.pw_uid;
		id->user_name = strdup(pw.pw_name);
		id->home = strdup(pw.pw_dir[0] ? pw.pw_dir : "/");
		id->shell = strdup(pw.pw_shell[0] ? pw.pw_shell : "/bin/sh");
	} else {
		if (asprintf(&id->user_name, "%u", (unsigned)id->uid) < 0)
			id->user_name = NULL;
		id->home = strdup("/");
		id->shell = strdup("/bin/sh");
	}
	if (!id->user_name || !id->home || !id->shell)
		return err_set(err, -ENOMEM, "resolve the step's user");
	return 0;
}

static int compare_gids(const void *a, const void *b)
{
	gid_t x = *(const gid_t *)a, y = *(const gid_t *)b;

	return x < y ? -1 : x > y;
}

static int groups_from_spec(const struct spec *spec, struct identity *id, struct err *err)
{
	size_t i;
	int r;

	id->groups = calloc(spec->groups.n + 1, sizeof(*id->groups));
	if (!id->groups)
		return err_set(err, -ENOMEM, "resolve the step's groups");
	for (i = 0; i < spec->groups.n; i++) {
		r = lookup_group(spec->groups.v[i], &id->groups[i]);
		if (r < 0)
			return err_set(err, r, "groups[%zu]: group '%s' on this node", i,
				spec->groups.v[i]);
	}
	id->groups_count = spec->groups.n;
	return 0;
}

/* The agent's. */
static int read_groups(gid_t **ret_groups, size_t *ret_count, struct err *err)
{
	_cleanup_free_ gid_t *groups = NULL;
	int n = getgroups(0, NULL);

	groups = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*groups));
	n = groups ? getgroups(n, groups) : -1;
	if (n < 0)
		return err_set(err, -errno, "read the agent's groups");
	*ret_groups = take_ptr(groups);
	*ret_count = (size_t)n;
	return 0;
}

static int groups_of_user(struct identity *id, struct err *err)
{
	int capacity = 32, n;
	gid_t *grown;

	do {
		n = capacity;
		grown = realloc(id->groups, (size_t)n * sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "resolve the step's groups");
		id->groups = grown;
		capacity *= 4;
	} while (getgrouplist(id->user_name, id->gid, id->groups, &n) < 0 && capacity < (1 << 18));
	if (n > capacity / 4)
		return err_set_text(
			err, -E2BIG, "uid: user %s is in %d groups, too many", id->user_name, n);
	id->groups_count = (size_t)n;
	return 0;
}

static int resolve_groups(const struct spec *spec, struct identity *id, struct err *err)
{
	int r;

	if (spec->group) {
		r = lookup_group(spec->group, &id->gid);
		if (r < 0)
			return err_set(err, r, "gid: group '%s' on this node", spec->group);
	} else if (!spec->user) {
		id->gid = getegid();
	} else if (id->gid == (gid_t)-1) {
		return err_set_text(err, -ENOENT,
			"uid: %u is not in the user database of this node; give gid (--gid) too",
			(unsigned)id->uid);
	}
	if (spec->groups_given)
		r = groups_from_spec(spec, id, err);
	else if (!spec->user)
		r = read_groups(&id->groups, &id->groups_count, err);
	else
		r = groups_of_user(id, err);
	if (r == 0)
		qsort(id->groups, id->groups_count, sizeof(*id->groups), compare_gids);
	return r;
}

/* Records the agent's own ids and groups, and whether the step's differ from them. */
int identity_compare_with_agent(struct identity *id, struct err *err)
{
	uid_t ru, eu, su;
	gid_t rg, eg, sg;
	int r;

	if (getresuid(&ru, &eu, &su) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return err_set(err, -errno, "read the agent's identity");
	r = read_groups(&id->agent_groups, &id->agent_groups_count, err);
	if (r < 0)
		return r;
	qsort(id->agent_groups, id->agent_groups_count, sizeof(gid_t), compare_gids);
	id->agent_gid = eg;
	id->switches = ru != id->uid || eu != id->uid || su != id->uid || rg != id->gid ||
		eg != id->gid || sg != id->gid || id->agent_groups_count != id->groups_count ||
		memcmp(id->agent_groups, id->groups, id->groups_count * sizeof(gid_t)) != 0;
	return 0;
}

/* Under these securebits a change of ids removes no capability from a process, nor from a task's
 * set-user-ID program that drops its privileges. The kernel's and a service manager's default is
 * none. */
static int reset_securebits(const struct identity *id, struct err *err)
{
	const int lax = SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS;
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	if (bits < 0)
		return err_set(err, -errno, "read the agent's securebits");
	if (!(bits & lax) || prctl(PR_SET_SECUREBITS, bits & ~lax, 0, 0, 0) == 0)
		return 0;
	return err_set(err, -errno,
		"uid: the agent was started with securebits 0x%x, which would leave root's "
		"capabilities with a step of user %s (start it without no_setuid_fixup); reset them",
		(unsigned)bits, id->user_name);
}

int identity_resolve(const struct spec *spec, struct identity *ret_id, struct err *err)
{
	_cleanup_identity_ struct identity id = {0};
	int r;

	r = resolve_user(spec->user, &id, err);
	if (r == 0)
		r = resolve_groups(spec, &id, err);
	if (r == 0)
		r = identity_compare_with_agent(&id, err);
	if (r < 0)
		return r;
	if (id.switches && geteuid() != 0)
		return err_set_text(err, -EPERM,
			"uid: only root can start a step as %s (uid %u, gid %u, %zu groups); this agent "
			"has uid %u; leave uid, gid and groups out",
			id.user_name, (unsigned)id.uid, (unsigned)id.gid, id.groups_count,
			(unsigned)geteuid());
	r = id.switches ? reset_securebits(&id, err) : 0;
	if (r < 0)
		return r;
	*ret_id = take_struct(id);
	return 0;
}

void identity_clear(struct identity *id)
{
	free(id->groups);
	free(id->agent_groups);
	free(id->user_name);
	free(id->home);
	free(id->shell);
	*id = (struct identity){0};
}

struct caps {
	struct __user_cap_data_struct v[2];
};

static int caps_get(struct caps *ret_caps)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	return (int)rawcall(SYS_capget, &header, ret_caps->v);
}

/* And reads them back. */
static int caps_set(const struct caps *caps)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct caps now = {0};
	int r = (int)rawcall(SYS_capset, &header, caps->v);

	if (r == 0)
		r = caps_get(&now);
	return r == 0 && memcmp(&now, caps, sizeof(now)) != 0 ? -EPERM : r;
}

/* Raises the effective capabilities out of the permitted ones. The kernel does so on a change of
 * the effective uid, but not under every securebit nor with every security module. */
static int caps_set_effective(bool all)
{
	struct caps caps;
	int r = caps_get(&caps);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_SIZE(caps.v); i++)
		caps.v[i].effective = all ? caps.v[i].permitted : 0;
	return r == 0 ? caps_set(&caps) : r;
}

static int assume(const struct identity *id)
{
	int r;

	if (setgroups(id->groups_count, id->groups) < 0 ||
		setresgid((gid_t)-1, id->gid, (gid_t)-1) < 0 ||
		setresuid((uid_t)-1, id->uid, (uid_t)-1) < 0)
		return -errno;
	r = id->uid == 0 ? 0 : caps_set_effective(false);
	/* An invalid id is refused, and the present one is returned. */
	if (r == 0 &&
		((uid_t)setfsuid((uid_t)-1) != id->uid || (gid_t)setfsgid((gid_t)-1) != id->gid))
		r = -EPERM;
	return r;
}

int identity_assume(const struct identity *id, struct err *err)
{
	int r = id->switches ? assume(id) : 0;

	if (r == 0)
		return 0;
	r = err_set(err, r, "take on the identity of %s", id->user_name);
	identity_restore(id);
	return r;
}

void identity_restore(const struct identity *id)
{
	if (!id->switches)
		return;
	if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0 ||
		(id->uid != 0 && caps_set_effective(true) < 0) ||
		setresgid((gid_t)-1, id->agent_gid, (gid_t)-1) < 0 ||
		setgroups(id->agent_groups_count, id->agent_groups) < 0)
		abort(); /* an agent with half an identity must not go on */
}

/* ---- in the child: rawcall()s only, see child.h -------------------------------------------- */

static int drop_capabilities(void)
{
	const struct caps none = {0};
	long r = rawcall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);

	if (r < 0 && r != -EINVAL) /* a kernel before 4.3 has no ambient set */
		return (int)r;
	return caps_set(&none);
}

static int check_became(const struct identity *id)
{
	uid_t ru, eu, su;
	gid_t rg, eg, sg;

	if (rawcall(SYS_getresuid, &ru, &eu, &su) < 0 || rawcall(SYS_getresgid, &rg, &eg, &sg) < 0)
		return -EFAULT; /* the only way to get it */
	if (ru != id->uid || eu != id->uid || su != id->uid || rg != id->gid || eg != id->gid ||
		sg != id->gid)
		return -EPERM;
	if (rawcall(SYS_getgroups, 0, NULL) != (long)id->groups_count)
		return -EPERM;
	if (id->uid != 0 && rawcall(SYS_setuid, 0) == 0)
		return -EPERM;
	return 0;
}

int identity_become(const struct identity *id)
{
	long r = 0;

	if (id->switches) {
		r = rawcall(SYS_setgroups, id->groups_count, id->groups);
		if (r == 0)
			r = rawcall(SYS_setresgid, id->gid, id->gid, id->gid);
		if (r == 0)
			r = rawcall(SYS_setresuid, id->uid, id->uid, id->uid);
	}
	if (r == 0 && id->uid != 0)
		r = drop_capabilities();
	if (r < 0)
		return (int)r;
	return id->switches ? check_became(id) : 0;
}
