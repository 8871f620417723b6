/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Inside of step_hooks_spank.so, for its files alone: the library of step hooks, of
 * stepd/step_hooks.h, that hosts a site's SPANK plugins in the agent. Plugins find the functions
 * of slurm/spank.h here, which have no argument for what belongs to the step: so there is one
 * struct, of the process.
 *
 *	spank_host.c    the hooks, and in which order plugins are called
 *	spank_facts.c   what stepd-slurmstepd says of the step, and the plugins' messages to it
 *	spank_api.c     the functions that plugins call: items, environment, messages
 *	spank_option.c  options
 */
#ifndef SLURM_SPANK_HOST_H
#define SLURM_SPANK_HOST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contrib/slurm/spank_file.h"
#include "stepd/api/step_hooks.h"
#include "stepd/base/cleanup.h"

struct json_t;
struct spank_handle;

#define SPANK_EXPORT __attribute__((visibility("default")))

/* Slurm's numbers: the binary interface of 22.05. */
enum spank_error {
	SPANK_SUCCESS,
	SPANK_ERROR = 3000,
	SPANK_BAD_ARG,
	SPANK_NOT_TASK,
	SPANK_ENV_EXISTS,
	SPANK_ENV_NOEXIST,
	SPANK_NOSPACE,
	SPANK_NOT_REMOTE,
	SPANK_NOEXIST,
	SPANK_NOT_EXECD,
	SPANK_NOT_AVAIL,
	SPANK_NOT_LOCAL,
};

/* struct spank_option of <slurm/spank.h>. */
struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*callback)(int val, const char *optarg, int remote);
};

typedef int (*spank_fn)(struct spank_handle *handle, int argc, char **argv);

struct spank_plugin {
	const char *path, *base; /* base: for messages */
	const char *name;        /* the plugin's own */
	const char *where;
	bool required;
	int argc;
	char **argv;
	void *library;
	const int *init_failure; /* what its failure to begin is to Slurm, from 25.05 on; NULL */
	spank_fn hooks[SPANK_HOOK_STEP_MAX];
};

/* An option that a plugin has registered. */
struct spank_registered {
	const struct spank_plugin *plugin;
	char *name;
	int has_arg, val;
	int (*callback)(int val, const char *optarg, int remote);
	bool found;
	char *arg;
};

/* By local id. */
struct spank_task {
	pid_t pid; /* -1: not forked yet, as far as this process knows */
	int status;
};

/* What plugins get as spank_t. */
struct spank_handle {
	unsigned magic;
	const struct spank_plugin *plugin;
	enum spank_hook phase;
	const stepd_step_hook_t *at;
};
#define SPANK_MAGIC 0x73706e6bu

struct spank_host {
	int fd; /* to stepd-slurmstepd */
	struct json_t *facts;
	const char *node;    /* for messages */
	bool shows_messages; /* users get them by now */
	int failure;         /* what the last required plugin that failed has returned, or means */
	bool failed;         /* the step does not begin: its tasks are none for plugins */
	enum spank_hook phase;
	struct spank_plugin *plugins;
	size_t plugins_count;
	struct spank_registered *options;
	size_t options_count;
	struct spank_task *tasks;
	uint32_t tasks_count;
	char **env;  /* as it was before the first fork, for functions that come later */
	char **argv; /* of the step */
	int argc;
	gid_t *groups;
	int groups_count;
	/* An extern step, as Slurm has it: with one task, of which no function is called. */
	bool is_extern;
	stepd_step_rec_t extern_step;
	stepd_step_task_info_t extern_task;
};

extern struct spank_host spank_host;

/* ---- spank_facts.c ------------------------------------------------------------------------- */

/* Reads what the other end of fd has sent. 0 or -errno. */
int spank_facts_read(int fd);
const char *spank_fact_text(const char *name); /* NULL: it has none */
uint64_t spank_fact_number(const char *name);

/* That of slurmd, of the numbers that a plugin's version has: 0x160500 for 22.05. 0: unknown. */
#define SPANK_23_11 0x170b00
#define SPANK_25_05 0x190500
uint32_t spank_release(void);

/* Slurm's levels. */
enum spank_level {
	SPANK_LEVEL_ERROR = 2,
	SPANK_LEVEL_INFO,
	SPANK_LEVEL_VERBOSE,
	SPANK_LEVEL_DEBUG,
	SPANK_LEVEL_DEBUG2,
	SPANK_LEVEL_DEBUG3,
	SPANK_LEVEL_DEBUG4,
	SPANK_LEVEL_DEBUG5,
};

/* plain: without a prefix, as slurm_spank_log() has it. */
void spank_vlog(enum spank_level level, bool plain, const char *format, va_list ap) _printf_(3, 0);
void spank_error(const char *format, ...) _printf_(1, 2);

/* For srun: why the step has not begun. */
void spank_report_failure(int slurm_error);

/* ---- spank_option.c ------------------------------------------------------------------------ */

int spank_register(const struct spank_plugin *plugin, const struct spank_option *option);

/* Those of the launch message, then those of the environment, which are removed from it. */
void spank_apply_options(char ***env);

#endif
