/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the site has decided for all agents of this machine: <sysconfdir>/stepd/stepd.conf, lines of
 * "key = value"; stepd.conf(5) describes them. Options of the command line come before it. A
 * machine without the file costs an agent one open(2) that fails; libinih is loaded only where
 * there is one.
 */
#ifndef STEPD_CLI_SITE_CONFIG_H
#define STEPD_CLI_SITE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct agent_options;
struct json_t;

struct site_config {
	gid_t operator_gid; /* whose members may make requests; (gid_t)-1: there is none */
	bool keep_result_given;
	uint64_t keep_result_ms;

	/* For steps whose spec has no such field; "" or 0: not given. */
	char mpi_default[72];
	bool kill_on_bad_exit_given;
	bool kill_on_bad_exit;
	bool pmi_timeout_given;
	uint64_t pmi_timeout_ms;
	bool pmi_memory_given;
	uint64_t pmi_memory_bytes;
	bool mpi_unfiltered; /* MPI service processes have no filter of system calls */
	char wire_auth[8];
	uint32_t wire_fanout;
	char wire_ifname[16];
};

#define SITE_CONFIG_INIT                                                                           \
	{                                                                                          \
		.operator_gid = (gid_t)-1                                                          \
	}

#define SITE_CONFIG_SIZE_MAX (1u << 20)

/* Reads file, which must be there; NULL: the site's, which may be missing. One that others than
 * root or this process's user could change is refused. An error names the file and the line. */
int site_config_read(
	const char *file, struct site_config *ret_config, struct err *err) _must_check_;

/* Puts into a step's document what the site has decided and the document does not have. Returns
 * whether anything was put. */
int site_config_fill_spec(
	const struct site_config *config, struct json_t *doc, struct err *err) _must_check_;

/* The keys in the order of the manual, NULL after the last. */
const char *site_config_key(size_t index);

/* ---- for an agent ------------------------------------------------------------------------- */

/* A node daemon may be away when the step ends. */
#define SITE_SERVE_KEEP_RESULT_MS (60u * 60 * 1000)

/* The options of a command line that the configuration has, too. */
struct site_options {
	const char *config_file; /* NULL: the site's */
	bool keep_result_given;
	uint64_t keep_result_ms;
};

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err) _must_check_;

/* Reads the configuration, and fills what depends on it. Also puts into doc, a step's document,
 * what it does not have (site_config_fill_spec()), and returns whether that is anything; NULL:
 * there is none. keep_result_ms is the command's default; 0: results are for who started the step,
 * and the configuration does not count. */
int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, struct json_t *doc, struct err *err) _must_check_;

#endif
