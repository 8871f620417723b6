/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An example of a node daemon: "noded SPOOL [SPEC...]" starts an agent for each spec and follows
 * all steps of this node to their ends. It may be killed and restarted at any time: agents continue
 * without it, and SPOOL has the number of the last handled event of each step. An agent that dies
 * is replaced.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stepd/client.h>

#define WATCHED_MAX 1024
#define RETRY_MS    200        /* for agents that begin, or end, in this moment */
#define ENDED       UINT64_MAX /* instead of a number: the result was handled, too */

/* A step that is followed or, without a client, an agent that starts. */
struct watched {
	int fd; /* -1: an orphan that could not be taken over */
	struct stepd_client *client;
	char name[320]; /* "n1_7.0", of the step's directory, and of our note on it */
};

struct noded {
	int spool_fd, retry_ms;
	size_t n;
	struct watched watched[WATCHED_MAX];
};

static uint64_t read_note(const struct noded *nd, const char *name)
{
	int fd = openat(nd->spool_fd, name, O_RDONLY | O_CLOEXEC);
	char text[32] = "";

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		err(1, "read the note '%s'", name);
	close(fd);
	return strtoull(text, NULL, 10);
}

/* In one write of always the same length: a reader finds the old number or the new one. */
static void write_note(const struct noded *nd, const char *name, uint64_t number)
{
	int fd = openat(nd->spool_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || dprintf(fd, "%020" PRIu64 "\n", number) < 0)
		err(1, "write the note '%s'", name);
	close(fd);
}

/* A real daemon would do its bookkeeping here, and bear the last event twice after a kill -9. */
static void on_event(const struct noded *nd, const char *name, const struct stepd_event *e)
{
	printf("%s %" PRIu64 " %s %s rank=%" PRId64 " exit=%" PRId64 " %s\n", name, e->sequence,
		e->kind, e->state[0] ? e->state : "-", e->rank, e->exit_code, e->text);
	write_note(nd, name, e->sequence);
}

static int on_end(const struct noded *nd, const char *name, const char *directory)
{
	struct stepd_error error = {0};
	const char *reason = "?";
	char *text = NULL;
	int exit_code = -1, r = stepd_read_result(directory, &text, &error);
	json_t *doc = r < 0 ? NULL : json_loads(text, 0, NULL);

	if (r < 0)
		warnx("%s", error.text);
	json_unpack(doc, "{s:s, s:i}", "reason", &reason, "exit_code", &exit_code);
	printf("%s result %s exit=%d\n", name, reason, exit_code);
	write_note(nd, name, ENDED);
	json_decref(doc);
	free(text);
	return 0;
}

/* Takes what has come. false: there is no more to wait for. */
static bool take_input(struct noded *nd, struct watched *w)
{
	struct stepd_event event;
	struct stepd_error error;
	char byte;
	int r;

	if (!w->client) { /* the ready line, or the end of an agent that has logged why */
		r = (int)read(w->fd, &byte, 1);
		close(w->fd);
		w->fd = -1;
		return r != 1 && w->name[0];
	}
	while ((r = stepd_next_event(w->client, 0, &event, &error)) == 1)
		on_event(nd, w->name, &event);
	if (r == -EAGAIN)
		return true;
	if (r != -EPERM)
		nd->retry_ms = RETRY_MS; /* its agent ends or died, or executed a new program */
	w->client = stepd_disconnect(w->client);
	return false;
}

/* Starts an agent, for a new step or instead of one that died. The next slot is clear but for the
 * name of the latter. */
static int launch(struct noded *nd, const char *verb, const char *option, const char *what)
{
	struct watched *w = &nd->watched[nd->n++];
	char number[16];
	int ready[2], pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		err(1, "start an agent");
	if (pid == 0) {
		setsid(); /* a terminal that ends us does not end it */
		snprintf(number, sizeof(number), "%d", ready[1]);
		fcntl(ready[1], F_SETFD, 0);
		execlp("stepd", "stepd", verb, "--ready-fd", number, option, what, NULL);
		err(127, "execute stepd");
	}
	close(ready[1]);
	w->fd = ready[0];
	return 0;
}

/* Begins to follow a step that is not followed yet. */
static int on_step(const struct stepd_step *step, void *userdata)
{
	struct noded *nd = userdata;
	struct watched *w = &nd->watched[nd->n];
	const char *name = strrchr(step->directory, '/') + 1;
	uint64_t last = read_note(nd, name);
	struct stepd_error error;
	char full[320];

	for (size_t i = 0; i < nd->n; i++)
		if (strcmp(nd->watched[i].name, name) == 0)
			return 0;
	if (last == ENDED || nd->n == WATCHED_MAX)
		return 0;
	if (step->presence == STEPD_ENDED)
		return on_end(nd, name, step->directory);
	*w = (struct watched){0};
	snprintf(w->name, sizeof(w->name), "%s", name);
	snprintf(full, sizeof(full), "%s/%s", step->node, step->step);
	if (step->presence == STEPD_ORPHAN)
		return launch(nd, "adopt", "--", full);
	if (stepd_connect_directory(step->directory, 1000, &w->client, &error) < 0 ||
		stepd_follow(w->client, last + 1, &error) < 0) {
		stepd_disconnect(w->client);
		nd->retry_ms = error.code == -EPERM ? nd->retry_ms : RETRY_MS;
		return 0;
	}
	nd->watched[nd->n++].fd = stepd_get_fd(w->client);
	return 0;
}

/* Waits for what comes next, handles it, and searches for new steps. false: nothing will come. */
static bool turn(struct noded *nd)
{
	struct pollfd p[WATCHED_MAX];
	size_t i, live = 0;

	for (i = 0; i < nd->n; i++)
		p[i] = (struct pollfd){.fd = nd->watched[i].fd, .events = POLLIN};
	if (poll(p, nd->n, nd->retry_ms) < 0 && errno != EINTR)
		err(1, "poll");
	nd->retry_ms = -1;
	for (i = nd->n; i-- > 0;)
		if (p[i].revents && !take_input(nd, &nd->watched[i]))
			nd->watched[i] = nd->watched[--nd->n];
	if (stepd_each_step(NULL, on_step, nd, NULL) < 0)
		errx(1, "the runtime directory can't be read");
	for (i = 0; i < nd->n; i++)
		live += nd->watched[i].fd >= 0;
	return live > 0 || nd->retry_ms >= 0;
}

int main(int argc, char **argv)
{
	struct sigaction no_zombies = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
	static struct noded nd;

	if (argc < 2 || argc > WATCHED_MAX)
		errx(2, "usage: noded SPOOL [SPEC...]");
	nd.spool_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (nd.spool_fd < 0)
		err(1, "open '%s'", argv[1]);
	sigaction(SIGCHLD, &no_zombies, NULL);
	setlinebuf(stdout);
	for (int i = 2; i < argc; i++)
		launch(&nd, "serve", "--spec", argv[i]);
	while (turn(&nd))
		;
	return 0;
}
