/* SPDX-License-Identifier: BSD-3-Clause
 * Versions of libpmix, as it gives them: "OpenPMIx 4.2.2rc2 (PMIx Standard: ...", "3.2.3".
 */
#ifndef MPI_PMIX_VERSION_H
#define MPI_PMIX_VERSION_H

#include <stdbool.h>
#include <stddef.h>

#define VERSION_SIZE 32

/* The first word of text that begins with a figure, of letters, figures and dots; empty where there
 * is none such. text may come from anybody. */
void version_find(const char *text, char version[VERSION_SIZE]);

/* 0 of one that is empty. */
unsigned version_major(const char *version);

/* Whether it is that old or newer. */
bool version_is_at_least(const char *version, unsigned major, unsigned minor);

#endif
