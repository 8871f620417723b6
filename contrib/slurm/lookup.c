/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/lookup.h"

#include <string.h>

/* In place of a password: it is elsewhere. */
#define NO_PASSWORD "x"

void lookup_user_clear(struct lookup_user *user)
{
	free(user->gids);
	strv_clear(&user->group_names);
	*user = (struct lookup_user){0};
}

bool lookup_needs_member(const struct wire_lookup *lookup)
{
	return lookup->match != WIRE_MATCH_ALWAYS;
}

/* named: it is of that name or number. */
static bool is_found(const struct wire_lookup *lookup, bool named, bool member)
{
	switch (lookup->match) {
	case WIRE_MATCH_NAME:
		return named && member;
	case WIRE_MATCH_MEMBER:
		return member;
	default:
		return lookup->match == WIRE_MATCH_ALWAYS;
	}
}

static const char *get_password(const struct lookup_user *user)
{
	return user->password ? user->password : NO_PASSWORD;
}

/* Without its NUL, unlike other texts. */
static void put_text(struct wire_answer *a, const char *text)
{
	wire_put_i32(a, (int32_t)strlen(text));
	wire_put_bytes(a, text, strlen(text));
}

void lookup_put_user(const struct lookup_user *user, const struct wire_lookup *lookup, bool member,
	struct wire_answer *a)
{
	bool known = user && user->name && user->gecos && user->home && user->shell;
	bool found = known &&
		is_found(lookup, lookup->id == user->uid || strcmp(lookup->name, user->name) == 0,
			member);

	wire_put_i32(a, found);
	if (!found)
		return;
	put_text(a, user->name);
	put_text(a, get_password(user));
	wire_put_u32(a, user->uid);
	wire_put_u32(a, user->gid);
	put_text(a, user->gecos);
	put_text(a, user->home);
	put_text(a, user->shell);
}

static void put_group(const struct lookup_user *user, size_t i, struct wire_answer *a)
{
	put_text(a, user->group_names.v[i]);
	put_text(a, get_password(user));
	wire_put_u32(a, user->gids[i]);
	put_text(a, user->name); /* its one member, as far as is known */
}

/* All of them, or the one that is looked for. */
void lookup_put_groups(const struct lookup_user *user, const struct wire_lookup *lookup,
	bool member, struct wire_answer *a)
{
	size_t n = user && user->name ? user->group_names.n : 0, i;

	if (lookup->match != WIRE_MATCH_NAME) {
		n = is_found(lookup, false, member) ? n : 0;
		wire_put_i32(a, (int32_t)n);
		for (i = 0; i < n; i++)
			put_group(user, i, a);
		return;
	}
	for (i = 0; i < n; i++) {
		if (user->gids[i] == lookup->id ||
			strcmp(user->group_names.v[i], lookup->name) == 0)
			break;
	}
	wire_put_i32(a, i < n && member);
	if (i < n && member)
		put_group(user, i, a);
}
