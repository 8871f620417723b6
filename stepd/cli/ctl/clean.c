/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl clean: placeholder until the agent's own cleaning is there.
 */
#include "stepd/cli/ctl/ctl.h"

int ctl_clean(struct ctl *ctl)
{
	return err_say(&ctl->err, -EOPNOTSUPP, "not built yet");
}
