/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A SPANK plugin that reports each of its hooks in a file, as whom it runs, what the step is, and
 * what it can change. The file is in the directory that is its first argument, and has the name
 * that the step's variable TRACED_NAME has, with the plugin's behind it. TRACED_FAIL, or with
 * another name of the plugin its own variable, has a hook fail: "task_init:-1". The hooks in
 * TRACED_SAYS, "user_init,", also have messages. An extern step has no variables: its file has the
 * name of its job's memory, "extern-21", and further arguments have its hooks fail,
 * "21:task_post_fork:-1". INIT_FAILURE is what a failure of init is to Slurm, from 25.05 on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank_plugin.h"

#ifndef NAME
#define NAME "traced"
#endif
#define VARIABLE NAME "_FAIL"

SPANK_PLUGIN(NAME);

#ifdef INIT_FAILURE
int slurm_spank_init_failure_mode = INIT_FAILURE;
#endif

static unsigned calls; /* in this process, and in the one that it is a copy of */
static char *given;    /* the option's argument */
static pid_t agent;    /* the process of init */
static int fd = -1;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
	static char line[1 << 16]; /* written at once: tasks write, too */
	static size_t size;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line + size, sizeof(line) - size, format, ap);
	va_end(ap);
	if (n < 0 || (size += (size_t)n) >= sizeof(line))
		abort();
	if (line[size - 1] != '\n')
		return;
	if (write(fd, line, size) != (ssize_t)size)
		abort();
	size = 0;
}

static int on_option(int val, const char *arg, int remote)
{
	if (!remote)
		return 0;
	calls++;
	given = arg ? strdup(arg) : NULL;
	put("option val=%d arg=%s remote=%d\n", val, arg ? arg : "-", remote);
	return 0;
}

static struct spank_option traced_option = {NAME "-value", "VALUE", "a value", 1, 7, on_option};

static void put_ids(const char *hook)
{
	gid_t groups[64];
	int n = getgroups(64, groups), i;
	char cwd[1024];

	put("%s uid=%d/%d gid=%d/%d", hook, (int)getuid(), (int)geteuid(), (int)getgid(),
		(int)getegid());
	/* slurmstepd's own are not its own any more once it was the user. */
	for (i = 0;
		(hook[0] == 'i' || strstr(hook, "user") || strcmp(hook, "task_init") == 0) && i < n;
		i++)
		put(" group%d=%d", i, (int)groups[i]);
	put(" own=%d calls=%u given=%s cwd=%s\n", getpid() == agent, calls, given ? given : "-",
		getcwd(cwd, sizeof(cwd)) ? cwd : "-");
}

static void put_numbers(spank_t spank)
{
	static const struct {
		enum spank_item item;
		const char *name;
		int bytes;
	} items[] = {
		{S_JOB_UID, "uid", 4},
		{S_JOB_GID, "gid", 4},
		{S_JOB_NNODES, "nnodes", 4},
		{S_JOB_NODEID, "nodeid", 4},
		{S_JOB_LOCAL_TASK_COUNT, "ltasks", 4},
		{S_JOB_TOTAL_TASK_COUNT, "tasks", 4},
		{S_JOB_NCPUS, "ncpus", 2},
		{S_TASK_ID, "task", 4},
		{S_TASK_GLOBAL_ID, "rank", 4},
		{S_TASK_EXIT_STATUS, "status", 4},
		{S_STEP_CPUS_PER_TASK, "cpt", 4},
		{S_JOB_ALLOC_MEM, "jmem", 8},
		{S_STEP_ALLOC_MEM, "smem", 8},
		{S_SLURM_RESTART_COUNT, "restarts", 4},
		{S_JOB_ARRAY_TASK_ID, "atask", 4},
	};
	union {
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} value;
	size_t i;
	int r;

	for (i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		value.u64 = 0;
		r = spank_get_item(spank, items[i].item, &value);
		put(" %s=%d:%llu", items[i].name, r,
			items[i].bytes == 2           ? value.u16
				: items[i].bytes == 4 ? value.u32
						      : (unsigned long long)value.u64);
	}
}

static void put_ranks(spank_t spank)
{
	uint32_t job = 0, step = 0, array = 0, count = 0, id = 0, i;
	pid_t pid = 0;
	int r;

	(void)spank_get_item(spank, S_JOB_ID, &job);
	(void)spank_get_item(spank, S_JOB_ARRAY_ID, &array);
	put(" step=%d array=%d", spank_get_item(spank, S_JOB_STEPID, &step), job == array);
	(void)spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &count);
	for (i = 0; i < count; i++) {
		r = spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &id);
		put(" l%u=%d:%d", i, r, (int)id);
	}
	for (i = 0; i < 3; i++) {
		r = spank_get_item(spank, S_JOB_GLOBAL_TO_LOCAL_ID, i, &id);
		put(" g%u=%d:%d", i, r, (int)id);
	}
	r = spank_get_item(spank, S_TASK_PID, &pid);
	put(" pid=%d:%d", r, pid > 0);
	r = spank_get_item(spank, S_JOB_PID_TO_GLOBAL_ID, pid, &id);
	put(" pid2g=%d:%d", r, (int)id);
	r = spank_get_item(spank, S_JOB_PID_TO_LOCAL_ID, pid, &id);
	put(" pid2l=%d:%d", r, (int)id);
}

static void put_texts(spank_t spank)
{
	static const enum spank_item texts[] = {S_SLURM_VERSION, S_SLURM_VERSION_MAJOR,
		S_SLURM_VERSION_MINOR, S_SLURM_VERSION_MICRO, S_JOB_ALLOC_CORES,
		S_STEP_ALLOC_CORES};
	char *text, **v;
	gid_t *groups;
	size_t i;
	int n = 0;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		text = NULL;
		(void)spank_get_item(spank, texts[i], &text);
		put(" text%zu=%s", i, text ? text : "-");
	}
	(void)spank_get_item(spank, S_JOB_ARGV, &n, &v);
	for (i = 0; (int)i < n; i++)
		put(" argv%zu=%s", i, v[i] ? v[i] : "-");
	(void)spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &n);
	for (i = 0; (int)i < n; i++)
		put(" gid%zu=%d", i, (int)groups[i]);
	put("\n");
}

/* Variables: each hook sees those of the ones before, and sets one. */
static void change_env(spank_t spank, const char *hook)
{
	static const char *const names[] = {"TRACED_GIVEN", "TRACED_init", "TRACED_user_init",
		"TRACED_task_init_privileged", "TRACED_NOWHERE",
		"_SLURM_SPANK_OPTION_traced_traced_value"};
	char value[64], name[64], short_value[3];
	size_t i;
	int r;

	put("%s env", hook);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		r = spank_getenv(spank, names[i], value, sizeof(value));
		put(" %s=%d:%s", names[i], r, r == 0 ? value : "-");
	}
	(void)snprintf(name, sizeof(name), "TRACED_%s", hook);
	put(" keep=%d", spank_setenv(spank, "TRACED_GIVEN", "other", 0));
	put(" set=%d", spank_setenv(spank, name, "set", 1));
	put(" short=%d", spank_getenv(spank, name, short_value, sizeof(short_value)));
	put(" null=%d/%d", spank_setenv(spank, NULL, "x", 1), spank_unsetenv(spank, NULL));
	(void)spank_unsetenv(spank, "TRACED_GONE");
	put(" control=%d/%d/%d\n", spank_job_control_getenv(spank, name, value, sizeof(value)),
		spank_job_control_setenv(spank, name, value, 1),
		spank_job_control_unsetenv(spank, name));
}

static void put_option(spank_t spank, const char *hook)
{
	char *arg = NULL;
	int r = spank_option_getopt(spank, &traced_option, &arg);

	put("%s getopt=%d:%s register=%d", hook, r, arg ? arg : "-",
		strcmp(hook, "init") == 0 ? 0 : spank_option_register(spank, &traced_option));
	put(" context=%d remote=%d bad=%d/%d supported=%d/%d/%d bad-item=%d\n", spank_context(),
		spank_remote(spank), spank_remote(NULL), spank_get_item(NULL, S_JOB_ID),
		spank_symbol_supported("slurm_spank_exit"),
		spank_symbol_supported("slurm_spank_other"), spank_symbol_supported(NULL),
		spank_get_item(spank, (enum spank_item)99));
}

/* Of an extern step, else 0. */
static unsigned extern_memory(spank_t spank)
{
	uint32_t step = 0;
	uint64_t memory = 0;

	(void)spank_get_item(spank, S_JOB_STEPID, &step);
	(void)spank_get_item(spank, S_JOB_ALLOC_MEM, &memory);
	return step == 0xfffffffc ? (unsigned)memory : 0;
}

static int result_of_extern(spank_t spank, const char *hook, int argc, char **argv)
{
	char wanted[64];
	int i;
	size_t n;

	(void)snprintf(wanted, sizeof(wanted), "%u:%s:", extern_memory(spank), hook);
	n = strlen(wanted);
	for (i = 1; i < argc; i++) {
		if (strncmp(argv[i], wanted, n) == 0)
			return atoi(argv[i] + n);
	}
	return 0;
}

static int result_of(spank_t spank, const char *hook)
{
	size_t n = strlen(hook);
	char value[64];

	if (spank_getenv(spank, VARIABLE, value, sizeof(value)) != 0 ||
		strncmp(value, hook, n) != 0 || value[n] != ':')
		return 0;
	return atoi(value + n + 1);
}

/* By root, in the first hook; it stays open. */
static int open_trace(spank_t spank, const char *dir)
{
	char path[4096], name[64];

	if (spank_getenv(spank, "TRACED_NAME", name, sizeof(name)) != 0)
		(void)snprintf(name, sizeof(name), "extern-%u", extern_memory(spank));
	(void)snprintf(path, sizeof(path), "%s/%s.%s", dir, name, NAME);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	return fd;
}

static void say(spank_t spank, const char *hook)
{
	char says[256], word[64];

	(void)snprintf(word, sizeof(word), "%s,", hook);
	if (spank_getenv(spank, "TRACED_SAYS", says, sizeof(says)) != 0 || !strstr(says, word))
		return;
	slurm_error(NAME " error of %s", hook);
	slurm_info(NAME " info of %s", hook);
	slurm_debug2(NAME " debug of %s", hook);
	slurm_spank_log(NAME " line of %s", hook);
}

static int trace(spank_t spank, const char *hook, int argc, char **argv)
{
	if (spank_context() != 2 || argc < 1)
		return 0; /* srun's, slurmd's */
	if (fd < 0 && open_trace(spank, argv[0]) < 0) {
		slurm_error("traced: %s: %m", argv[0]);
		return -1;
	}
	if (strcmp(hook, "init") == 0)
		agent = getpid();
	calls++;
	put_ids(hook);
	put("%s items", hook);
	put_numbers(spank);
	put_ranks(spank);
	put_texts(spank);
	change_env(spank, hook);
	put_option(spank, hook);
	say(spank, hook);
	return extern_memory(spank) ? result_of_extern(spank, hook, argc, argv)
				    : result_of(spank, hook);
}

#define HOOK(name_)                                                                                \
	int slurm_spank_##name_(spank_t spank, int argc, char **argv);                             \
	int slurm_spank_##name_(spank_t spank, int argc, char **argv)                              \
	{                                                                                          \
		return trace(spank, #name_, argc, argv);                                           \
	}                                                                                          \
	struct hook_needs_a_semicolon

int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	int r = spank_option_register(spank, &traced_option);
	int traced = trace(spank, "init", argc, argv);

	return r ? -1 : traced;
}

HOOK(init_post_opt);
HOOK(user_init);
HOOK(task_init_privileged);
HOOK(task_init);
HOOK(task_post_fork);
HOOK(task_exit);
HOOK(exit);
