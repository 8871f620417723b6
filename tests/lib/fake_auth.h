/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests of what is sent: auth.h without a daemon, with one credential for everything.
 */
#ifndef TESTS_LIB_FAKE_AUTH_H
#define TESTS_LIB_FAKE_AUTH_H

#include <errno.h>
#include <string.h>

#include "contrib/slurm/auth.h"
#include "stepd/base/cleanup.h"

uint32_t slurm_auth_plugin(_unused_ const struct slurm_auth *auth)
{
	return 101; /* munge */
}

int slurm_auth_encode(_unused_ const struct slurm_auth *auth, _unused_ uid_t reader,
	_unused_ const void *data, _unused_ size_t size, char **ret_text, _unused_ struct err *err)
{
	*ret_text = strdup("MUNGE:x:");
	return *ret_text ? 0 : -ENOMEM;
}

#endif
