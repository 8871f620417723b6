/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/plugstack.h"

#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"

#define FILE_MAX (1u << 20)
/* Slurm reads longer lines as several. */
#define LINE_MAX_BYTES 4094u
#define BLANKS         " \t\n"

/* Where Slurm's packages and its own build put plugins. */
static const char *const usual_dirs[] = {
	"/usr/lib/x86_64-linux-gnu/slurm-wlm",
	"/usr/lib/aarch64-linux-gnu/slurm-wlm",
	"/usr/lib64/slurm",
	"/usr/lib/slurm",
	"/usr/local/lib/slurm",
};

struct plugstack_reader {
	struct plugstack *stack;
	const char *other_dir; /* that may be Slurm's as well; NULL: none */
	unsigned depth;        /* of include lines */
};

static int read_stack_file(struct plugstack_reader *r, const char *file, struct err *err);

static void plugin_clear(struct plugstack_plugin *p)
{
	free(p->path);
	free(p->where);
	free(p->ignored);
	strv_clear(&p->args);
}

void plugstack_clear(struct plugstack *stack)
{
	size_t i;

	for (i = 0; i < stack->n; i++)
		plugin_clear(&stack->v[i]);
	free(stack->v);
	free(stack->dirs);
	free(stack->ignored);
	*stack = (struct plugstack){0};
}

/* ---- a plugin's file ----------------------------------------------------------------------- */

/* Of several, which one Slurm was built with is not known: then *ret_other is the second. */
static const char *find_usual_dir(const char **ret_other)
{
	const char *found = NULL;
	struct stat st;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(usual_dirs) && !*ret_other; i++) {
		if (stat(usual_dirs[i], &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (found)
			*ret_other = usual_dirs[i];
		else
			found = usual_dirs[i];
	}
	return found;
}

static int find_dirs(struct plugstack_reader *r, const char *given, struct err *err)
{
	const char *dirs = given && *given ? given : find_usual_dir(&r->other_dir);

	r->stack->dirs = dirs ? strdup(dirs) : NULL;
	return dirs && !r->stack->dirs ? err_set(err, -ENOMEM, "read plugstack.conf") : 0;
}

int plugstack_find(const struct plugstack *stack, const char *name, char **ret_path)
{
	const char *at;
	struct stat st;
	size_t n;

	*ret_path = NULL;
	for (at = stack->dirs ? stack->dirs : ""; *at; at += n + (at[n] == ':')) {
		_cleanup_free_ char *path = NULL;

		n = strcspn(at, ":");
		if (asprintf(&path, "%.*s/%s", (int)n, at, name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (n > 0 && stat(path, &st) == 0) {
			*ret_path = take_ptr(path);
			return 0;
		}
	}
	return 0;
}

/* The path; what no directory has stays as it is written. */
static int find_plugin(
	struct plugstack_reader *r, const char *name, char **ret_path, struct err *err)
{
	int e = 0;

	*ret_path = NULL;
	if (name[0] != '/' && r->other_dir)
		return err_set_text(err, -ENOTUNIQ,
			"find '%s': '%s' and '%s' may both be Slurm's directory of plugins; set "
			"PluginDir in slurm.conf",
			name, r->stack->dirs, r->other_dir);
	if (name[0] != '/')
		e = plugstack_find(r->stack, name, ret_path);
	if (e == 0 && !*ret_path)
		*ret_path = strdup(name);
	return *ret_path ? 0 : err_set(err, -ENOMEM, "find '%s'", name);
}

static int add_plugin(
	struct plugstack_reader *r, const char *where, bool required, char *rest, struct err *err)
{
	struct plugstack *stack = r->stack;
	struct plugstack_plugin *p;
	char *word, *saved;
	int e;

	word = strtok_r(rest, BLANKS, &saved);
	if (stack->n == PLUGSTACK_MAX)
		return err_set_text(err, -E2BIG, "%s: more than %u plugins", where, PLUGSTACK_MAX);
	if (array_reserve(stack->v, stack->capacity, stack->n + 1) < 0)
		return err_set(err, -ENOMEM, "read '%s'", where);
	p = &stack->v[stack->n++];
	*p = (struct plugstack_plugin){.required = required, .where = strdup(where)};
	e = find_plugin(r, word, &p->path, err);
	if (e < 0)
		return e;
	e = p->where ? 0 : -ENOMEM;
	while (e == 0 && (word = strtok_r(NULL, BLANKS, &saved)))
		e = strv_add(&p->args, word);
	return e < 0 ? err_set(err, e, "read '%s'", where) : 0;
}

/* ---- include ------------------------------------------------------------------------------- */

/* Relative to the file that has the line. */
static int include_stack(
	struct plugstack_reader *r, const char *file, const char *pattern, struct err *err)
{
	const char *slash = strrchr(file, '/');
	_cleanup_free_ char *path = NULL;
	glob_t found = {0};
	size_t i;
	int e;

	if (r->depth == PLUGSTACK_DEPTH_MAX)
		return err_set_text(err, -ELOOP, "'%s' is included by more than %u files", pattern,
			PLUGSTACK_DEPTH_MAX);
	if (asprintf(&path, "%.*s%s", pattern[0] == '/' || !slash ? 0 : (int)(slash - file + 1),
		    file, pattern) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "include '%s'", pattern);
	}
	e = glob(path, 0, NULL, &found);
	if (e == GLOB_NOSPACE)
		return err_set(err, -ENOMEM, "include '%s'", path);
	r->depth++;
	for (i = 0, e = 0; e == 0 && i < found.gl_pathc; i++)
		e = read_stack_file(r, found.gl_pathv[i], err);
	r->depth--;
	globfree(&found);
	return e;
}

/* ---- lines --------------------------------------------------------------------------------- */

static int take_stack_line(struct plugstack_reader *r, const char *file, const char *where,
	char *line, struct err *err)
{
	char *keyword, *rest;

	line[strcspn(line, "#")] = '\0';
	keyword = line + strspn(line, BLANKS);
	if (!*keyword)
		return 0;
	rest = keyword + strcspn(keyword, BLANKS);
	if (*rest)
		*rest++ = '\0';
	rest += strspn(rest, BLANKS);
	if (*rest && strcmp(keyword, "include") == 0) {
		rest[strcspn(rest, BLANKS)] = '\0';
		return include_stack(r, file, rest, err);
	}
	if (*rest && (strcmp(keyword, "required") == 0 || strcmp(keyword, "optional") == 0))
		return add_plugin(r, where, keyword[0] == 'r', rest, err);
	if (!r->stack->ignored)
		r->stack->ignored = strdup(where);
	return 0;
}

static int open_stack_file(const char *file, struct err *err)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int e;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "read '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_set_text(err, -EINVAL, "'%s' must be a regular file", file);
	e = fs_check_file(fd, file, err);
	return e < 0 ? e : take_fd(&fd);
}

static int read_stack_file(struct plugstack_reader *r, const char *file, struct err *err)
{
	_cleanup_close_ int fd = open_stack_file(file, err);
	_cleanup_free_ char *text = NULL;
	char *line, *next;
	unsigned number = 0;
	int e = fd == -ENOENT ? 0 : fd;

	if (fd < 0)
		return e;
	e = fs_read_fd(fd, FILE_MAX, &text, NULL);
	if (e < 0)
		return err_set(err, e, "read '%s'", file);
	for (line = text, e = 0; e == 0 && *line; line = next) {
		_cleanup_free_ char *where = NULL;
		size_t n = strcspn(line, "\n");

		next = line + n + (line[n] == '\n');
		line[n] = '\0';
		if (asprintf(&where, "%s:%u", file, ++number) < 0) {
			where = NULL;
			return err_set(err, -ENOMEM, "read '%s'", file);
		}
		e = n > LINE_MAX_BYTES ? err_set_text(err, -E2BIG, "%s is longer than %u bytes",
						 where, LINE_MAX_BYTES)
				       : take_stack_line(r, file, where, line, err);
	}
	return e;
}

int plugstack_read(const char *file, const char *dirs, struct plugstack *ret_stack, struct err *err)
{
	_cleanup_plugstack_ struct plugstack stack = {0};
	struct plugstack_reader reader = {.stack = &stack};
	int r = find_dirs(&reader, dirs, err);

	if (r == 0)
		r = read_stack_file(&reader, file, err);

	if (r < 0)
		return r;
	*ret_stack = take_struct(stack);
	return 0;
}
