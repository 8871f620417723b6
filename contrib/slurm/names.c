/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/names.h"

#include <string.h>

#include "stepd/base/parse.h"

static const struct {
	const char *name;
	uint32_t number;
} named_steps[] = {
	{"extern", 0xfffffffc},
	{"batch", 0xfffffffb},
	{"interactive", 0xfffffffa},
};

int names_parse_step(const char *step_name, uint32_t *ret_number)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(named_steps); i++) {
		if (strcmp(step_name, named_steps[i].name) == 0) {
			*ret_number = named_steps[i].number;
			return 0;
		}
	}
	/* The numbers from those of the names on mean something to Slurm. */
	return parse_u32(step_name, 0, 0xfffffff9, ret_number) < 0 ? -EINVAL : 0;
}

int names_make_socket(const char *node, const char *step, char **ret_name)
{
	_cleanup_free_ char *copy = strdup(step);
	char *dot = copy ? strchr(copy, '.') : NULL, *plus = dot ? strchr(dot, '+') : NULL;
	uint32_t job, number, component = 0;
	int r;

	if (!copy)
		return -ENOMEM;
	if (!dot || !node[0] || strchr(node, '/'))
		return -EINVAL;
	*dot = '\0';
	if (plus)
		*plus = '\0';
	r = parse_u32(copy, 1, UINT32_MAX, &job);
	if (r == 0)
		r = names_parse_step(dot + 1, &number);
	if (r == 0 && plus)
		r = parse_u32(plus + 1, 0, UINT32_MAX, &component);
	if (r < 0)
		return -EINVAL;
	r = plus ? asprintf(ret_name, "%s_%u.%u.%u", node, job, number, component)
		 : asprintf(ret_name, "%s_%u.%u", node, job, number);
	return r < 0 ? -ENOMEM : 0;
}

bool names_is_socket(const char *name)
{
	static const char digits[] = "0123456789";
	const char *at = strrchr(name, '_');
	size_t n, numbers;

	if (!at || at == name)
		return false;
	for (numbers = 1, at++;; numbers++) {
		n = strspn(at, digits);
		if (n == 0)
			return false;
		at += n;
		if (*at != '.')
			break;
		at++;
	}
	return *at == '\0' && (numbers == 2 || numbers == 3);
}
