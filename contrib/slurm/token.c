/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/token.h"

#include <jansson.h>
#include <string.h>

#include "stepd/base/base64.h"
#include "stepd/base/json.h"

#define CONTEXT "launch"

/* base64url of RFC 7515, which has no padding, or base64: the bytes, for free(). */
static int decode_text(const char *text, size_t size, void **ret_bytes, size_t *ret_size)
{
	_cleanup_free_ char *copy = NULL;
	ssize_t n;
	size_t i;

	while (size > 0 && text[size - 1] == '=')
		size--;
	copy = malloc(size + 4);
	if (!copy)
		return -ENOMEM;
	for (i = 0; i < size; i++)
		copy[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	for (; i % 4; i++)
		copy[i] = '=';
	n = base64_decode(copy, i, copy);
	if (n < 0)
		return -EBADMSG;
	*ret_size = (size_t)n;
	*ret_bytes = take_ptr(copy);
	return 0;
}

/* Between the dots. */
static int decode_claims(const char *text, size_t size, json_t **ret_claims)
{
	const char *begin = memchr(text, '.', size), *end;
	_cleanup_free_ void *bytes = NULL;
	size_t n;
	int r;

	end = begin ? memchr(begin + 1, '.', size - (size_t)(begin + 1 - text)) : NULL;
	if (!end)
		return -EBADMSG;
	r = decode_text(begin + 1, (size_t)(end - begin - 1), &bytes, &n);
	if (r < 0)
		return r;
	*ret_claims = json_loadb(bytes, n, 0, NULL);
	return *ret_claims ? 0 : -EBADMSG;
}

static int read_id(const json_t *claims, const char *name, uint32_t *ret_id)
{
	int64_t id;

	if (!json_get_range(claims, name, 0, UINT32_MAX - 1, &id))
		return -EBADMSG;
	*ret_id = (uint32_t)id;
	return 0;
}

bool slurm_token_is_type(const char *cred_type)
{
	if (strncmp(cred_type, "auth/", 5) == 0 || strncmp(cred_type, "cred/", 5) == 0)
		cred_type += 5;
	return strcmp(cred_type, "slurm") == 0;
}

/* Slurm's daemons make their own, with another word for it. */
int slurm_token_read_message(const char *text, struct slurm_token *ret_token)
{
	json_auto_t *claims = NULL;
	struct slurm_token token = {0};
	const char *context;
	int r = decode_claims(text, strlen(text), &claims);

	if (r < 0)
		return r;
	context = json_get_text(claims, "context", "");
	if ((strcmp(context, "sack") != 0 && strcmp(context, "auth") != 0) ||
		json_object_get(claims, "payload"))
		return -EBADMSG;
	r = read_id(claims, "uid", &token.uid);
	if (r == 0)
		r = read_id(claims, "gid", &token.gid);
	if (r == 0)
		*ret_token = token;
	return r;
}

int slurm_token_read_credential(const void *text, size_t size, struct slurm_token *ret_token)
{
	json_auto_t *claims = NULL;
	struct slurm_token token = {0};
	const json_t *payload;
	int r = size <= SLURM_TOKEN_MAX ? decode_claims(text, size, &claims) : -EBADMSG;

	if (r == 0 && strcmp(json_get_text(claims, "context", ""), CONTEXT) != 0)
		r = -EBADMSG;
	if (r == 0)
		r = read_id(claims, "uid", &token.uid);
	if (r == 0)
		r = read_id(claims, "gid", &token.gid);
	payload = json_object_get(claims, "payload");
	if (r == 0 && !json_is_string(payload))
		r = -EBADMSG;
	if (r == 0)
		r = decode_text(json_string_value(payload), json_string_length(payload),
			&token.payload, &token.payload_size);
	if (r == 0)
		*ret_token = token;
	return r;
}
