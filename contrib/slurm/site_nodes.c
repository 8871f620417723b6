/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/site_nodes.h"

#include <netdb.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define PORT_DEFAULT  6818u
#define SPOOL_DEFAULT "/var/spool/slurmd"
#define NODES_MAX     65536u /* of a line */

void site_nodes_clear(struct site_nodes *nodes)
{
	free(nodes->addresses);
	free(nodes->spool_dir);
	*nodes = (struct site_nodes){0};
}

/* While the file is read. */
struct search {
	char *const *names;
	size_t n;
	struct site_nodes *nodes;
	char **hosts;             /* of each; NULL: not found yet */
	uint32_t *ports;          /* 0: that of all */
	uint32_t port, line_port; /* SlurmdPort; of NodeName=DEFAULT */
};

static void search_clear(struct search *s)
{
	size_t i;

	for (i = 0; s->hosts && i < s->n; i++)
		free(s->hosts[i]);
	free(s->hosts);
	free(s->ports);
}

/* ---- a line of nodes ----------------------------------------------------------------------- */

struct node_line {
	struct strv names, hostnames, addresses, ports;
};

static void node_line_clear(struct node_line *l)
{
	strv_clear(&l->names);
	strv_clear(&l->hostnames);
	strv_clear(&l->addresses);
	strv_clear(&l->ports);
}

static int add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int parse_list(const struct conf_line *line, const char *key, struct strv *list)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < line->n; i++) {
		if (strcasecmp(line->pairs[i].key, key) == 0)
			r = hostlist_each(line->pairs[i].value, NODES_MAX, add_name, list);
	}
	return r;
}

/* What there is beside the names. */
static int node_line_parse(struct node_line *l, const struct conf_line *line)
{
	int r = parse_list(line, "NodeHostname", &l->hostnames);

	if (r == 0)
		r = parse_list(line, "NodeAddr", &l->addresses);
	return r == 0 ? parse_list(line, "Port", &l->ports) : r;
}

/* That of one node of the line, or the one of all; NULL: there is none. */
static const char *pick(const struct strv *list, size_t i)
{
	return list->n == 1 ? list->v[0] : i < list->n ? list->v[i] : NULL;
}

static int take_node(struct search *s, const struct node_line *l, size_t i, size_t found)
{
	const char *port = pick(&l->ports, i), *host = pick(&l->addresses, i);

	if (!host)
		host = pick(&l->hostnames, i);
	if (!host)
		host = l->names.v[i];
	free(s->hosts[found]);
	s->hosts[found] = strdup(host);
	s->ports[found] = s->line_port;
	if (!s->hosts[found])
		return -ENOMEM;
	return port ? parse_u32(port, 1, UINT16_MAX, &s->ports[found]) : 0;
}

static int take_nodes(struct search *s, const struct conf_line *line)
{
	_cleanup_(node_line_clear) struct node_line l = {0};
	bool is_parsed = false;
	size_t i, k;
	int r = parse_list(line, "NodeName", &l.names);

	if (r == 0 && l.names.n == 1 && strcasecmp(l.names.v[0], "DEFAULT") == 0) {
		r = parse_list(line, "Port", &l.ports);
		return r == 0 && l.ports.n ? parse_u32(l.ports.v[0], 1, UINT16_MAX, &s->line_port)
					   : r;
	}
	for (i = 0; r == 0 && i < l.names.n; i++) {
		for (k = 0; k < s->n && strcmp(s->names[k], l.names.v[i]) != 0; k++)
			;
		if (k == s->n)
			continue;
		if (!is_parsed) /* lines of other nodes may have what is not known here */
			r = node_line_parse(&l, line);
		is_parsed = true;
		if (r == 0)
			r = take_node(s, &l, i, k);
	}
	return r;
}

/* ---- the file ------------------------------------------------------------------------------ */

static int take_pair(struct search *s, const struct conf_pair *pair)
{
	if (strcasecmp(pair->key, "SlurmdPort") == 0)
		return parse_u32(pair->value, 1, UINT16_MAX, &s->port);
	if (strcasecmp(pair->key, "SlurmdSpoolDir") != 0)
		return 0;
	free(s->nodes->spool_dir);
	s->nodes->spool_dir = strdup(pair->value);
	return s->nodes->spool_dir ? 0 : -ENOMEM;
}

static int site_nodes_on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct search *s = userdata;
	size_t i;
	int r = 0;

	if (strcasecmp(line->pairs[0].key, "NodeName") == 0)
		r = take_nodes(s, line);
	else
		for (i = 0; r == 0 && i < line->n; i++)
			r = take_pair(s, &line->pairs[i]);
	return r < 0 ? err_set(err, r, "read '%s=%.200s'", line->pairs[0].key, line->pairs[0].value)
		     : 0;
}

static int resolve(const struct search *s, size_t i, struct err *err)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	struct sockaddr_in *address = &s->nodes->addresses[i];
	int e;

	if (!s->hosts[i])
		return err_set_text(
			err, -ENOENT, "slurm.conf has no NodeName line of node '%s'", s->names[i]);
	e = getaddrinfo(s->hosts[i], NULL, &hints, &found);
	if (e)
		return err_set_text(err, -EADDRNOTAVAIL, "find host '%s' of node '%s': %s",
			s->hosts[i], s->names[i], gai_strerror(e));
	memcpy(address, found->ai_addr, sizeof(*address));
	freeaddrinfo(found);
	address->sin_port = htons((uint16_t)(s->ports[i] ? s->ports[i] : s->port));
	return 0;
}

int site_nodes_find(
	const char *path, char *const *names, size_t n, struct site_nodes *nodes, struct err *err)
{
	_cleanup_(search_clear) struct search s = {
		.names = names, .n = n, .nodes = nodes, .port = PORT_DEFAULT};
	size_t i;
	int r;

	*nodes = (struct site_nodes){.addresses = calloc(n, sizeof(*nodes->addresses)),
		.spool_dir = strdup(SPOOL_DEFAULT)};
	s.hosts = calloc(n, sizeof(*s.hosts));
	s.ports = calloc(n, sizeof(*s.ports));
	if (!nodes->addresses || !nodes->spool_dir || !s.hosts || !s.ports)
		return err_set(err, -ENOMEM, "read slurm.conf");
	r = site_conf_find(&path, err);
	if (r == 0)
		r = conf_lines_read_trusted(path, site_nodes_on_line, &s, err);
	for (i = 0; r == 0 && i < n; i++)
		r = resolve(&s, i, err);
	return r;
}
