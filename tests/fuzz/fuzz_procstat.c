/* SPDX-License-Identifier: BSD-3-Clause
 *
 * procstat_parse() on any bytes: no read beyond them, and what is accepted keeps its promises.
 */
#include "stepd/base/proc.h"

#include <stddef.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct procstat st;

	if (procstat_parse((const char *)data, size, &st) < 0)
		return 0;
	if (st.pid <= 0 || st.ppid < 0 || st.pgrp < -1 || st.session < -1 || st.threads < 0 ||
		!memchr(st.comm, '\0', sizeof(st.comm)) || !memchr(data, ')', size))
		abort();
	(void)procstat_is_living(&st);
	return 0;
}
