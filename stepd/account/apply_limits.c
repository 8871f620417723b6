/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/apply_limits.h"

#include "proctrack/proctrack.h"
#include "stepd/base/err.h"
#include "stepd/spec/spec_json.h"

/* A limit that can't be set: an error, or with best effort a warning and 0. */
static int limits_give_up(const struct limits_target *target, enum stepd_limit which,
	const struct err *why, struct err *err)
{
	size_t n;
	const char *field = spec_table_get(SPEC_TABLE_LIMITS, &n)[which].name;

	if (target->mode == LIMITS_BEST_EFFORT) {
		log_warning(target->log, "%s.%s: %s, ignoring", target->where, field, why->text);
		return 0;
	}
	return err_set_text(err, why->code, "%s.%s: %s", target->where, field, why->text);
}

/* ---- devices become numbers ---------------------------------------------------------------- */

/* The limits as a backend gets them. */
struct prepared {
	stepd_limits_t limits;
	stepd_io_limit_t *io;
	stepd_device_rule_t *devices;
};

static void prepared_clear(struct prepared *p)
{
	free(p->io);
	free(p->devices);
}

static int find_disk(const char *name, stepd_io_limit_t *io, struct err *err)
{
	stepd_device_rule_t node = {0};
	char path[64];
	int r;

	if (!limits_device_is_path(name)) /* its form has been checked with the spec */
		return limits_device_parse_numbers(name, &io->major, &io->minor);
	r = limits_device_find(name, &node, err);
	if (r < 0)
		return r;
	if (node.type != 'b')
		return err_set_text(err, -ENOTBLK, "'%s' is not a block device", name);
	(void)snprintf(
		path, sizeof(path), "/sys/dev/block/%u:%u/partition", node.major, node.minor);
	if (access(path, F_OK) == 0)
		return err_set_text(err, -ENODEV,
			"'%s' is a partition, and the kernel limits whole disks only; give its disk",
			name);
	io->major = node.major;
	io->minor = node.minor;
	return 0;
}

static int prepare_io(const struct limits_target *target, const struct limits *limits,
	struct prepared *p, struct err *err)
{
	size_t i;
	int r = 0;

	p->io = calloc(limits->io_count + 1, sizeof(*p->io));
	if (!p->io)
		return err_set(err, -ENOMEM, "limit the step");
	for (i = 0; i < limits->io_count && r == 0; i++) {
		stepd_io_limit_t *io = &p->io[p->limits.io_count];
		struct err why = ERR_INIT;

		*io = limits->io[i].limit;
		if (find_disk(limits->io[i].name, io, &why) == 0)
			p->limits.io_count++;
		else
			r = limits_give_up(target, STEPD_LIMIT_IO_MAX, &why, err);
	}
	p->limits.io = p->io;
	/* An empty list would remove the limit, which is not requested where no disk of the list
	 * was found. */
	if (p->limits.io_count == 0 && limits->io_count > 0)
		p->limits.set &= ~(1u << STEPD_LIMIT_IO_MAX);
	return r;
}

static int find_rule(const struct limits_device *device, stepd_device_rule_t *rule, struct err *err)
{
	rule->access = device->access;
	if (!limits_device_is_path(device->name))
		return limits_device_parse(device->name, rule);
	return limits_device_find(device->name, rule, err);
}

static int prepare_devices(const struct limits_target *target, const struct limits *limits,
	struct prepared *p, struct err *err)
{
	static const stepd_device_rule_t all = {
		.type = 'a',
		.major = STEPD_DEVICE_ANY,
		.minor = STEPD_DEVICE_ANY,
		.access = STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD,
	};
	const stepd_device_rule_t *defaults;
	size_t n, i;
	int r = 0;

	defaults = limits_default_devices(&n);
	p->devices = calloc(n + limits->devices_count + 1, sizeof(*p->devices));
	if (!p->devices)
		return err_set(err, -ENOMEM, "limit the step");
	for (i = 0; i < n; i++)
		p->devices[p->limits.devices_count++] = defaults[i];
	if (limits->all_devices)
		p->devices[p->limits.devices_count++] = all;
	for (i = 0; i < limits->devices_count && r == 0; i++) {
		struct err why = ERR_INIT;

		/* A device that doesn't exist can't be opened either: with best effort the others
		 * are allowed.
		 */
		if (find_rule(&limits->devices[i], &p->devices[p->limits.devices_count], &why) == 0)
			p->limits.devices_count++;
		else
			r = limits_give_up(target, STEPD_LIMIT_DEVICES, &why, err);
	}
	p->limits.devices = p->devices;
	return r;
}

static int limits_prepare(const struct limits_target *target, const struct limits *limits,
	struct prepared *p, struct err *err)
{
	size_t i;
	int r = 0;

	p->limits.set = limits->set;
	for (i = 0; i < STEPD_LIMIT_COUNT; i++)
		p->limits.number[i] = limits->number[i];
	p->limits.cpuset_cpus = limits->cpuset_cpus;
	p->limits.cpuset_mems = limits->cpuset_mems;
	if (limits->set & 1u << STEPD_LIMIT_IO_MAX)
		r = prepare_io(target, limits, p, err);
	if (r == 0 && limits->set & 1u << STEPD_LIMIT_DEVICES)
		r = prepare_devices(target, limits, p, err);
	return r;
}

/* ---- application --------------------------------------------------------------------------- */

/* One limit for all ranks, so that one that can't be set is reported once, not for each task. */
static int apply_one(const struct limits_target *target, enum stepd_limit which,
	const struct prepared *p, const uint32_t *ranks, size_t ranks_count, struct err *err)
{
	stepd_limits_t one = p->limits;
	struct err why = ERR_INIT;
	size_t i;
	int r;

	one.set = 1u << which;
	r = ranks ? 0 : proctrack_set_limits(target->pt, target->cont_id, NULL, &one, &why);
	for (i = 0; i < ranks_count && r == 0; i++)
		r = proctrack_set_limits(target->pt, target->cont_id, &ranks[i], &one, &why);
	return r < 0 ? limits_give_up(target, which, &why, err) : 0;
}

int limits_apply(const struct limits_target *target, const struct limits *limits,
	const uint32_t *ranks, size_t ranks_count, struct err *err)
{
	_cleanup_(prepared_clear) struct prepared p = {0};
	unsigned which;
	int r = limits_prepare(target, limits, &p, err);

	for (which = 0; which < STEPD_LIMIT_COUNT && r == 0; which++) {
		if (p.limits.set & 1u << which)
			r = apply_one(target, (enum stepd_limit)which, &p, ranks, ranks_count, err);
	}
	return r;
}

bool limits_are_given(const struct spec *spec)
{
	uint32_t set = spec->limits.set | spec->task_limits.set;
	size_t i;

	for (i = 0; i < spec->overrides_count; i++)
		set |= spec->overrides[i].limits.set;
	return set;
}

/* Of single tasks, by the entries of "tasks", which are behind those of all tasks and replace them.
 */
static int apply_overrides(
	const struct limits_target *all, const struct spec *spec, struct err *err)
{
	struct limits_target target = *all;
	char where[64];
	size_t i;
	int r = 0;

	target.where = where;
	for (i = 0; r == 0 && i < spec->overrides_count; i++) {
		const struct spec_override *o = &spec->overrides[i];

		(void)snprintf(where, sizeof(where), "tasks[%zu].limits", i);
		if (o->limits.set && o->ranks_count > 0)
			r = limits_apply(&target, &o->limits, o->ranks, o->ranks_count, err);
	}
	return r;
}

int limits_apply_spec(const struct spec *spec, struct proctrack *pt, uint64_t cont_id,
	const struct log *log, struct err *err)
{
	struct limits_target target = {
		.pt = pt,
		.cont_id = cont_id,
		.mode = spec->limits_mode,
		.where = "limits",
		.log = log,
	};
	int r = limits_apply(&target, &spec->limits, NULL, 0, err);

	target.where = "task_limits";
	if (r == 0)
		r = limits_apply(&target, &spec->task_limits, spec->ranks, spec->local_ntasks, err);
	return r == 0 ? apply_overrides(&target, spec, err) : r;
}
