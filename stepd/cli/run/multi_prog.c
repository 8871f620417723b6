/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run/multi_prog.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/bitset.h"
#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

struct reader {
	uint32_t ntasks;
	char *const *extra;
	struct bitset seen; /* ranks that have a program */
	uint32_t seen_count;
	unsigned line;
	bool rest_done; /* the "*" line was there */
	json_t *tasks;
	struct err *err;
};

static void reader_clear(struct reader *rd)
{
	bitset_clear(&rd->seen);
	json_decref(rd->tasks);
}

static int multi_prog_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the program list");
}

/* ---- arguments ----------------------------------------------------------------------------- */

struct argument {
	struct buffer text;
	bool begun; /* "" between quotes is one, too */
};

static void argument_clear(struct argument *arg)
{
	buffer_clear(&arg->text);
	arg->begun = false;
}

static int argument_put(struct argument *arg, const char *bytes, size_t n)
{
	arg->begun = true;
	return buffer_add(&arg->text, bytes, n);
}

static int argument_end(struct argument *arg, struct strv *args)
{
	int r = 0;

	if (arg->begun)
		r = strv_add_take(
			args, strndup(buffer_bytes(&arg->text) ?: "", buffer_size(&arg->text)));
	argument_clear(arg);
	return r;
}

/* What %t and %o stand for in this expansion. */
struct marks {
	uint32_t rank;
	uint32_t offset;
	bool used;
};

/* Adds the next character of p, or what it stands for, to the argument: how many bytes of p that
 * took, or -ENOMEM. */
static ssize_t put_next(struct argument *arg, const char *p, char quote, struct marks *marks)
{
	char digits[16];
	int n;

	if (quote != '\'' && p[0] == '\\' && p[1])
		return argument_put(arg, p + 1, 1) < 0 ? -ENOMEM : 2;
	if (quote != '\'' && p[0] == '%' && (p[1] == 't' || p[1] == 'o')) {
		marks->used = true;
		n = snprintf(
			digits, sizeof(digits), "%u", p[1] == 't' ? marks->rank : marks->offset);
		return argument_put(arg, digits, (size_t)n) < 0 ? -ENOMEM : 2;
	}
	return argument_put(arg, p, 1) < 0 ? -ENOMEM : 1;
}

/* Splits a line into arguments. -EINVAL: a quote is open at its end. */
static int split_arguments(const char *line, struct marks *marks, struct strv *args)
{
	_cleanup_(argument_clear) struct argument arg = {0};
	char quote = '\0';
	const char *p = line;
	ssize_t n;

	while (*p) {
		n = 1;
		if (quote && *p == quote)
			quote = '\0';
		else if (!quote && (*p == '\'' || *p == '"')) {
			quote = *p;
			n = argument_put(&arg, "", 0) < 0 ? -ENOMEM : 1;
		} else if (!quote && isspace((unsigned char)*p))
			n = argument_end(&arg, args) < 0 ? -ENOMEM : 1;
		else
			n = put_next(&arg, p, quote, marks);
		if (n < 0)
			return (int)n;
		p += n;
	}
	return quote ? -EINVAL : argument_end(&arg, args);
}

/* ---- entries ------------------------------------------------------------------------------- */

/* Any bytes: text that is not UTF-8 is passed on as it is. */
static json_t *argv_json(const struct reader *rd, const struct strv *args)
{
	json_auto_t *argv = json_array();
	size_t i;
	int r = 0;

	for (i = 0; i < args->n && r == 0; i++)
		r = json_array_append_new(argv, json_string_nocheck(args->v[i]));
	for (i = 0; rd->extra && rd->extra[i] && r == 0; i++)
		r = json_array_append_new(argv, json_string_nocheck(rd->extra[i]));
	return r < 0 ? NULL : take_ptr(argv);
}

/* Adds an entry for the ranks, whose value it takes over. */
static int add_entry(
	struct reader *rd, const char *key, json_t *ranks_take, const struct strv *args)
{
	json_t *entry = json_pack("{s:o, s:o}", key, ranks_take, "argv", argv_json(rd, args));

	return json_array_append_new(rd->tasks, entry) < 0 ? multi_prog_no_memory(rd->err) : 0;
}

struct line_ranks {
	struct reader *rd;
	const char *command;
	uint32_t offset;
};

static int claim_rank(uint32_t rank, void *userdata)
{
	struct reader *rd = userdata;

	if (bitset_set(&rd->seen, rank)) {
		(void)err_set_text(
			rd->err, -EINVAL, "line %u: rank %u has a program already", rd->line, rank);
		return -ECANCELED;
	}
	rd->seen_count++;
	return 0;
}

/* One rank's own entry, with %t and %o replaced. */
static int add_rank(uint32_t rank, void *userdata)
{
	struct line_ranks *lr = userdata;
	struct marks marks = {.rank = rank, .offset = lr->offset++};
	_cleanup_strv_ struct strv args = {0};

	if (split_arguments(lr->command, &marks, &args) < 0 ||
		add_entry(lr->rd, "rank", json_integer(rank), &args) < 0) {
		(void)multi_prog_no_memory(lr->rd->err);
		return -ECANCELED;
	}
	return 0;
}

/* The ranks that have no program yet, as "1-2,7": the caller frees it. */
static char *rest_text(const struct reader *rd)
{
	_cleanup_bitset_ struct bitset rest = {0};
	uint32_t rank;
	size_t size;
	char *text;

	if (bitset_init(&rest, rd->ntasks) < 0)
		return NULL;
	for (rank = 0; rank < rd->ntasks; rank++) {
		if (!bitset_test(&rd->seen, rank))
			bitset_set(&rest, rank);
	}
	size = bitset_format_list(&rest, NULL, 0) + 1;
	text = malloc(size);
	if (text)
		(void)bitset_format_list(&rest, text, size);
	return text;
}

static int add_rest(struct reader *rd, const char *command)
{
	struct line_ranks lr = {.rd = rd, .command = command};
	uint32_t rank;
	int r = 0;

	for (rank = 0; rank < rd->ntasks && r == 0; rank++) {
		if (bitset_set(&rd->seen, rank))
			continue;
		rd->seen_count++;
		lr.offset = rank;
		r = add_rank(rank, &lr);
	}
	return r;
}

static int report_ranks(const struct reader *rd, int r, const char *ranks)
{
	if (r == -EINVAL)
		return err_set_text(rd->err, r,
			"line %u: '%.200s' is not a list of ranks such as \"0-3,8\" or \"*\"",
			rd->line, ranks);
	if (r == -ERANGE)
		return err_set_text(rd->err, r,
			"line %u: '%.200s' holds a rank that is not below %u, the "
			"number of tasks",
			rd->line, ranks, rd->ntasks);
	return r == -ECANCELED ? -EINVAL : multi_prog_no_memory(rd->err);
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Once the arguments have shown whether they differ from rank to rank. */
static int take_ranks(struct reader *rd, const char *ranks, const char *command, bool differs,
	const struct strv *args)
{
	struct line_ranks lr = {.rd = rd, .command = command};
	_cleanup_free_ char *rest = NULL;
	int r;

	if (strcmp(ranks, "*") == 0) {
		rd->rest_done = true;
		if (rd->seen_count == rd->ntasks)
			return 0;
		if (differs)
			return add_rest(rd, command) < 0 ? -EINVAL : 0;
		rest = rest_text(rd);
		rd->seen_count = rd->ntasks;
		return add_entry(rd, "ranks", rest ? json_string(rest) : NULL, args);
	}
	r = parse_ranges(ranks, rd->ntasks, claim_rank, rd);
	if (r == 0 && differs)
		r = parse_ranges(ranks, rd->ntasks, add_rank, &lr);
	if (r < 0)
		return report_ranks(rd, r, ranks);
	return differs ? 0 : add_entry(rd, "ranks", json_string(ranks), args);
}

static int take_line(struct reader *rd, char *line)
{
	_cleanup_strv_ struct strv args = {0};
	struct marks marks = {0};
	char *ranks, *command;
	int r;

	ranks = line + strspn(line, " \t\r");
	if (!*ranks || *ranks == '#')
		return 0;
	if (rd->rest_done)
		return err_set_text(
			rd->err, -EINVAL, "line %u: the line with '*' must be the last", rd->line);
	command = ranks + strcspn(ranks, " \t\r");
	if (*command)
		*command++ = '\0';
	r = split_arguments(command, &marks, &args);
	if (r == -EINVAL)
		return err_set_text(rd->err, r, "line %u: a quote is not closed", rd->line);
	if (r < 0)
		return multi_prog_no_memory(rd->err);
	if (args.n == 0)
		return err_set_text(rd->err, -EINVAL,
			"line %u: there is no program behind '%.200s'", rd->line, ranks);
	return take_ranks(rd, ranks, command, marks.used, &args);
}

/* Returns the next line, joined with those that follow a backslash at its end. */
static char *next_line(char **text, unsigned *lines)
{
	char *line = *text, *to = line, *from = line;

	*lines = 1;
	if (!*from)
		return NULL;
	while (*from && *from != '\n') {
		if (from[0] == '\\' && from[1] == '\n') {
			*to++ = ' ';
			from += 2;
			++*lines;
			continue;
		}
		if (from[0] == '\\' && from[1])
			*to++ = *from++;
		*to++ = *from++;
	}
	*text = *from ? from + 1 : from;
	*to = '\0';
	return line;
}

static int check_all(const struct reader *rd)
{
	uint32_t rank;

	if (rd->seen_count == rd->ntasks)
		return 0;
	for (rank = 0; bitset_test(&rd->seen, rank); rank++)
		;
	return err_set_text(
		rd->err, -EINVAL, "rank %u has no program (there are %u tasks)", rank, rd->ntasks);
}

int multi_prog_parse(
	const char *text, uint32_t ntasks, char *const *extra, json_t **ret_tasks, struct err *err)
{
	_cleanup_(reader_clear) struct reader rd = {
		.ntasks = ntasks, .extra = extra, .line = 1, .err = err};
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *line;
	unsigned lines;
	int r = 0;

	rd.tasks = json_array();
	if (!copy || !rd.tasks || bitset_init(&rd.seen, ntasks) < 0)
		return multi_prog_no_memory(err);
	while (r == 0 && (line = next_line(&rest, &lines))) {
		r = take_line(&rd, line);
		rd.line += lines;
	}
	if (r == 0)
		r = check_all(&rd);
	if (r < 0)
		return r;
	*ret_tasks = take_ptr(rd.tasks);
	return 0;
}
