/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/err.h"
#include "stepd/process/process.h"

/* Whether the template starts all nodes at once. */
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
	static const char *const kinds[LAUNCHER_MAX] = {
		[LAUNCHER_LOCAL] = "local",
		[LAUNCHER_SSH] = "ssh",
		[LAUNCHER_SLURM] = "slurm",
		[LAUNCHER_EXEC] = "exec",
	};
	size_t len = strcspn(text, ":");
	int i;

	for (i = 0; i < LAUNCHER_MAX; i++) {
		if (strlen(kinds[i]) == len && strncmp(kinds[i], text, len) == 0)
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

/* ---- commands ------------------------------------------------------------------------------ */

/* Each of what follows: 0 or -ENOMEM, as all that adds to a vector. */

static int add_relay(const struct launcher *l, uint32_t index, const char *host, struct strv *argv)
{
	int r = strv_add(argv, l->program) | strv_add(argv, "relay");

	if (!l->at_once)
		r |= strv_addf(argv, "--index=%u", index);
	if (!l->at_once && host)
		r |= strv_addf(argv, "--node=%s", host);
	if (l->kind == LAUNCHER_SLURM)
		r |= strv_add(argv, "--index-from=SLURM_PROCID");
	if (l->ifname)
		r |= strv_addf(argv, "--ifname=%s", l->ifname);
	return r;
}

static int add_split(struct strv *argv, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *arg;
	int r = copy ? 0 : -ENOMEM;

	while ((arg = strsep(&rest, " \t"))) {
		if (*arg)
			r |= strv_add(argv, arg);
	}
	return r;
}

static int make_ssh(
	const struct launcher *l, const char *host, const struct strv *relay, struct strv *argv)
{
	_cleanup_free_ char *command = strv_quote(relay);
	int r = add_split(argv, "ssh -T -x -o BatchMode=yes") | add_split(argv, l->text);

	r |= strv_add(argv, "--") | strv_add(argv, host ? host : "localhost");
	return command ? r | strv_addf(argv, "exec %s", command) : -ENOMEM;
}

/* Each option that srun would else take from the variables of the allocation's owner. */
static int make_srun(
	const char *hosts, uint32_t nnodes, const struct strv *relay, struct strv *argv)
{
	int r = add_split(argv,
		"srun --mpi=none --overlap --input=all --output=all --error=all "
		"--kill-on-bad-exit=0 --wait=0 --cpu-bind=none --distribution=block "
		"--ntasks-per-node=1");

	r |= strv_addf(argv, "--nodes=%u", nnodes) | strv_addf(argv, "--ntasks=%u", nnodes);
	if (*hosts)
		r |= strv_addf(argv, "--nodelist=%s", hosts);
	return r | strv_add(argv, "--") | strv_extend(argv, relay);
}

static void put_letter(FILE *out, char letter, uint32_t index, const char *host, const char *hosts,
	uint32_t nnodes, const char *command)
{
	switch (letter) {
	case 'h':
		strv_put_quoted(out, host ? host : "");
		break;
	case 'H':
		strv_put_quoted(out, hosts);
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
		strv_put_quoted(out, command);
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
	_cleanup_free_ char *command = strv_quote(relay), *text = NULL;
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
	return strv_add(argv, "/bin/sh") | strv_add(argv, "-c") | strv_add(argv, text);
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

/* ---- processes ----------------------------------------------------------------------------- */

struct command {
	char *const *argv;
	int in, out;
};

static int execute_launcher(void *userdata)
{
	const struct command *c = userdata;

	/* A group of its own: steprun handles the terminal's signals. */
	if (setpgid(0, 0) == 0 && dup2(c->in, STDIN_FILENO) >= 0 &&
		dup2(c->out, STDOUT_FILENO) >= 0)
		(void)execvp(c->argv[0], c->argv);
	return -errno;
}

int launch(char *const *argv, struct launched *ret_launched, struct err *err)
{
	_cleanup_close_ int in = -1, out = -1, to = -1, from = -1;
	struct pidref process = PIDREF_INIT;
	int fds[2], r = stdfd_pipe(false, fds);

	if (r == 0) {
		in = fds[0];
		to = fds[1];
		r = stdfd_pipe(true, fds);
	}
	if (r == 0) {
		from = fds[0];
		out = fds[1];
		r = process_execute(execute_launcher,
			&(struct command){.argv = argv, .in = in, .out = out}, &process);
	}
	if (r < 0)
		return err_set(err, r, "start '%s'", argv[0]);
	*ret_launched = (struct launched){
		.process = process, .to_fd = take_fd(&to), .from_fd = take_fd(&from)};
	return 0;
}

void launch_signal(const struct launched *l, int signal)
{
	/* The group has the number of its leader, which is not waited for yet. */
	if (l->process.fd >= 0)
		(void)kill(-l->process.pid, signal); /* ESRCH: all have ended */
}
