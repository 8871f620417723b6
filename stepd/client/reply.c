/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/client/client.h"

#include "stepd/base/json.h"

/* The wrong thing about an answer, or NULL. */
static const char *find_fault(const json_t *doc)
{
	const json_t *parameters = json_object_get(doc, "parameters");
	const json_t *continues = json_object_get(doc, "continues");
	const json_t *error = json_object_get(doc, "error");

	if (!json_is_object(doc))
		return "it is no JSON object";
	if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
		return "its parameters are no object";
	if (continues && !json_is_boolean(continues))
		return "\"continues\" is neither true nor false";
	if (error && (!json_is_string(error) || json_string_length(error) == 0))
		return "its error has no name";
	if (error && json_is_true(continues))
		return "it is an error that continues";
	return NULL;
}

int reply_parse(const char *text, size_t size, struct reply *ret_reply, const char **ret_why)
{
	json_auto_t *doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const char *error = json_get_text(doc, "error", NULL);
	json_t *parameters = json_get_object(doc, "parameters");
	struct reply reply = {.continues = json_get_bool(doc, "continues", false)};

	*ret_why = doc ? find_fault(doc) : "it is no JSON";
	if (*ret_why)
		return -EPROTO;
	reply.parameters = parameters ? json_incref(parameters) : json_object();
	reply.error = error ? strdup(error) : NULL;
	if (!reply.parameters || (error && !reply.error)) {
		reply_clear(&reply);
		return -ENOMEM;
	}
	*ret_reply = reply;
	return 0;
}

void reply_clear(struct reply *reply)
{
	json_decref(reply->parameters);
	free(reply->error);
	*reply = (struct reply){0};
}
