/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes in the order of a tree: by task, then each behind its parent, brothers by pid. What was
 * read of them one after the other need not fit together: each is told once, whatever it says.
 */
#ifndef STEPD_CLI_CTL_PS_TREE_H
#define STEPD_CLI_CTL_PS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ps_process {
	pid_t pid, ppid;
	int64_t rank; /* STEPD_NO_RANK: of no task */
	uid_t uid;
	char state;
	uint64_t start_ticks, cpu_usec, rss_bytes;
	char *command;
};

struct ps_tree;

/* Sorts processes, which outlive the tree. 0 or -ENOMEM. */
int ps_tree_make(struct ps_process *processes, size_t n, struct ps_tree **ret_tree)
	__attribute__((warn_unused_result));
void ps_tree_free(struct ps_tree *tree);

/* Deeper ones are shown as deep as this. */
#define PS_DEPTH_MAX   20
#define PS_BRANCH_SIZE (PS_DEPTH_MAX * 8 + 8)

/* The next one, with the lines that lead to it in branch; NULL after the last. */
const struct ps_process *ps_tree_next(struct ps_tree *tree, bool utf8, char *branch);

#endif
