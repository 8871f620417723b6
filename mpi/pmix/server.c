/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The main of the service process: libpmix as the user, until the step is over.
 */
#include <string.h>

#include "config.h"
#include "mpi/pmix/pmix.h"
#include "mpi/pmix/admit.h"
#include "mpi/pmix/keys.h"
#include "mpi/pmix/px.h"
#include "mpi/pmix/rpc.h"
#include "mpi/pmix/tmpdir.h"
#include "mpi/pmix/topology.h"
#include "mpi/pmix/trace.h"
#include "stepd/api/env.h"

/* As many times as the ranks of one node may read another's data from the plain store; with more,
 * shared memory costs less (tests/bench/README.md). */
#define GETS_OF_FEW 256

/* ---- events of the service ---- */

static void on_leaving(void *userdata)
{
	modex_leave(userdata);
	rpc_leave(userdata);
}

static bool on_had_client(void *userdata)
{
	return ((struct px *)userdata)->had_client;
}

static const struct serve_events serve_events = {
	.task_start = px_task_started,
	.task_exit = px_task_ended,
	.missing = deadline_missing,
	.message = rpc_message,
	.lost = rpc_node_lost,
	.leaving = on_leaving,
	.output = iof_output,
	.output_over = iof_output_over,
	.had_client = on_had_client,
	.over = iof_over,
};

/* ---- libpmix ---- */

/* With the plain store a client's start costs least, and it leaves no files; but the client
 * requests each other rank's data from the server, where libpmix's own choice has that of all in
 * memory that is shared: so few have the former. All nodes must come to the same. That of libpmix 5
 * is another, which nobody has measured. Neither is without a fault (4.2.2). The plain one answers
 * PMIX_GET_REFRESH_CACHE with old data where the other rank is of the same node. With shared memory
 * a get that comes before the other's first commit, without a fence between, fails in one run of
 * three (decisions.md, 39). */
static bool are_few(const struct px *px)
{
	uint64_t n = px->job->ntasks;

	return PMIX_VERSION_MAJOR > 4 || n * n <= (uint64_t)GETS_OF_FEW * px->nnodes;
}

/* The step's PMIX_MCA_gds, which its tasks have, holds for their server, too. */
static int choose_store(const struct px *px, const char *wanted)
{
	if (wanted && wanted[0])
		return setenv("PMIX_MCA_gds", wanted, 1);
	return are_few(px) ? setenv("PMIX_MCA_gds", "hash", 1) : unsetenv("PMIX_MCA_gds");
}

/* Variables that libraries read in this process's environment. Without a home directory libpmix
 * looks the user up, and crashes where there is no entry. Messages for syslog it would send as well
 * as log.c, and report success where nobody listens. Its component for Slurm works with SLURM_JOBID
 * only, which is not there: it need not be loaded. */
static int set_up_environ(const struct px *px, const char *data_store, struct err *err)
{
	int r = choose_store(px, data_store);

	if (r == 0)
		r = setenv("HOME", "/", 1);
	if (r == 0)
		r = setenv("PMIX_MCA_plog", "^syslog", 1);
	if (r == 0)
		r = setenv("PMIX_MCA_prm", "^slurm", 1);
	return r < 0 ? err_set(err, -errno, "set up libpmix") : 0;
}

static int init_libpmix(struct px *px, struct err *err)
{
	_cleanup_keys_ struct keys keys = {.v = NULL};
	const char *store;
	char nspace[PMIX_MAX_NSLEN + 1];
	pmix_status_t status, code = PMIX_ERR_LOST_CONNECTION,
			      alerts[] = {PMIX_MONITOR_HEARTBEAT_ALERT, PMIX_MONITOR_FILE_ALERT};

	(void)snprintf(nspace, sizeof(nspace), "%.240s.server", px->names.base);
	keys_add_text(&keys, PMIX_SERVER_NSPACE, nspace);
	keys_add_rank(&keys, PMIX_SERVER_RANK, px->node);
	/* One of its own: it sets the mode to what it likes. */
	if (tmpdir_add(px->tmpdir, "server", err) < 0)
		return err->code;
	keys_add_textf(&keys, PMIX_SERVER_TMPDIR, "%s/server", tmpdir_path(px->tmpdir));
	keys_add_textf(&keys, PMIX_SYSTEM_TMPDIR, "%s/server", tmpdir_path(px->tmpdir));
	keys_add_text(&keys, PMIX_HOSTNAME, px->job->node_name);
	keys_add_u32(&keys, PMIX_USERID, geteuid());
	keys_add_u32(&keys, PMIX_GRPID, getegid());
	keys_add_bool(&keys, PMIX_SERVER_TOOL_SUPPORT, true);
	keys_add_bool(&keys, PMIX_IOF_LOCAL_OUTPUT, false);
	topology_add(&keys, &px->topology);
	/* Else each rank of Open MPI discovers it anew, for which it needs longer than for the
	 * rest. */
	keys_add_bool(&keys, PMIX_SERVER_SHARE_TOPOLOGY, true);
	if (keys.failed)
		return err_set(err, -ENOMEM, "start libpmix");
	status = PMIx_server_init(module_open(px->calls), keys.v, keys.n);
	store = getenv("PMIX_MCA_gds");
	if (status != PMIX_SUCCESS)
		return err_set_text(err, -EIO, "libpmix does not start%s%s: %s",
			store ? " with PMIX_MCA_gds=" : "", store ? store : "",
			PMIx_Error_string(status));
	px->up = true;
	PMIx_Register_event_handler(&code, 1, NULL, 0, module_on_event, NULL, NULL);
	PMIx_Register_event_handler(
		alerts, ARRAY_SIZE(alerts), NULL, 0, module_on_event, NULL, NULL);
	return 0;
}

/* An entry that first has too is everybody's. */
static int send_environ(struct px *px, uint32_t local, char **env, char **first, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && env && env[i]; i++) {
		size_t len = strcspn(env[i], "=");
		_cleanup_free_ char *name = NULL;
		const char *common;

		if (env[i][len] != '=')
			continue;
		admit_learn_uri(env[i]);
		name = strndup(env[i], len);
		if (!name)
			return err_set(err, -ENOMEM, "set the environment of the tasks");
		common = stepd_env_get(first, name);
		if (env != first && common && strcmp(common, env[i] + len + 1) == 0)
			continue;
		r = serve_environ(
			px->serve, env == first ? -1 : (int64_t)local, name, env[i] + len + 1, err);
	}
	return r;
}

static int environ_of_tasks(struct px *px, struct err *err)
{
	struct nspace *nspace = px->names.first;
	char **first = NULL, **env;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < px->job->node_tasks; i++) {
		r = px_setup_fork(px, nspace, px->job->task[i].gtid, &env, err);
		if (r < 0)
			break;
		r = send_environ(px, i, env, first ? first : env, err);
		if (!first)
			first = env;
		else
			PMIX_ARGV_FREE(env);
	}
	if (first)
		PMIX_ARGV_FREE(first);
	return r;
}

/* ---- its life ---- */

/* The directory that the user wants: TMPDIR of the step. */
static int open_tmpdir(struct px *px, const char *wanted, struct err *err)
{
	struct err why = ERR_INIT;

	if (!wanted || !wanted[0] || strcmp(wanted, "/tmp") == 0)
		return tmpdir_open("/tmp", px->job, &px->tmpdir, err);
	if (tmpdir_check(wanted, &why) == 0 && tmpdir_open(wanted, px->job, &px->tmpdir, &why) == 0)
		return 0;
	serve_log(px->serve, LOG_LEVEL_WARNING,
		"TMPDIR '%s' can't be used on node %u: %s; the session directory is in /tmp",
		wanted, px->node, why.text);
	return tmpdir_open("/tmp", px->job, &px->tmpdir, err);
}

static int px_open(struct px *px, const struct pmix_wishes *wishes, struct err *err)
{
	int r = names_open(&px->names, px->job, wishes->nspace);

	if (r == 0)
		r = rpc_open(px);
	if (r == 0)
		r = calls_open(px->loop, px, &px->calls);
	if (r == 0)
		r = iof_open(px);
	if (r < 0)
		return err_set(err, r, "serve PMIx");
	if (wishes->manager && managed_open(px, wishes->manager, err) < 0)
		return err->code;
	publish_open(px);
	spawn_open(px);
	ranks_open(px);
	r = set_up_environ(px, wishes->data_store, err);
	if (r == 0 && (px->host->timeout_ms || px->nnodes > 1)) /* ranks.c; modex.c */
		r = trace_open(&px->trace, err);
	if (r == 0)
		r = open_tmpdir(px, wishes->tmpdir, err);
	if (r == 0)
		r = admit_open(px->loop, px->serve, err);
	if (r == 0)
		r = init_libpmix(px, err);
	if (r == 0)
		old_listener_open(px);
	if (r == 0)
		r = px_register(px, px->names.first, err);
	if (r == 0)
		r = environ_of_tasks(px, err);
	return r < 0 ? r : admit_prove(err);
}

static void px_close(struct px *px)
{
	iof_flush(px);
	iof_close(px);
	if (px->has_left) {
		ranks_close(px);
		collective_close(px);
		modex_close(px);
		managed_close(px);
		rpc_close(px);
		publish_close(px);
		groups_close(px);
	}
	old_listener_close(px);
	admit_close();
	module_close();
	/* libpmix 4.2 may crash where a collective is under way, and what it would tidy ends with
	 * the process. */
	if (trace_is_idle(px->trace)) {
		if (px->up)
			(void)PMIx_server_finalize();
		px->trace = trace_close(px->trace);
	}
	px->calls = calls_close(px->calls);
	px->tmpdir = tmpdir_close(px->tmpdir);
	if (px->names.last)
		names_close(&px->names);
	px->serve = serve_close(px->serve);
}

/* Where a process manager has the way to the other nodes, there is no wire: to serve the step has
 * no others. */
static const stepd_mpi_service_t *leave_others(
	const stepd_mpi_service_t *service, stepd_step_rec_t *job, stepd_mpi_service_t *alone)
{
	const struct pmix_wishes *wishes = service->userdata;

	if (!wishes->manager)
		return service;
	*job = *service->job;
	job->nodeid = 0;
	job->nnodes = 1;
	*alone = *service;
	alone->job = job;
	return alone;
}

STEPD_EXPORT int stepd_pmix_serve(const stepd_mpi_service_t *service);

int stepd_pmix_serve(const stepd_mpi_service_t *service)
{
	struct err err = ERR_INIT;
	stepd_step_rec_t alone_job;
	stepd_mpi_service_t alone;
	struct px px = {.job = service->job,
		.node = service->job->nodeid,
		.nnodes = service->job->nnodes ? service->job->nnodes : 1};
	int r = serve_open(
		leave_others(service, &alone_job, &alone), &serve_events, &px, &px.serve, &err);

	if (r < 0)
		return serve_fail(service, &err);
	px.loop = serve_get_loop(px.serve);
	px.wire = serve_get_wire(px.serve);
	px.host = serve_get_host(px.serve);
	r = px_open(&px, service->userdata, &err);
	r = r < 0 ? serve_fail(service, &err) : serve_run(px.serve);
	px_close(&px);
	return r;
}
