/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/site_nodes.h"

#include <assert.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define PORT_DEFAULT 6818u
#define NODES_MAX    65536u /* of a line; as for Slurm */

/* One that is looked for. */
struct node {
	const char *name;
	size_t index;  /* among the caller's */
	char *host;    /* NULL: not found yet */
	uint32_t port; /* 0: it has none of its own */
	bool has_dynamic_address;
};

/* While the file is read. */
struct search {
	struct node *nodes; /* by name */
	size_t n;
	uint32_t slurmd_port;
	uint32_t usual_port; /* of NodeName=DEFAULT; 0: SlurmdPort */
	bool usual_dynamic;
};

static void search_clear(struct search *s)
{
	size_t i;

	for (i = 0; s->nodes && i < s->n; i++)
		free(s->nodes[i].host);
	free(s->nodes);
}

static int compare_nodes(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int search_init(struct search *s, char *const *names, size_t n)
{
	size_t i;

	*s = (struct search){
		.nodes = calloc(n, sizeof(*s->nodes)), .n = n, .slurmd_port = PORT_DEFAULT};
	if (!s->nodes)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		s->nodes[i] = (struct node){.name = names[i], .index = i};
	qsort(s->nodes, n, sizeof(*s->nodes), compare_nodes);
	return 0;
}

/* The first one of that name, of which there may be more; NULL: none is looked for. */
static struct node *search_find(const struct search *s, const char *name)
{
	const struct node key = {.name = name};
	struct node *found = bsearch(&key, s->nodes, s->n, sizeof(*s->nodes), compare_nodes);

	while (found && found > s->nodes && strcmp(found[-1].name, name) == 0)
		found--;
	return found;
}

/* ---- a line of nodes ----------------------------------------------------------------------- */

/* The lists of a line, of which the n-th entries belong together. */
struct node_line {
	const char *names, *addresses, *hosts, *ports, *state;
	bool is_parsed; /* into: */
	struct strv address_list, host_list, port_list;
};

static void node_line_clear(struct node_line *l)
{
	strv_clear(&l->address_list);
	strv_clear(&l->host_list);
	strv_clear(&l->port_list);
}

static int add_entry(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int parse_list(const char *text, struct strv *list)
{
	return text ? hostlist_each(text, NODES_MAX, add_entry, list) : 0;
}

/* "17000", "[17000-17003]", or the same without brackets. */
static int parse_ports(const char *text, struct strv *list)
{
	_cleanup_free_ char *bracketed = NULL;

	if (!text || *text == '[')
		return parse_list(text, list);
	if (asprintf(&bracketed, "[%s]", text) < 0) {
		bracketed = NULL;
		return -ENOMEM;
	}
	return parse_list(bracketed, list);
}

/* What there is beside the names. */
static int node_line_parse(struct node_line *l)
{
	int r = l->is_parsed ? 0 : parse_list(l->addresses, &l->address_list);

	if (r == 0 && !l->is_parsed)
		r = parse_list(l->hosts, &l->host_list);
	if (r == 0 && !l->is_parsed)
		r = parse_ports(l->ports, &l->port_list);
	l->is_parsed = true;
	return r;
}

/* The entry at an index; the last one, where there are fewer: one stands for all. NULL: none. */
static const char *pick(const struct strv *list, size_t index)
{
	return list->n ? list->v[index < list->n ? index : list->n - 1] : NULL;
}

static bool is_dynamic(const char *state)
{
	return strncasecmp(state, "CLOUD", 5) == 0 || strncasecmp(state, "FUTURE", 6) == 0;
}

static int take_node(
	const struct search *s, const struct node_line *l, size_t index, struct node *node)
{
	const char *port = pick(&l->port_list, index), *host = pick(&l->address_list, index);

	if (!host)
		host = pick(&l->host_list, index);
	free(node->host);
	node->host = strdup(host ? host : node->name);
	if (!node->host)
		return -ENOMEM;
	node->has_dynamic_address = l->state ? is_dynamic(l->state) : s->usual_dynamic;
	node->port = s->usual_port;
	return port ? parse_u32(port, 1, UINT16_MAX, &node->port) : 0;
}

/* The names of a line, one after the other. */
struct names_reading {
	struct search *search;
	struct node_line *line;
	size_t index;
	int error;
};

static int on_name(const char *name, void *userdata)
{
	struct names_reading *r = userdata;
	struct node *node, *end;
	int e = 0;

	assert(r);
	end = r->search->nodes + r->search->n;
	node = search_find(r->search, name);
	if (node) /* lines of other nodes may have what is not known here */
		e = node_line_parse(r->line);
	for (; e == 0 && node && node < end && strcmp(node->name, name) == 0; node++)
		e = take_node(r->search, r->line, r->index, node);
	r->index++;
	r->error = e;
	return e;
}

static int take_defaults(struct search *s, struct node_line *l)
{
	const char *port;
	int r = parse_ports(l->ports, &l->port_list);

	if (l->state)
		s->usual_dynamic = is_dynamic(l->state);
	port = pick(&l->port_list, 0);
	return r == 0 && port ? parse_u32(port, 1, UINT16_MAX, &s->usual_port) : r;
}

static int take_nodes(struct search *s, struct node_line *l)
{
	struct names_reading reading = {.search = s, .line = l};

	if (strcasecmp(l->names, "DEFAULT") == 0)
		return take_defaults(s, l);
	/* What is no list has no more names. */
	(void)!hostlist_each(l->names, NODES_MAX, on_name, &reading);
	return reading.error;
}

/* ---- the file ------------------------------------------------------------------------------ */

static int site_nodes_on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	_cleanup_(node_line_clear) struct node_line l = {0};
	struct search *s = userdata;
	const struct {
		const char *key, **value;
	} keys[] = {
		{"NodeName", &l.names},
		{"NodeAddr", &l.addresses},
		{"NodeHostname", &l.hosts},
		{"Port", &l.ports},
		{"State", &l.state},
	};
	size_t i, k;
	int r = 0;

	assert(s);
	for (i = 0; i < line->n; i++) {
		for (k = 0; k < ARRAY_SIZE(keys); k++) {
			if (strcasecmp(line->pairs[i].key, keys[k].key) == 0)
				*keys[k].value = line->pairs[i].value;
		}
		/* A range, of which each slurmd has one, is of no use. */
		if (r == 0 && strcasecmp(line->pairs[i].key, "SlurmdPort") == 0)
			r = parse_u32(line->pairs[i].value, 1, UINT16_MAX, &s->slurmd_port);
	}
	if (r == 0 && l.names)
		r = take_nodes(s, &l);
	return r < 0 ? err_set(err, r, "read '%s=%.200s'", line->pairs[0].key, line->pairs[0].value)
		     : 0;
}

static int resolve(const struct search *s, const struct node *node, struct sockaddr_in *ret_address,
	struct err *err)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int e;

	if (!node->host)
		return err_set_text(err, -ENOENT, "slurm.conf has no node '%s'", node->name);
	if (node->has_dynamic_address)
		return err_set_text(err, -EADDRNOTAVAIL,
			"only slurmctld knows the address of node '%s'", node->name);
	e = getaddrinfo(node->host, NULL, &hints, &found);
	if (e)
		return err_set_text(err, -EADDRNOTAVAIL, "find '%s' of node '%s': %s", node->host,
			node->name, gai_strerror(e));
	memcpy(ret_address, found->ai_addr, sizeof(*ret_address));
	freeaddrinfo(found);
	ret_address->sin_port = htons((uint16_t)(node->port ? node->port : s->slurmd_port));
	return 0;
}

int site_nodes_find(const char *path, char *const *names, size_t n, struct sockaddr_in *addresses,
	struct err *err)
{
	_cleanup_(search_clear) struct search s = {0};
	size_t i;
	int r = search_init(&s, names, n);

	if (r < 0)
		return err_set(err, r, "read slurm.conf");
	r = site_conf_find(&path, err);
	if (r == 0)
		r = conf_lines_read_trusted(path, site_nodes_on_line, &s, err);
	for (i = 0; r == 0 && i < n; i++) {
		if (i > 0 && strcmp(s.nodes[i].name, s.nodes[i - 1].name) == 0)
			addresses[s.nodes[i].index] = addresses[s.nodes[i - 1].index];
		else
			r = resolve(&s, &s.nodes[i], &addresses[s.nodes[i].index], err);
	}
	return r;
}
