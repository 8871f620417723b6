/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The document as text, for the agent that may have to take the step over. Arguments and variables
 * of the command line may be bytes that JSON can't hold; that agent needs none of these.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/spec/spec_json.h"

static json_t *make_clean(const json_t *value);

static json_t *clean_text(const json_t *value)
{
	json_t *clean = json_stringn(json_string_value(value), json_string_length(value));

	return clean ? clean : json_string("?");
}

static json_t *clean_object(const json_t *value)
{
	json_t *clean = json_object(), *member;
	const char *key;

	json_object_foreach ((json_t *)value, key, member) {
		if (json_object_set_new(clean, key, make_clean(member)) < 0)
			break; /* of memory, or a name that is no text: no member of a step's */
	}
	return clean;
}

static json_t *clean_array(const json_t *value)
{
	json_t *clean = json_array();
	size_t i;

	for (i = 0; i < json_array_size(value); i++) {
		if (json_array_append_new(clean, make_clean(json_array_get(value, i))) < 0)
			break; /* likewise */
	}
	return clean;
}

static json_t *make_clean(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_STRING:
		return clean_text(value);
	case JSON_OBJECT:
		return clean_object(value);
	case JSON_ARRAY:
		return clean_array(value);
	default:
		return json_incref((json_t *)value);
	}
}

char *spec_dump(const json_t *doc)
{
	char *text = json_dumps(doc, JSON_COMPACT);
	json_t *clean;

	if (text)
		return text;
	clean = make_clean(doc);
	text = clean ? json_dumps(clean, JSON_COMPACT) : NULL;
	json_decref(clean);
	return text;
}
