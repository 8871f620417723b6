/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/parse.h"

#include <ctype.h>
#include <string.h>

int parse_u64(const char *text, uint64_t least, uint64_t most, uint64_t *ret_n)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || n < least || n > most)
		return -ERANGE;
	*ret_n = n;
	return 0;
}

int parse_u32(const char *text, uint32_t least, uint32_t most, uint32_t *ret_n)
{
	uint64_t n;
	int r = parse_u64(text, least, most, &n);

	if (r == 0)
		*ret_n = (uint32_t)n;
	return r;
}

int parse_i32(const char *text, int32_t least, int32_t most, int32_t *ret_n)
{
	long long n;
	char *end;

	if (!isdigit((unsigned char)text[text[0] == '-']))
		return -EINVAL;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || n < least || n > most)
		return -ERANGE;
	*ret_n = (int32_t)n;
	return 0;
}

int parse_line_u64(const char *text, const char *key, uint64_t *ret_n)
{
	const size_t len = strlen(key);

	while (strncmp(text, key, len) != 0) {
		text = strchr(text, '\n');
		if (!text)
			return -EBADMSG;
		text++;
	}
	text += len;
	text += strspn(text, " \t");
	if (!isdigit((unsigned char)text[0]))
		return -EBADMSG;
	*ret_n = strtoull(text, NULL, 10);
	return 0;
}

int parse_duration_ms(const char *text, uint64_t *ret_ms)
{
	static const struct {
		const char *name;
		double ms;
	} units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}};
	double n = 0, weight = 1;
	const char *p = text;
	size_t i;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		n = n * 10 + (*p - '0');
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return -EINVAL;
		for (; isdigit((unsigned char)*p); p++)
			n += (*p - '0') * (weight /= 10);
	}
	for (i = 0; i < ARRAY_SIZE(units) && strcmp(p, units[i].name) != 0; i++)
		;
	if (i == ARRAY_SIZE(units))
		return -EINVAL;
	if (n * units[i].ms > 3.15e12) /* a century */
		return -ERANGE;
	*ret_ms = (uint64_t)(n * units[i].ms + 0.5);
	return 0;
}

/* Reads up to three numbers with ':' between them. Their count, or -EINVAL. */
static int parse_colons(const char *text, uint64_t part[3])
{
	char *end;
	int n = 0;

	for (;;) {
		if (n == 3 || !isdigit((unsigned char)*text) || strcspn(text, ":") > 9)
			return -EINVAL;
		part[n++] = strtoull(text, &end, 10);
		if (!*end)
			return n;
		if (*end != ':')
			return -EINVAL;
		text = end + 1;
	}
}

int parse_slurm_time_ms(const char *text, uint64_t *ret_ms)
{
	const char *dash = strchr(text, '-');
	uint64_t days = 0, part[3] = {0}, seconds;
	char digits[10];
	int n;

	if (dash) {
		if ((size_t)(dash - text) >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, text, (size_t)(dash - text));
		digits[dash - text] = '\0';
		if (parse_u64(digits, 0, 36500, &days) < 0)
			return -EINVAL;
		text = dash + 1;
	}
	n = parse_colons(text, part);
	if (n < 0)
		return n;
	if (dash || n == 3) /* largest unit: hours */
		seconds = part[0] * 3600 + part[1] * 60 + part[2];
	else /* minutes */
		seconds = part[0] * 60 + part[1];
	seconds += days * 86400;
	if (seconds > 3150000000u)
		return -ERANGE;
	*ret_ms = seconds * 1000;
	return 0;
}

/* The digits behind the point, as a part of unit: those behind the 15th are less than a byte. */
static uint64_t fraction_of(const char *digits, uint64_t unit)
{
	double part = 0, weight = 1;

	for (; isdigit((unsigned char)*digits) && weight > 1e-15; digits++)
		part += (*digits - '0') * (weight /= 10);
	return (uint64_t)(part * (double)unit + 0.5);
}

/* 1024 for "K" and so on; 0: no unit. */
static uint64_t size_unit(const char *name)
{
	static const char letters[] = "KMGTPE";
	const char *letter = *name ? strchr(letters, toupper((unsigned char)*name)) : NULL;

	return letter && !name[1] ? UINT64_C(1) << (letter - letters + 1) * 10 : 0;
}

int parse_size(const char *text, uint64_t bare_unit, uint64_t *ret_bytes)
{
	const char *point = NULL, *p;
	uint64_t unit = bare_unit, bytes, fraction = 0;
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	p = end;
	if (*p == '.') {
		point = ++p;
		p += strspn(p, "0123456789");
	}
	if (*p)
		unit = size_unit(p);
	if (unit == 0 || p == point)
		return -EINVAL;
	if (point)
		fraction = fraction_of(point, unit);
	if (errno == ERANGE || __builtin_mul_overflow(n, unit, &bytes) ||
		__builtin_add_overflow(bytes, fraction, &bytes))
		return -ERANGE;
	*ret_bytes = bytes;
	return 0;
}

const char *parse_plugin_name(const char *text, const char *kind)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t len = strlen(kind);

	if (strncmp(text, kind, len) == 0 && text[len] == '/')
		text += len + 1;
	len = strspn(text, allowed);
	return len > 0 && len <= 64 && !text[len] ? text : NULL;
}

static int parse_range(char *piece, uint32_t limit, parse_range_fn add, void *userdata)
{
	uint32_t first = 0, last, i;
	char *rest = piece;
	int r;

	if (limit == 0)
		return -ERANGE;
	r = parse_u32(strsep(&rest, "-"), 0, limit - 1, &first);
	if (r < 0)
		return r;
	last = first;
	if (rest)
		r = parse_u32(rest, 0, limit - 1, &last);
	if (r < 0)
		return r;
	if (last < first)
		return -EINVAL;
	for (i = first;; i++) {
		r = add(i, userdata);
		if (r < 0 || i == last)
			return r < 0 ? r : 0;
	}
}

int parse_ranges(const char *text, uint32_t limit, parse_range_fn add, void *userdata)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *piece;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && (piece = strsep(&rest, ",")))
		r = parse_range(piece, limit, add, userdata);
	return r;
}
