/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Monitors, logs, fabrics and process sets: further verbs of pmixclient.
 */
#include "tests/lib/pmixclient.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long now_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

/* ---- monitors ---- */

#define CHECK_SEC 1u /* between two looks of the server */
#define ALIVE_SEC 4

struct monitor {
	const char *name, *aspect;
};

static const struct monitor monitors[] = {
	{"heartbeat", NULL},
	{"size", PMIX_MONITOR_FILE_SIZE},
	{"access", PMIX_MONITOR_FILE_ACCESS},
	{"modify", PMIX_MONITOR_FILE_MODIFY},
};

static const struct monitor *find_monitor(const char *name)
{
	size_t i = 0;

	while (i < 3 && strcmp(monitors[i].name, name) != 0)
		i++;
	return &monitors[i];
}

static pmix_status_t start_monitor(const struct monitor *m, const char *file)
{
	uint32_t seconds = CHECK_SEC, drops = 1;
	pmix_info_t what, how[4], *results = NULL;
	char id[] = "test-monitor";
	bool yes = true;
	size_t n = 0;

	PMIX_INFO_LOAD(&how[0], PMIX_MONITOR_ID, id, PMIX_STRING);
	if (m->aspect) {
		PMIX_INFO_LOAD(&what, PMIX_MONITOR_FILE, file, PMIX_STRING);
		PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_FILE_CHECK_TIME, &seconds, PMIX_UINT32);
		PMIX_INFO_LOAD(&how[2], PMIX_MONITOR_FILE_DROPS, &drops, PMIX_UINT32);
		PMIX_INFO_LOAD(&how[3], m->aspect, &yes, PMIX_BOOL);
	} else {
		PMIX_INFO_LOAD(&what, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER);
		PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
		PMIX_INFO_LOAD(&how[2], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
	}
	return PMIx_Process_monitor(
		&what, PMIX_MONITOR_FILE_ALERT, how, m->aspect ? 4 : 3, &results, &n);
}

/* The times of a file are seconds, and whether reading changes that of the last access is the
 * mount's to say: they are set. */
static void live(const struct monitor *m, const char *file, unsigned round)
{
	struct timespec times[2] = {{.tv_sec = 1000 + round}, {.tv_sec = 1000 + round}};
	int fd;

	if (!m->aspect) {
		PMIx_Heartbeat();
		return;
	}
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (fd < 0 || (strcmp(m->name, "size") == 0 && write(fd, "x", 1) != 1) ||
		(strcmp(m->name, "size") != 0 && futimens(fd, times) < 0)) {
		perror(file);
		_exit(1);
	}
	close(fd);
}

/* That the server has come to it, too: it takes a rank's messages in their order. */
static void query_server(void)
{
	char key[] = PMIX_QUERY_NAMESPACES, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys};
	pmix_info_t *results = NULL;
	size_t n = 0;

	must(PMIx_Query_info(&query, 1, &results, &n), "PMIx_Query_info");
	if (results)
		PMIX_INFO_FREE(results, n);
}

/* For some probes of the server; prints the longest gap in which it was not seen to be alive, and
 * when it was last. */
static void live_on(const struct monitor *m, const char *file)
{
	long long start = now_usec(), last = start, gap = 0, now;
	char text[128];

	for (unsigned round = 0; last - start < ALIVE_SEC * 1000000LL; round++) {
		live(m, file, round);
		query_server();
		now = now_usec();
		if (now - last > gap)
			gap = now - last;
		last = now;
		usleep(20000);
	}
	snprintf(text, sizeof(text), "until %lld, gap %lld", last, gap);
	report("alive", text);
}

/* "watch heartbeat|size|access|modify [FILE]": rank 0 is alive for a while, and then no more; rank
 * 1 prints when it gets that. */
static int verb_watch(char **args)
{
	const struct monitor *m = find_monitor(args[0]);
	char text[128];

	if (me.rank == 1)
		listen_for(m->aspect ? PMIX_MONITOR_FILE_ALERT : PMIX_MONITOR_HEARTBEAT_ALERT);
	if (me.rank == 0)
		live(m, args[1], 0);
	fence(false);
	if (me.rank == 0) {
		must(start_monitor(m, args[1]), "PMIx_Process_monitor");
		live_on(m, args[1]);
	} else {
		await_event("alert");
		snprintf(text, sizeof(text), "at %lld", now_usec());
		report("alert", text);
	}
	fence(false);
	return 0;
}

/* "appears FILE": what is watched comes to be only after that, and then stands still. */
static int verb_appears(char **args)
{
	const struct monitor *m = find_monitor("size");

	if (me.rank == 1)
		listen_for(PMIX_MONITOR_FILE_ALERT);
	fence(false);
	if (me.rank == 0) {
		must(start_monitor(m, args[0]), "PMIx_Process_monitor");
		live(m, args[0], 0);
	} else {
		await_event("appears");
	}
	fence(false);
	return 0;
}

/* Requests for what can't be monitored, and the end of a monitor that does not exist. */
static int verb_unwatched(char **args)
{
	pmix_info_t what, *results = NULL;
	char id[] = "no-such-monitor";
	size_t n = 0;

	(void)args;
	PMIX_INFO_LOAD(&what, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER);
	report_status("unwatched", "heartbeat",
		PMIx_Process_monitor(&what, PMIX_SUCCESS, NULL, 0, &results, &n));
	PMIX_INFO_LOAD(&what, PMIX_MONITOR_FILE, "/nowhere", PMIX_STRING);
	report_status("unwatched", "file",
		PMIx_Process_monitor(&what, PMIX_SUCCESS, NULL, 0, &results, &n));
	PMIX_INFO_LOAD(&what, PMIX_MONITOR_CANCEL, id, PMIX_STRING);
	report_status("unwatched", "cancel",
		PMIx_Process_monitor(&what, PMIX_SUCCESS, NULL, 0, &results, &n));
	PMIx_Heartbeat(); /* that nobody waits for */
	query_server();
	report("served", "on");
	return 0;
}

/* ---- logs ---- */

/* "logs KEY TEXT [PRIORITY]" */
static int verb_logs(char **args)
{
	pmix_info_t data, directive;
	int priority = args[2] ? atoi(args[2]) : 0;

	PMIX_INFO_LOAD(&data, args[0], args[1], PMIX_STRING);
	PMIX_INFO_LOAD(&directive, PMIX_LOG_SYSLOG_PRI, &priority, PMIX_INT);
	report_status("logs", args[0], PMIx_Log(&data, 1, &directive, args[2] ? 1 : 0));
	fence(false);
	report("served", "on");
	return 0;
}

/* ---- fabrics ---- */

static int verb_fabric(char **args)
{
	pmix_fabric_t fabric;
	pmix_status_t status;

	(void)args;
	memset(&fabric, 0, sizeof(fabric));
	status = PMIx_Fabric_register(&fabric, NULL, 0);
	report_status("fabric", "register", status);
	report_status("fabric", "update", PMIx_Fabric_update(&fabric));
	report_status("fabric", "deregister", PMIx_Fabric_deregister(&fabric));
	fence(true);
	report("served", "on");
	return 0;
}

/* ---- process sets ---- */

static pmix_status_t spawn_set(const char *name, int count)
{
	char shell[] = "/bin/sh", option[] = "-c", script[] = ":",
	     *argv[] = {shell, option, script, NULL};
	char nspace[PMIX_MAX_NSLEN + 1];
	pmix_info_t info;
	pmix_app_t app;

	PMIX_APP_CONSTRUCT(&app);
	app.cmd = shell;
	app.argv = argv;
	app.maxprocs = count;
	app.info = &info;
	app.ninfo = 1;
	PMIX_INFO_LOAD(&info, PMIX_PSET_NAME, name, PMIX_STRING);
	return PMIx_Spawn(NULL, 0, &app, 1, nspace);
}

static bool set_is_known(const char *name)
{
	char key[] = PMIX_QUERY_PSET_NAMES, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys};
	pmix_info_t *results = NULL;
	size_t n = 0;
	bool known;

	must(PMIx_Query_info(&query, 1, &results, &n), "PMIX_QUERY_PSET_NAMES");
	known = n && results[0].value.type == PMIX_STRING &&
		strstr(results[0].value.data.string, name);
	if (results)
		PMIX_INFO_FREE(results, n);
	return known;
}

static void show_members(const char *name)
{
	char key[] = PMIX_QUERY_PSET_MEMBERSHIP, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys, .nqual = 1};
	pmix_info_t qualifier, *results = NULL;
	const pmix_proc_t *procs;
	pmix_status_t status;
	char text[PMIX_MAX_NSLEN + 64];
	size_t n = 0;

	PMIX_INFO_LOAD(&qualifier, PMIX_PSET_NAME, name, PMIX_STRING);
	query.qualifiers = &qualifier;
	status = PMIx_Query_info(&query, 1, &results, &n);
	report_status("set", name, status);
	if (status != PMIX_SUCCESS || !n || results[0].value.type != PMIX_DATA_ARRAY)
		return;
	procs = results[0].value.data.darray->array;
	for (size_t i = 0; i < results[0].value.data.darray->size; i++) {
		snprintf(text, sizeof(text), "%s has %s:%u", name, procs[i].nspace, procs[i].rank);
		report("set", text);
	}
}

/* "sets NAME COUNT": rank 0 spawns so many as a set of that name, and all ranks ask for it. Other
 * nodes may hear of it only after who spawns. */
static int verb_sets(char **args)
{
	if (me.rank == 0)
		must(spawn_set(args[0], atoi(args[1])), "PMIx_Spawn");
	while (!set_is_known(args[0]))
		usleep(20000);
	show_members(args[0]);
	show_members("no-such-set");
	fence(false);
	return 0;
}

const struct verb watch_verbs[] = {
	{"watch", verb_watch},
	{"appears", verb_appears},
	{"unwatched", verb_unwatched},
	{"logs", verb_logs},
	{"fabric", verb_fabric},
	{"sets", verb_sets},
	{NULL, NULL},
};
