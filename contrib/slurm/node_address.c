/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/node_address.h"

#include <assert.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"

#define PORT_DEFAULT 6818u
#define NODES_MAX    65536u /* as for Slurm */

/* A line of nodes: lists, of which the n-th entries belong together. */
struct node_line {
	const char *names, *addresses, *hosts, *ports, *state;
};

struct node_reading {
	const char *name;
	bool found;
	char *address, *host; /* NULL: as the one after it: address, host, name */
	uint32_t port;        /* 0: it has none of its own */
	uint32_t usual_port;  /* of NodeName=DEFAULT; 0: SlurmdPort */
	uint32_t slurmd_port;
	bool has_dynamic_address, usual_dynamic;
};

static void reading_clear(struct node_reading *r)
{
	free(r->address);
	free(r->host);
}

/* ---- an entry of a list -------------------------------------------------------------------- */

struct name_search {
	const char *name;
	size_t index;
	bool found;
};

static int search_name(const char *name, void *userdata)
{
	struct name_search *s = userdata;

	assert(s);
	s->found = strcmp(name, s->name) == 0;
	if (s->found)
		return -ECANCELED; /* no more of them */
	s->index++;
	return 0;
}

/* What is no list has no names. */
static bool find_index(const char *list, const char *name, size_t *ret_index)
{
	struct name_search s = {.name = name};
	int r = hostlist_each(list, NODES_MAX, search_name, &s);

	*ret_index = s.index;
	return r < 0 && s.found;
}

struct entry_search {
	size_t left;
	char *entry; /* the last one so far */
};

static int search_entry(const char *name, void *userdata)
{
	struct entry_search *s = userdata;

	assert(s);
	free(s->entry);
	s->entry = strdup(name);
	if (!s->entry)
		return -ENOMEM;
	return s->left-- == 0 ? -ECANCELED : 0;
}

/* The entry at an index; the last one, where there are fewer: one stands for all. */
static int take_entry(const char *list, size_t index, char **ret_entry)
{
	struct entry_search s = {.left = index};
	int r = list ? hostlist_each(list, NODES_MAX, search_entry, &s) : 0;

	if (r < 0 && r != -ECANCELED) {
		free(s.entry);
		return r;
	}
	free(*ret_entry);
	*ret_entry = s.entry;
	return 0;
}

/* "17000", "[17000-17003]", or the same without brackets. */
static int take_port(const char *list, size_t index, uint32_t *ret_port)
{
	_cleanup_free_ char *text = NULL, *entry = NULL;
	int r;

	if (!list)
		return 0;
	if (asprintf(&text, *list == '[' ? "%s" : "[%s]", list) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	r = take_entry(text, index, &entry);
	if (r < 0)
		return r;
	return entry ? parse_u32(entry, 1, UINT16_MAX, ret_port) : -EINVAL;
}

/* ---- the lines ----------------------------------------------------------------------------- */

static bool is_dynamic(const char *state)
{
	return strncasecmp(state, "CLOUD", 5) == 0 || strncasecmp(state, "FUTURE", 6) == 0;
}

static int take_defaults(struct node_reading *r, const struct node_line *line)
{
	if (line->state)
		r->usual_dynamic = is_dynamic(line->state);
	return take_port(line->ports, 0, &r->usual_port);
}

static int take_node(struct node_reading *r, const struct node_line *line)
{
	size_t index;
	int e;

	if (strcasecmp(line->names, "DEFAULT") == 0)
		return take_defaults(r, line);
	if (!find_index(line->names, r->name, &index))
		return 0;
	r->found = true;
	r->has_dynamic_address = line->state ? is_dynamic(line->state) : r->usual_dynamic;
	r->port = r->usual_port;
	e = take_port(line->ports, index, &r->port);
	if (e == 0)
		e = take_entry(line->addresses, index, &r->address);
	return e == 0 ? take_entry(line->hosts, index, &r->host) : e;
}

static int on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct node_reading *r = userdata;
	struct node_line node = {0};
	const struct {
		const char *key, **value;
	} keys[] = {
		{"NodeName", &node.names},
		{"NodeAddr", &node.addresses},
		{"NodeHostname", &node.hosts},
		{"Port", &node.ports},
		{"State", &node.state},
	};
	size_t i, k;
	int e = 0;

	assert(r);
	for (i = 0; i < line->n; i++) {
		for (k = 0; k < ARRAY_SIZE(keys); k++) {
			if (strcasecmp(line->pairs[i].key, keys[k].key) == 0)
				*keys[k].value = line->pairs[i].value;
		}
		/* A range, of which each slurmd has one, is of no use. */
		if (strcasecmp(line->pairs[i].key, "SlurmdPort") == 0)
			e = parse_u32(line->pairs[i].value, 1, UINT16_MAX, &r->slurmd_port);
	}
	if (e == 0 && node.names)
		e = take_node(r, &node);
	return e < 0 ? err_set(err, e, "read a line of nodes") : 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int resolve(const struct node_reading *r, struct sockaddr_in *ret_address, struct err *err)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	const char *address = r->address ? r->address : r->host ? r->host : r->name;
	struct addrinfo *found = NULL;
	uint32_t port = r->port ? r->port : r->slurmd_port;
	int e;

	if (!r->found)
		return err_set(err, -ENOENT, "slurm.conf has no node '%s'", r->name);
	if (r->has_dynamic_address)
		return err_set_text(err, -EADDRNOTAVAIL,
			"only slurmctld knows the address of node '%s'", r->name);
	e = getaddrinfo(address, NULL, &hints, &found);
	if (e)
		return err_set_text(err, -EADDRNOTAVAIL, "find '%s' of node '%s': %s", address,
			r->name, gai_strerror(e));
	memcpy(ret_address, found->ai_addr, sizeof(*ret_address));
	freeaddrinfo(found);
	ret_address->sin_port = htons((uint16_t)port);
	return 0;
}

int node_address_find(
	const char *path, const char *name, struct sockaddr_in *ret_address, struct err *err)
{
	_cleanup_(reading_clear) struct node_reading reading = {
		.name = name, .slurmd_port = PORT_DEFAULT};
	int r = site_conf_find(&path, err);

	if (r == 0)
		r = conf_lines_read_trusted(path, on_line, &reading, err);
	return r == 0 ? resolve(&reading, ret_address, err) : r;
}
