/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The version of tests/lib/stepd-next, the program that agents are upgraded to.
 */
#include "stepd/cli/cli.h"

const char stepd_version[] = "99.1";
