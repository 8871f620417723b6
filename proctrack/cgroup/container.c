/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/container.h"

#include <stdatomic.h>
#include <sys/mman.h>

struct container *container_get(struct container *list, uint64_t id)
{
	while (list && list->dir.id != id)
		list = list->next;
	return list;
}

static _Atomic uint32_t *share_word(void)
{
	void *page = mmap(NULL, sizeof(_Atomic uint32_t), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

int container_keep(struct container **list, struct step_dir *dir, struct container **ret_container)
{
	struct container *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct container){.next = *list, .dir = *dir, .held = share_word()};
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
	if (c->held)
		(void)munmap(c->held, sizeof(*c->held)); /* what mmap() gave: can't fail */
	free(c);
}

void container_hold(struct container *c)
{
	if (c && c->held)
		atomic_fetch_add(c->held, 1);
}

void container_unhold(struct container *c)
{
	if (c && c->held)
		atomic_fetch_sub(c->held, 1);
}

bool container_was_left_held(struct container *c)
{
	return c && c->held && atomic_exchange(c->held, 0) > 0;
}
