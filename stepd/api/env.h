/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Changes to an environment vector as the MPI hooks get it: NULL-terminated, the vector itself
 * from malloc(). What is replaced is not freed: who made it does that.
 */
#ifndef STEPD_API_ENV_H
#define STEPD_API_ENV_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The index of name in env, or that of its NULL. */
static inline size_t stepd_env_index(char **env, const char *name)
{
	size_t n = strlen(name), i = 0;

	while (env[i] && (strncmp(env[i], name, n) != 0 || env[i][n] != '='))
		i++;
	return i;
}

/* The value of name, or NULL. Owned by env. */
static inline const char *stepd_env_get(char **env, const char *name)
{
	size_t i = stepd_env_index(env, name);

	return env[i] ? env[i] + strlen(name) + 1 : NULL;
}

/* Sets name to value, replacing what was there. 0, or -1 with errno ENOMEM or EINVAL. */
static inline int stepd_env_set(char ***env, const char *name, const char *value)
{
	size_t n = strlen(name), len = strlen(value), i;
	char *entry, **grown;

	if (n == 0 || strchr(name, '=')) {
		errno = EINVAL;
		return -1;
	}
	entry = (char *)malloc(n + len + 2);
	if (!entry)
		return -1;
	memcpy(entry, name, n);
	entry[n] = '=';
	memcpy(entry + n + 1, value, len + 1);

	i = stepd_env_index(*env, name);
	if (!(*env)[i]) {
		grown = (char **)realloc(*env, (i + 2) * sizeof(char *));
		if (!grown) {
			free(entry);
			return -1;
		}
		grown[i + 1] = NULL;
		*env = grown;
	}
	(*env)[i] = entry;
	return 0;
}

/* Removes name, if it is there. */
static inline void stepd_env_unset(char **env, const char *name)
{
	size_t i = stepd_env_index(env, name);

	while (env[i]) {
		env[i] = env[i + 1];
		i++;
	}
}

#endif
