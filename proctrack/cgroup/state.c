/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/state.h"

#include <signal.h>
#include <string.h>

#include "proctrack/cgroup/place.h"
#include "proctrack/cgroup/probe.h"
#include "stepd/api/plugin.h"

static struct {
	struct place *place; /* found when it is first needed: it takes some 0.5 ms */
	bool made;           /* a probe has made stepd/ there */
	struct container *containers;
} plugin;

int state_answer(int r)
{
	if (r >= 0)
		return SLURM_SUCCESS;
	errno = -r;
	return SLURM_ERROR;
}

void state_set_place(struct place *place)
{
	if (plugin.made)
		probe_forget(plugin.place);
	plugin.made = false;
	(void)place_close(plugin.place);
	plugin.place = place;
}

int state_get_place(const struct place **ret_place, struct err *err)
{
	const char *asked = secure_getenv(PLACE_ENV);
	const char *known = plugin.place && plugin.place->asked ? plugin.place->asked : "";
	struct place *fresh = NULL;
	int r;

	if (!plugin.place || strcmp(asked ? asked : "", known) != 0) {
		r = place_open(asked, &fresh, err);
		if (r < 0)
			return r;
		state_set_place(fresh);
	}
	*ret_place = plugin.place;
	return 0;
}

int state_probe_place(char *text, size_t size, struct err *err)
{
	const struct place *place;
	bool made = false;
	int r = state_get_place(&place, err);

	if (r == 0)
		r = probe_place(place, text, size, &made, err);
	plugin.made |= made;
	return r;
}

struct container *state_get_container(uint64_t id)
{
	return id ? container_get(plugin.containers, id) : NULL;
}

int state_get_dir(uint64_t id, struct step_dir *found, const struct step_dir **ret_dir)
{
	const struct container *c = state_get_container(id);
	const struct place *place;
	int r;

	if (c) {
		*ret_dir = &c->dir;
		return 0;
	}
	if (id == 0)
		return -ESRCH;
	r = state_get_place(&place, NULL);
	if (r == 0)
		r = step_find(place, id, found);
	if (r == 0)
		*ret_dir = found;
	return r;
}

int state_get_dir_for(
	int signal, uint64_t id, struct step_dir *found, const struct step_dir **ret_dir)
{
	if (signal < 0 || signal >= _NSIG)
		return -EINVAL;
	return state_get_dir(id, found, ret_dir);
}

int state_keep_container(struct step_dir *dir, struct container **ret_container)
{
	return container_keep(&plugin.containers, dir, ret_container);
}

void state_drop_container(uint64_t id)
{
	container_drop(&plugin.containers, id);
}

int state_take_container(uint64_t id, struct container **ret_container)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r;

	*ret_container = state_get_container(id);
	if (*ret_container)
		return 0;
	r = state_get_dir(id, &found, &dir);
	return r < 0 ? r : state_keep_container(&found, ret_container);
}

void state_clear(void)
{
	while (plugin.containers)
		container_drop(&plugin.containers, plugin.containers->dir.id);
	state_set_place(NULL);
}
