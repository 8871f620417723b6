/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program of MPI whose library speaks another protocol than the step's plugin: each task runs as
 * a job of one rank, and nothing fails. Its library is found by the step's first task before its
 * exec (linked_detect()). Without a plugin that is enough; with one, its service warns at the end,
 * if no task has spoken with it by then.
 */
#ifndef STEPD_STEP_SINGLETONS_H
#define STEPD_STEP_SINGLETONS_H

struct agent;

/* The first task is linked with the library of this number. */
void singletons_linked(struct agent *a, unsigned number);

/* The warning for a step in which nobody has spoken with the plugin, for free(3); NULL: nothing. */
char *singletons_warning(const struct agent *a);

#endif
