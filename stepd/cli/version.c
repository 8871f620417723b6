/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/cli.h"

#include "config.h"

const char stepd_version[] = PACKAGE_VERSION;
