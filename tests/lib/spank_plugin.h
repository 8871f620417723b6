/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a SPANK plugin of the tests needs of Slurm's <slurm/spank.h>, which is not installed with
 * Slurm's programs: spank(7). The values of 22.05, which are the binary interface.
 */
#ifndef TESTS_SPANK_PLUGIN_H
#define TESTS_SPANK_PLUGIN_H

#include <stdint.h>
#include <sys/types.h>

typedef struct spank_handle *spank_t;

/* In this order. */
enum spank_item {
	S_JOB_UID,
	S_JOB_GID,
	S_JOB_ID,
	S_JOB_STEPID,
	S_JOB_NNODES,
	S_JOB_NODEID,
	S_JOB_LOCAL_TASK_COUNT,
	S_JOB_TOTAL_TASK_COUNT,
	S_JOB_NCPUS,
	S_JOB_ARGV,
	S_JOB_ENV,
	S_TASK_ID,
	S_TASK_GLOBAL_ID,
	S_TASK_EXIT_STATUS,
	S_TASK_PID,
	S_JOB_PID_TO_GLOBAL_ID,
	S_JOB_PID_TO_LOCAL_ID,
	S_JOB_LOCAL_TO_GLOBAL_ID,
	S_JOB_GLOBAL_TO_LOCAL_ID,
	S_JOB_SUPPLEMENTARY_GIDS,
	S_SLURM_VERSION,
	S_SLURM_VERSION_MAJOR,
	S_SLURM_VERSION_MINOR,
	S_SLURM_VERSION_MICRO,
	S_STEP_CPUS_PER_TASK,
	S_JOB_ALLOC_CORES,
	S_JOB_ALLOC_MEM,
	S_STEP_ALLOC_CORES,
	S_STEP_ALLOC_MEM,
	S_SLURM_RESTART_COUNT,
	S_JOB_ARRAY_ID,
	S_JOB_ARRAY_TASK_ID,
};

struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*cb)(int val, const char *optarg, int remote);
};

#ifndef SPANK_VERSION
#define SPANK_VERSION 0x160508 /* 22.05.8 */
#endif

#define SPANK_PLUGIN(name_)                                                                        \
	const char plugin_name[] = name_, plugin_type[] = "spank";                                 \
	const unsigned plugin_version = SPANK_VERSION, spank_plugin_version = 1

int spank_get_item(spank_t spank, enum spank_item item, ...);
int spank_getenv(spank_t spank, const char *name, char *buffer, int size);
int spank_setenv(spank_t spank, const char *name, const char *value, int overwrite);
int spank_unsetenv(spank_t spank, const char *name);
int spank_job_control_getenv(spank_t spank, const char *name, char *buffer, int size);
int spank_job_control_setenv(spank_t spank, const char *name, const char *value, int overwrite);
int spank_job_control_unsetenv(spank_t spank, const char *name);
int spank_option_register(spank_t spank, struct spank_option *option);
int spank_option_getopt(spank_t spank, struct spank_option *option, char **ret_arg);
int spank_symbol_supported(const char *symbol);
int spank_remote(spank_t spank);
int spank_context(void);
const char *spank_strerror(int error);
void slurm_error(const char *format, ...);
void slurm_info(const char *format, ...);
void slurm_verbose(const char *format, ...);
void slurm_debug(const char *format, ...);
void slurm_debug2(const char *format, ...);
void slurm_debug3(const char *format, ...);
void slurm_spank_log(const char *format, ...);

#endif
