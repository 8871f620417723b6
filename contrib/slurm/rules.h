/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rules of slurm_handover in stepd.conf: which of the steps that could be served are handed
 * over all the same, by their user, group, partition and kind.
 *
 *	rules = rule, with a comma between two
 *	rule  = user|group|partition|kind [not] NAME...
 *
 * A rule holds for the steps of any of its names, with "not" for those of none of them; the first
 * one that holds counts. Users and groups are names or numbers. What a rule is compared with is
 * what the credential says, which slurmctld has signed, never what the user can set.
 */
#ifndef SLURM_RULES_H
#define SLURM_RULES_H

#include "contrib/slurm/launch.h"

struct rule;

struct rules {
	struct rule *v;
	size_t n;
};

/* "no" is no rule. */
int rules_parse(const char *text, struct rules *ret_rules, struct err *err) _must_check_;

void rules_clear(struct rules *rules);
#define _cleanup_rules_ _cleanup_(rules_clear)

/* The first rule that holds for the step: its text, or NULL. A rule that can't be applied holds for
 * every step, and err has why: what a site wants to keep from being served is not known then. */
const char *rules_find(
	const struct rules *rules, const struct slurm_launch *launch, struct err *err);

/* Whether all users and groups of a rule exist. */
int rules_check(const struct rules *rules, size_t i, struct err *err) _must_check_;

const char *rules_text(const struct rules *rules, size_t i);

#endif
