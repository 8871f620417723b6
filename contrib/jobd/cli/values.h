/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Values of options in Slurm's syntax. Each function takes the whole text or fails with a sentence
 * that does not name the option; ret_x is set on success only.
 */
#ifndef JOBD_CLI_VALUES_H
#define JOBD_CLI_VALUES_H

#include <stdint.h>
#include <time.h>

#include "contrib/jobd/engine/request.h"

/* "4", "1k" (1024), "1m". */
int value_parse_count(const char *text, uint32_t *ret_n, struct err *err) _must_check_;

/* "4" (both are 4), or "2-4". */
int value_parse_range(
	const char *text, uint32_t *ret_min, uint32_t *ret_max, struct err *err) _must_check_;

/* "512" (MB), "2G", "1T": MB, rounded up. */
int value_parse_memory(const char *text, uint64_t *ret_mb, struct err *err) _must_check_;

/* "30", "1:30:00", "2-12", "UNLIMITED": minutes, rounded up; INFINITE also for "0". */
int value_parse_limit(const char *text, uint32_t *ret_min, struct err *err) _must_check_;

/* "now+1hour", "16:00", "noon", "2026-01-20T12:34:00", "01/20/26": in local time. A time of day
 * without a date is the next one after now. */
int value_parse_begin(const char *text, time_t now, time_t *ret_time, struct err *err) _must_check_;

/* "afterok:1:2,afterany:3", with '?' in place of ',' for any of them, or "singleton": replaces the
 * dependencies of the request. */
int value_parse_dependencies(
	const char *text, struct job_request *request, struct err *err) _must_check_;

/* Whether it is a list of indexes, "0-15:4,20%2". */
int value_check_array(const char *text, struct err *err) _must_check_;

/* Whether it is a list of nodes, "n[1-4],n7". */
int value_check_nodes(const char *text, struct err *err) _must_check_;

#endif
