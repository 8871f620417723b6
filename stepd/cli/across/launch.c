/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/launch.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/err.h"
#include "stepd/base/status.h"
#include "stepd/process/process.h"

static const char *const kind_words[LAUNCHER_MAX] = {
	[LAUNCHER_LOCAL] = "local",
	[LAUNCHER_SSH] = "ssh",
	[LAUNCHER_SLURM] = "slurm",
	[LAUNCHER_EXEC] = "exec",
};

const char *launcher_kind_name(enum launcher_kind kind)
{
	return kind_words[kind];
}

/* Whether the template names all nodes, or none in particular. */
static bool is_for_all(const char *template)
{
	for (; (template = strchr(template, '%')); template += template[1] ? 2 : 1) {
		if (template[1] == 'H' || template[1] == 'N')
			return true;
	}
	return false;
}

int launcher_parse(const char *text, struct launcher *launcher)
{
	size_t len = strcspn(text, ":");
	int i;

	for (i = 0; i < LAUNCHER_MAX; i++) {
		if (strlen(kind_words[i]) == len && strncmp(kind_words[i], text, len) == 0)
			break;
	}
	if (i == LAUNCHER_MAX || (text[len] && i != LAUNCHER_SSH && i != LAUNCHER_EXEC) ||
		(i == LAUNCHER_EXEC && (!text[len] || !strstr(text, "%c")) && !strstr(text, "%q")))
		return -EINVAL;
	launcher->kind = (enum launcher_kind)i;
	launcher->text = text[len] ? text + len + 1 : "";
	launcher->at_once =
		i == LAUNCHER_SLURM || (i == LAUNCHER_EXEC && is_for_all(launcher->text));
	return 0;
}

/* ---- commands ----------------------------------------------------------------------------- */

static int add_relay(const struct launcher *l, uint32_t index, const char *host, struct strv *argv)
{
	int r = strv_add(argv, l->program);

	if (r == 0)
		r = strv_add(argv, "relay");
	if (r == 0 && !l->at_once)
		r = strv_addf(argv, "--index=%u", index);
	if (r == 0 && !l->at_once && host)
		r = strv_addf(argv, "--node=%s", host);
	if (r == 0 && l->kind == LAUNCHER_SLURM)
		r = strv_add(argv, "--index-from=SLURM_PROCID");
	if (r == 0 && l->ifname)
		r = strv_addf(argv, "--ifname=%s", l->ifname);
	return r;
}

/* As a shell reads it as one word. */
static void put_quoted(FILE *out, const char *word)
{
	const char *p;

	for (p = word; *p && (isalnum((unsigned char)*p) || strchr("-_=+./:,@%", *p)); p++)
		;
	if (!*p && *word) {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (p = word; *p; p++) {
		if (*p == '\'')
			fputs("'\\''", out);
		else
			fputc(*p, out);
	}
	fputc('\'', out);
}

static char *quote_all(const struct strv *words)
{
	_cleanup_free_ char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (i = 0; i < words->n; i++) {
		if (i)
			fputc(' ', out);
		put_quoted(out, words->v[i]);
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}

static int add_words(struct strv *argv, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL, *word;
	int r = copy ? 0 : -ENOMEM;

	for (word = copy ? strtok_r(copy, " \t", &save) : NULL; r == 0 && word;
		word = strtok_r(NULL, " \t", &save))
		r = strv_add(argv, word);
	return r;
}

static int add_all(struct strv *argv, const char *const *words)
{
	int r = 0;

	for (; r == 0 && *words; words++)
		r = strv_add(argv, *words);
	return r;
}

static int make_ssh(
	const struct launcher *l, const char *host, const struct strv *relay, struct strv *argv)
{
	static const char *const begin[] = {"ssh", "-T", "-x", "-o", "BatchMode=yes", NULL};
	_cleanup_free_ char *command = quote_all(relay);
	int r = command ? add_all(argv, begin) : -ENOMEM;

	if (r == 0)
		r = add_words(argv, l->text);
	if (r == 0)
		r = strv_add(argv, "--");
	if (r == 0)
		r = strv_add(argv, host ? host : "localhost");
	return r < 0 ? r : strv_addf(argv, "exec %s", command);
}

/* Whatever srun would take from the variables of the allocation's owner is said here. */
static int make_srun(
	const char *hosts, uint32_t nnodes, const struct strv *relay, struct strv *argv)
{
	static const char *const begin[] = {"srun", "--mpi=none", "--overlap", "--input=all",
		"--output=all", "--error=all", "--kill-on-bad-exit=0", "--wait=0",
		"--cpu-bind=none", "--distribution=block", "--ntasks-per-node=1", NULL};
	int r = add_all(argv, begin);

	if (r == 0)
		r = strv_addf(argv, "--nodes=%u", nnodes);
	if (r == 0)
		r = strv_addf(argv, "--ntasks=%u", nnodes);
	if (r == 0 && *hosts)
		r = strv_addf(argv, "--nodelist=%s", hosts);
	if (r == 0)
		r = strv_add(argv, "--");
	return r < 0 ? r : strv_extend(argv, relay);
}

static void put_letter(FILE *out, char letter, uint32_t index, const char *host, const char *hosts,
	uint32_t nnodes, const char *command)
{
	switch (letter) {
	case 'h':
		put_quoted(out, host ? host : "");
		break;
	case 'H':
		put_quoted(out, hosts);
		break;
	case 'n':
		fprintf(out, "%u", index);
		break;
	case 'N':
		fprintf(out, "%u", nnodes);
		break;
	case 'c':
		fputs(command, out);
		break;
	case 'q':
		put_quoted(out, command);
		break;
	default:
		fputc('%', out);
		if (letter != '%')
			fputc(letter, out);
	}
}

static int make_exec(const struct launcher *l, uint32_t index, const char *host, const char *hosts,
	uint32_t nnodes, const struct strv *relay, struct strv *argv)
{
	_cleanup_free_ char *command = quote_all(relay), *text = NULL;
	const char *p;
	size_t size;
	FILE *out = command ? open_memstream(&text, &size) : NULL;

	if (!out)
		return -ENOMEM;
	for (p = l->text; *p; p++) {
		if (*p != '%' || !p[1])
			fputc(*p, out);
		else
			put_letter(out, *++p, index, host, hosts, nnodes, command);
	}
	if (fclose(out) != 0)
		return -ENOMEM;
	if (strv_add(argv, "/bin/sh") < 0 || strv_add(argv, "-c") < 0)
		return -ENOMEM;
	return strv_add(argv, text);
}

int launcher_command(const struct launcher *l, uint32_t index, const char *host, const char *hosts,
	uint32_t nnodes, struct strv *ret_argv)
{
	_cleanup_strv_ struct strv relay = {0};
	int r = add_relay(l, index, host, &relay);

	if (r < 0)
		return r;
	switch (l->kind) {
	case LAUNCHER_SSH:
		return make_ssh(l, host, &relay, ret_argv);
	case LAUNCHER_SLURM:
		return make_srun(hosts, nnodes, &relay, ret_argv);
	case LAUNCHER_EXEC:
		return make_exec(l, index, host, hosts, nnodes, &relay, ret_argv);
	default:
		return strv_extend(ret_argv, &relay);
	}
}

/* ---- processes ---------------------------------------------------------------------------- */

static _noreturn_ void be_launcher(char *const *argv, int in, int out, int error_fd)
{
	sigset_t none;
	int error;

	(void)sigemptyset(&none); /* can't fail with valid arguments, nor can the next two */
	process_default_signals();
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* A group of its own: what a terminal sends is for steprun to judge. */
	if (setpgid(0, 0) == 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		(void)execvp(argv[0], argv);
	error = errno;
	(void)!write(error_fd, &error, sizeof(error)); /* else the exit status says less */
	_exit(STATUS_FAILED);
}

static int fork_launcher(char *const *argv, int in, int out, struct pidref *ret_process)
{
	_cleanup_close_ int told_fd = -1, error_fd = -1;
	int error = 0, fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	told_fd = fds[0];
	error_fd = fds[1];
	pid = fork();
	if (pid == 0)
		be_launcher(argv, in, out, error_fd);
	if (pid < 0)
		return -errno;
	error_fd = close_fd(error_fd);
	r = pidref_open(pid, 0, ret_process);
	if (r < 0)
		(void)kill(pid, SIGKILL); /* our child, not waited for: it can be no other */
	else if (read(told_fd, &error, sizeof(error)) == (ssize_t)sizeof(error))
		r = -error;
	if (r < 0) {
		(void)waitpid(pid, NULL, 0);
		pidref_close(ret_process);
	}
	return r;
}

int launch(char *const *argv, struct launched *ret_launched, struct err *err)
{
	_cleanup_close_ int in = -1, out = -1;
	struct launched l = {.process = PIDREF_INIT, .to_fd = -1, .from_fd = -1};
	int fds[2], r = 0;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "start '%s'", argv[0]);
	in = fds[0];
	l.to_fd = fds[1];
	if (pipe2(fds, O_CLOEXEC) < 0) {
		r = -errno;
	} else {
		l.from_fd = fds[0];
		out = fds[1];
		r = fork_launcher(argv, in, out, &l.process);
	}
	if (r < 0) {
		(void)close_fd(l.to_fd);
		(void)close_fd(l.from_fd);
		return err_set(err, r, "start '%s'", argv[0]);
	}
	*ret_launched = l;
	return 0;
}

void launch_signal(const struct launched *l, int signal)
{
	/* The group has the number of its leader, which is not waited for yet. */
	if (l->process.fd >= 0)
		(void)kill(-l->process.pid, signal); /* ESRCH: all have ended */
}
