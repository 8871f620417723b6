/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The script of a batch step: stored in the step's directory as a file that only the user (and
 * root) can read. An agent of root keeps it root's own, for its owner could fill the file system of
 * all steps with it. registry_close() removes it.
 */
#ifndef STEPD_LAUNCH_BATCH_H
#define STEPD_LAUNCH_BATCH_H

#include "stepd/base/err.h"

struct plan;
struct registry;

int batch_store_script(struct plan *plan, const struct registry *reg, struct err *err) _must_check_;

#endif
