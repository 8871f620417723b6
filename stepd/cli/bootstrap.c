/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/bootstrap.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>

#include "mpi/pmi/client.h"
#include "stepd/api/env.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"
#include "stepd/base/netaddr.h"
#include "stepd/base/parse.h"
#include "stepd/cli/layout.h"
#include "stepd/cli/cli.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"

#define FORMAT       "stepd-1" /* of a card */
#define TIMEOUT_MS   60000
#define SECRET_BYTES 32u
#define KEY_SIZE     32u

struct bootstrap {
	json_t *doc, *node, *wire; /* the document and two of its objects */
	char **environ;
	struct pmi_client *client;
	uint32_t rank, size;
	int listen_fd;
	char name[HOST_NAME_MAX + 1];
	char address[NETADDR_TEXT_SIZE];
	char secret[2 * SECRET_BYTES + 1]; /* in hexadecimal digits; "": none is needed */
	uint32_t job, step;

	char **texts;                 /* the cards of all, as they came */
	struct bootstrap_card *cards; /* read from them */
};

static void bootstrap_clear(struct bootstrap *b)
{
	uint32_t i;

	(void)pmi_client_close(b->client);
	b->listen_fd = close_fd(b->listen_fd);
	for (i = 0; b->texts && i < b->size; i++) {
		if (b->texts[i])
			explicit_bzero(b->texts[i], PMI_CLIENT_VALUE_MAX + 1);
		free(b->texts[i]);
	}
	free(b->texts);
	free(b->cards);
	explicit_bzero(b->secret, sizeof(b->secret));
}

static int bootstrap_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "find the step's other agents");
}

/* ---- this node ----------------------------------------------------------------------------- */

static int check_given(const struct bootstrap *b, struct err *err)
{
	static const char *const node[] = {"id", "count", "list", "ranks"};
	static const char *const wire[] = {"addresses", "listen_fd"};
	static const char *const step[] = {"first_rank", "ranks"};
	const char *kind = json_string_value(json_object_get(b->doc, "kind"));
	const char *given = NULL;
	size_t i;

	if (kind && strcmp(kind, "normal") != 0)
		return err_set_text(
			err, -EINVAL, "is for normal steps, not for one of kind '%s'", kind);
	for (i = 0; i < ARRAY_SIZE(node); i++)
		given = json_object_get(b->node, node[i]) ? node[i] : given;
	for (i = 0; i < ARRAY_SIZE(wire); i++)
		given = json_object_get(b->wire, wire[i]) ? wire[i] : given;
	for (i = 0; i < ARRAY_SIZE(step); i++)
		given = json_object_get(b->doc, step[i]) ? step[i] : given;
	if (given)
		return err_set_text(err, -EINVAL,
			"finds '%s' out by itself; leave it out of options and spec", given);
	return 0;
}

static uint32_t get_u32(const json_t *object, const char *name, uint32_t otherwise)
{
	int64_t n = otherwise;

	(void)json_get_range(object, name, 0, UINT32_MAX, &n); /* false: it stays */
	return (uint32_t)n;
}

static uint32_t get_variable(const struct bootstrap *b, const char *name, uint32_t otherwise)
{
	const char *value = stepd_env_get(b->environ, name);
	uint32_t n;

	return value && parse_u32(value, 0, STEPD_STEP_ID_BATCH - 1, &n) == 0 ? n : otherwise;
}

/* Slurm's name of this node, which need not be the host's: slurmds of several names can share one
 * host. mpiexec carries the environment of a batch script to all nodes, and its SLURMD_NODENAME is
 * the script's node; so it counts only where Slurm's own PMI has started this process. */
static const char *find_slurm_name(const struct bootstrap *b)
{
	bool is_task = stepd_env_get(b->environ, "PMI_JOBID") &&
		get_variable(b, "SLURM_PROCID", UINT32_MAX) == b->rank;
	const char *name = is_task ? stepd_env_get(b->environ, "SLURMD_NODENAME") : NULL;

	return name && *name ? name : NULL;
}

static int set_name(struct bootstrap *b, struct err *err)
{
	const char *given = json_string_value(json_object_get(b->node, "name"));

	if (!given)
		given = find_slurm_name(b);
	if (given)
		(void)snprintf(b->name, sizeof(b->name), "%s", given);
	else if (gethostname(b->name, sizeof(b->name)) < 0)
		return err_set(err, -errno, "get the host's name");
	b->name[sizeof(b->name) - 1] = '\0';
	if (!given)
		b->name[strcspn(b->name, ".")] = '\0';
	if (!*b->name || spec_node_name_problem(b->name))
		return err_set_text(err, -EINVAL,
			"the name '%s' can't be a node's; give one with --node-name", b->name);
	return 0;
}

/* Node 0 makes it for all. With another authentication, of the site or the step, there is none. */
static int bootstrap_make_secret(struct bootstrap *b, struct err *err)
{
	const char *auth = json_string_value(json_object_get(b->wire, "auth"));
	unsigned char bytes[SECRET_BYTES];
	size_t i;

	if (b->rank != 0 || b->size == 1 || (auth && strcmp(auth, "secret") != 0) ||
		json_object_get(b->wire, "secret_fd"))
		return 0;
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, -errno, "make the step's secret");
	for (i = 0; i < sizeof(bytes); i++)
		(void)snprintf(b->secret + 2 * i, 3, "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

static int listen_here(struct bootstrap *b, struct err *err)
{
	const char *ifname = json_string_value(json_object_get(b->wire, "ifname"));
	struct sockaddr_storage address;
	socklen_t size = 0;
	int fd, r;

	if (b->size == 1)
		return 0;
	r = netaddr_own(ifname, &address, &size, err);
	if (r < 0)
		return r;
	fd = netaddr_listen(&address, size, b->address, err);
	if (fd < 0)
		return fd;
	b->listen_fd = fd;
	return 0;
}

/* ---- cards --------------------------------------------------------------------------------- */

/* "stepd-1,VERSION,NAME,ADDRESS,JOB,STEP,LOCAL_NTASKS,SECRET" */
static int put_card(struct bootstrap *b, struct err *err)
{
	char card[PMI_CLIENT_VALUE_MAX + 1], key[KEY_SIZE];
	int n, r;

	n = snprintf(card, sizeof(card), FORMAT ",%s,%s,%s,%u,%u,%u,%s", stepd_version, b->name,
		b->address, b->job, b->step, get_u32(b->doc, "local_ntasks", 0), b->secret);
	if (n < 0 || (size_t)n >= sizeof(card))
		return err_set_text(
			err, -EMSGSIZE, "the name and address of this node are too long");
	(void)snprintf(key, sizeof(key), "stepd-%u", b->rank);
	r = pmi_client_put(b->client, key, card, err);
	explicit_bzero(card, sizeof(card));
	return r < 0 ? r : pmi_client_fence(b->client, err);
}

static int bad_card(struct err *err)
{
	return err_set_text(err, -EPROTO, "its card can't be read");
}

int bootstrap_read_card(char *text, struct bootstrap_card *ret_card, struct err *err)
{
	char *field[8];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(field); i++) {
		field[i] = strsep(&text, ",");
		if (!field[i])
			return bad_card(err);
		if (i == 0 && strcmp(field[0], FORMAT) != 0)
			return err_set_text(err, -EPROTO,
				"it is not a stepd that this one (%s) can speak with; install the "
				"same on all nodes",
				stepd_version);
	}
	*ret_card = (struct bootstrap_card){
		.version = field[1], .name = field[2], .address = field[3], .secret = field[7]};
	if (text || !*field[2] || spec_node_name_problem(field[2]) ||
		(*field[3] && spec_address_problem(field[3])) ||
		parse_u32(field[4], 1, UINT32_MAX, &ret_card->job) < 0 ||
		parse_u32(field[5], 0, UINT32_MAX, &ret_card->step) < 0 ||
		parse_u32(field[6], 0, SPEC_TASKS_MAX, &ret_card->local_ntasks) < 0 ||
		strspn(field[7], "0123456789abcdef") != strlen(field[7]) ||
		(*field[7] && strlen(field[7]) != 2 * (size_t)SECRET_BYTES))
		return bad_card(err);
	return 0;
}

static int get_cards(struct bootstrap *b, struct err *err)
{
	char key[KEY_SIZE];
	uint32_t i;
	int r = 0;

	b->texts = calloc(b->size, sizeof(*b->texts));
	b->cards = calloc(b->size, sizeof(*b->cards));
	if (!b->texts || !b->cards)
		return bootstrap_no_memory(err);
	for (i = 0; i < b->size && r == 0; i++) {
		b->texts[i] = calloc(1, PMI_CLIENT_VALUE_MAX + 1);
		if (!b->texts[i])
			return bootstrap_no_memory(err);
		(void)snprintf(key, sizeof(key), "stepd-%u", i);
		r = pmi_client_get(b->client, key, b->texts[i], err);
		if (r == -ENOENT)
			return err_set_text(err, r,
				"process %u of the engine's job has put nothing: is it a stepd run "
				"--bootstrap, too?",
				i);
		if (r == 0) {
			r = bootstrap_read_card(b->texts[i], &b->cards[i], err);
			if (r < 0)
				return err_prefix(err, "process %u of the engine's job", i);
		}
	}
	return r;
}

static int bootstrap_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Also of thousands of nodes. */
static int check_names(char **names, uint32_t n, struct err *err)
{
	_cleanup_free_ char **sorted = calloc(n, sizeof(*sorted));
	uint32_t i;

	if (!sorted)
		return bootstrap_no_memory(err);
	memcpy(sorted, names, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), bootstrap_compare_names);
	for (i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			return err_set_text(err, -EEXIST,
				"two agents are on node '%s': have the engine start one a node "
				"(srun --ntasks-per-node=1, mpiexec -ppn 1), or give each its "
				"--node-name",
				sorted[i]);
	}
	return 0;
}

/* ---- the document -------------------------------------------------------------------------- */

static int set_new(json_t *object, const char *name, json_t *value, struct err *err)
{
	return json_object_set_new(object, name, value) < 0 ? bootstrap_no_memory(err) : 0;
}

static int set_ids(struct bootstrap *b, struct err *err)
{
	const struct bootstrap_card *first = &b->cards[0];
	int r = 0;

	if (get_u32(b->doc, "job", first->job) != first->job ||
		get_u32(b->doc, "step", first->step) != first->step)
		return err_set_text(err, -EINVAL,
			"node '%s' runs step %u.%u; give all agents the same --job and --step, or "
			"none",
			first->name, first->job, first->step);
	r |= json_object_set_new(b->doc, "job", json_integer(first->job));
	r |= json_object_set_new(b->doc, "step", json_integer(first->step));
	r |= json_object_set_new(b->node, "name", json_string(b->name));
	r |= json_object_set_new(b->node, "id", json_integer(b->rank));
	r |= json_object_set_new(b->node, "count", json_integer(b->size));
	return r < 0 ? bootstrap_no_memory(err) : 0;
}

static int set_names(struct bootstrap *b, struct err *err)
{
	_cleanup_free_ char **names = calloc(b->size, sizeof(*names));
	_cleanup_free_ char *list = NULL;
	uint32_t i;
	int r;

	if (!names)
		return bootstrap_no_memory(err);
	for (i = 0; i < b->size; i++)
		names[i] = (char *)b->cards[i].name;
	r = check_names(names, b->size, err);
	if (r < 0)
		return r;
	list = hostlist_make(names, b->size);
	return list ? set_new(b->node, "list", json_string(list), err) : bootstrap_no_memory(err);
}

static int set_addresses(struct bootstrap *b, struct err *err)
{
	json_auto_t *addresses = json_array();
	uint32_t i;
	int r = 0;

	if (b->size == 1)
		return 0;
	for (i = 0; i < b->size && r == 0; i++)
		r = json_array_append_new(addresses, json_string(b->cards[i].address));
	r |= json_object_set(b->wire, "addresses", addresses);
	r |= json_object_set_new(b->wire, "listen_fd", json_integer(b->listen_fd));
	if (r < 0)
		return bootstrap_no_memory(err);
	b->listen_fd = -1; /* the document's from here on */
	return 0;
}

static int set_secret(struct bootstrap *b, struct err *err)
{
	const char *secret = b->cards[0].secret;
	int fd[2], r;

	if (!*secret || b->rank >= b->size)
		return 0;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe for the step's secret");
	/* it fits into any pipe */
	r = write(fd[1], secret, strlen(secret)) == (ssize_t)strlen(secret) ? 0 : -EIO;
	(void)close(fd[1]);
	if (r < 0)
		(void)err_set(err, r, "pass the step's secret on");
	if (r == 0)
		r = set_new(b->wire, "secret_fd", json_integer(fd[0]), err);
	if (r < 0)
		(void)close(fd[0]);
	return r;
}

/* The tasks of the nodes: by their own cards, or by tasks_per_node, which is the same on all. */
static int get_counts(const struct bootstrap *b, uint32_t **ret_counts, struct err *err)
{
	const json_t *given = json_object_get(b->node, "tasks_per_node");
	_cleanup_free_ uint32_t *counts = calloc(b->size, sizeof(*counts));
	uint32_t i;

	if (!counts)
		return bootstrap_no_memory(err);
	if (given && json_array_size(given) != b->size)
		return err_set_text(err, -EINVAL,
			"node.tasks_per_node has %zu entries, but the engine runs %u agents",
			json_array_size(given), b->size);
	for (i = 0; i < b->size; i++) {
		counts[i] = given ? (uint32_t)json_integer_value(json_array_get(given, i))
				  : b->cards[i].local_ntasks;
		if (!given && (counts[i] == 0) != (b->cards[0].local_ntasks == 0))
			return err_set_text(err, -EINVAL,
				"some nodes are given --local-ntasks and some are not; give it to "
				"all or none");
	}
	if (given || b->cards[0].local_ntasks)
		*ret_counts = take_ptr(counts);
	return 0;
}

static int set_ranks(struct bootstrap *b, struct err *err)
{
	const char *distribution = json_string_value(json_object_get(b->doc, "distribution"));
	_cleanup_layout_ struct layout layout = {0};
	_cleanup_free_ uint32_t *counts = NULL;
	struct layout_request request = {
		.nodes = b->size,
		.ntasks = get_u32(b->doc, "ntasks", 0),
	};
	uint32_t i;
	int r = get_counts(b, &counts, err);

	if (r < 0)
		return r;
	request.counts = counts;
	if (distribution && layout_parse(distribution, &request.kind, &request.plane) < 0)
		return err_set_text(err, -EINVAL,
			"distribution: '%.200s' does not distribute tasks over nodes",
			distribution);
	if (request.kind == LAYOUT_ARBITRARY)
		return err_set_text(err, -EINVAL, "distribution: arbitrary needs a list of hosts");
	r = layout_make(&request, &layout, err);
	for (i = 0; r == 0 && i < b->size; i++) {
		if (layout.counts[i] == 0)
			r = err_set_text(err, -EINVAL,
				"%u tasks leave none for node '%s'; start fewer agents",
				layout.ntasks, b->cards[i].name);
	}
	return r < 0 ? r : set_new(b->node, "ranks", layout_json(&layout), err);
}

static void clean_env(json_t *env)
{
	void *next;
	json_t *member;
	const char *name;

	json_object_foreach_safe(env, next, name, member)
	{
		if (pmi_client_is_variable(name))
			(void)json_object_del(env, name); /* it is there */
	}
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int get_object(json_t *doc, const char *name, json_t **ret_object, struct err *err)
{
	json_t *object = json_object_get(doc, name);

	if (!object && json_object_set_new(doc, name, json_object()) < 0)
		return bootstrap_no_memory(err);
	*ret_object = json_object_get(doc, name);
	return spec_check_object(SPEC_TABLE_MAX, NULL, *ret_object, err);
}

static int bootstrap_finalize(struct bootstrap *b, struct err *err)
{
	return pmi_client_finalize(b->client, err);
}

static int bootstrap_run(
	struct bootstrap *b, const struct pmi_client_options *options, struct err *err)
{
	static int (*const parts[])(struct bootstrap *, struct err *) = {set_name,
		bootstrap_make_secret, listen_here, put_card, get_cards, bootstrap_finalize,
		set_ids, set_names, set_addresses, set_secret, set_ranks};
	size_t i;
	int r = get_object(b->doc, "node", &b->node, err);

	if (r == 0)
		r = get_object(b->doc, "wire", &b->wire, err);
	if (r == 0)
		r = check_given(b, err);
	if (r == 0)
		r = pmi_client_open(options, &b->client, err);
	if (r < 0)
		return r;
	b->rank = pmi_client_get_rank(b->client);
	b->size = pmi_client_get_size(b->client);
	for (i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = parts[i](b, err);
	return r;
}

int bootstrap_fill(const char *how, char *const *env, json_t *doc, struct err *err)
{
	_cleanup_(bootstrap_clear) struct bootstrap b = {
		.doc = doc, .environ = (char **)env, .listen_fd = -1};
	struct pmi_client_options options = {.environ = env, .version = 1};
	int r;

	if (strcmp(how, "pmi2") == 0)
		options.version = 2;
	else if (strcmp(how, "pmi") != 0 && strcmp(how, "pmi1") != 0)
		return err_set_text(
			err, -EINVAL, "--bootstrap: '%.64s' is not one of pmi, pmi1, pmi2", how);
	options.timeout_ms =
		get_u32(json_object_get(doc, "wire"), "connect_timeout_ms", TIMEOUT_MS);
	b.job = get_u32(doc, "job", get_variable(&b, "SLURM_JOB_ID", (uint32_t)getpid()));
	b.step = get_u32(doc, "step", get_variable(&b, "SLURM_STEP_ID", 0));
	clean_env(json_object_get(doc, "env"));
	r = bootstrap_run(&b, &options, err);
	if (r == 0)
		return 0;
	b.client = pmi_client_leave(b.client);
	return err_prefix(err, "--bootstrap=%s", how);
}
