/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd-slurm-task: what a task of a served step is executed as where something is to be done in
 * its place first, as the step's user:
 *
 *	stepd-slurm-task NAME=VALUE... -- PROGRAM ARGUMENT...
 *
 *	node=n1         the node, for messages
 *	timed           messages begin with the time in place of it, as from 25.05 on
 *	cpu_bind=MASK   print the task's processors, with that word: --cpu-bind=verbose
 *	mem_bind=MASK   the same of its memory
 *	unbound         print those of a task that is not bound, too, in place of 0x0
 *	set=NAME=VALUE  change a variable
 *	note=TEXT       print a line
 *	error=TEXT      print it as a message of slurmstepd's
 *	site_prolog=FILE, user_prolog=FILE  run it first: TaskProlog, --task-prolog
 *	epilog          say by the exit status if the program can't be read and executed
 *
 * A prolog gets the task's environment, with SLURM_SCRIPT_CONTEXT, and no input. Of what it writes
 * these lines count: "export NAME=VALUE", "unset NAME", "print TEXT". If it fails the task ends
 * with its status. Then the program is executed, with the environment that has come of it.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contrib/slurm/origin.h"
#include "contrib/slurm/task_script.h"
#include "stepd/base/bitset.h"
#include "stepd/base/strv.h"

#define CPUS_MAX    65536u
#define NODES_MAX   1024u
#define LINE_SIZE   1024 /* below PIPE_BUF: lines of several tasks don't mix */
#define PROLOG_MAX  2
#define OUTPUT_SIZE 512

struct prolog {
	const char *path;
	bool of_site;
};

struct task_program {
	const char *node, *cpu_bind, *mem_bind;
	bool is_epilog, shows_unbound, is_timed;
	struct prolog prologs[PROLOG_MAX];
	size_t prologs_count;
	struct strv env;
	char **args, **argv; /* its own, and the program's */
};

/* As slurmstepd's own messages, which users know. */
static _printf_(2, 3) void report(const struct task_program *t, const char *fmt, ...)
{
	char text[LINE_SIZE - 128], origin[ORIGIN_SIZE];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	origin_print(origin, t->node, t->is_timed);
	(void)dprintf(STDERR_FILENO, "%s error: %s\n", origin, text);
}

static const char *get_variable(const struct task_program *t, const char *name)
{
	const char *value = strv_env_get(&t->env, name);

	return value ? value : "0";
}

/* ---- --cpu-bind=verbose, --mem-bind=verbose ------------------------------------------------- */

static bool is_bound(const char *kind)
{
	return strcmp(kind, "NONE") != 0;
}

/* set NULL: its mask is not shown. */
static void report_binding(const struct task_program *t, const char *what, const char *kind,
	const char *node, const struct bitset *set)
{
	char mask[LINE_SIZE / 2];

	if (!set)
		(void)snprintf(mask, sizeof(mask), "0x0");
	else if (bitset_format_hex(set, mask, sizeof(mask)) >= sizeof(mask))
		memcpy(mask + sizeof(mask) - 4, "...", 4);
	(void)dprintf(STDERR_FILENO, "%s=%s - %s, task %2s %2s [%d]: mask %s%s\n", what, kind, node,
		get_variable(t, "SLURM_PROCID"), get_variable(t, "SLURM_LOCALID"), (int)getpid(),
		mask, is_bound(kind) ? " set" : "");
}

static void report_cpus(const struct task_program *t)
{
	unsigned long words[CPUS_MAX / BITSET_WORD_BITS] = {0};
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	long n = syscall(SYS_sched_getaffinity, 0, sizeof(words), words);

	if (n < 0)
		return;
	set.width = (size_t)n / sizeof(*words);
	report_binding(t, "cpu-bind", t->cpu_bind, t->node,
		t->shows_unbound || is_bound(t->cpu_bind) ? &set : NULL);
}

static void report_memory(const struct task_program *t)
{
	unsigned long words[NODES_MAX / BITSET_WORD_BITS] = {0};
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	int mode = MPOL_DEFAULT;
	struct utsname host; /* Slurm names it here, and the node above */
	long r = syscall(SYS_get_mempolicy, &mode, words, NODES_MAX + 1ul, NULL, 0);

	if (r == 0 && mode == MPOL_DEFAULT)
		r = syscall(
			SYS_get_mempolicy, NULL, words, NODES_MAX + 1ul, NULL, MPOL_F_MEMS_ALLOWED);
	if (r < 0 || uname(&host) < 0)
		return;
	host.nodename[strcspn(host.nodename, ".")] = '\0';
	report_binding(
		t, "mem-bind", t->mem_bind, host.nodename, is_bound(t->mem_bind) ? &set : NULL);
}

/* The agent, which prints other lines, was not told that the binding is verbose. */
static int set_verbose(struct task_program *t, const char *name)
{
	_cleanup_free_ char *whole = NULL, *verbose = NULL;
	const char *value = strv_env_get(&t->env, name);

	if (!value || strncmp(value, "quiet", 5) != 0)
		return 0;
	if (asprintf(&whole, "%s=verbose%s", name, value + 5) < 0 ||
		asprintf(&verbose, "%s_VERBOSE=verbose", name) < 0)
		return -ENOMEM;
	return strv_env_put(&t->env, whole) | strv_env_put(&t->env, verbose);
}

/* ---- a prolog ------------------------------------------------------------------------------- */

static void take_export(struct task_program *t, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return;
	*equals = '\0';
	if (strv_env_set(&t->env, text, equals + 1) < 0)
		report(t, "task prolog: no memory for '%s'", text);
}

static void take_line(struct task_program *t, char *line)
{
	static const struct {
		const char *word;
		size_t size;
	} words[] = {{"export ", 7}, {"unset ", 6}, {"print ", 6}};
	size_t i, n = strlen(line);

	while (n > 0 && isspace((unsigned char)line[n - 1]))
		line[--n] = '\0';
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		if (strncmp(line, words[i].word, words[i].size) != 0)
			continue;
		line += words[i].size;
		line += strspn(line, " \t");
		if (i == 0)
			take_export(t, line);
		else if (i == 1)
			strv_env_unset(&t->env, line);
		else
			(void)dprintf(STDOUT_FILENO, "%s\n", line);
		return;
	}
}

static _noreturn_ void execute_prolog(const struct task_program *t, const char *path, int to)
{
	char *argv[] = {(char *)path, NULL};
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(to, STDOUT_FILENO) < 0 ||
		dup2(to, STDERR_FILENO) < 0)
		_exit(127);
	(void)setpgid(0, 0);
	(void)execve(path, argv, t->env.v);
	_exit(127);
}

/* Lines count, and all of it is what users read of a prolog that does not exit. */
static void read_prolog(struct task_program *t, int from, char output[static OUTPUT_SIZE])
{
	FILE *in = fdopen(from, "re");
	size_t size = 0, used = 0;
	char *line = NULL;

	output[0] = '\0';
	if (!in) {
		(void)close(from);
		return;
	}
	while (getline(&line, &size, in) >= 0) {
		(void)snprintf(output + used, OUTPUT_SIZE - used, "%s", line);
		used += strlen(output + used);
		take_line(t, line);
	}
	free(line);
	(void)fclose(in);
}

/* False: it has not been executed. What it has left behind is killed. */
static bool execute_and_read(
	struct task_program *t, const char *path, int *ret_status, char output[static OUTPUT_SIZE])
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		execute_prolog(t, path, fds[1]);
	(void)close(fds[1]);
	if (pid < 0) {
		(void)close(fds[0]);
		return false;
	}
	(void)setpgid(pid, pid); /* whoever is first */
	read_prolog(t, fds[0], output);
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	(void)kill(-pid, SIGKILL);
	return true;
}

/* The exit status. Users know the sentences. */
static int run_prolog(struct task_program *t, const struct prolog *p)
{
	const char *name = p->of_site ? "slurm task_prolog" : "user task_prolog";
	char why[OUTPUT_SIZE] = "";
	int status = 0;

	if (strv_env_put(&t->env, "SLURM_SCRIPT_CONTEXT=prolog_task") < 0)
		return EXIT_FAILURE;
	if (access(p->path, R_OK | X_OK) < 0) {
		report(t, "run_command: %s can not be executed (%s) %s", name, p->path,
			strerror(errno));
		(void)snprintf(why, sizeof(why), "Run command failed - configuration error");
	} else if (execute_and_read(t, p->path, &status, why) && WIFEXITED(status)) {
		return WEXITSTATUS(status);
	}
	report(t, "%s did not exit normally. reason: %s", name, why);
	return EXIT_FAILURE;
}

static void run_prologs(struct task_program *t)
{
	size_t i;
	int status;

	for (i = 0; i < t->prologs_count; i++) {
		status = run_prolog(t, &t->prologs[i]);
		if (status == 0)
			continue;
		report(t, "%s failed status=%d",
			t->prologs[i].of_site ? "TaskProlog" : "--task-prolog", status);
		_exit(status);
	}
}

/* ---- the program ---------------------------------------------------------------------------- */

/* As slurmstepd: "./program" by the directory, and of PATH the first file of that name, whether it
 * can be executed or not. */
static void find_path(const struct task_program *t, char path[static PATH_MAX])
{
	const char *dirs = strv_env_get(&t->env, "PATH"), *name = t->argv[0];
	char cwd[PATH_MAX];
	struct stat st;
	size_t n;

	if (name[0] == '.' && getcwd(cwd, sizeof(cwd)) &&
		snprintf(path, PATH_MAX, "%s/%s", cwd, name) < PATH_MAX)
		t->argv[0] = path;
	if (strchr(name, '/'))
		return;
	for (; dirs && *dirs; dirs += n + (dirs[n] == ':')) {
		n = strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? dirs : ".", name) <
				PATH_MAX &&
			stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
			t->argv[0] = path;
			return;
		}
	}
}

/* Without a shell for what the kernel does not know: the errno. The program's own name is the path
 * by which it is found, as in what is reported. */
static int execute(const struct task_program *t)
{
	static char path[PATH_MAX];

	find_path(t, path);
	(void)execve(t->argv[0], t->argv, t->env.v);
	return errno;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool take_value(const char *text, const char *name, const char **ret_value)
{
	size_t n = strlen(name);

	if (strncmp(text, name, n) != 0 || text[n] != '=')
		return false;
	*ret_value = text + n + 1;
	return true;
}

static bool take_flag(struct task_program *t, const char *text)
{
	const struct {
		const char *word;
		bool *flag;
	} flags[] = {
		{"epilog", &t->is_epilog},
		{"timed", &t->is_timed},
		{"unbound", &t->shows_unbound},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (strcmp(text, flags[i].word) == 0) {
			*flags[i].flag = true;
			return true;
		}
	}
	return false;
}

static int take_argument(struct task_program *t, const char *text)
{
	const char *value;
	bool of_site;

	if (take_value(text, "node", &t->node) || take_value(text, "cpu_bind", &t->cpu_bind) ||
		take_value(text, "mem_bind", &t->mem_bind))
		return 0;
	if (take_value(text, "set", &value))
		return strv_env_put(&t->env, value);
	if (take_value(text, "note", &value) || take_value(text, "error", &value))
		return 0; /* print_lines() */
	if (take_flag(t, text))
		return 0;
	of_site = take_value(text, "site_prolog", &value);
	if ((!of_site && !take_value(text, "user_prolog", &value)) ||
		t->prologs_count == PROLOG_MAX)
		return -EINVAL;
	t->prologs[t->prologs_count++] = (struct prolog){.path = value, .of_site = of_site};
	return 0;
}

static int take_arguments(struct task_program *t, char **argv)
{
	int r = 0;

	t->args = argv + 1;
	for (argv++; *argv && strcmp(*argv, "--") != 0 && r == 0; argv++)
		r = take_argument(t, *argv);
	if (r < 0 || !*argv || !argv[1] || !t->node)
		return -EINVAL;
	t->argv = argv + 1;
	return 0;
}

static void print_lines(const struct task_program *t)
{
	char **arg;
	const char *text;

	for (arg = t->args; strcmp(*arg, "--") != 0; arg++) {
		if (take_value(*arg, "error", &text))
			report(t, "%s", text);
		else if (take_value(*arg, "note", &text))
			(void)dprintf(STDERR_FILENO, "%s\n", text);
	}
}

static int copy_environment(struct task_program *t)
{
	char **entry;
	int r = 0;

	for (entry = environ; *entry && r == 0; entry++)
		r = strv_add(&t->env, *entry);
	return r;
}

int main(_unused_ int argc, char **argv)
{
	struct task_program t = {0};
	int error;

	if (copy_environment(&t) < 0 || take_arguments(&t, argv) < 0) {
		(void)fprintf(stderr,
			"stepd-slurm-task is executed by the steps that stepd-slurmstepd serves\n");
		return 2;
	}
	if ((t.cpu_bind && set_verbose(&t, "SLURM_CPU_BIND") < 0) ||
		(t.mem_bind && set_verbose(&t, "SLURM_MEM_BIND") < 0)) {
		report(&t, "%s", strerror(ENOMEM));
		return ENOMEM;
	}
	if (t.mem_bind)
		report_memory(&t);
	if (t.cpu_bind)
		report_cpus(&t);
	print_lines(&t);
	run_prologs(&t);
	if (t.is_epilog && access(t.argv[0], R_OK | X_OK) < 0)
		return errno == ENOENT ? TASK_SCRIPT_MISSING : TASK_SCRIPT_NO_ACCESS;
	error = execute(&t);
	report(&t, "execve(): %s: %s", t.argv[0], strerror(error));
	return error;
}
