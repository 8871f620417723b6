/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx_Spawn: tasks that join the running step, as a namespace of their own.
 */
#include <endian.h>
#include <string.h>

#include "mpi/link.h"
#include "mpi/pmix/px.h"
#include "stepd/base/strv.h"

/* ---- the request ---- */

struct app {
	struct strv argv, env, hosts;
};

struct request {
	struct spawn_command *commands;
	struct app *apps; /* what each of them points to */
	size_t count;
};

static void request_clear(struct request *q)
{
	for (size_t i = 0; i < q->count; i++) {
		strv_clear(&q->apps[i].argv);
		strv_clear(&q->apps[i].env);
		strv_clear(&q->apps[i].hosts);
	}
	free(q->commands);
	free(q->apps);
}

static int add_hosts(struct strv *hosts, const char *list)
{
	int r = 0;

	while (r == 0 && *list) {
		size_t len = strcspn(list, ",");

		if (len)
			r = strv_addf(hosts, "%.*s", (int)len, list);
		list += len + (list[len] == ',');
	}
	return r;
}

/* What is about where and how the tasks run. 0 also for what is but a wish; -EOPNOTSUPP: it is
 * required, and not known. */
static int take_info(struct app *to, const pmix_info_t *info, const char **ret_cwd)
{
	const pmix_value_t *v = &info->value;

	if (PMIX_CHECK_KEY(info, PMIX_WDIR) && v->type == PMIX_STRING)
		*ret_cwd = v->data.string;
	else if (PMIX_CHECK_KEY(info, PMIX_HOST) && v->type == PMIX_STRING)
		return add_hosts(&to->hosts, v->data.string);
	else if ((PMIX_CHECK_KEY(info, PMIX_SET_ENVAR) || PMIX_CHECK_KEY(info, PMIX_ADD_ENVAR)) &&
		v->type == PMIX_ENVAR)
		return strv_env_set(&to->env, v->data.envar.envar, v->data.envar.value);
	else if (PMIX_CHECK_KEY(info, PMIX_PSET_NAME) && v->type == PMIX_STRING)
		return 0; /* once they run */
	else if (PMIX_INFO_IS_REQUIRED(info) && !PMIX_CHECK_KEY(info, PMIX_FWD_STDOUT) &&
		!PMIX_CHECK_KEY(info, PMIX_FWD_STDERR))
		return -EOPNOTSUPP;
	return 0;
}

static int take_app(struct request *q, size_t i, const struct call *call)
{
	const pmix_app_t *app = &call->apps[i];
	struct app *to = &q->apps[i];
	const char *cwd = app->cwd;
	int r = 0;

	if (!app->cmd || !app->cmd[0] || app->maxprocs <= 0)
		return -EINVAL;
	/* The program is cmd, whatever the vector begins with. */
	r = strv_add(&to->argv, app->cmd);
	for (size_t j = 1; r == 0 && app->argv && app->argv[0] && app->argv[j]; j++)
		r = strv_add(&to->argv, app->argv[j]);
	for (size_t j = 0; r == 0 && app->env && app->env[j]; j++)
		r = strchr(app->env[j], '=') ? strv_env_put(&to->env, app->env[j]) : 0;
	for (size_t j = 0; r == 0 && j < call->ninfo; j++)
		r = take_info(to, &call->info[j], &cwd);
	for (size_t j = 0; r == 0 && j < app->ninfo; j++)
		r = take_info(to, &app->info[j], &cwd);
	q->commands[i] = (struct spawn_command){
		.argv = to->argv.v,
		.count = (uint32_t)app->maxprocs,
		.cwd = cwd,
		.hosts = (const char *const *)to->hosts.v,
		.env = to->env.v,
	};
	return r;
}

static int take_request(struct request *q, const struct call *call)
{
	int r = 0;

	if (call->napps == 0)
		return -EINVAL;
	q->commands = calloc(call->napps, sizeof(*q->commands));
	q->apps = calloc(call->napps, sizeof(*q->apps));
	if (!q->commands || !q->apps)
		return -ENOMEM;
	q->count = call->napps;
	for (size_t i = 0; r == 0 && i < call->napps; i++)
		r = take_app(q, i, call);
	return r;
}

/* ---- its output ---- */

/* The part of it that every node gets. */
struct forward {
	uint32_t node; /* little-endian: of the rank that gets the output */
	uint32_t copy; /* likewise: enum link_stream */
	uint32_t rank; /* likewise, which gets it */
	char nspace[PMIX_MAX_NSLEN + 1];
};

/* libpmix gives the output of a spawn to a rank that has requested it, and to a tool unless its
 * attributes refuse it; not to a tool that gives no attributes. */
static unsigned forwarded(const struct call *call, const char *key, bool otherwise, unsigned stream)
{
	const pmix_info_t *info = call_find(call, key);

	if (info ? !PMIX_INFO_TRUE(info) : !otherwise)
		return 0;
	return stream | (info && PMIX_INFO_IS_REQUIRED(info) ? LINK_REQUIRED : 0);
}

static void make_forward(
	const struct px *px, const struct call *call, bool is_tool, struct forward *forward)
{
	bool otherwise = is_tool && call->ninfo > 0;

	forward->node = htole32(px->node);
	forward->copy = htole32(forwarded(call, PMIX_FWD_STDOUT, otherwise, LINK_STDOUT) |
		forwarded(call, PMIX_FWD_STDERR, otherwise, LINK_STDERR));
	forward->rank = htole32(call->proc.rank);
	memcpy(forward->nspace, call->proc.nspace, sizeof(forward->nspace));
}

/* false: nobody gets it. */
static bool read_forward(const struct spawn_part *part, struct forward *ret_forward)
{
	if (part->data_size != sizeof(*ret_forward))
		return false;
	memcpy(ret_forward, part->data, sizeof(*ret_forward));
	ret_forward->node = le32toh(ret_forward->node);
	ret_forward->copy = le32toh(ret_forward->copy);
	ret_forward->rank = le32toh(ret_forward->rank);
	ret_forward->nspace[PMIX_MAX_NSLEN] = '\0';
	return ret_forward->copy & LINK_STREAMS;
}

static int begin_forward(struct px *px, const struct spawn_part *part, struct nspace *nspace)
{
	struct forward forward;
	pmix_proc_t owner;
	int r = 0;

	if (!read_forward(part, &forward))
		return 0;
	PMIX_LOAD_PROCID(&owner, forward.nspace, forward.rank);
	if (forward.node == px->node)
		r = iof_add_spawn(px, nspace->name, &owner, forward.copy);
	if (r == 0)
		r = iof_subscribe_spawn(px, forward.node, nspace, forward.copy & LINK_STREAMS);
	if (r == 0)
		spawn_copy(part, forward.copy);
	return r;
}

static void on_forwarded(void *userdata, int r, _unused_ const struct err *err)
{
	struct px *px = userdata;

	if (r == -EOPNOTSUPP)
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"PMIx_Spawn: the output of spawned tasks is requested, which does "
			"not pass through this step's agents (see --forward)");
}

/* It is copied by now, or can't be. */
static void check_forward(struct px *px, const struct spawn_part *part)
{
	uint32_t rank = part->first_rank + (part->local_count ? part->ranks[0] : 0);
	struct forward forward;
	struct err err = ERR_INIT;

	if (part->local_count == 0 || !read_forward(part, &forward))
		return;
	/* without an agent there is no log */
	(void)!serve_copy(px->serve, &rank, 1, forward.copy & LINK_STREAMS, on_forwarded, px, &err);
}

/* ---- the requesting node ---- */

struct spawning {
	struct px *px;
	struct call *call;
	struct forward forward;
};

static void spawn_on_done(void *userdata, int r, uint32_t number, _unused_ uint32_t size,
	_unused_ const int *errcodes, const struct err *err)
{
	struct spawning *s = userdata;
	char name[PMIX_MAX_NSLEN + 1];

	if (r < 0)
		serve_log(s->px->serve, LOG_LEVEL_ERROR, "PMIx_Spawn: %s",
			err ? err->text : "it failed");
	names_of_spawn(&s->px->names, number, name, sizeof(name));
	if (r == 0)
		psets_of_spawn(s->px, s->call, name);
	call_answer_spawn(s->call, call_status_of(r), r < 0 ? NULL : name);
	free(s);
}

void px_spawn(struct px *px, struct call *call)
{
	_cleanup_(request_clear) struct request q = {.count = 0};
	struct nspace *nspace = names_find(&px->names, call->proc.nspace);
	struct spawn_request request;
	struct err err = ERR_INIT;
	struct spawning *s;
	int r = px->managed ? -EOPNOTSUPP : take_request(&q, call);

	/* A tool is no rank of the step; what it spawns has rank 0 for a parent. */
	if (r < 0 || (nspace && call->proc.rank >= nspace->size)) {
		call_answer_spawn(call, call_status_of(r < 0 ? r : -EINVAL), NULL);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		call_answer_spawn(call, PMIX_ERR_NOMEM, NULL);
		return;
	}
	*s = (struct spawning){.px = px, .call = call};
	make_forward(px, call, !nspace, &s->forward);
	request = (struct spawn_request){.commands = q.commands,
		.count = q.count,
		.data = &s->forward,
		.size = sizeof(s->forward)};
	r = spawn_start(px->serve, nspace ? nspace->first_rank + call->proc.rank : 0, &request,
		spawn_on_done, s, &err);
	if (r < 0)
		spawn_on_done(s, r, 0, 0, NULL, &err);
}

/* ---- on every node ---- */

static int set_part_environ(
	struct px *px, const struct spawn_part *part, struct nspace *nspace, struct err *err)
{
	char **env;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < part->local_count; i++) {
		r = px_setup_fork(px, nspace, part->ranks[i], &env, err);
		for (size_t j = 0; r == 0 && env && env[j]; j++) {
			size_t len = strcspn(env[j], "=");

			if (env[j][len] != '=')
				continue;
			env[j][len] = '\0';
			r = spawn_environ(part, i, env[j], env[j] + len + 1);
			if (r < 0)
				(void)err_set(err, r, "set the environment of spawned tasks");
		}
		PMIX_ARGV_FREE(env);
	}
	return r;
}

static void drop(struct px *px, struct nspace *nspace)
{
	iof_drop_spawn(px, nspace->name);
	px_deregister(nspace);
	names_remove(&px->names, nspace);
}

static int prepare(void *userdata, const struct spawn_part *part, struct err *err)
{
	struct px *px = userdata;
	struct nspace *nspace, *parent;
	uint32_t rank = 0;
	int r = names_add(&px->names, px->job, part, &nspace);

	if (r < 0)
		return err_set(err, r, "add the namespace of spawned tasks");
	parent = names_find_rank(&px->names, part->parent, &rank);
	PMIX_LOAD_PROCID(
		&nspace->parent, parent ? parent->name : px->names.base, parent ? rank : 0);
	r = px_register(px, nspace, err);
	if (r == 0)
		r = set_part_environ(px, part, nspace, err);
	if (r == 0 && begin_forward(px, part, nspace) < 0)
		r = err_set(err, -ENOMEM, "have a copy of spawned tasks' output");
	if (r < 0)
		drop(px, nspace);
	return r;
}

static void started(void *userdata, const struct spawn_part *part, const int *fds)
{
	check_forward(userdata, part);
	for (uint32_t i = 0; fds && i < part->local_count; i++)
		(void)close_fd(fds[i]);
}

static void failed(void *userdata, const struct spawn_part *part)
{
	struct px *px = userdata;
	char name[PMIX_MAX_NSLEN + 1];
	struct nspace *nspace;

	names_of_spawn(&px->names, part->number, name, sizeof(name));
	nspace = names_find(&px->names, name);
	if (nspace) /* else prepare() has failed itself */
		drop(px, nspace);
}

void spawn_open(struct px *px)
{
	static const struct spawn_events events = {
		.prepare = prepare,
		.started = started,
		.failed = failed,
	};

	spawn_set_events(px->serve, &events, px);
}
