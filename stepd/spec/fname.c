/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/spec/fname.h"

#include <limits.h>
#include <string.h>

#define WIDTH_MAX 10

/* A percent sign and its conversion. */
struct field {
	char letter;
	int width;  /* 0: not given */
	size_t len; /* length of the whole, with the percent sign */
};

/* at points to a percent sign. -EINVAL if no known conversion follows. */
static int parse_field(const char *at, struct field *ret_field)
{
	const char *p = at + 1;
	int width = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		width = width * 10 + (*p - '0');
		if (width > WIDTH_MAX)
			width = WIDTH_MAX;
	}
	if (*p == '\0' || !strchr("jJstnNux%", *p) || (*p == '%' && p != at + 1))
		return -EINVAL;
	*ret_field = (struct field){.letter = *p, .width = width, .len = (size_t)(p + 1 - at)};
	return 0;
}

static int check_fields(const char *pattern, bool *ret_per_task, struct err *err)
{
	bool per_task = false;
	const char *p = pattern;
	struct field field;

	if (!strchr(pattern, '\\')) {
		while ((p = strchr(p, '%'))) {
			if (parse_field(p, &field) < 0)
				return err_set_text(err, -EINVAL,
					"'%s' is not a pattern of a file name: '%.8s' is not known; use %%j %%J "
					"%%s %%t %%n %%N %%u %%x, or %%%% for a percent sign",
					pattern, p);
			per_task |= field.letter == 't';
			p += field.len;
		}
	}
	*ret_per_task = per_task;
	return 0;
}

bool fname_per_task(const char *pattern)
{
	bool per_task;

	return check_fields(pattern, &per_task, NULL) == 0 && per_task;
}

int fname_check(const char *pattern, struct err *err)
{
	bool per_task;

	if (pattern[0] == '\0')
		return err_set_text(err, -EINVAL, "the pattern of a file name is empty");
	if (strlen(pattern) >= PATH_MAX)
		return err_set_text(err, -ENAMETOOLONG,
			"the pattern of a file name has %zu bytes; at most %d", strlen(pattern),
			PATH_MAX - 1);
	return check_fields(pattern, &per_task, err);
}

/* A user can choose any text as value; it must not lead to another directory. */
static void put_value(FILE *f, const char *value)
{
	bool dots = value && (strcmp(value, ".") == 0 || strcmp(value, "..") == 0);

	for (; value && *value; value++)
		(void)fputc(*value == '/' || dots ? '_' : *value,
			f); /* checked by ferror() at the end */
}

static void put_step(FILE *f, const char *name, int width)
{
	size_t len = strlen(name);

	if (len > 0 && strspn(name, "0123456789") == len) {
		for (; (size_t)width > len; width--)
			(void)fputc('0', f); /* checked by ferror() at the end */
	}
	put_value(f, name);
}

static void put_field(FILE *f, const struct field *field, const struct fname_vars *vars)
{
	switch (field->letter) {
	case 'j':
		(void)fprintf(f, "%0*u", field->width, vars->job_id);
		break;
	case 'J':
		(void)fprintf(f, "%0*u.", field->width, vars->job_id);
		put_value(f, vars->step_name);
		break;
	case 's':
		put_step(f, vars->step_name, field->width);
		break;
	case 't':
		(void)fprintf(f, "%0*u", field->width, vars->rank);
		break;
	case 'n':
		(void)fprintf(f, "%0*u", field->width, vars->node_id);
		break;
	case 'N':
		put_value(f, vars->node_name);
		break;
	case 'u':
		put_value(f, vars->user_name);
		break;
	case 'x':
		put_value(f, vars->job_name);
		break;
	default: /* '%' */
		(void)fputc('%', f);
		break;
	}
}

/* Without replacement: only removes the backslashes. */
static void put_quoted(FILE *f, const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern == '\\' && pattern[1] != '\0')
			pattern++;
		(void)fputc(*pattern, f); /* checked by ferror() at the end */
	}
}

static void put_pattern(FILE *f, const char *pattern, const struct fname_vars *vars)
{
	struct field field;

	while (*pattern) {
		if (*pattern != '%' || parse_field(pattern, &field) < 0) {
			(void)fputc(*pattern++, f); /* checked by ferror() at the end */
			continue;
		}
		put_field(f, &field, vars);
		pattern += field.len;
	}
}

int fname_expand(
	const char *pattern, const struct fname_vars *vars, char **ret_name, struct err *err)
{
	_cleanup_free_ char *name = NULL;
	size_t size = 0;
	bool failed;
	FILE *f;
	int r;

	r = fname_check(pattern, err);
	if (r < 0)
		return r;
	f = open_memstream(&name, &size);
	if (!f)
		return err_set(err, -errno, "expand the file name '%s'", pattern);
	if (strchr(pattern, '\\'))
		put_quoted(f, pattern);
	else
		put_pattern(f, pattern, vars);
	failed = ferror(f) != 0;
	if (fclose(f) != 0 || failed)
		return err_set(err, -ENOMEM, "expand the file name '%s'", pattern);
	if (size >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the file name '%.64s...' made of '%.64s'", name,
			pattern);
	if (size == 0)
		return err_set_text(
			err, -EINVAL, "the pattern '%s' makes an empty file name", pattern);
	*ret_name = take_ptr(name);
	return 0;
}
