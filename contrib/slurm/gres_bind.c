/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/gres_bind.h"

#include <ctype.h>
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <strings.h>

#include "contrib/slurm/bind.h"
#include "contrib/slurm/gres_impl.h"
#include "contrib/slurm/site_conf.h"

#define HEX_MAX 32768u
/* Bytes of lists that are searched for a step's tasks, each of which has them searched anew. */
#define SEARCH_MAX ((uint64_t)64 << 20)

/* ---- what the user wants ------------------------------------------------------------------- */

enum accel_bind {
	ACCEL_VERBOSE = 1u << 0,
	ACCEL_CLOSEST_GPU = 1u << 1,
	ACCEL_CLOSEST_NIC = 1u << 3,
};

struct request {
	const char *text; /* as given, for messages; NULL: with --accel-bind */
	bool verbose;
	bool gpus_by_cpus, nics_by_cpus;
	uint32_t tasks_per_gpu; /* one of those; 0: all of them */
	const char *map, *mask; /* lists, an entry for each task */
	uint32_t gpus_per_task;
};

/* The text behind a word, in either case of letters. */
static const char *find_behind(const char *text, const char *word)
{
	size_t n = strlen(word);

	return strncasecmp(text, word, n) == 0 ? text + n : NULL;
}

static uint32_t read_count(const char *text, int base)
{
	long n = strtol(text, NULL, base);

	return n > 0 && n <= (long)UINT32_MAX ? (uint32_t)n : 0;
}

static void read_gpus(const char *text, struct request *request)
{
	const char *rest = find_behind(text, "verbose,");
	uint32_t n;

	request->verbose = rest;
	text = rest ? rest : text;
	if ((rest = find_behind(text, "single:"))) {
		n = read_count(rest, 0);
		request->tasks_per_gpu = n ? n : 1;
		request->gpus_by_cpus = true;
	} else if (find_behind(text, "closest")) {
		request->gpus_by_cpus = true;
	} else if ((rest = find_behind(text, "map_gpu:"))) {
		request->map = rest;
	} else if ((rest = find_behind(text, "mask_gpu:"))) {
		request->mask = rest;
	} else if ((rest = find_behind(text, "per_task:"))) {
		request->gpus_per_task = read_count(rest, 10);
	}
}

static struct request read_request(unsigned accel, const char *text)
{
	struct request request = {.text = text,
		.gpus_by_cpus = accel & ACCEL_CLOSEST_GPU,
		.nics_by_cpus = accel & ACCEL_CLOSEST_NIC};
	const char *gpus = text && !request.gpus_by_cpus ? strstr(text, "gpu:") : NULL;

	if (gpus)
		read_gpus(gpus + strlen("gpu:"), &request);
	return request;
}

/* ---- the node's gres.conf ------------------------------------------------------------------ */

struct conf_record {
	uint64_t count;
	struct slurm_bits cpus; /* near the devices; no mask: all are */
	uint32_t id;
};

#define CONF(member_) UNPACK_KEEP(struct conf_record, member_)

/* clang-format off */
static const struct unpack_row conf_rows[] = {
	FIELD("gres.conf config_flags", U32),
	FIELD("gres.conf count", U64, .keep = CONF(count)),
	FIELD("gres.conf cpu_cnt", U32),
	FIELD("gres.conf cpus", TEXT),
	FIELD("gres.conf cpus_bitmap", BITS, .keep = CONF(cpus)),
	FIELD("gres.conf file", TEXT),
	FIELD("gres.conf links", TEXT),
	FIELD("gres.conf name", TEXT),
	FIELD("gres.conf type_name", TEXT),
	FIELD("gres.conf unique_id", TEXT),
	FIELD("gres.conf plugin_id", U32, .keep = CONF(id)),
};
/* clang-format on */

static void unpack_conf(struct unpack *u, struct conf_record *record)
{
	*record = (struct conf_record){0};
	unpack_rows(u, conf_rows, ARRAY_SIZE(conf_rows), record);
}

int gres_read_conf(const void *data, size_t size, struct gres_conf *ret_conf, struct err *err)
{
	struct unpack u = {.data = data, .size = size, .release = SLURM_22_05};
	struct gres_conf conf = {0};
	struct conf_record record;
	uint32_t i;

	(void)unpack_u32(&u); /* of AutoDetect */
	if (unpack_u32(&u) > 0)
		conf.n = unpack_u32(&u);
	conf.bytes = u.data + u.at;
	conf.size = u.size - u.at;
	for (i = 0; i < conf.n && !u.bad; i++)
		unpack_conf(&u, &record);
	if (u.bad || u.at != u.size)
		return err_set_text(err, -EBADMSG,
			"the node's gres.conf is not that of release 22.05: %s at %s",
			u.bad ? u.bad : "more data than fields", u.field ? u.field : "its end");
	*ret_conf = conf;
	return 0;
}

/* The next one of a kind. */
static bool conf_next(struct gres_conf *rest, uint32_t id, struct conf_record *ret_record)
{
	while (rest->n > 0) {
		struct unpack u = {.data = rest->bytes, .size = rest->size, .release = SLURM_22_05};

		unpack_conf(&u, ret_record);
		rest->n--;
		rest->bytes += u.at;
		rest->size -= u.at;
		if (ret_record->id == id)
			return true;
	}
	return false;
}

/* ---- a step's binding ---------------------------------------------------------------------- */

enum bound {
	BOUND_KEEP,  /* tasks have what the step has */
	BOUND_NONE,  /* ... but no variables of it */
	BOUND_TASKS, /* each has its own */
};

struct bound_kind {
	struct gres_kind kind;
	struct gres_share share;
	enum bound bound;
};

struct gres_binding {
	const struct slurm_init *init;
	bool local;
	struct request request;
	struct bound_kind *kinds; /* of the plugins */
	size_t count;
	struct bitset cpus; /* of tasks that are not bound */
};

struct gres_binding *gres_binding_free(struct gres_binding *b)
{
	size_t i;

	if (!b)
		return NULL;
	for (i = 0; i < b->count; i++)
		gres_share_clear(&b->kinds[i].share);
	free(b->kinds);
	bitset_clear(&b->cpus);
	free(b);
	return NULL;
}

/* With --gpu-bind=none the tasks of slurmstepd have no list of their GPUs, nor one of the NICs. Of
 * shared devices nothing is bound. */
static enum bound find_bound(
	const struct request *r, const struct gres_kind *kind, const struct gres_share *share)
{
	bool gpus = r->gpus_by_cpus || r->map || r->mask || r->gpus_per_task;

	if (kind->plugin != GRES_GPU && kind->plugin != GRES_NIC)
		return BOUND_KEEP;
	if ((!gpus && !r->nics_by_cpus) || !share->has_devices)
		return BOUND_NONE;
	return (kind->plugin == GRES_GPU ? gpus : r->nics_by_cpus) ? BOUND_TASKS : BOUND_KEEP;
}

static int add_kinds(struct gres_binding *b, struct err *err)
{
	struct gres_kinds rest = b->init->kinds;
	struct gres_kind kind;
	int r = 0;

	b->kinds = calloc((size_t)rest.n + 1, sizeof(*b->kinds));
	if (!b->kinds)
		return err_set(err, -ENOMEM, "bind the step to devices");
	while (r == 0 && gres_next_kind(&rest, &kind)) {
		struct bound_kind *k = &b->kinds[b->count];

		if (!kind.plugin)
			continue;
		k->kind = kind;
		r = gres_find_share(b->init, &kind, &k->share);
		b->count++;
	}
	return r < 0 ? err_set(err, r, "bind the step to devices") : 0;
}

/* As slurmstepd: --accel-bind has no effect where there is only one device of the kind. */
static unsigned get_accel(const struct gres_binding *b)
{
	unsigned accel = b->init->launch.accel_bind_type;
	uint64_t gpus = 0, nics = 0;
	size_t i;

	for (i = 0; i < b->count; i++) {
		gpus = b->kinds[i].kind.plugin == GRES_GPU ? b->kinds[i].share.count : gpus;
		nics = b->kinds[i].kind.plugin == GRES_NIC ? b->kinds[i].share.count : nics;
	}
	if (gpus <= 1)
		accel &= ~(unsigned)ACCEL_CLOSEST_GPU;
	if (nics <= 1)
		accel &= ~(unsigned)ACCEL_CLOSEST_NIC;
	return accel == ACCEL_VERBOSE ? 0 : accel;
}

static bool has_cpus(const struct gres_binding *b, uint32_t id)
{
	struct gres_conf rest = b->init->gres_conf;
	struct conf_record record;

	while (conf_next(&rest, id, &record)) {
		if (record.cpus.mask)
			return true;
	}
	return false;
}

/* Of a task that is not bound: those that this process has, within the step's. */
static int find_own_cpus(struct gres_binding *b)
{
	_cleanup_bitset_ struct bitset limit = {0};
	const char *list = b->init->limits.cpus;
	cpu_set_t set;
	uint32_t i;
	int r = bitset_init(&b->cpus, CPU_SETSIZE);

	if (r < 0 || sched_getaffinity(0, sizeof(set), &set) < 0)
		return r < 0 ? r : -errno;
	for (i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set))
			(void)bitset_set(&b->cpus, i);
	}
	if (!list)
		return 0;
	r = bitset_init(&limit, CPU_SETSIZE);
	if (r == 0)
		r = bitset_add_list(&limit, list);
	if (r == 0)
		bitset_intersect(&b->cpus, &limit);
	return r;
}

/* Where devices are chosen by the tasks' processors these must be known. */
static int check_cpus(struct gres_binding *b, struct err *err)
{
	_cleanup_bitset_ struct bitset cpus = {0};
	bool needed = false;
	size_t i;
	int r;

	if (!b->request.gpus_by_cpus && !b->request.nics_by_cpus)
		return 0;
	if (!b->init->frame.has_gres_conf)
		return err_set_text(err, -EBADMSG, "slurmd has not sent the node's gres.conf");
	for (i = 0; i < b->count; i++)
		needed |= b->kinds[i].bound == BOUND_TASKS && has_cpus(b, b->kinds[i].kind.id);
	if (!needed)
		return 0;
	r = b->init->site->binds ? bind_find_cpus(&b->init->launch, 0, &cpus) : 0;
	if (r == -EOPNOTSUPP)
		return err_set_text(err, r,
			"tasks get the devices closest to their processors (--gpu-bind), which "
			"only their binding by ranks or NUMA nodes finds (--cpu-bind)");
	if (r == 0)
		r = find_own_cpus(b);
	return r < 0 ? err_set(err, r, "find the processors of the step's tasks") : 0;
}

/* 0: nothing is bound; one task has all that the step has. */
static uint32_t count_tasks(const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;
	struct slurm_array ranks;
	uint32_t node;

	return (l->accel_bind_type || l->tres_bind) &&
			(l->kind == SLURM_KIND_SRUN || l->kind == SLURM_KIND_HET) &&
			l->step_gres.n > 0 &&
			slurm_launch_find_node(l, init->conf.node_name, &node) == 0 &&
			slurm_launch_ranks(l, node, &ranks) && ranks.n > 1
		? ranks.n
		: 0;
}

/* slurmd waits meanwhile. */
static int check_lists(const struct slurm_launch *l, uint32_t tasks, struct err *err)
{
	uint64_t size =
		(l->tres_bind ? strlen(l->tres_bind) : 0) + (l->cpu_bind ? strlen(l->cpu_bind) : 0);

	return size > SEARCH_MAX / tasks
		? err_set_text(err, -E2BIG,
			  "the lists of its binding have %llu bytes, too many for %u tasks",
			  (unsigned long long)size, tasks)
		: 0;
}

int gres_binding_new(const struct slurm_init *init, bool local, struct gres_binding **ret_binding,
	struct err *err)
{
	_cleanup_(gres_binding_free_p) struct gres_binding *b = NULL;
	uint32_t tasks = count_tasks(init);
	unsigned accel;
	size_t i;
	int r;

	*ret_binding = NULL;
	if (tasks == 0)
		return 0;
	r = check_lists(&init->launch, tasks, err);
	if (r < 0)
		return r;
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "bind the step to devices");
	b->init = init;
	b->local = local;
	r = add_kinds(b, err);
	if (r < 0)
		return r;
	accel = get_accel(b);
	if (!accel && !init->launch.tres_bind)
		return 0;
	b->request = read_request(accel, init->launch.tres_bind);
	for (i = 0; i < b->count; i++)
		b->kinds[i].bound = find_bound(&b->request, &b->kinds[i].kind, &b->kinds[i].share);
	r = check_cpus(b, err);
	if (r == 0)
		*ret_binding = take_ptr(b);
	return r;
}

/* ---- the devices of a task ----------------------------------------------------------------- */

/* For whom they are found. Variables of a step that counts its devices from 0 on have the devices'
 * places among the step's, or among the task's own. */
struct choice {
	const struct gres_binding *b;
	const struct bound_kind *kind;
	uint32_t task;
	bool of_variables;
	struct strv *lines; /* NULL: they have been reported */
};

static bool is_local(const struct choice *c)
{
	return c->b->local && c->of_variables;
}

static void add_range(struct bitset *set, uint64_t first, uint64_t n, uint32_t size)
{
	uint64_t i;

	for (i = first; i < first + n && i < size; i++)
		(void)bitset_set(set, (uint32_t)i);
}

/* As many from 0 on. */
static int consolidate(struct bitset *set, uint32_t size)
{
	uint32_t n = bitset_count(set);

	bitset_clear(set);
	*set = (struct bitset){0};
	if (bitset_init(set, size) < 0)
		return -ENOMEM;
	add_range(set, 0, n, size);
	return 0;
}

/* From places among the step's devices to the node's. */
static int translate(struct bitset *set, const struct gres_share *share)
{
	_cleanup_bitset_ struct bitset places = *set;
	uint32_t device, place = 0;

	*set = (struct bitset){0};
	if (bitset_init(set, share->size) < 0)
		return -ENOMEM;
	for (device = bitset_next(&share->devices, 0); device != BITSET_NONE;
		device = bitset_next(&share->devices, device + 1)) {
		if (bitset_test(&places, place++))
			(void)bitset_set(set, device);
	}
	return 0;
}

static int choose_by_list(const struct choice *c, struct bitset *usable)
{
	const struct request *request = &c->b->request;
	const struct gres_share *share = &c->kind->share;
	bool map = request->map;
	const char *entry = bind_find_entry(map ? request->map : request->mask, c->task);
	long n = entry ? strtol(entry, NULL, 0) : -1, most = share->size - 1L;
	uint32_t i;
	int r = 0;

	if (!map)
		most = share->size < 31 ? (1L << share->size) - 1 : INT_MAX;
	if (n < !map || n > most) {
		r = c->lines ? strv_add(c->lines, "error=Invalid --gpu-bind= value specified.") : 0;
	} else if (map) {
		(void)bitset_set(usable, (uint32_t)n);
	} else {
		for (i = 0; i < share->size && i < 31; i++) {
			if (n >> i & 1)
				(void)bitset_set(usable, i);
		}
	}
	if (r == 0 && c->b->local && !c->of_variables)
		return translate(usable, share);
	bitset_intersect(usable, &share->devices);
	return r == 0 && is_local(c) ? consolidate(usable, share->size) : r;
}

/* 1: *cpus are those of the task, which is bound; 0: it is not. */
static int find_task_cpus(const struct choice *c, struct bitset *cpus)
{
	return c->b->init->site->binds ? bind_find_cpus(&c->b->init->launch, c->task, cpus) : 0;
}

static bool intersects(const struct bitset *a, const struct bitset *b)
{
	uint32_t i;

	for (i = bitset_next(a, 0); i != BITSET_NONE; i = bitset_next(a, i + 1)) {
		if (bitset_test(b, i))
			return true;
	}
	return false;
}

/* Devices of records in the file's order, as far as they have the task's processors. */
static int choose_by_records(
	const struct choice *c, const struct bitset *cpus, struct bitset *usable)
{
	const struct gres_share *share = &c->kind->share;
	struct gres_conf rest = c->b->init->gres_conf;
	struct conf_record record;
	uint64_t first = 0;
	int r;

	while (conf_next(&rest, c->kind->kind.id, &record)) {
		_cleanup_bitset_ struct bitset near = {0};

		if (record.count > share->size - first)
			continue;
		r = record.cpus.mask ? slurm_bits_read(&record.cpus, &near) : 0;
		if (r < 0)
			return r;
		if (!record.cpus.mask || intersects(&near, cpus))
			add_range(usable, first, record.count, share->size);
		first += record.count;
	}
	bitset_intersect(usable, &share->devices);
	return 0;
}

/* One of several, for so many tasks in turn. */
static int choose_single(const struct choice *c, struct bitset *usable)
{
	uint32_t n = bitset_count(usable), per_gpu = c->b->request.tasks_per_gpu;
	uint32_t device, skip;

	if (c->kind->kind.plugin != GRES_GPU || !per_gpu || n < 2)
		return 0;
	skip = c->task / per_gpu % n;
	for (device = bitset_next(usable, 0); skip > 0; skip--)
		device = bitset_next(usable, device + 1);
	bitset_clear(usable);
	*usable = (struct bitset){0};
	if (bitset_init(usable, c->kind->share.size) < 0)
		return -ENOMEM;
	(void)bitset_set(usable, device);
	return 0;
}

static int choose_by_cpus(const struct choice *c, struct bitset *usable)
{
	_cleanup_bitset_ struct bitset cpus = {0};
	int r = has_cpus(c->b, c->kind->kind.id) ? find_task_cpus(c, &cpus) : 0;

	if (r >= 0)
		r = choose_by_records(c, r > 0 ? &cpus : &c->b->cpus, usable);
	if (r == 0)
		r = choose_single(c, usable);
	return r == 0 && is_local(c) ? consolidate(usable, c->kind->share.size) : r;
}

/* So many for each task, one after the other. */
static int choose_some(const struct choice *c, struct bitset *usable)
{
	const struct gres_share *share = &c->kind->share;
	uint32_t left = c->b->request.gpus_per_task, device;
	uint64_t skip = (uint64_t)c->task * left;

	if (is_local(c)) {
		add_range(usable, 0, left, share->size);
		return 0;
	}
	for (device = bitset_next(&share->devices, 0); device != BITSET_NONE && left > 0;
		device = bitset_next(&share->devices, device + 1)) {
		if (skip > 0) {
			skip--;
			continue;
		}
		(void)bitset_set(usable, device);
		left--;
	}
	return left > 0 && c->lines
		? strv_add(c->lines, "error=Not enough gpus to bind for gpus per task")
		: 0;
}

/* None is no choice: the first one. */
static int choose_first(const struct choice *c, struct bitset *usable)
{
	uint32_t first = bitset_next(&c->kind->share.devices, 0);
	const char *text = c->b->request.text;

	if (first == BITSET_NONE || bitset_next(usable, 0) != BITSET_NONE)
		return 0;
	(void)bitset_set(usable, is_local(c) ? 0 : first);
	return c->lines ? strv_addf(c->lines,
				  "error=Bind request %s does not specify any devices within the "
				  "allocation for task %u. Binding to the first device in the "
				  "allocation instead.",
				  text ? text : "(null)", c->task)
			: 0;
}

static int choose(const struct choice *c, struct bitset *usable)
{
	const struct request *request = &c->b->request;
	bool gpu = c->kind->kind.plugin == GRES_GPU;
	int r = bitset_init(usable, c->kind->share.size);

	if (r < 0)
		return r;
	if (gpu && (request->map || request->mask))
		r = choose_by_list(c, usable);
	else if (!gpu || request->gpus_by_cpus)
		r = choose_by_cpus(c, usable);
	else
		r = choose_some(c, usable);
	return r == 0 ? choose_first(c, usable) : r;
}

/* ---- what a task gets ---------------------------------------------------------------------- */

void gres_task_clear(struct gres_task *task)
{
	json_decref(task->env);
	json_decref(task->devices);
	strv_clear(&task->lines);
}

static int set_variables(json_t *env, const struct bound_kind *k, const struct gres_lists *lists)
{
	const struct gres_variables v = {.env = env};

	return k->kind.plugin == GRES_NIC ? gres_set_nics(&v, lists)
					  : gres_set_gpus(&v, &k->kind, &k->share, lists);
}

int gres_binding_clear_env(const struct gres_binding *b, json_t *env)
{
	static const struct gres_lists none;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < b->count; i++) {
		if (b->kinds[i].bound != BOUND_KEEP)
			r = set_variables(env, &b->kinds[i], &none);
	}
	return r;
}

/* "0xF", as Slurm prints sets. */
static void print_set(const struct bitset *set, char text[static HEX_MAX])
{
	char *p;

	(void)bitset_format_hex(set, text, HEX_MAX);
	for (p = text + 2; *p; p++)
		*p = (char)toupper((unsigned char)*p);
}

static int report(
	const struct choice *c, const struct bitset *usable, const struct gres_lists *lists)
{
	_cleanup_free_ char *of_task = malloc(HEX_MAX), *of_step = malloc(HEX_MAX);

	if (!of_task || !of_step)
		return -ENOMEM;
	print_set(usable, of_task);
	print_set(&c->kind->share.devices, of_step);
	return strv_addf(c->lines,
		"note=gpu-bind: usable_gres=%s; bit_alloc=%s; local_inx=%u; global_list=%s; "
		"local_list=%s",
		of_task, of_step, lists->considered, lists->global ? lists->global : "(null)",
		lists->local ? lists->local : "(null)");
}

static int add_variables(const struct choice *c, json_t *env)
{
	_cleanup_gres_lists_ struct gres_lists lists = {0};
	_cleanup_bitset_ struct bitset usable = {0};
	int r = choose(c, &usable);

	if (r == 0)
		r = gres_make_lists(&c->kind->kind, &c->kind->share, &usable, c->b->local, &lists);
	if (r == 0 && c->b->request.verbose)
		r = report(c, &usable, &lists);
	return r == 0 ? set_variables(env, c->kind, &lists) : r;
}

static int add_devices(const struct choice *c, json_t *names)
{
	_cleanup_bitset_ struct bitset usable = {0};
	bool bound = c->kind->bound == BOUND_TASKS;
	int r = bound ? choose(c, &usable) : 0;

	return r == 0
		? gres_add_devices(names, &c->kind->kind, &c->kind->share, bound ? &usable : NULL)
		: r;
}

int gres_binding_make_task(
	const struct gres_binding *b, uint32_t number, struct gres_task *ret_task)
{
	_cleanup_gres_task_ struct gres_task task = {.env = json_object()};
	json_auto_t *names = json_object();
	size_t i;
	int r = task.env && names ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < b->count; i++) {
		struct choice c = {.b = b,
			.kind = &b->kinds[i],
			.task = number,
			.of_variables = true,
			.lines = &task.lines};

		if (c.kind->bound == BOUND_TASKS)
			r = add_variables(&c, task.env);
		c.of_variables = false;
		c.lines = NULL;
		if (r == 0)
			r = add_devices(&c, names);
	}
	if (r == 0)
		r = gres_list_devices(names, &task.devices);
	if (r == 0) {
		*ret_task = task;
		task = (struct gres_task){0};
	}
	return r;
}
