/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For tests: libstepd's functions from the command line, one after the other on one connection.
 *
 *	clientprobe STEP WORD...
 *
 * Each word is a call, with its arguments behind colons; what it has is printed a line each, a
 * failure as its code's name and the sentence. Exit status 1 if the last one failed.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stepd/api/client.h"

struct probe {
	struct stepd_client *client;
	struct stepd_error error;
	char *argument[4]; /* what is behind the word's colons, NULL where there is none */
};

static int print_text_take(int r, char **text)
{
	if (r == 0)
		puts(*text ? *text : "-");
	free(*text);
	return r;
}

static int do_describe(struct probe *p)
{
	char *text = NULL;

	return print_text_take(stepd_call(p->client, "Describe", NULL, &text, &p->error), &text);
}

static int do_usage(struct probe *p)
{
	char *text = NULL;

	return print_text_take(
		stepd_call(p->client, "Usage", "{\"tasks\": true}", &text, &p->error), &text);
}

static int print_processes(int r, struct stepd_process *processes, size_t n)
{
	size_t i;

	for (i = 0; r == 0 && i < n; i++)
		printf("%d %lld %s\n", (int)processes[i].pid, (long long)processes[i].rank,
			processes[i].start_ticks ? "since" : "-");
	free(processes);
	return r;
}

static int do_pids(struct probe *p)
{
	struct stepd_process *processes = NULL;
	size_t n = 0;
	int r = stepd_list_pids(
		p->client, p->argument[0], p->argument[1] != NULL, &processes, &n, &p->error);

	return print_processes(r, processes, n);
}

/* find:PID - among ten thousand that are none of the step's. */
static int do_find(struct probe *p)
{
	enum {
		COUNT = 20001
	};
	struct stepd_process *processes = NULL;
	pid_t *pids = calloc(COUNT, sizeof(*pids));
	size_t n = 0, i;
	int r;

	if (!pids || !p->argument[0])
		errx(2, "find:PID");
	for (i = 0; i < COUNT; i++)
		pids[i] = i == COUNT - 1 ? (pid_t)atoi(p->argument[0]) : (pid_t)(4194304 - 1 - i);
	r = stepd_find_pids(p->client, pids, COUNT, 0, &processes, &n, &p->error);
	free(pids);
	return print_processes(r, processes, n);
}

static int do_signal(struct probe *p)
{
	struct stepd_signal_target target = {.ranks = p->argument[1]};

	return stepd_signal(p->client, p->argument[0] ? p->argument[0] : "", &target, &p->error);
}

static int do_signal_pid(struct probe *p)
{
	struct stepd_signal_target target = {.leader = true};

	target.pid = p->argument[1] ? (pid_t)atoi(p->argument[1]) : -1;
	return stepd_signal(p->client, p->argument[0] ? p->argument[0] : "", &target, &p->error);
}

static int do_suspend(struct probe *p)
{
	return stepd_suspend(p->client, &p->error);
}

static int do_resume(struct probe *p)
{
	return stepd_resume(p->client, &p->error);
}

static int do_terminate(struct probe *p)
{
	return stepd_terminate(p->client, p->argument[0], -1, &p->error);
}

static int do_notify(struct probe *p)
{
	return stepd_notify(p->client, p->argument[0] ? p->argument[0] : "", &p->error);
}

static int do_add(struct probe *p)
{
	return stepd_add_pid(
		p->client, p->argument[0] ? (pid_t)atoi(p->argument[0]) : 0, 0, &p->error);
}

/* wait:MS */
static int do_wait(struct probe *p)
{
	char *text = NULL;
	int timeout_ms = p->argument[0] ? atoi(p->argument[0]) : -1;

	return print_text_take(stepd_wait(p->client, timeout_ms, &text, &p->error), &text);
}

/* events:FROM */
static int do_events(struct probe *p)
{
	uint64_t from = p->argument[0] ? strtoull(p->argument[0], NULL, 10) : 0;
	struct stepd_event event;
	int r = stepd_follow(p->client, from, &p->error);

	while (r >= 0 && (r = stepd_next_event(p->client, -1, &event, &p->error)) == 1) {
		printf("%llu %s %s %lld %lld\n", (unsigned long long)event.sequence, event.kind,
			event.state[0] ? event.state : "-", (long long)event.rank,
			(long long)event.exit_code);
		(void)fflush(stdout);
	}
	return r;
}

static int do_reexec(struct probe *p)
{
	char *version = NULL;

	return print_text_take(stepd_reexec(p->client, &version, &p->error), &version);
}

/* timeout:MS */
static int do_timeout(struct probe *p)
{
	stepd_set_timeout(p->client, p->argument[0] ? atoi(p->argument[0]) : -1);
	return 0;
}

static const struct {
	const char *command;
	int (*run)(struct probe *p);
} commands[] = {{"describe", do_describe}, {"usage", do_usage}, {"pids", do_pids},
	{"find", do_find}, {"signal", do_signal}, {"signal-pid", do_signal_pid},
	{"suspend", do_suspend}, {"resume", do_resume}, {"terminate", do_terminate},
	{"notify", do_notify}, {"add", do_add}, {"wait", do_wait}, {"events", do_events},
	{"reexec", do_reexec}, {"timeout", do_timeout}};

static int run_command(struct probe *p, char *command)
{
	char *name = strsep(&command, ":");
	size_t i;

	for (i = 0; i < sizeof(p->argument) / sizeof(p->argument[0]); i++)
		p->argument[i] = strsep(&command, ":");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].command, name) == 0)
			return commands[i].run(p);
	errx(2, "there is no word '%s'", name);
}

static int report(const struct probe *p, int r)
{
	if (r < 0)
		printf("%s %s\n", strerrorname_np(-r), p->error.text);
	(void)fflush(stdout);
	if (r < 0 && p->error.code != r)
		errx(3, "%d was returned, and %d told", r, p->error.code);
	return r;
}

int main(int argc, char **argv)
{
	struct probe p = {0};
	int i, r;

	if (argc < 2)
		errx(2, "usage: clientprobe STEP WORD...");
	r = report(&p, stepd_connect(NULL, argv[1], STEPD_TIMEOUT_MS, &p.client, &p.error));
	for (i = 2; p.client && i < argc; i++)
		r = report(&p, run_command(&p, argv[i]));
	stepd_disconnect(p.client);
	return r < 0;
}
