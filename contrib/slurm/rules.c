/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/rules.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define BLANKS " \t"

enum rule_field {
	RULE_USER,
	RULE_GROUP,
	RULE_PARTITION,
	RULE_KIND,
	RULE_FIELD_MAX,
};

struct rule {
	enum rule_field field;
	bool negated;
	struct strv names;
	char *text;
};

/* ---- names --------------------------------------------------------------------------------- */

/* error is errno: there is a number for no such name, which depends on where names are kept. */
static int fail_name(const char *what, const char *name, int error, struct err *err)
{
	if (error && error != ENOENT && error != ESRCH && error != EBADF && error != EPERM)
		return err_set(err, -error, "look up %s '%s'", what, name);
	return err_set_text(err, -ENOENT, "there is no %s '%s'", what, name);
}

static int find_user(const char *name, uint32_t *ret_uid, struct err *err)
{
	const struct passwd *pw;

	if (parse_u32(name, 0, SLURM_NO_VAL - 1, ret_uid) == 0)
		return 0;
	errno = 0;
	pw = getpwnam(name);
	if (!pw)
		return fail_name("user", name, errno, err);
	*ret_uid = pw->pw_uid;
	return 0;
}

static int find_group(const char *name, uint32_t *ret_gid, struct err *err)
{
	const struct group *gr;

	if (parse_u32(name, 0, SLURM_NO_VAL - 1, ret_gid) == 0)
		return 0;
	errno = 0;
	gr = getgrnam(name);
	if (!gr)
		return fail_name("group", name, errno, err);
	*ret_gid = gr->gr_gid;
	return 0;
}

/* ---- fields: 1: the step is of that name, 0: it is not ------------------------------------- */

static int is_of_user(const char *name, const struct slurm_launch *l, struct err *err)
{
	uint32_t uid;
	int r = find_user(name, &uid, err);

	return r < 0 ? r : uid == l->uid;
}

static int is_of_group(const char *name, const struct slurm_launch *l, struct err *err)
{
	uint32_t gid, i;
	int r = find_group(name, &gid, err);

	if (r < 0 || gid == l->gid)
		return r < 0 ? r : 1;
	/* Those of the message may be srun's. */
	if (l->cred_gids.n == 0)
		return err_set_text(err, -ENODATA, "the job's credential has no groups");
	for (i = 0; i < l->cred_gids.n; i++) {
		if (slurm_array_u32(&l->cred_gids, i) == gid)
			return 1;
	}
	return 0;
}

static int is_in_partition(const char *name, const struct slurm_launch *l, struct err *err)
{
	const char *partition = slurm_launch_partition(l);

	if (!partition)
		return err_set_text(err, -ENODATA, "the job's credential has no partition");
	return strcmp(partition, name) == 0;
}

static int is_of_kind(const char *name, const struct slurm_launch *l, _unused_ struct err *err)
{
	return strcmp(slurm_kind_name(l->kind), name) == 0;
}

static const struct {
	const char *name;
	int (*is)(const char *name, const struct slurm_launch *launch, struct err *err);
	int (*find)(const char *name, uint32_t *ret_id, struct err *err); /* NULL: no number */
} fields[RULE_FIELD_MAX] = {
	[RULE_USER] = {"user", is_of_user, find_user},
	[RULE_GROUP] = {"group", is_of_group, find_group},
	[RULE_PARTITION] = {"partition", is_in_partition, NULL},
	[RULE_KIND] = {"kind", is_of_kind, NULL},
};

/* ---- the text ------------------------------------------------------------------------------ */

static int check_kind(const struct rule *rule, const char *name, struct err *err)
{
	int kind;

	for (kind = 0; kind < SLURM_KIND_MAX; kind++) {
		if (strcmp(name, slurm_kind_name((enum slurm_step_kind)kind)) == 0)
			return 0;
	}
	return err_set_text(err, -EINVAL,
		"'%s': '%s' is none of the kinds 'srun', 'batch', 'extern', 'interactive' and "
		"'het'",
		rule->text, name);
}

static int take_field(struct rule *rule, const char *word, struct err *err)
{
	int field;

	for (field = 0; field < RULE_FIELD_MAX; field++) {
		if (strcmp(word, fields[field].name) == 0) {
			rule->field = (enum rule_field)field;
			return 0;
		}
	}
	return err_set_text(err, -EINVAL,
		"'%s' must begin with 'user', 'group', 'partition' or 'kind'", rule->text);
}

static int take_name(struct rule *rule, const char *name, struct err *err)
{
	int r = rule->field == RULE_KIND ? check_kind(rule, name, err) : 0;

	if (r == 0 && strv_add(&rule->names, name) < 0)
		r = err_set(err, -ENOMEM, "read a rule");
	return r;
}

/* The words behind the first one. words is written to. */
static int take_names(struct rule *rule, char *words, struct err *err)
{
	char *word;
	int r = 0;

	while (r == 0 && (word = strsep(&words, BLANKS))) {
		if (!*word)
			continue;
		if (strcmp(word, "not") == 0 && !rule->negated && rule->names.n == 0)
			rule->negated = true;
		else
			r = take_name(rule, word, err);
	}
	if (r == 0 && rule->names.n == 0)
		r = err_set_text(err, -EINVAL, "'%s' has no name of a %s", rule->text,
			fields[rule->field].name);
	return r;
}

/* text has at least a word. */
static int take_rule(struct rules *rules, const char *text, size_t size, struct err *err)
{
	struct rule *grown = realloc(rules->v, (rules->n + 1) * sizeof(*grown)), *rule;
	_cleanup_free_ char *words = NULL;
	char *rest;
	int r;

	if (!grown)
		return err_set(err, -ENOMEM, "read a rule");
	rules->v = grown;
	rule = &rules->v[rules->n++];
	*rule = (struct rule){.text = strndup(text, size)};
	words = rest = strndup(text, size);
	if (!rule->text || !words)
		return err_set(err, -ENOMEM, "read a rule");
	r = take_field(rule, strsep(&rest, BLANKS), err);
	return r == 0 ? take_names(rule, rest, err) : r;
}

int rules_parse(const char *text, struct rules *ret_rules, struct err *err)
{
	_cleanup_rules_ struct rules rules = {0};
	size_t size, n;
	int r = 0;

	if (strcmp(text, "no") == 0)
		text = "";
	for (; r == 0 && *text; text += size + (text[size] == ',')) {
		text += strspn(text, BLANKS);
		size = n = strcspn(text, ",");
		while (n > 0 && strchr(BLANKS, text[n - 1]))
			n--;
		if (n > 0)
			r = take_rule(&rules, text, n, err);
	}
	if (r == 0) {
		*ret_rules = rules;
		rules = (struct rules){0};
	}
	return r;
}

void rules_clear(struct rules *rules)
{
	size_t i;

	for (i = 0; i < rules->n; i++) {
		strv_clear(&rules->v[i].names);
		free(rules->v[i].text);
	}
	free(rules->v);
	*rules = (struct rules){0};
}

/* ---- their use ----------------------------------------------------------------------------- */

/* 1, 0, or -errno: it is not known. */
static int rule_holds(const struct rule *rule, const struct slurm_launch *launch, struct err *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < rule->names.n; i++)
		r = fields[rule->field].is(rule->names.v[i], launch, err);
	return r < 0 ? r : (r > 0) != rule->negated;
}

const char *rules_find(
	const struct rules *rules, const struct slurm_launch *launch, struct err *err)
{
	size_t i;

	for (i = 0; i < rules->n; i++) {
		if (rule_holds(&rules->v[i], launch, err))
			return rules->v[i].text;
	}
	return NULL;
}

int rules_check(const struct rules *rules, size_t i, struct err *err)
{
	const struct rule *rule = &rules->v[i];
	uint32_t id;
	size_t k;
	int r = 0;

	for (k = 0; r == 0 && k < rule->names.n && fields[rule->field].find; k++)
		r = fields[rule->field].find(rule->names.v[k], &id, err);
	return r;
}

const char *rules_text(const struct rules *rules, size_t i)
{
	return rules->v[i].text;
}
