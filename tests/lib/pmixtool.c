/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A PMIx tool for tests: what it gets of the tasks' streams, and what it sends to them.
 *
 *	pmixtool FILE pull DIR CHANNELS RANKS [NAME=FIFO...]
 *	pmixtool FILE push RANKS [OPTION...]
 *	pmixtool FILE spawn COUNT FIFO [required]
 *
 * FILE is the server's rendezvous file. RANKS are those of the step: "0,2" or "all".
 *
 * pull: CHANNELS is out, err or both. What rank 3 writes to its stdout goes to DIR/3.out. It prints
 * "pulling", a line "end 3 out" for the end of each stream, "lost 3 out" once where bytes were
 * left out, and ends when as many streams have ended as ends=COUNT gives (else with the server,
 * which is "server gone"). With hold=FIFO it takes nothing more after the first bytes until FIFO is
 * written to. With stop=FIFO it deregisters when FIFO is written to, prints "stopped", and ends
 * when it is written to again.
 *
 * push: what stands at its stdin, in pieces of size=BYTES (4096), then the end, unless there is
 * "open". Each answer but success is printed, and in the end "pushed".
 *
 * spawn: COUNT tasks that write "from a child", which libpmix puts to the tool's stdout. It prints
 * the answer, and ends when FIFO is written to.
 */
#include <fcntl.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static pmix_proc_t ranks[64];
static size_t ranks_count;
static char step[PMIX_MAX_NSLEN + 1];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const char *dir, *hold;
static long ends, ends_wanted = -1;
static int gone;

static int usage(void)
{
	fputs("usage: pmixtool FILE pull|push ...\n", stderr);
	return 2;
}

static void print_line(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

/* The first namespace is the step's own. */
static int find_step(void)
{
	char key[] = PMIX_QUERY_NAMESPACES, *keys[] = {key, NULL};
	pmix_query_t query = {.keys = keys};
	pmix_info_t *results = NULL;
	size_t n = 0;

	if (PMIx_Query_info(&query, 1, &results, &n) != PMIX_SUCCESS || n == 0 ||
		results[0].value.type != PMIX_STRING)
		return -1;
	snprintf(step, sizeof(step), "%s", results[0].value.data.string);
	step[strcspn(step, ",")] = '\0';
	return 0;
}

static void read_ranks(char *list)
{
	char *save = NULL, *at;

	for (at = strtok_r(list, ",", &save); at && ranks_count < 64;
		at = strtok_r(NULL, ",", &save)) {
		pmix_proc_t *rank = &ranks[ranks_count++]; /* a macro, which has it thrice */

		PMIX_LOAD_PROCID(rank, step,
			strcmp(at, "all") == 0 ? PMIX_RANK_WILDCARD : (pmix_rank_t)atoi(at));
	}
}

/* Until somebody has written to it, and closed it: what is left of one word must not be taken for
 * the next. */
static void await(const char *fifo)
{
	ssize_t n, got = 0;
	char word[16];
	int fd;

	/* A reader that opens it before the previous writer has closed reads only an end. */
	while (got == 0) {
		fd = open(fifo, O_RDONLY);
		while ((n = fd < 0 ? -1 : read(fd, word, sizeof(word))) > 0)
			got += n;
		if (n < 0) {
			perror(fifo);
			_exit(1);
		}
		close(fd);
	}
}

/* ---- answers that are waited for here: libpmix 4.2 misses one now and then ---- */

static void on_answer(pmix_status_t status, void *data)
{
	pthread_mutex_lock(&lock);
	*(pmix_status_t *)data = status;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

/* status: what the call returned; *answer is 1 until it is there. */
static pmix_status_t answer_of(pmix_status_t status, const pmix_status_t *answer)
{
	if (status != PMIX_SUCCESS)
		return status;
	pthread_mutex_lock(&lock);
	while (*answer == 1)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return *answer;
}

/* ---- pull ---- */

static void store(const pmix_proc_t *source, const char *channel, const pmix_byte_object_t *bytes)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u.%s", dir, source->rank, channel);
	f = fopen(path, "a");
	if (!f || fwrite(bytes->bytes, 1, bytes->size, f) != bytes->size || fclose(f) != 0) {
		perror(path);
		_exit(1);
	}
}

/* On libpmix's thread: while it is here nothing more is read. */
static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source,
	pmix_byte_object_t *bytes, pmix_info_t info[], size_t ninfo)
{
	const char *name = channel & PMIX_FWD_STDERR_CHANNEL ? "err" : "out";
	int end = 0;

	(void)id;
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], "stepd.iof.lost") && info[i].value.type == PMIX_UINT64)
			printf("lost %u %s %llu\n", source->rank, name,
				(unsigned long long)info[i].value.data.uint64);
		end |= PMIX_CHECK_KEY(&info[i], PMIX_IOF_COMPLETE) && PMIX_INFO_TRUE(&info[i]);
	}
	if (bytes && bytes->size)
		store(source, name, bytes);
	if (end)
		printf("end %u %s\n", source->rank, name);
	fflush(stdout);
	if (hold && bytes && bytes->size) {
		print_line("holding");
		await(hold);
		hold = NULL;
	}
	pthread_mutex_lock(&lock);
	ends += end;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t done, void *data)
{
	(void)id;
	(void)status;
	(void)source;
	(void)info;
	(void)ninfo;
	(void)results;
	(void)nresults;
	pthread_mutex_lock(&lock);
	gone = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void await_ends(void)
{
	pthread_mutex_lock(&lock);
	while (!gone && (ends_wanted < 0 || ends < ends_wanted))
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	if (gone)
		print_line("server gone");
}

/* Whether it was requested and answered. The status of the answer proves nothing: libpmix 4.2 hands
 * out one that it has never set. */
static bool stop_pulling(size_t handler)
{
	pmix_status_t answer = 1;
	pmix_status_t status = PMIx_IOF_deregister(handler, NULL, 0, on_answer, &answer);

	(void)answer_of(status, &answer);
	return status == PMIX_SUCCESS;
}

static int pull(char **args)
{
	pmix_iof_channel_t channels = 0;
	pmix_status_t status, code = PMIX_ERR_LOST_CONNECTION;
	const char *stop = NULL;

	if (!args[0] || !args[1] || !args[2])
		return usage();
	dir = args[0];
	if (strcmp(args[1], "err") != 0)
		channels |= PMIX_FWD_STDOUT_CHANNEL;
	if (strcmp(args[1], "out") != 0)
		channels |= PMIX_FWD_STDERR_CHANNEL;
	read_ranks(args[2]);
	for (args += 3; *args; args++) {
		if (strncmp(*args, "ends=", 5) == 0)
			ends_wanted = atol(*args + 5);
		else if (strncmp(*args, "hold=", 5) == 0)
			hold = *args + 5;
		else if (strncmp(*args, "stop=", 5) == 0)
			stop = *args + 5;
		else
			return usage();
	}
	PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
	status = PMIx_IOF_pull(ranks, ranks_count, NULL, 0, channels, on_output, NULL, NULL);
	if (status < 0) {
		print_line(PMIx_Error_string(status));
		return 1;
	}
	print_line("pulling");
	if (stop) {
		await(stop);
		print_line(stop_pulling((size_t)status) ? "stopped" : "not stopped");
		await(stop);
		return 0;
	}
	await_ends();
	return 0;
}

/* ---- push ---- */

static pmix_status_t push_piece(char *data, size_t size)
{
	pmix_byte_object_t bytes = {.bytes = data, .size = size};
	pmix_status_t answer = 1;

	return answer_of(
		PMIx_IOF_push(ranks, ranks_count, &bytes, NULL, 0, on_answer, &answer), &answer);
}

static int push(char **args)
{
	size_t size = 4096, n;
	pmix_status_t status = PMIX_SUCCESS;
	int end = 1;
	char *buf;

	if (!args[0])
		return usage();
	read_ranks(args[0]);
	for (args++; *args; args++) {
		if (strncmp(*args, "size=", 5) == 0)
			size = (size_t)atol(*args + 5);
		else if (strcmp(*args, "open") == 0)
			end = 0;
	}
	buf = malloc(size);
	while (status == PMIX_SUCCESS && buf && (n = fread(buf, 1, size, stdin)) > 0)
		status = push_piece(buf, n);
	if (status == PMIX_SUCCESS && end)
		status = push_piece(NULL, 0);
	if (status != PMIX_SUCCESS)
		print_line(PMIx_Error_string(status));
	free(buf);
	print_line("pushed");
	return status != PMIX_SUCCESS;
}

/* ---- spawn ---- */

static int spawn(char **args)
{
	char shell[] = "/bin/sh", option[] = "-c", script[] = "echo from a child",
	     *argv[] = {shell, option, script, NULL};
	char nspace[PMIX_MAX_NSLEN + 1];
	pmix_info_t info;
	pmix_app_t app;
	bool yes = true;

	if (!args[0] || !args[1])
		return usage();
	PMIX_APP_CONSTRUCT(&app);
	app.cmd = shell;
	app.argv = argv;
	app.maxprocs = atoi(args[0]);
	PMIX_INFO_LOAD(&info, PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
	if (args[2])
		PMIX_INFO_REQUIRED(&info);
	print_line(PMIx_Error_string(PMIx_Spawn(&info, 1, &app, 1, nspace)));
	await(args[1]);
	return 0;
}

int main(int argc, char **argv)
{
	pmix_info_t info;
	pmix_status_t status;
	int r;

	if (argc < 4)
		return usage();
	PMIX_INFO_LOAD(&info, PMIX_TOOL_ATTACHMENT_FILE, argv[1], PMIX_STRING);
	status = PMIx_tool_init(&me, &info, 1);
	if (status != PMIX_SUCCESS) {
		print_line(PMIx_Error_string(status));
		return 1;
	}
	if (find_step() < 0) {
		print_line("no namespace");
		return 1;
	}
	if (strcmp(argv[2], "pull") == 0)
		r = pull(argv + 3);
	else if (strcmp(argv[2], "spawn") == 0)
		r = spawn(argv + 3);
	else
		r = strcmp(argv[2], "push") == 0 ? push(argv + 3) : usage();
	if (!gone)
		(void)PMIx_tool_finalize();
	fflush(stdout);
	_exit(r);
}
