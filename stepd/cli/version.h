/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPD_CLI_VERSION_H
#define STEPD_CLI_VERSION_H

/* Of this program, "0.1.0": in a file of its own, so that tests can build one of another version.
 */
extern const char stepd_version[];

#endif
