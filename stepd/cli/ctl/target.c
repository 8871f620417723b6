/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/target.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "stepd/state/steps.h"

int target_error(struct stepd_error *error, int code, const char *fmt, ...)
{
	va_list args;

	*error = (struct stepd_error){.code = code};
	va_start(args, fmt);
	(void)vsnprintf(error->text, sizeof(error->text), fmt, args);
	va_end(args);
	return code;
}

static int no_memory(struct stepd_error *error)
{
	return target_error(error, -ENOMEM, "no memory left");
}

void target_clear(struct target *target)
{
	target->client = stepd_disconnect(target->client);
	free(take_ptr(target->label));
	free(take_ptr(target->node));
	free(take_ptr(target->ranks));
	free(take_ptr(target->directory));
}

/* Where "/0-3" begins in "7.0/0-3" or "n1/7.0/0-3", else NULL: in "n1/7", a beginning of "n1/7.0",
 * the last part is no ranks, as no number and dot come before it. */
static const char *find_ranks(const char *given)
{
	const char *slash = strrchr(given, '/'), *before;

	if (!slash || !slash[1] || slash[1 + strspn(slash + 1, "0123456789,-")])
		return NULL;
	for (before = slash; before > given && before[-1] != '/'; before--)
		;
	before += strspn(before, "0123456789");
	return *before == '.' ? slash : NULL;
}

/* "n1_7.0" is the name of its directory. */
static int name_it(struct target *target)
{
	const char *name = strrchr(target->directory, '/');
	const char *dash;

	name = name ? name + 1 : target->directory;
	dash = strrchr(name, '_');
	free(target->label);
	free(target->node);
	target->label = strdup(dash ? dash + 1 : name);
	target->node = strndup(name, dash ? (size_t)(dash - name) : 0);
	return target->label && target->node ? 0 : -ENOMEM;
}

/* What the library says of a name, with what a user of this program can do. */
static void add_remedy(
	const struct ctl *ctl, const char *given, bool with_ranks, struct stepd_error *error)
{
	const char *ranks = find_ranks(given);

	if (ranks && !with_ranks && (error->code == -ENOENT || error->code == -EINVAL))
		(void)target_error(error, -EINVAL,
			"%s takes whole steps only: the ranks '%.200s' are for ps, pids and signal",
			ctl->verb->name, ranks + 1);
	else if (error->code == -ENOENT)
		(void)snprintf(error->text + strlen(error->text),
			sizeof(error->text) - strlen(error->text),
			" ('stepctl list' shows those that are there)");
}

int target_find(struct ctl *ctl, const char *given, bool with_ranks, struct target *target,
	struct stepd_error *error)
{
	const char *ranks = with_ranks ? find_ranks(given) : NULL;
	int r;

	target->label = strndup(given, ranks ? (size_t)(ranks - given) : strlen(given));
	target->node = strdup("");
	target->ranks = ranks ? strdup(ranks + 1) : NULL;
	if (!target->label || !target->node || (ranks && !target->ranks))
		return no_memory(error);
	r = stepd_find_step(ctl->runtime_dir, target->label, &target->directory, error);
	if (r < 0)
		add_remedy(ctl, given, with_ranks, error);
	r = r < 0 ? error->code : r;
	if (r == 0)
		r = name_it(target) < 0 ? no_memory(error) : 0;
	if (r != -ENOMEM)
		target->entry = ctl_add_entry(ctl, target);
	return r;
}

/* Nobody listens: 0 with who is there instead, or error's code. */
static int find_presence(struct target *target, struct stepd_error *error)
{
	_cleanup_close_ int fd =
		open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return error->code;
	if (faccessat(fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		target->presence = STEPD_ENDED;
		return 0;
	}
	if (steps_is_locked(fd) == 1) { /* it begins, or ends, in this moment */
		error->code = -EBUSY;
		return error->code;
	}
	target->presence = STEPD_ORPHAN;
	return 0;
}

int target_connect(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	int r = stepd_connect_directory(
		target->directory, ctl_timeout_ms(ctl), &target->client, error);

	target->presence = STEPD_LIVES;
	return r == -ECONNREFUSED || r == -ECONNRESET ? find_presence(target, error) : r;
}

int target_say_gone(const struct target *target, struct stepd_error *error)
{
	if (target->presence == STEPD_ENDED)
		return target_error(
			error, -ESRCH, "it has ended ('stepctl show %s' tells how)", target->label);
	return target_error(error, -ECONNREFUSED,
		"its agent has died; 'stepd adopt %s' takes the step over", target->label);
}

int target_open(struct ctl *ctl, const char *given, bool with_ranks, struct target *target)
{
	struct stepd_error error = {0};
	int r = target_find(ctl, given, with_ranks, target, &error);

	if (r == 0)
		r = target_connect(ctl, target, &error);
	if (r == 0 && !target->client)
		r = target_say_gone(target, &error);
	if (r < 0)
		ctl_complain(ctl, target->label, &error, target->entry);
	return r;
}
