/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/clock.h"

#define READER_STACK_SIZE (128u << 10)

#define BUCKETS        256u
#define LINE_MAX_BYTES 4096u /* a longer one is not read */

struct waiting {
	struct waiting *next;
	char nspace[256];
	uint32_t rank;
	uint64_t since_ms;
	const char *what;
};

struct trace {
	FILE *read_end;
	int write_fd;
	pthread_t reader;
	pthread_mutex_t lock; /* of what follows */
	struct waiting *waiting[BUCKETS];
	trace_commit_fn on_commit;
	void *userdata;
};

/* ---- lines ---- */

/* "NSPACE:RANK" or "[NSPACE,RANK]"; a namespace has neither ':' nor ','. */
static bool read_name(const char *text, struct trace_line *line)
{
	size_t len;
	char *end;

	text += *text == '[';
	len = strcspn(text, ":,");
	if (len == 0 || len >= sizeof(line->nspace) || !text[len])
		return false;
	memcpy(line->nspace, text, len);
	line->nspace[len] = '\0';
	line->rank = (uint32_t)strtoul(text + len + 1, &end, 10);
	return end != text + len + 1;
}

static const char *after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? at + strlen(name) : NULL;
}

bool trace_read_line(const char *text, struct trace_line *ret_line)
{
	static const struct {
		const char *command, *call;
	} commands[] = {
		{"FENCE from ", "PMIx_Fence"},
		{"CONNECT from ", "PMIx_Connect"},
		{"DISCONNECT from ", "PMIx_Disconnect"},
		{"GROUP CONSTRUCT from ", "PMIx_Group_construct"},
		{"GROUP DESTRUCT from ", "PMIx_Group_destruct"},
	};
	static const char *const answers[] = {
		"modex_cbfunc", "cnct_cbfunc", "grp_cbfunc", "grp_timeout"};
	const char *command = after(text, "recvd pmix cmd "), *name, *answer;
	size_t i;

	ret_line->what = NULL;
	ret_line->commits = command && strncmp(command, "COMMIT from ", 12) == 0;
	if (command) {
		for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
			if (strncmp(command, commands[i].command, strlen(commands[i].command)) == 0)
				ret_line->what = commands[i].call;
		}
		name = after(command, " from ");
		return name && read_name(name, ret_line);
	}
	answer = after(text, "server:");
	name = answer ? after(answer, " reply being sent to ") : NULL;
	for (i = 0; name && i < sizeof(answers) / sizeof(*answers); i++) {
		if (strncmp(answer, answers[i], strlen(answers[i])) == 0)
			return read_name(name, ret_line);
	}
	return false;
}

/* ---- waiting ranks ---- */

static struct waiting **find(struct trace *t, const char *nspace, uint32_t rank)
{
	struct waiting **at = &t->waiting[rank % BUCKETS];

	while (*at && ((*at)->rank != rank || strcmp((*at)->nspace, nspace) != 0))
		at = &(*at)->next;
	return at;
}

static void forget(struct waiting **at)
{
	struct waiting *w = *at;

	if (!w)
		return;
	*at = w->next;
	free(w);
}

static void line_begin(struct waiting **at, const struct trace_line *line)
{
	struct waiting *w = *at ? *at : calloc(1, sizeof(*w));

	if (!w)
		return; /* then it is not seen to wait */
	memcpy(w->nspace, line->nspace, sizeof(w->nspace));
	w->rank = line->rank;
	w->since_ms = clock_now_ms();
	w->what = line->what;
	*at = w;
}

static void take_line(struct trace *t, const char *text)
{
	struct trace_line line;

	if (!trace_read_line(text, &line))
		return;
	(void)pthread_mutex_lock(&t->lock);
	if (line.what)
		line_begin(find(t, line.nspace, line.rank), &line);
	else
		forget(find(t, line.nspace, line.rank));
	if (line.commits && t->on_commit)
		t->on_commit(t->userdata, line.nspace, line.rank);
	(void)pthread_mutex_unlock(&t->lock);
}

void trace_watch_commits(struct trace *trace, trace_commit_fn fn, void *userdata)
{
	if (!trace)
		return;
	(void)pthread_mutex_lock(&trace->lock);
	trace->on_commit = fn;
	trace->userdata = userdata;
	(void)pthread_mutex_unlock(&trace->lock);
}

void trace_answered(struct trace *trace, const char *nspace, uint32_t rank)
{
	if (!trace)
		return;
	(void)pthread_mutex_lock(&trace->lock);
	forget(find(trace, nspace, rank));
	(void)pthread_mutex_unlock(&trace->lock);
}

uint64_t trace_waited_ms(
	struct trace *trace, const char *nspace, uint32_t rank, const char **ret_what)
{
	const struct waiting *w;
	uint64_t waited_ms = 0;

	if (!trace)
		return 0;
	(void)pthread_mutex_lock(&trace->lock);
	w = *find(trace, nspace, rank);
	if (w) {
		waited_ms = clock_now_ms() - w->since_ms;
		waited_ms += waited_ms == 0;
		if (ret_what)
			*ret_what = w->what;
	}
	(void)pthread_mutex_unlock(&trace->lock);
	return waited_ms;
}

bool trace_is_idle(struct trace *trace)
{
	bool idle = true;

	if (!trace)
		return true;
	(void)pthread_mutex_lock(&trace->lock);
	for (unsigned i = 0; i < BUCKETS; i++)
		idle &= !trace->waiting[i];
	(void)pthread_mutex_unlock(&trace->lock);
	return idle;
}

/* ---- the thread ---- */

static void *read_all(void *userdata)
{
	struct trace *t = userdata;
	char line[LINE_MAX_BYTES];
	bool is_rest = false; /* of a line that is too long */

	while (fgets(line, sizeof(line), t->read_end)) {
		size_t len = strcspn(line, "\n");
		bool is_end = line[len] == '\n';

		line[len] = '\0';
		if (is_end && !is_rest)
			take_line(t, line);
		is_rest = !is_end;
	}
	return NULL;
}

/* Its stack counts for the limit of this process's memory: it gets no more than it needs. */
static int start_reader(struct trace *t)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)sigfillset(&all); /* can't fail, nor can the calls with it and valid arguments */
	(void)sigdelset(&all, SIGSYS); /* that of mpi/confine.c: blocked, it kills */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_attr_setstacksize(&attr, READER_STACK_SIZE);
	if (r == 0)
		r = pthread_create(&t->reader, &attr, read_all, t);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

static int set_environ(const struct trace *t)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", t->write_fd);
	return setenv("PMIX_OUTPUT_STDERR_FD", number, 1) < 0 ||
			setenv("PMIX_MCA_pmix_server_base_verbose", "2", 1) < 0 ||
			setenv("PMIX_MCA_pmix_server_connect_verbose", "2", 1) < 0 ||
			setenv("PMIX_MCA_pmix_server_group_verbose", "2", 1) < 0
		? -errno
		: 0;
}

static void trace_free(struct trace *t)
{
	if (t->read_end)
		(void)fclose(t->read_end);
	(void)close_fd(t->write_fd);
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (t->waiting[i])
			forget(&t->waiting[i]);
	}
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

static int trace_begin(struct trace *t)
{
	_cleanup_close_ int read_fd = -1;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	t->write_fd = fds[1];
	t->read_end = fdopen(read_fd, "r");
	if (!t->read_end)
		return -errno;
	(void)take_fd(&read_fd);
	r = set_environ(t);
	return r < 0 ? r : start_reader(t);
}

int trace_open(struct trace **ret_trace, struct err *err)
{
	struct trace *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "read libpmix's trace");
	t->write_fd = -1;
	(void)pthread_mutex_init(&t->lock, NULL); /* a plain one never fails */
	r = trace_begin(t);
	if (r < 0) {
		trace_free(t);
		return err_set(err, r, "read libpmix's trace");
	}
	*ret_trace = t;
	return 0;
}

struct trace *trace_close(struct trace *trace)
{
	if (!trace)
		return NULL;
	trace->write_fd = close_fd(trace->write_fd);
	(void)pthread_join(trace->reader, NULL);
	trace_free(trace);
	return NULL;
}
