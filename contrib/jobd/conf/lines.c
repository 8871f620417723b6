/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/conf/lines.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"

struct reader {
	const char *file;
	conf_line_fn fn;
	void *userdata;
	bool trusted;   /* files that others can change are refused */
	unsigned depth; /* of Include lines */
	unsigned number;
	struct conf_pair *pairs; /* of the line; the array is used again */
	size_t n, capacity;
};

static int open_file(const char *file, bool trusted, FILE **ret_f, struct err *err);
static int read_file(const char *file, FILE *f, const struct reader *above, struct err *err);

static int add_pair(struct reader *r, const char *key, const char *value)
{
	struct conf_pair *grown;

	if (r->n == r->capacity) {
		r->capacity = r->capacity ? 2 * r->capacity : 16;
		grown = reallocarray(r->pairs, r->capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		r->pairs = grown;
	}
	r->pairs[r->n++] = (struct conf_pair){.key = key, .value = value};
	return 0;
}

/* Ends the value where it ends, and returns what follows. NULL: it has no end, or there is none. */
static char *end_value(char *at, const char **ret_value)
{
	char *end;

	if (*at == '"') {
		*ret_value = at + 1;
		end = strchr(at + 1, '"');
		if (!end || (end[1] && !isblank((unsigned char)end[1])))
			return NULL;
	} else {
		*ret_value = at;
		end = at + strcspn(at, " \t");
		if (end == at)
			return NULL;
	}
	at = *end ? end + 1 : end;
	*end = '\0';
	return at;
}

/* Blanks may stand on both sides of "=". */
static int split(struct reader *r, char *text, struct err *err)
{
	const char *value;
	char *at = text, *key, *end;

	r->n = 0;
	for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
		key = at;
		end = at + strcspn(at, "= \t");
		at = end + strspn(end, " \t");
		if (end == key || *at != '=')
			return err_set_text(err, -EINVAL, "'%.100s' must be Key=Value", key);
		at += 1 + strspn(at + 1, " \t");
		*end = '\0';
		at = end_value(at, &value);
		if (!at)
			return err_set_text(err, -EINVAL,
				"%.100s must have a value, in quotation marks as a whole or not at "
				"all",
				key);
		if (add_pair(r, key, value) < 0)
			return err_set(err, -ENOMEM, "read it");
	}
	return 0;
}

/* "\#" stays as "#". */
static void cut_comment(char *text)
{
	char *from = text, *to = text;

	for (; *from && *from != '#'; from++) {
		if (from[0] == '\\' && from[1] == '#')
			from++;
		*to++ = *from;
	}
	while (to > text && isspace((unsigned char)to[-1]))
		to--;
	*to = '\0';
}

/* Of an "Include FILE" line; NULL: it is none. */
static char *included_file(char *text)
{
	text += strspn(text, " \t");
	if (strncasecmp(text, "include", 7) != 0 || !isblank((unsigned char)text[7]))
		return NULL;
	return text + 7 + strspn(text + 7, " \t");
}

static int include(struct reader *r, unsigned number, const char *file, struct err *err)
{
	const char *slash = strrchr(r->file, '/');
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	int ret;

	if (r->depth >= LINES_INCLUDE_MAX)
		return err_set_text(err, -ELOOP, "%s:%u: more than %u files include each other",
			r->file, number, LINES_INCLUDE_MAX);
	if (file[0] == '/' || !slash)
		path = strdup(file);
	else if (asprintf(&path, "%.*s/%s", (int)(slash - r->file), r->file, file) < 0)
		path = NULL;
	if (!path)
		return err_set(err, -ENOMEM, "include '%s'", file);
	ret = open_file(path, r->trusted, &f, err);
	return ret < 0 ? err_prefix(err, "%s:%u", r->file, number) : read_file(path, f, r, err);
}

/* One line of the configuration, of one or more of the file's. */
static int take_line(struct reader *r, unsigned number, char *text, struct err *err)
{
	char *file;
	int ret;

	file = included_file(text);
	if (file)
		return include(r, number, file, err);
	ret = split(r, text, err);
	if (ret == 0 && r->n > 0)
		ret = r->fn(
			&(struct conf_line){
				.file = r->file, .number = number, .pairs = r->pairs, .n = r->n},
			r->userdata, err);
	return ret < 0 ? err_prefix(err, "%s:%u", r->file, number) : 0;
}

/* Whether the line goes on with the next one of the file: an odd number of "\" ends it, the last of
 * which is cut off. */
static bool goes_on(char *line)
{
	size_t size = strlen(line), n = 0;

	while (n < size && line[size - 1 - n] == '\\')
		n++;
	if (n % 2)
		line[size - 1] = '\0';
	return n % 2;
}

/* One line of the file into line, which has LINES_SIZE_MAX + 1 bytes less those before it. 1: there
 * was one, or a part of it before the end of the file. */
static int read_line(struct reader *r, FILE *f, char *line, size_t capacity, struct err *err)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n' && c != '\0' && n + 1 < capacity)
		line[n++] = (char)c;
	line[n] = '\0';
	r->number++;
	if (c == EOF && ferror(f))
		return err_set(err, -errno, "read '%s'", r->file);
	if (c != EOF && c != '\n')
		return err_set_text(err, -EINVAL,
			"%s:%u: a line must be text of at most %u bytes, with those that are joined "
			"to it",
			r->file, r->number, LINES_SIZE_MAX);
	cut_comment(line);
	return c != EOF || n > 0;
}

static int read_lines(struct reader *r, FILE *f, struct err *err)
{
	_cleanup_free_ char *whole = calloc(1, LINES_SIZE_MAX + 1);
	unsigned first = 1;
	size_t at = 0;
	bool more;
	int ret;

	if (!whole)
		return err_set(err, -ENOMEM, "read '%s'", r->file);
	while ((ret = read_line(r, f, whole + at, LINES_SIZE_MAX + 1 - at, err)) > 0) {
		if (at == 0)
			first = r->number;
		more = goes_on(whole + at);
		at = more ? at + strlen(whole + at) : 0;
		if (more)
			continue;
		ret = take_line(r, first, whole, err);
		if (ret < 0)
			return ret;
	}
	/* the last line goes on, but the file does not */
	return ret == 0 && at > 0 ? take_line(r, first, whole, err) : ret;
}

/* Reading another file than a regular one could block for ever, or never end. */
static int open_file(const char *file, bool trusted, FILE **ret_f, struct err *err)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	FILE *f;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "read '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_set_text(err, -EINVAL, "'%s' must be a regular file", file);
	r = trusted ? fs_check_file(fd, file, err) : 0;
	if (r < 0)
		return r;
	f = fdopen(fd, "r");
	if (!f)
		return err_set(err, -errno, "read '%s'", file);
	(void)take_fd(&fd);
	*ret_f = f;
	return 0;
}

static int read_file(const char *file, FILE *f, const struct reader *above, struct err *err)
{
	struct reader r = {.file = file,
		.fn = above->fn,
		.userdata = above->userdata,
		.trusted = above->trusted,
		.depth = above->depth + 1};
	int ret = read_lines(&r, f, err);

	free(r.pairs);
	return ret;
}

static int read_all(const char *file, const struct reader *none, struct err *err)
{
	_cleanup_fclose_ FILE *f = NULL;
	int ret = open_file(file, none->trusted, &f, err);

	return ret < 0 ? ret : read_file(file, f, none, err);
}

int conf_lines_read(const char *file, conf_line_fn fn, void *userdata, struct err *err)
{
	return read_all(file, &(struct reader){.fn = fn, .userdata = userdata}, err);
}

int conf_lines_read_trusted(const char *file, conf_line_fn fn, void *userdata, struct err *err)
{
	return read_all(
		file, &(struct reader){.fn = fn, .userdata = userdata, .trusted = true}, err);
}
