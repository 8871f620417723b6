/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/ps_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/cleanup.h"

#define NONE ((size_t)-1)

struct node {
	size_t parent, child, next; /* NONE: none */
	bool told;
};

struct ps_tree {
	struct ps_process *processes; /* by rank, then pid */
	struct node *nodes;           /* of the same indices */
	size_t n;
	size_t at;    /* told last; NONE: nothing yet */
	size_t first; /* where the next root is looked for */
};

/* No task comes last. */
static int compare(const void *a, const void *b)
{
	const struct ps_process *x = a, *y = b;
	uint64_t rx = (uint64_t)x->rank, ry = (uint64_t)y->rank;

	if (rx != ry)
		return rx < ry ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The parent in the same task: a bisection over its pids. */
static size_t find_parent(const struct ps_tree *tree, size_t i)
{
	const struct ps_process *child = &tree->processes[i], *found;
	struct ps_process wanted = {.rank = child->rank, .pid = child->ppid};

	if (child->ppid <= 0 || child->ppid == child->pid)
		return NONE;
	found = bsearch(&wanted, tree->processes, tree->n, sizeof(wanted), compare);
	return found ? (size_t)(found - tree->processes) : NONE;
}

/* Backwards, so that the list of children ascends. */
static void link_nodes(struct ps_tree *tree)
{
	size_t i, parent;

	for (i = tree->n; i-- > 0;) {
		struct node *node = &tree->nodes[i];

		node->parent = parent = find_parent(tree, i);
		if (parent != NONE) {
			node->next = tree->nodes[parent].child;
			tree->nodes[parent].child = i;
		}
	}
}

int ps_tree_make(struct ps_process *processes, size_t n, struct ps_tree **ret_tree)
{
	struct ps_tree *tree = calloc(1, sizeof(*tree));
	size_t i;

	if (!tree)
		return -ENOMEM;
	*tree = (struct ps_tree){.processes = processes, .n = n, .at = NONE};
	tree->nodes = calloc(n + 1, sizeof(*tree->nodes));
	if (!tree->nodes) {
		ps_tree_free(tree);
		return -ENOMEM;
	}
	if (n > 0)
		qsort(processes, n, sizeof(*processes), compare);
	for (i = 0; i < n; i++)
		tree->nodes[i] = (struct node){NONE, NONE, NONE, false};
	link_nodes(tree);
	*ret_tree = tree;
	return 0;
}

void ps_tree_free(struct ps_tree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree);
}

/* Below what was told last, else beside it or what it hangs from. */
static size_t find_next_in_tree(const struct ps_tree *tree)
{
	size_t at = tree->at;

	if (at == NONE)
		return NONE;
	if (tree->nodes[at].child != NONE && !tree->nodes[tree->nodes[at].child].told)
		return tree->nodes[at].child;
	while (at != NONE &&
		(tree->nodes[at].next == NONE || tree->nodes[tree->nodes[at].next].told))
		at = tree->nodes[at].parent;
	return at == NONE ? NONE : tree->nodes[at].next;
}

/* Roots come in the order of the array, a task's all before the next task's. Who is in a ring of
 * parents hangs below no root: it is taken for one when its task's roots are told. */
static size_t find_next_root(struct ps_tree *tree)
{
	size_t i, ring = NONE;

	while (tree->first < tree->n && tree->nodes[tree->first].told)
		tree->first++;
	for (i = tree->first; i < tree->n; i++) {
		if (ring != NONE && tree->processes[i].rank != tree->processes[ring].rank)
			break;
		if (tree->nodes[i].told)
			continue;
		if (tree->nodes[i].parent == NONE)
			return i;
		if (ring == NONE)
			ring = i;
	}
	if (ring != NONE)
		tree->nodes[ring].parent = NONE;
	return ring;
}

static bool is_last(const struct ps_tree *tree, size_t i)
{
	return tree->nodes[i].next == NONE;
}

static void draw(const struct ps_tree *tree, size_t i, bool utf8, char *branch)
{
	const char *through = utf8 ? "\342\224\202 " : "| ", *blank = "  ";
	const char *fork = utf8 ? "\342\224\234\342\224\200" : "|-";
	const char *corner = utf8 ? "\342\224\224\342\224\200" : "`-", *piece;
	size_t path[PS_DEPTH_MAX], depth = 0, at = 0;
	bool last;

	branch[0] = '\0';
	for (; tree->nodes[i].parent != NONE && depth < PS_DEPTH_MAX; i = tree->nodes[i].parent)
		path[depth++] = i;
	while (depth-- > 0) {
		last = is_last(tree, path[depth]);
		if (depth > 0)
			piece = last ? blank : through;
		else
			piece = last ? corner : fork;
		at += (size_t)snprintf(branch + at, PS_BRANCH_SIZE - at, "%s", piece);
	}
}

const struct ps_process *ps_tree_next(struct ps_tree *tree, bool utf8, char *branch)
{
	size_t next = find_next_in_tree(tree);

	if (next == NONE)
		next = find_next_root(tree);
	if (next == NONE)
		return NULL;
	tree->nodes[next].told = true;
	tree->at = next;
	draw(tree, next, utf8, branch);
	return &tree->processes[next];
}
