/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/spec/bind_text.h"

#include <string.h>

#include "stepd/base/parse.h"

#define NUMBER_MAX 65535u /* largest number of a CPU or NUMA node: above any kernel's */

const char *const bind_cpu_names[BIND_CPU_MAX] = {
	[BIND_CPU_NONE] = "none",
	[BIND_CPU_THREADS] = "threads",
	[BIND_CPU_CORES] = "cores",
	[BIND_CPU_SOCKETS] = "sockets",
	[BIND_CPU_LDOMS] = "ldoms",
	[BIND_CPU_RANK] = "rank",
	[BIND_CPU_MAP] = "map_cpu",
	[BIND_CPU_MASK] = "mask_cpu",
	[BIND_CPU_RANK_LDOM] = "rank_ldom",
	[BIND_CPU_MAP_LDOM] = "map_ldom",
	[BIND_CPU_MASK_LDOM] = "mask_ldom",
};

const char *const bind_mem_names[BIND_MEM_MAX] = {
	[BIND_MEM_NONE] = "none",
	[BIND_MEM_LOCAL] = "local",
	[BIND_MEM_RANK] = "rank",
	[BIND_MEM_MAP] = "map_mem",
	[BIND_MEM_MASK] = "mask_mem",
};

/* One of the two languages. */
struct grammar {
	const char *const *names;
	size_t names_count;
	uint32_t maps, masks; /* bits of the names that take a list */
	bool prefers;
	const char *all; /* for messages */
};

static const struct grammar cpu_grammar = {
	.names = bind_cpu_names,
	.names_count = BIND_CPU_MAX,
	.maps = 1u << BIND_CPU_MAP | 1u << BIND_CPU_MAP_LDOM,
	.masks = 1u << BIND_CPU_MASK | 1u << BIND_CPU_MASK_LDOM,
	.all = "none, threads, cores, sockets, ldoms, rank, rank_ldom, map_cpu:LIST, mask_cpu:LIST, "
	       "map_ldom:LIST and mask_ldom:LIST",
};

static const struct grammar mem_grammar = {
	.names = bind_mem_names,
	.names_count = BIND_MEM_MAX,
	.maps = 1u << BIND_MEM_MAP,
	.masks = 1u << BIND_MEM_MASK,
	.prefers = true,
	.all = "none, local, rank, map_mem:LIST and mask_mem:LIST",
};

void bind_text_clear(struct bind_text *text)
{
	free(text->list);
	free(text->items);
	*text = (struct bind_text){0};
}

/* ---- lists --------------------------------------------------------------------------------- */

static bool has_0x(const char *text)
{
	return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

/* Decimal, or hexadecimal with "0x". */
static int parse_number(const char *text, size_t len, uint32_t *ret_n)
{
	char copy[16], *end;
	unsigned long n;

	if (len >= sizeof(copy))
		return -ERANGE;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (!has_0x(copy))
		return parse_u32(copy, 0, NUMBER_MAX, ret_n);
	if (len == 2 || copy[2 + strspn(copy + 2, "0123456789abcdefABCDEF")])
		return -EINVAL;
	n = strtoul(copy + 2, &end, 16);
	if (n > NUMBER_MAX)
		return -ERANGE;
	*ret_n = (uint32_t)n;
	return 0;
}

static int parse_repeat(const char *text, size_t len, uint32_t *ret_repeat)
{
	char copy[16];

	if (len >= sizeof(copy))
		return -ERANGE;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return parse_u32(copy, 1, BIND_REPEAT_MAX, ret_repeat);
}

static int parse_item(
	const char *text, size_t len, bool mask, struct bind_item *ret_item, struct err *err)
{
	const char *star = memchr(text, '*', len);
	size_t value_len = star ? (size_t)(star - text) : len;
	struct bind_item item = {.repeat = 1};
	int shown = len > 100 ? 100 : (int)len, r = 0;

	if (star && parse_repeat(star + 1, len - value_len - 1, &item.repeat) < 0)
		return err_set_text(err, -EINVAL, "'%.*s' is not repeated 1 to %u times", shown,
			text, BIND_REPEAT_MAX);
	if (mask) {
		item.digits = has_0x(text) && value_len >= 2 ? text + 2 : text;
		item.digits_len = value_len - (size_t)(item.digits - text);
		if (item.digits_len == 0 ||
			strspn(item.digits, "0123456789abcdefABCDEF") < item.digits_len)
			return err_set_text(
				err, -EINVAL, "'%.*s' is not a hexadecimal mask", shown, text);
		if (strspn(item.digits, "0") >= item.digits_len)
			return err_set_text(err, -EINVAL, "the mask '%.*s' is empty", shown, text);
	} else {
		r = parse_number(text, value_len, &item.number);
	}
	if (r == -ERANGE)
		return err_set_text(err, r, "'%.*s' is above %u", shown, text, NUMBER_MAX);
	if (r < 0)
		return err_set_text(err, r, "'%.*s' is not a number", shown, text);
	*ret_item = item;
	return 0;
}

static int parse_list(struct bind_text *bind, const char *list, bool mask, struct err *err)
{
	const char *piece, *p;
	size_t len, capacity = 1;
	int r;

	for (p = list; *p; p++)
		capacity += *p == ',';
	bind->list = strdup(list);
	bind->items = calloc(capacity, sizeof(*bind->items));
	if (!bind->list || !bind->items)
		return err_set(err, -ENOMEM, "read the list");
	for (piece = bind->list; piece; piece = piece[len] ? piece + len + 1 : NULL) {
		len = strcspn(piece, ",");
		r = parse_item(piece, len, mask, &bind->items[bind->items_count], err);
		if (r < 0)
			return r;
		bind->items_count++;
	}
	return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Removes leading "quiet", "verbose" and "prefer"; *text is then the type, or NULL. */
static int take_modifiers(
	const struct grammar *g, const char **text, struct bind_text *bind, struct err *err)
{
	size_t len;

	while (*text) {
		len = strcspn(*text, ",");
		if (len == 5 && strncmp(*text, "quiet", len) == 0)
			bind->quiet = true;
		else if (len == 7 && strncmp(*text, "verbose", len) == 0)
			bind->verbose = true;
		else if (g->prefers && len == 6 && strncmp(*text, "prefer", len) == 0)
			bind->prefer = true;
		else
			break;
		*text = (*text)[len] ? *text + len + 1 : NULL;
	}
	if (bind->quiet && bind->verbose)
		return err_set_text(err, -EINVAL, "quiet and verbose conflict; give one of them");
	return 0;
}

static int parse_type(
	const struct grammar *g, const char *text, struct bind_text *bind, struct err *err)
{
	size_t len = strcspn(text, ":,");
	unsigned how;
	bool has_list;

	for (how = 0; how < g->names_count; how++) {
		if (strlen(g->names[how]) == len && strncmp(g->names[how], text, len) == 0)
			break;
	}
	if (how == g->names_count)
		return err_set_text(err, -EINVAL,
			"there is no type '%.*s'; there are %s, with quiet or "
			"verbose%s before",
			len > 100 ? 100 : (int)len, text, g->all, g->prefers ? " or prefer" : "");
	bind->how = how;
	has_list = (g->maps | g->masks) >> how & 1;
	if (text[len] == ',')
		return err_set_text(err, -EINVAL,
			"'%.100s' comes after the type; quiet, verbose%s come before "
			"it, and there is one type",
			text + len + 1, g->prefers ? " and prefer" : "");
	if (!has_list && text[len])
		return err_set_text(err, -EINVAL, "%s takes no list", g->names[how]);
	if (has_list && !text[len])
		return err_set_text(err, -EINVAL, "%s needs a list: %s:%s", g->names[how],
			g->names[how], g->maps >> how & 1 ? "0,1,..." : "0x1,0x2,...");
	return has_list ? parse_list(bind, text + len + 1, g->masks >> how & 1, err) : 0;
}

static int bind_parse(
	const struct grammar *g, const char *text, struct bind_text *ret_text, struct err *err)
{
	_cleanup_(bind_text_clear) struct bind_text bind = {.given = true};
	int r = take_modifiers(g, &text, &bind, err);

	if (r == 0 && text)
		r = parse_type(g, text, &bind, err);
	if (r == 0 && bind.prefer && bind.how == BIND_MEM_NONE)
		r = err_set_text(err, -EINVAL, "prefer needs a type: %s", g->all);
	if (r < 0)
		return r;
	*ret_text = bind;
	bind = (struct bind_text){0};
	return 0;
}

int bind_text_parse_cpu(const char *text, struct bind_text *ret_text, struct err *err)
{
	return bind_parse(&cpu_grammar, text, ret_text, err);
}

int bind_text_parse_mem(const char *text, struct bind_text *ret_text, struct err *err)
{
	return bind_parse(&mem_grammar, text, ret_text, err);
}

int bind_text_parse_distribution(const char *text, uint32_t *ret_plane, struct err *err)
{
	/* The spec's author has already distributed the ranks over the nodes. */
	static const char *const over_nodes[] = {"block:", "cyclic:", "arbitrary:", "*:"};
	const char *here = text;
	uint32_t plane;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(over_nodes) && here == text; i++) {
		if (strncmp(text, over_nodes[i], strlen(over_nodes[i])) == 0)
			here = text + strlen(over_nodes[i]);
	}
	if (strcmp(here, "block") == 0)
		plane = 0;
	else if (strcmp(here, "cyclic") == 0)
		plane = 1;
	else if (strncmp(here, "plane=", 6) != 0)
		return err_set_text(
			err, -EINVAL, "'%.100s' is not one of block, cyclic and plane=N", here);
	else if (parse_u32(here + 6, 1, BIND_PLANE_MAX, &plane) < 0)
		return err_set_text(err, -EINVAL, "'%.100s' is not a plane of 1 to %u tasks", here,
			BIND_PLANE_MAX);
	*ret_plane = plane;
	return 0;
}
