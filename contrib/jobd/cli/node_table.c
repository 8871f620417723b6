/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/node_table.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/cli/values.h"
#include "stepd/base/buffer.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"

#define KEY   1u /* flag of a column: nodes of a line are alike in it */
#define EXACT 2u /* with -e, too */

/* A node in one of its partitions. */
struct entry {
	const json_t *part, *node; /* node NULL: the partition has none */
	size_t rank;               /* of its name among all nodes */
	size_t part_index, order;
	char *key;
};

/* A line. */
struct group {
	struct entry *entries; /* no node is in it twice */
	size_t n;
	size_t order;
};

/* ---- states -----------------------------------------------------------------------------------
 */

static const char *base_state(const json_t *node)
{
	return json_get_text(node, "state", "UNKNOWN");
}

static bool is_busy(const json_t *node)
{
	const char *state = base_state(node);

	return strcmp(state, "ALLOCATED") == 0 || strcmp(state, "MIXED") == 0 ||
		has_state_flag(node, "COMPLETING");
}

static bool is_out(const json_t *node)
{
	return has_state_flag(node, "DRAIN") || strcmp(base_state(node), "DOWN") == 0;
}

static const struct {
	const char *base, *code, *name;
	unsigned order; /* Slurm's number, by which sinfo orders states */
} states[] = {
	{"UNKNOWN", "unk", "unknown", 0},
	{"DOWN", "down", "down", 1},
	{"IDLE", "idle", "idle", 2},
	{"ALLOCATED", "alloc", "allocated", 3},
	{"MIXED", "mix", "mixed", 5},
};

static const struct {
	const char *flag;
	unsigned order;
} flags[] = {{"RESERVED", 0x20}, {"DRAIN", 0x200}, {"COMPLETING", 0x400}, {"MAINT", 0x8000}};

const char *node_state(const json_t *node, bool in_long)
{
	const char *base = base_state(node);
	const bool completing = has_state_flag(node, "COMPLETING"),
		   idle = strcmp(base, "IDLE") == 0;
	size_t i;

	if (has_state_flag(node, "DRAIN")) {
		if (is_busy(node))
			return in_long ? "draining" : "drng";
		return in_long ? "drained" : "drain";
	}
	if (idle && has_state_flag(node, "MAINT"))
		return "maint";
	if (completing && idle)
		return in_long ? "completing" : "comp";
	if (idle && has_state_flag(node, "RESERVED"))
		return in_long ? "reserved" : "resv";
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].base, base) == 0)
			return in_long ? states[i].name : states[i].code;
	}
	return in_long ? "unknown" : "unk";
}

static double state_order(const json_t *node)
{
	unsigned order = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].base, base_state(node)) == 0)
			order = states[i].order;
	}
	for (i = 0; i < ARRAY_SIZE(flags); i++)
		order |= has_state_flag(node, flags[i].flag) ? flags[i].order : 0;
	return order;
}

/* ---- cells ------------------------------------------------------------------------------------
 */

static const json_t *part_of(const void *row)
{
	const struct group *group = row;

	return group->entries[0].part;
}

/* The first one; NULL: there is none. */
static const json_t *node_of(const void *row)
{
	const struct group *group = row;

	return group->entries[0].node;
}

static size_t count_nodes(const struct group *group)
{
	return node_of(group) ? group->n : 0;
}

static char *cell_node_text(const struct column *column, const void *row)
{
	return strdup(json_get_text(node_of(row), column->member, column->missing));
}

static char *cell_part_text(const struct column *column, const void *row)
{
	return strdup(json_get_text(part_of(row), column->member, column->missing));
}

static char *cell_part_number(const struct column *column, const void *row)
{
	return text_printf("%lld", (long long)json_get_int(part_of(row), column->member, 0));
}

static double number_part(const struct column *column, const void *row)
{
	return (double)json_get_int(part_of(row), column->member, 0);
}

static double number_part_index(const struct column *column, const void *row)
{
	(void)column;
	return (double)((const struct group *)row)->entries[0].part_index;
}

/* The least of a line's nodes, with '+' where others have more. */
static int64_t range_of(const struct column *column, const struct group *group, bool *ret_more)
{
	int64_t least = INT64_MAX, most = INT64_MIN, n;
	size_t i;

	*ret_more = false;
	for (i = 0; i < count_nodes(group); i++) {
		n = json_get_int(group->entries[i].node, column->member, 0);
		least = n < least ? n : least;
		most = n > most ? n : most;
	}
	*ret_more = most > least;
	return least == INT64_MAX ? 0 : least;
}

static char *cell_range(const struct column *column, const void *row)
{
	bool more;
	const int64_t n = range_of(column, row, &more);

	return text_printf("%lld%s", (long long)n, more ? "+" : "");
}

static char *cell_cpus(const struct column *column, const void *row)
{
	bool more;
	_cleanup_free_ char *text = text_of_size((uint64_t)range_of(column, row, &more), 0);

	return text ? text_printf("%s%s", text, more ? "+" : "") : NULL;
}

static double number_range(const struct column *column, const void *row)
{
	bool more;

	return (double)range_of(column, row, &more);
}

static char *cell_sct(const struct column *column, const void *row)
{
	static const struct column sockets = {.member = "sockets"}, cores = {.member = "cores"},
				   threads = {.member = "threads"};
	_cleanup_free_ char *s = cell_range(&sockets, row), *c = cell_range(&cores, row),
			    *t = cell_range(&threads, row);

	(void)column;
	return s && c && t ? text_printf("%s:%s:%s", s, c, t) : NULL;
}

static char *cell_count(const struct column *column, const void *row)
{
	(void)column;
	return text_printf("%zu", count_nodes(row));
}

static double number_count(const struct column *column, const void *row)
{
	(void)column;
	return (double)count_nodes(row);
}

/* Nodes that have jobs, that are idle, and the others. */
static void count_states(const struct group *group, size_t counts[3])
{
	const json_t *node;
	size_t i;

	counts[0] = counts[1] = counts[2] = 0;
	for (i = 0; i < count_nodes(group); i++) {
		node = group->entries[i].node;
		counts[is_busy(node) ? 0 : is_out(node) ? 2 : 1]++;
	}
}

static char *cell_nodes_ai(const struct column *column, const void *row)
{
	size_t counts[3];

	(void)column;
	count_states(row, counts);
	return text_printf("%zu/%zu", counts[0], counts[1]);
}

static char *cell_nodes_aiot(const struct column *column, const void *row)
{
	size_t counts[3];

	(void)column;
	count_states(row, counts);
	return text_printf("%zu/%zu/%zu/%zu", counts[0], counts[1], counts[2], count_nodes(row));
}

static char *cell_cpus_aiot(const struct column *column, const void *row)
{
	const struct group *group = row;
	long long total = 0, busy = 0, out = 0, n, taken;
	size_t i;

	(void)column;
	for (i = 0; i < count_nodes(group); i++) {
		n = json_get_int(group->entries[i].node, "cpus", 0);
		taken = json_get_int(group->entries[i].node, "alloc_cpus", 0);
		taken = taken > n ? n : taken; /* jobs that share a CPU */
		total += n;
		busy += taken;
		out += is_out(group->entries[i].node) ? n - taken : 0;
	}
	return text_printf("%lld/%lld/%lld/%lld", busy, total - busy - out, out, total);
}

static char *cell_nodelist(const struct column *column, const void *row)
{
	const struct group *group = row;
	_cleanup_strv_ struct strv names = {0};
	size_t i;

	(void)column;
	for (i = 0; i < count_nodes(group); i++) {
		if (strv_add(&names, json_get_text(group->entries[i].node, "name", "")) < 0)
			return NULL;
	}
	return names.n ? hostlist_make(names.v, names.n) : strdup("");
}

static double number_rank(const struct column *column, const void *row)
{
	(void)column;
	return (double)((const struct group *)row)->entries[0].rank;
}

static char *cell_state(const struct column *column, const void *row)
{
	return strdup(node_of(row) ? node_state(node_of(row), false) : column->missing);
}

static char *cell_state_long(const struct column *column, const void *row)
{
	return strdup(node_of(row) ? node_state(node_of(row), true) : column->missing);
}

static char *cell_state_complete(const struct column *column, const void *row)
{
	const json_t *value, *node = node_of(row);
	char text[128];
	size_t used, i;

	if (!node)
		return strdup(column->missing);
	used = (size_t)snprintf(text, sizeof(text), "%s", base_state(node));
	json_array_foreach (json_get_array(node, "state_flags"), i, value) {
		if (json_is_string(value) && used < sizeof(text))
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "+%s", json_string_value(value));
	}
	for (i = 0; text[i]; i++)
		text[i] = (char)tolower((unsigned char)text[i]);
	return strdup(text);
}

static double number_state(const struct column *column, const void *row)
{
	(void)column;
	return node_of(row) ? state_order(node_of(row)) : -1;
}

static char *cell_partition(const struct column *column, const void *row)
{
	return text_printf("%s%s", json_get_text(part_of(row), column->member, ""),
		json_get_bool(part_of(row), "is_default", false) ? "*" : "");
}

static char *cell_available(const struct column *column, const void *row)
{
	const char *state = json_get_text(part_of(row), column->member, "UP");

	if (strcmp(state, "INACTIVE") == 0)
		return strdup("inact");
	return strdup(strcmp(state, "UP") == 0       ? "up"
			: strcmp(state, "DOWN") == 0 ? "down"
						     : "drain");
}

static char *cell_limit(const struct column *column, const void *row)
{
	const json_t *value = json_object_get(part_of(row), column->member);

	return value ? text_of_limit(json_integer_value(value), "infinite")
		     : strdup(column->missing);
}

static char *cell_job_size(const struct column *column, const void *row)
{
	long long least = json_get_int(part_of(row), "min_nodes", 1);
	const long long most = json_get_int(part_of(row), "max_nodes", -1);

	(void)column;
	least = least < 1 ? 1 : least;
	if (most < 0)
		return text_printf("%lld-infinite", least);
	return most == least ? text_printf("%lld", least) : text_printf("%lld-%lld", least, most);
}

static char *cell_yes_no(const struct column *column, const void *row)
{
	return strdup(json_get_bool(part_of(row), column->member, false) ? "yes" : "no");
}

/* An array of texts. */
static char *join_names(const json_t *names, const char *missing)
{
	_cleanup_strv_ struct strv list = {0};
	const json_t *name;
	size_t i;

	json_array_foreach (names, i, name) {
		if (json_is_string(name) && strv_add(&list, json_string_value(name)) < 0)
			return NULL;
	}
	return list.n ? strv_join(list.v, ',') : strdup(missing);
}

static char *cell_groups(const struct column *column, const void *row)
{
	return join_names(json_get_array(part_of(row), column->member), column->missing);
}

static char *cell_partitions(const struct column *column, const void *row)
{
	return join_names(json_get_array(node_of(row), column->member), column->missing);
}

static char *cell_time(const struct column *column, const void *row)
{
	return text_of_time(json_get_int(node_of(row), column->member, 0), column->missing);
}

static char *cell_user(const struct column *column, const void *row)
{
	const json_t *uid = json_object_get(node_of(row), column->member);

	return uid ? text_of_user(json_integer_value(uid)) : strdup(column->missing);
}

static char *cell_user_long(const struct column *column, const void *row)
{
	const json_t *uid = json_object_get(node_of(row), column->member);
	_cleanup_free_ char *name = uid ? text_of_user(json_integer_value(uid)) : NULL;

	if (!uid)
		return strdup(column->missing);
	return name ? text_printf("%s(%lld)", name, (long long)json_integer_value(uid)) : NULL;
}

/* ---- the columns ------------------------------------------------------------------------------
 */

/* clang-format off */
#define NONE(letter, name, title, missing) {letter, name, title, column_constant, NULL, NULL, missing, 0, 0}
#define NODE(letter, name, title, member, missing) {letter, name, title, cell_node_text, NULL, member, missing, 0, KEY}
#define PART(letter, name, title, member, missing) {letter, name, title, cell_part_text, NULL, member, missing, 0, KEY}
#define PART_NUMBER(letter, name, title, member) \
	{letter, name, title, cell_part_number, number_part, member, NULL, 0, KEY}
#define RANGE(letter, name, title, member) {letter, name, title, cell_range, number_range, member, NULL, 0, EXACT}
#define OWN(letter, name, title, cell, number, member, missing, flags) \
	{letter, name, title, cell, number, member, missing, 0, flags}

static const struct column columns[] = {
	OWN('a', "Available", "AVAIL", cell_available, NULL, "state", NULL, KEY),
	OWN('A', "NodeAI", "NODES(A/I)", cell_nodes_ai, NULL, NULL, NULL, 0),
	NODE('b', "features_act", "ACTIVE_FEATURES", "features", "(null)"),
	NONE('B', "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", "UNLIMITED"),
	OWN('c', "CPUs", "CPUS", cell_cpus, number_range, "cpus", NULL, EXACT),
	OWN('C', "CPUsState", "CPUS(A/I/O/T)", cell_cpus_aiot, NULL, NULL, NULL, 0),
	NONE('d', "Disk", "TMP_DISK", "0"),
	OWN('D', "Nodes", "NODES", cell_count, number_count, NULL, NULL, 0),
	NONE('e', "FreeMem", "FREE_MEM", "N/A"),
	NODE('E', "Reason", "REASON", "reason", "none"),
	NODE('f', "Features", "AVAIL_FEATURES", "features", "(null)"),
	OWN('F', "NodeAIOT", "NODES(A/I/O/T)", cell_nodes_aiot, NULL, NULL, NULL, 0),
	OWN('g', "Groups", "GROUPS", cell_groups, NULL, "allow_groups", "all", KEY),
	NONE('G', "Gres", "GRES", "(null)"),
	PART('h', "OverSubscribe", "OVERSUBSCRIBE", "oversubscribe", "NO"),
	OWN('H', "TimeStamp", "TIMESTAMP", cell_time, NULL, "reason_changed_at", "Unknown", KEY),
	PART_NUMBER('I', "PriorityJobFactor", "PRIO_JOB_FACTOR", "priority_job_factor"),
	OWN('l', "Time", "TIMELIMIT", cell_limit, number_part, "max_time_min", "infinite", KEY),
	OWN('L', "DefaultTime", "DEFAULTTIME", cell_limit, number_part, "default_time_min", "n/a", KEY),
	RANGE('m', "Memory", "MEMORY", "real_memory_mb"),
	PART('M', "PreemptMode", "PREEMPT_MODE", "preempt_mode", "OFF"),
	NODE('n', "NodeHost", "HOSTNAMES", "name", ""),
	{'N', "NodeList", "NODELIST", cell_nodelist, number_rank, NULL, NULL, 10, 0},
	NODE('o', "NodeAddr", "NODE_ADDR", "name", ""),
	NONE('O', "CPUsLoad", "CPU_LOAD", "N/A"),
	PART_NUMBER('p', "PriorityTier", "PRIO_TIER", "priority_tier"),
	{'P', "Partition", "PARTITION", cell_partition, NULL, "name", NULL, 9, KEY},
	OWN('r', "Root", "ROOT", cell_yes_no, NULL, "root_only", NULL, KEY),
	PART('R', "PartitionName", "PARTITION", "name", ""),
	OWN('s', "Size", "JOB_SIZE", cell_job_size, NULL, NULL, NULL, KEY),
	NONE('S', "AllocNodes", "ALLOCNODES", "all"),
	OWN('t', "StateCompact", "STATE", cell_state, number_state, NULL, "n/a", KEY),
	OWN('T', "StateLong", "STATE", cell_state_long, number_state, NULL, "n/a", KEY),
	OWN('u', "User", "USER", cell_user, NULL, "reason_set_by_user", "Unknown", KEY),
	OWN('U', "UserLong", "USER", cell_user_long, NULL, "reason_set_by_user", "Unknown", KEY),
	NONE('v', "Version", "VERSION", "N/A"),
	NONE('V', "Cluster", "CLUSTER", "N/A"),
	RANGE('w', "Weight", "WEIGHT", "weight"),
	RANGE('X', "Sockets", "SOCKETS", "sockets"),
	RANGE('Y', "Cores", "CORES", "cores"),
	OWN('z', "SocketCoreThread", "S:C:T", cell_sct, NULL, NULL, NULL, EXACT),
	RANGE('Z', "Threads", "THREADS", "threads"),
	RANGE(0, "AllocCPUs", "CPUS(A)", "alloc_cpus"),
	RANGE(0, "SpecMem", "MEMSPECLIMIT", "mem_spec_limit_mb"),
	RANGE(0, "RunningJobs", "RUNNING", "running_jobs"),
	RANGE(0, "SuspendedJobs", "SUSPENDED", "suspended_jobs"),
	OWN(0, "Partitions", "PARTITIONS", cell_partitions, NULL, "partitions", "", KEY),
	OWN(0, "Default", "DEFAULT", cell_yes_no, NULL, "is_default", NULL, KEY),
	OWN(0, "Hidden", "HIDDEN", cell_yes_no, NULL, "is_hidden", NULL, KEY),
	PART(0, "PartitionState", "STATE", "state", "UP"),
	PART(0, "PartitionNodes", "NODES", "nodes", ""),
	PART_NUMBER(0, "TotalNodes", "TOTAL_NODES", "total_nodes"),
	PART_NUMBER(0, "TotalCPUs", "TOTAL_CPUS", "total_cpus"),
	PART_NUMBER(0, "GraceTime", "GRACE_TIME", "grace_time_s"),
	RANGE(0, "AllocMem", "ALLOCMEM", "alloc_memory_mb"),
	OWN(0, "StateComplete", "STATECOMPLETE", cell_state_complete, number_state, NULL, "n/a", KEY),
};
/* clang-format on */

static const struct column_table table = {
	.columns = columns, .n = ARRAY_SIZE(columns), .command = "sinfo"};

/* ---- which nodes ------------------------------------------------------------------------------
 */

struct entries {
	struct entry *v;
	size_t n, capacity;
};

static void entries_clear(struct entries *all)
{
	size_t i;

	for (i = 0; i < all->n; i++)
		free(all->v[i].key);
	free(all->v);
}

static bool is_listed_state(const char *list, const json_t *node)
{
	const char *code = node_state(node, false), *name = node_state(node, true);
	_cleanup_free_ char *copy = list ? strdup(list) : NULL;
	char *rest = copy;
	const char *word;

	while (copy && (word = strsep(&rest, ","))) {
		if (strcasecmp(word, code) == 0 || strcasecmp(word, name) == 0 ||
			strcasecmp(word, "all") == 0 ||
			(strcasecmp(word, "drain") == 0 && has_state_flag(node, "DRAIN")))
			return true;
	}
	return !list;
}

static int check_states(const char *list, struct err *err)
{
	static const char *const known[] = {"all", "drain", "drained", "draining", "drng", "maint",
		"comp", "completing", "resv", "reserved"};
	_cleanup_free_ char *copy = strdup(list ? list : "");
	char *rest = copy;
	const char *word;
	size_t i;
	bool found;

	if (!copy)
		return err_set(err, -ENOMEM, "--states");
	while (list && (word = strsep(&rest, ","))) {
		found = false;
		for (i = 0; i < ARRAY_SIZE(known); i++)
			found |= strcasecmp(word, known[i]) == 0;
		for (i = 0; i < ARRAY_SIZE(states); i++)
			found |= strcasecmp(word, states[i].code) == 0 ||
				strcasecmp(word, states[i].name) == 0;
		if (!found)
			return err_set_text(err, -EINVAL,
				"Bad state string: \"%.100s\" (idle, alloc, mix, down, drain, "
				"drng, comp, resv, maint, unk or all)",
				word);
	}
	return 0;
}

static bool is_wanted(const struct node_view *view, const json_t *node)
{
	const bool down = strcmp(base_state(node), "DOWN") == 0;

	return is_listed_state(view->states, node) && (!view->dead || down) &&
		(!view->alive || !down) &&
		(!view->reasons || (json_get_text(node, "reason", NULL) && is_out(node))) &&
		(!view->nodes || nodes_meet(json_get_text(node, "name", ""), view->nodes));
}

static bool is_shown_part(const struct node_view *view, const json_t *part)
{
	return list_has(view->partitions, json_get_text(part, "name", "")) &&
		(view->hidden || view->partitions || !json_get_bool(part, "is_hidden", false));
}

static bool is_in(const json_t *node, const char *part)
{
	const json_t *name;
	size_t i;

	json_array_foreach (json_get_array(node, "partitions"), i, name) {
		if (json_is_string(name) && strcmp(json_string_value(name), part) == 0)
			return true;
	}
	return false;
}

/* Numbers in names count as numbers: n2 before n10. */
static int compare_names(const char *a, const char *b)
{
	unsigned long long x, y;
	char *a_end, *b_end;

	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			x = strtoull(a, &a_end, 10);
			y = strtoull(b, &b_end, 10);
			if (x != y)
				return x < y ? -1 : 1;
			a = a_end;
			b = b_end;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return (*a != '\0') - (*b != '\0');
}

static int compare_nodes(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;

	return compare_names(json_get_text(*x, "name", ""), json_get_text(*y, "name", ""));
}

static int add_entry(struct entries *all, struct entry entry)
{
	if (array_reserve(all->v, all->capacity, all->n + 1) < 0)
		return -ENOMEM;
	entry.order = all->n;
	all->v[all->n++] = entry;
	return 0;
}

/* nodes: those that are wanted, by name. */
static int add_part(const struct node_view *view, const json_t *part, size_t part_index,
	const json_t *const *nodes, size_t n, struct entries *all)
{
	const char *name = json_get_text(part, "name", "");
	const size_t before = all->n;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		if (is_in(nodes[i], name))
			r = add_entry(all,
				(struct entry){.part = part,
					.node = nodes[i],
					.rank = i,
					.part_index = part_index});
	}
	if (r == 0 && all->n == before && !view->single && !view->reasons)
		r = add_entry(all, (struct entry){.part = part, .part_index = part_index});
	return r;
}

static int find_entries(const struct node_view *view, const json_t *nodes, const json_t *partitions,
	struct entries *all)
{
	_cleanup_free_ const json_t **wanted = calloc(json_array_size(nodes) + 1, sizeof(*wanted));
	const json_t *json;
	size_t i, n = 0;
	int r = wanted ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	json_array_foreach (nodes, i, json) {
		if (json_is_object(json) && is_wanted(view, json))
			wanted[n++] = json;
	}
	if (n > 0)
		qsort(wanted, n, sizeof(*wanted), compare_nodes);
	json_array_foreach (partitions, i, json) {
		if (r == 0 && is_shown_part(view, json))
			r = add_part(view, json, i, wanted, n, all);
	}
	return r;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

struct groups {
	struct group *v;
	size_t n;
};

static bool is_key(const struct node_view *view, const struct column *column)
{
	return column && (column->flags & (view->exact ? KEY | EXACT : KEY));
}

/* The common values of a line's entries, as text. */
static int make_key(const struct node_view *view, const struct format *format, struct entry *entry)
{
	const struct group alone = {.entries = entry, .n = 1};
	size_t i, size = 0;
	FILE *f = open_memstream(&entry->key, &size);
	int r = 0;

	if (!f)
		return -ENOMEM;
	for (i = 0; r == 0 && i < format->n; i++) {
		const struct column *column = format->items[i].column;
		_cleanup_free_ char *text =
			is_key(view, column) ? column->cell(column, &alone) : NULL;

		if (is_key(view, column) && !text)
			r = -ENOMEM;
		(void)fprintf(f, "%s\x1f", text ? text : "");
	}
	if (view->single)
		(void)fputs(json_get_text(entry->node, "name", ""), f);
	return fclose(f) == EOF ? -ENOMEM : r;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	if (r == 0)
		r = !x->node - !y->node;
	if (r == 0)
		r = (x->rank > y->rank) - (x->rank < y->rank);
	return r ? r : (x->order > y->order) - (x->order < y->order);
}

static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* A node that is there by several partitions counts once, and a partition without nodes not at all
 * beside others. Entries that are left out stay behind the others, to be freed. */
static void finish_group(struct group *group)
{
	struct entry *v = group->entries, other;
	size_t i, n = 0;

	group->order = v[0].order;
	for (i = 0; i < group->n; i++) {
		group->order = v[i].order < group->order ? v[i].order : group->order;
		if (n > 0 && (!v[i].node || v[i].node == v[n - 1].node))
			continue;
		other = v[n];
		v[n++] = v[i];
		v[i] = other;
	}
	group->n = n;
}

static int make_groups(struct entries *all, struct groups *ret_groups)
{
	struct groups groups = {.v = calloc(all->n + 1, sizeof(*groups.v))};
	size_t i, end;

	if (!groups.v)
		return -ENOMEM;
	if (all->n)
		qsort(all->v, all->n, sizeof(*all->v), compare_entries);
	for (i = 0; i < all->n; i = end) {
		for (end = i + 1; end < all->n && strcmp(all->v[i].key, all->v[end].key) == 0;
			end++)
			;
		groups.v[groups.n] = (struct group){.entries = all->v + i, .n = end - i};
		finish_group(&groups.v[groups.n++]);
	}
	if (groups.n > 0)
		qsort(groups.v, groups.n, sizeof(*groups.v), compare_groups);
	*ret_groups = groups;
	return 0;
}

static int print_groups(const struct node_view *view, const struct format *format,
	const struct groups *groups, FILE *out, struct err *err)
{
	_cleanup_free_ const void **order = calloc(groups->n + 1, sizeof(*order));
	const char *sort = view->sort ? view->sort : view->single ? "N" : "#P,-t";
	size_t i;
	int r;

	if (!order)
		return err_set(err, -ENOMEM, "list nodes");
	for (i = 0; i < groups->n; i++)
		order[i] = &groups->v[i];
	r = rows_sort(&table, sort, number_part_index, order, groups->n, err);
	if (r < 0)
		return r;
	r = format_print(format, out, view->header, order, groups->n);
	return r < 0 ? err_set(err, r, "print the nodes") : 0;
}

int node_table_print(const struct node_view *view, const json_t *nodes, const json_t *partitions,
	FILE *out, struct err *err)
{
	_cleanup_format_ struct format format = {0};
	_cleanup_(entries_clear) struct entries all = {0};
	struct groups groups = {0};
	size_t i;
	int r = check_states(view->states, err);

	if (r == 0 && view->nodes)
		r = value_check_nodes(view->nodes, err);
	if (r == 0)
		r = view->names ? format_parse_names(&table, view->names, &format, err)
				: format_parse(&table, view->format ? view->format : NODES_FORMAT,
					  &format, err);
	if (r < 0)
		return r;
	r = find_entries(view, nodes, partitions, &all);
	for (i = 0; r == 0 && i < all.n; i++)
		r = make_key(view, &format, &all.v[i]);
	if (r == 0)
		r = make_groups(&all, &groups);
	r = r < 0 ? err_set(err, r, "list nodes") : print_groups(view, &format, &groups, out, err);
	free(groups.v);
	return r;
}
