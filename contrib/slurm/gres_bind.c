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

enum choice_kind {
	CHOICE_NONE, /* the kind is not bound */
	CHOICE_MAP,
	CHOICE_MASK,
	CHOICE_CLOSEST,
	CHOICE_SINGLE, /* n tasks for each */
	CHOICE_SOME,   /* n of them for each task */
	CHOICE_ALL,
	CHOICE_UNKNOWN,
};

/* How a kind's devices are shared out. */
struct wish {
	enum choice_kind choice;
	bool verbose;
	char *list; /* of a map or mask, an entry for each task */
	uint32_t n;
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

static int read_list(const char *text, enum choice_kind choice, struct wish *wish)
{
	wish->choice = choice;
	wish->list = strndup(text, strcspn(text, "+"));
	return wish->list ? 0 : -ENOMEM;
}

/* Of "verbose,map_gpu:0,1", which 24.11 has as "map:0,1", too; what follows "+" is another kind's.
 */
static int read_wish(const char *text, bool old, struct wish *wish)
{
	const char *rest = find_behind(text, "verbose,");

	wish->verbose = rest;
	text = rest ? rest : text;
	if ((rest = find_behind(text, "map_gpu:")) || (!old && (rest = find_behind(text, "map:"))))
		return read_list(rest, CHOICE_MAP, wish);
	if ((rest = find_behind(text, "mask_gpu:")) ||
		(!old && (rest = find_behind(text, "mask:"))))
		return read_list(rest, CHOICE_MASK, wish);
	if ((rest = find_behind(text, "single:"))) {
		wish->choice = CHOICE_SINGLE;
		wish->n = read_count(rest, old ? 0 : 10);
		if (!wish->n)
			wish->n = 1;
	} else if (find_behind(text, "closest")) {
		wish->choice = CHOICE_CLOSEST;
	} else if ((rest = find_behind(text, "per_task:"))) {
		wish->n = read_count(rest, 10);
		wish->choice = wish->n || !old ? CHOICE_SOME : CHOICE_NONE;
	} else if (!old) {
		wish->choice = find_behind(text, "none") ? CHOICE_ALL : CHOICE_UNKNOWN;
	}
	return 0;
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
			"the node's gres.conf is not as slurmd sends it: %s at %s",
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

static void add_range(struct bitset *set, uint64_t first, uint64_t n, uint32_t size)
{
	uint64_t i;

	for (i = first; i < first + n && i < size; i++)
		(void)bitset_set(set, (uint32_t)i);
}

/* ---- a step's binding ---------------------------------------------------------------------- */

enum bound {
	BOUND_KEEP,  /* tasks have what the step has */
	BOUND_NONE,  /* ... but no variables of it */
	BOUND_TASKS, /* each has its own */
};

/* Of a choice in which a task's devices depend on those of the tasks before it. */
struct progress {
	uint32_t tasks;     /* so many have theirs */
	uint32_t *left;     /* of each device, the tasks that it is still for */
	struct bitset last; /* those of the last one */
	bool lacks;         /* there were too few for it */
};

static void progress_clear(struct progress *p)
{
	bitset_clear(&p->last);
	free(p->left);
	*p = (struct progress){0};
}

struct bound_kind {
	struct gres_kind kind;
	struct gres_share share;
	struct wish wish;
	enum bound bound;
	struct progress progress;
};

struct gres_binding {
	const struct slurm_init *init;
	bool old; /* up to 23.02 */
	bool local;
	const char *text; /* as given, for messages; NULL: with --accel-bind */
	struct bound_kind *kinds;
	size_t count;
	struct bitset cpus; /* of tasks that are not bound */
};

struct gres_binding *gres_binding_free(struct gres_binding *b)
{
	size_t i;

	if (!b)
		return NULL;
	for (i = 0; i < b->count; i++) {
		gres_share_clear(&b->kinds[i].share);
		progress_clear(&b->kinds[i].progress);
		free(b->kinds[i].wish.list);
	}
	free(b->kinds);
	bitset_clear(&b->cpus);
	free(b);
	return NULL;
}

/* "gpu:closest", of GPUs alone; with --accel-bind what that has comes first. */
static int read_old_wishes(struct gres_binding *b, unsigned accel)
{
	const char *gpus = b->text && !(accel & ACCEL_CLOSEST_GPU) ? strstr(b->text, "gpu:") : NULL;
	bool verbose = false;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < b->count; i++) {
		enum gres_plugin plugin = b->kinds[i].kind.plugin;
		struct wish *wish = &b->kinds[i].wish;

		if (plugin == GRES_GPU && gpus)
			r = read_wish(gpus + strlen("gpu:"), true, wish);
		else if ((plugin == GRES_GPU && accel & ACCEL_CLOSEST_GPU) ||
			(plugin == GRES_NIC && accel & ACCEL_CLOSEST_NIC))
			wish->choice = CHOICE_CLOSEST;
		verbose |= wish->verbose;
	}
	for (i = 0; i < b->count; i++)
		b->kinds[i].wish.verbose = verbose;
	return r;
}

/* "gres/gpu:closest+gres/nic:map:0,1", of any kind. */
static int read_wishes(struct gres_binding *b)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && b->text && i < b->count; i++) {
		_cleanup_free_ char *word = NULL;
		const char *name = b->kinds[i].kind.name, *at;

		if (asprintf(&word, "gres/%s:", name ? name : "") < 0) {
			word = NULL;
			return -ENOMEM;
		}
		at = strstr(b->text, word);
		r = at ? read_wish(at + strlen(word), false, &b->kinds[i].wish) : 0;
	}
	return r;
}

static bool has_variables(const struct gres_kind *kind)
{
	return kind->plugin == GRES_GPU || kind->plugin == GRES_NIC;
}

/* With --gpu-bind=none the tasks of slurmstepd 22.05 have no list of their GPUs, nor one of the
 * NICs. Of shared devices nothing is bound. */
static enum bound find_old_bound(const struct gres_binding *b, const struct bound_kind *k)
{
	bool any = false;
	size_t i;

	if (!has_variables(&k->kind))
		return BOUND_KEEP;
	for (i = 0; i < b->count; i++)
		any |= b->kinds[i].wish.choice != CHOICE_NONE;
	if (!any || !k->share.has_devices)
		return BOUND_NONE;
	return k->wish.choice != CHOICE_NONE ? BOUND_TASKS : BOUND_KEEP;
}

/* Where anything is bound, tasks have no list of what is not. */
static enum bound find_bound(const struct gres_binding *b, const struct bound_kind *k)
{
	if (b->old)
		return find_old_bound(b, k);
	if (k->wish.choice != CHOICE_NONE && k->share.has_devices)
		return BOUND_TASKS;
	return has_variables(&k->kind) ? BOUND_NONE : BOUND_KEEP;
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

		if (!gres_has_devices(&kind))
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
	int r = 0;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -errno;
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

/* From 23.02 on: all. */
static int find_unbound_cpus(struct gres_binding *b)
{
	int r = bitset_init(&b->cpus, CPU_SETSIZE);

	if (r < 0 || b->init->frame.release < SLURM_23_02)
		return r < 0 ? r : find_own_cpus(b);
	add_range(&b->cpus, 0, CPU_SETSIZE, CPU_SETSIZE);
	return 0;
}

static bool goes_by_cpus(const struct gres_binding *b, const struct bound_kind *k)
{
	return k->bound == BOUND_TASKS &&
		(k->wish.choice == CHOICE_CLOSEST || k->wish.choice == CHOICE_SINGLE ||
			(k->wish.choice == CHOICE_SOME && !b->old));
}

/* Where devices are chosen by the tasks' processors these must be known. */
static int check_cpus(struct gres_binding *b, struct err *err)
{
	_cleanup_bitset_ struct bitset cpus = {0};
	bool by_cpus = false, needed = false;
	size_t i;
	int r;

	for (i = 0; i < b->count; i++) {
		bool goes = goes_by_cpus(b, &b->kinds[i]);

		by_cpus |= goes;
		needed |= goes && has_cpus(b, b->kinds[i].kind.id);
	}
	if (by_cpus && !b->init->frame.has_gres_conf)
		return err_set_text(err, -EBADMSG, "slurmd has not sent the node's gres.conf");
	if (!needed)
		return 0;
	r = b->init->site->binds ? bind_find_cpus(&b->init->launch, 0, &cpus) : 0;
	if (r == -EOPNOTSUPP)
		return err_set_text(err, r,
			"tasks get the devices closest to their processors (--gpu-bind), which "
			"only their binding by ranks or NUMA nodes finds (--cpu-bind)");
	if (r >= 0)
		r = find_unbound_cpus(b);
	return r < 0 ? err_set(err, r, "find the processors of the step's tasks") : 0;
}

/* What is bound in a way that has not been compared with slurmstepd. */
static int check_served(const struct gres_binding *b, unsigned accel, struct err *err)
{
	size_t i;

	if (b->old)
		return 0;
	if (b->text && accel & (ACCEL_CLOSEST_GPU | ACCEL_CLOSEST_NIC))
		return err_set_text(err, -EOPNOTSUPP,
			"its tasks are bound to devices in two ways (--accel-bind)");
	if (b->text && b->init->launch.flags & SLURM_FLAG_SHARES_DEVICES)
		return err_set_text(err, -EOPNOTSUPP,
			"its tasks share devices (--gres-flags=allow-task-sharing)");
	for (i = 0; i < b->count; i++) {
		const struct bound_kind *k = &b->kinds[i];

		if (b->text && k->share.given && gres_is_shared(&k->kind))
			return err_set_text(err, -EOPNOTSUPP,
				"its tasks are bound to parts of devices, '%s'", k->kind.name);
		if (k->wish.choice == CHOICE_UNKNOWN)
			return err_set_text(err, -EOPNOTSUPP,
				"its tasks are bound to devices in another way (--tres-bind)");
		if (k->wish.choice != CHOICE_NONE && gres_has_uuids(&k->kind))
			return err_set_text(err, -EOPNOTSUPP,
				"its tasks are bound to devices that have their UUIDs for names");
	}
	return 0;
}

/* 0: nothing is bound; before 25.11 one task has all that the step has. */
static uint32_t count_tasks(const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;
	struct slurm_array ranks;
	uint32_t node;

	return (l->accel_bind_type || l->tres_bind) &&
			(l->kind == SLURM_KIND_SRUN || l->kind == SLURM_KIND_HET) &&
			l->step_gres.n > 0 &&
			slurm_launch_find_node(l, init->conf.node_name, &node) == 0 &&
			slurm_launch_ranks(l, node, &ranks) &&
			(ranks.n > 1 || init->frame.release >= SLURM_25_11)
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
	b->old = init->frame.release < SLURM_23_11;
	b->local = local;
	b->text = init->launch.tres_bind;
	r = add_kinds(b, err);
	if (r < 0)
		return r;
	accel = get_accel(b);
	if (!accel && !b->text)
		return 0;
	r = b->old ? read_old_wishes(b, accel) : read_wishes(b);
	if (r < 0)
		return err_set(err, r, "bind the step to devices");
	for (i = 0; i < b->count; i++)
		b->kinds[i].bound = find_bound(b, &b->kinds[i]);
	r = check_served(b, accel, err);
	if (r == 0)
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
	struct bound_kind *kind;
	uint32_t task;
	bool of_variables;
	struct strv *lines; /* NULL: they have been reported */
};

static bool is_local(const struct choice *c)
{
	return c->b->local && c->of_variables;
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
	const struct wish *wish = &c->kind->wish;
	const struct gres_share *share = &c->kind->share;
	bool map = wish->choice == CHOICE_MAP;
	const char *entry = bind_find_entry(wish->list, c->task);
	long n = entry ? strtol(entry, NULL, 0) : -1, most = share->size - 1L;
	uint32_t i;
	int r = 0;

	if (!map)
		most = share->size < 31 ? (1L << share->size) - 1 : INT_MAX;
	if (n < !map || n > most) {
		if (c->lines)
			r = strv_add(c->lines,
				c->b->old ? "error=Invalid --gpu-bind= value specified."
					  : "error=Invalid map or mask value specified.");
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
	if (c->b->old || !is_local(c))
		bitset_intersect(usable, &share->devices);
	return r == 0 && is_local(c) ? consolidate(usable, share->size) : r;
}

/* 1: *cpus are those of the task, which is bound; 0: it is not. */
static int find_task_cpus(const struct choice *c, uint32_t task, struct bitset *cpus)
{
	return c->b->init->site->binds ? bind_find_cpus(&c->b->init->launch, task, cpus) : 0;
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
static int add_close(const struct choice *c, uint32_t task, struct bitset *devices)
{
	_cleanup_bitset_ struct bitset cpus = {0};
	const struct gres_share *share = &c->kind->share;
	struct gres_conf rest = c->b->init->gres_conf;
	struct conf_record record;
	uint64_t first = 0;
	int r = has_cpus(c->b, c->kind->kind.id) ? find_task_cpus(c, task, &cpus) : 0;
	const struct bitset *own = r > 0 ? &cpus : &c->b->cpus;

	while (r >= 0 && conf_next(&rest, c->kind->kind.id, &record)) {
		_cleanup_bitset_ struct bitset near = {0};

		if (record.count > share->size - first)
			continue;
		r = record.cpus.mask ? slurm_bits_read(&record.cpus, &near) : 0;
		if (r >= 0 && (!record.cpus.mask || intersects(&near, own)))
			add_range(devices, first, record.count, share->size);
		first += record.count;
	}
	bitset_intersect(devices, &share->devices);
	return r < 0 ? r : 0;
}

/* As slurmstepd 22.05: one of several, for so many tasks in turn. */
static int choose_single(const struct choice *c, struct bitset *usable)
{
	uint32_t n = bitset_count(usable), per_gpu = c->kind->wish.n;
	uint32_t device, skip;

	if (n < 2)
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
	int r = add_close(c, c->task, usable);

	if (r == 0 && c->kind->wish.choice == CHOICE_SINGLE)
		r = choose_single(c, usable);
	return r == 0 && is_local(c) ? consolidate(usable, c->kind->share.size) : r;
}

/* As slurmstepd 22.05: so many for each task, one after the other. */
static int choose_next(const struct choice *c, struct bitset *usable)
{
	const struct gres_share *share = &c->kind->share;
	uint32_t left = c->kind->wish.n, device;
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

/* ---- of later releases: a task has what those before it have left -------------------------- */

static int progress_start(struct bound_kind *k)
{
	struct progress *p = &k->progress;
	uint32_t i;

	progress_clear(p);
	p->left = calloc((size_t)k->share.size + 1, sizeof(*p->left));
	if (!p->left)
		return -ENOMEM;
	for (i = bitset_next(&k->share.devices, 0); i < k->share.size;
		i = bitset_next(&k->share.devices, i + 1))
		p->left[i] = k->wish.choice == CHOICE_SINGLE ? k->wish.n : 1;
	return 0;
}

static void take_some(struct progress *p, const struct bitset *from, uint32_t *n)
{
	uint32_t device;

	for (device = bitset_next(from, 0); device != BITSET_NONE && *n > 0;
		device = bitset_next(from, device + 1)) {
		if (!p->left[device])
			continue;
		p->left[device]--;
		(void)bitset_set(&p->last, device);
		(*n)--;
	}
}

/* First those that are close. Once a task has too few, those behind it have none. */
static int advance_some(const struct choice *c)
{
	_cleanup_bitset_ struct bitset close = {0};
	struct bound_kind *k = c->kind;
	uint32_t n = k->wish.n;
	int r;

	if (k->progress.lacks)
		return 0;
	r = bitset_init(&close, k->share.size);
	if (r == 0)
		r = add_close(c, k->progress.tasks, &close);
	if (r < 0)
		return r;
	take_some(&k->progress, &close, &n);
	take_some(&k->progress, &k->share.devices, &n);
	k->progress.lacks = n > 0;
	return 0;
}

static uint32_t find_left(const struct progress *p, uint64_t first, uint64_t end)
{
	uint64_t i;

	for (i = first; i < end; i++) {
		if (p->left[i])
			return (uint32_t)i;
	}
	return BITSET_NONE;
}

static bool contains(const struct bitset *whole, const struct bitset *part)
{
	uint32_t i;

	for (i = bitset_next(part, 0); i != BITSET_NONE; i = bitset_next(part, i + 1)) {
		if (!bitset_test(whole, i))
			return false;
	}
	return true;
}

/* Of a record whose processors the task has all; else of one of which it has some; else the first
 * that is left. */
static int find_best(const struct choice *c, const struct bitset *cpus, uint32_t *ret_device)
{
	struct gres_conf rest = c->b->init->gres_conf;
	uint32_t id = c->kind->kind.id, size = c->kind->share.size, device;
	struct conf_record record;
	uint64_t first = 0, begin;
	bool overlaps = false;
	int r;

	*ret_device = BITSET_NONE;
	while (conf_next(&rest, id, &record) && record.count <= size - first) {
		_cleanup_bitset_ struct bitset near = {0};

		begin = first;
		first += record.count;
		device = find_left(&c->kind->progress, begin, first);
		if (device == BITSET_NONE)
			continue;
		r = record.cpus.mask ? slurm_bits_read(&record.cpus, &near) : 0;
		if (r < 0)
			return r;
		if (record.cpus.mask && contains(cpus, &near)) {
			*ret_device = device;
			return 0;
		}
		if (record.cpus.mask && !overlaps && intersects(&near, cpus)) {
			*ret_device = device;
			overlaps = true;
		} else if (*ret_device == BITSET_NONE) {
			*ret_device = device;
		}
	}
	return 0;
}

static int advance_single(const struct choice *c)
{
	_cleanup_bitset_ struct bitset cpus = {0};
	struct bound_kind *k = c->kind;
	uint32_t device, skip = bitset_count(&k->share.devices);
	int r = has_cpus(c->b, k->kind.id) ? find_task_cpus(c, k->progress.tasks, &cpus) : 0;

	if (r >= 0)
		r = find_best(c, r > 0 ? &cpus : &c->b->cpus, &device);
	if (r < 0)
		return r;
	k->progress.lacks = device == BITSET_NONE;
	if (device == BITSET_NONE) {
		device = bitset_next(&k->share.devices, 0);
		for (skip = k->progress.tasks % skip; skip > 0; skip--)
			device = bitset_next(&k->share.devices, device + 1);
	} else {
		k->progress.left[device]--;
	}
	(void)bitset_set(&k->progress.last, device);
	return 0;
}

static void add_all(const struct bitset *from, struct bitset *to)
{
	uint32_t i;

	for (i = bitset_next(from, 0); i != BITSET_NONE; i = bitset_next(from, i + 1))
		(void)bitset_set(to, i);
}

static int report_lack(const struct choice *c)
{
	if (!c->lines || !c->kind->progress.lacks)
		return 0;
	return c->kind->wish.choice == CHOICE_SOME
		? strv_addf(c->lines, "error=Not enough gres to bind %u per task", c->kind->wish.n)
		: strv_addf(c->lines,
			  "error=_get_single_usable_gres Can't find free slot for local_proc_id = "
			  "%u, continue using block distribution",
			  c->task);
}

/* Tasks are made in their order, and each is asked for twice. */
static int choose_in_turn(const struct choice *c, struct bitset *usable)
{
	struct progress *p = &c->kind->progress;
	bool some = c->kind->wish.choice == CHOICE_SOME;
	int r = p->left && p->tasks <= c->task + 1 ? 0 : progress_start(c->kind);

	for (; r == 0 && p->tasks <= c->task; p->tasks++) {
		bitset_clear(&p->last);
		p->last = (struct bitset){0};
		r = bitset_init(&p->last, c->kind->share.size);
		if (r == 0)
			r = some ? advance_some(c) : advance_single(c);
	}
	if (r < 0)
		return r;
	add_all(&p->last, usable);
	return report_lack(c);
}

static int choose_of_later(const struct choice *c, struct bitset *usable)
{
	const struct wish *wish = &c->kind->wish;
	const struct gres_share *share = &c->kind->share;

	bool single = wish->choice == CHOICE_SINGLE;

	if (wish->choice == CHOICE_CLOSEST)
		return choose_by_cpus(c, usable);
	if (is_local(c) && wish->choice != CHOICE_ALL)
		add_range(usable, 0, single ? 1 : wish->n, share->size);
	else if (wish->choice == CHOICE_ALL || (single && bitset_count(&share->devices) < 2))
		add_all(&share->devices, usable);
	else
		return choose_in_turn(c, usable);
	return 0;
}

/* None is no choice: the first one. */
static int choose_first(const struct choice *c, struct bitset *usable)
{
	uint32_t first = bitset_next(&c->kind->share.devices, 0);
	const char *text = c->b->text;

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
	enum choice_kind choice = c->kind->wish.choice;
	int r = bitset_init(usable, c->kind->share.size);

	if (r < 0)
		return r;
	if (choice == CHOICE_MAP || choice == CHOICE_MASK)
		r = choose_by_list(c, usable);
	else if (!c->b->old ||
		(choice == CHOICE_SINGLE && c->b->init->frame.release >= SLURM_23_02))
		r = choose_of_later(c, usable);
	else if (choice == CHOICE_SOME)
		r = choose_next(c, usable);
	else
		r = choose_by_cpus(c, usable);
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
		if (b->kinds[i].bound != BOUND_KEEP && has_variables(&b->kinds[i].kind))
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
	if (r == 0 && c->kind->wish.verbose)
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

int gres_binding_make_task(struct gres_binding *b, uint32_t number, struct gres_task *ret_task)
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

		if (c.kind->bound == BOUND_TASKS && has_variables(&c.kind->kind))
			r = add_variables(&c, task.env);
		c.of_variables = false;
		c.lines = NULL;
		if (r == 0)
			r = add_devices(&c, names);
	}
	/* The tasks of a launcher have the step's. */
	if (r == 0 && (b->old || !(b->init->launch.flags & SLURM_FLAG_EXT_LAUNCHER)))
		r = gres_list_devices(names, &task.devices);
	if (r == 0) {
		*ret_task = task;
		task = (struct gres_task){0};
	}
	return r;
}
