/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded: a program takes itself for a process of CLAIMED_UID, and claims it to others.
 */
#include <stdlib.h>
#include <unistd.h>

#include "stepd/api/plugin.h"

static unsigned claimed(void)
{
	const char *uid = getenv("CLAIMED_UID");

	return uid ? (unsigned)strtoul(uid, NULL, 10) : 0;
}

STEPD_EXPORT uid_t getuid(void)
{
	return claimed();
}

STEPD_EXPORT uid_t geteuid(void)
{
	return claimed();
}

STEPD_EXPORT gid_t getgid(void)
{
	return claimed();
}

STEPD_EXPORT gid_t getegid(void)
{
	return claimed();
}
