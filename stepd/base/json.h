/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Members of a JSON object that may be missing or of another type: both are the same for a reader
 * of what another version may have written. All of these take NULL as an object without members.
 */
#ifndef STEPD_BASE_JSON_H
#define STEPD_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "stepd/base/cleanup.h"

static inline json_t *json_get_object(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	return json_is_object(value) ? value : NULL;
}

static inline json_t *json_get_array(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	return json_is_array(value) ? value : NULL;
}

static inline int64_t json_get_int(const json_t *object, const char *name, int64_t missing)
{
	const json_t *value = json_object_get(object, name);

	return json_is_integer(value) ? json_integer_value(value) : missing;
}

/* False, with *ret_n unchanged, where there is no integer from least to most. */
static inline bool json_get_range(
	const json_t *object, const char *name, int64_t least, int64_t most, int64_t *ret_n)
{
	const json_t *value = json_object_get(object, name);
	const int64_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < least || n > most)
		return false;
	*ret_n = n;
	return true;
}

static inline bool json_get_bool(const json_t *object, const char *name, bool missing)
{
	const json_t *value = json_object_get(object, name);

	return json_is_boolean(value) ? json_is_true(value) : missing;
}

/* The object's own text. */
static inline const char *json_get_text(const json_t *object, const char *name, const char *missing)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : missing;
}

/* The index of the text in names, of which some may be NULL. */
static inline int json_get_choice(const json_t *object, const char *name, const char *const *names,
	int names_count, int missing)
{
	const char *text = json_get_text(object, name, NULL);
	int i;

	for (i = 0; text && i < names_count; i++) {
		if (names[i] && strcmp(names[i], text) == 0)
			return i;
	}
	return missing;
}

#endif
