/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/container.h"

struct container *container_get(struct container *list, uint64_t id)
{
	while (list && list->dir.id != id)
		list = list->next;
	return list;
}

int container_keep(struct container **list, struct step_dir *dir, struct container **ret_container)
{
	struct container *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct container){.next = *list, .dir = *dir};
	*dir = (struct step_dir)STEP_DIR_INIT;
	*list = c;
	*ret_container = c;
	return 0;
}

void container_drop(struct container **list, uint64_t id)
{
	struct container **at = list, *c;

	while (*at && (*at)->dir.id != id)
		at = &(*at)->next;
	c = *at;
	if (!c)
		return;
	*at = c->next;
	step_dir_clear(&c->dir);
	free(c);
}
