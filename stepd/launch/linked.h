/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which MPI library a program is linked with, as its ELF file says (DT_NEEDED). It is the user's
 * file: nothing is read but at offsets of it, into memory of a fixed size, and with raw system
 * calls alone, for a child that shares its parent's memory (child.h). What is dlopen()ed, or
 * run by a script, is not seen.
 */
#ifndef STEPD_LAUNCH_LINKED_H
#define STEPD_LAUNCH_LINKED_H

/* The number of the library, 0 for none that is known, or no such file. */
unsigned linked_detect(int fd);

/* Its file's name, and the plugin that serves it; NULL: no number of one. */
const char *linked_library(unsigned number);
const char *linked_plugin(unsigned number);

#endif
