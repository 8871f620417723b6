/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/columns.h"

#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/conf.h"
#include "stepd/base/buffer.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"

#define WIDTH_MAX     4096
#define NAMED_WIDTH   20 /* without a width of its own */
#define SORT_KEYS_MAX 32

/* ---- formats ----------------------------------------------------------------------------------
 */

void format_clear(struct format *format)
{
	size_t i;

	for (i = 0; i < format->n; i++)
		free(format->items[i].before);
	free(format->items);
	*format = (struct format){0};
}

static int add_item(struct format *format, struct format_item item, const char *before,
	size_t before_size, struct err *err)
{
	item.before = strndup(before, before_size);
	if (!item.before || array_reserve(format->items, format->capacity, format->n + 1) < 0) {
		free(item.before);
		return err_set(err, -ENOMEM, "read a format");
	}
	format->items[format->n++] = item;
	return 0;
}

static const struct column *find_letter(const struct column_table *table, char letter)
{
	size_t i;

	for (i = 0; letter && i < table->n; i++) {
		if (table->columns[i].letter == letter)
			return &table->columns[i];
	}
	return NULL;
}

static const struct column *find_name(
	const struct column_table *table, const char *name, size_t size)
{
	const char *other;
	size_t i;

	for (i = 0; i < table->n; i++) {
		other = table->columns[i].name;
		if (other && strlen(other) == size && strncasecmp(other, name, size) == 0)
			return &table->columns[i];
	}
	return NULL;
}

/* "[.][WIDTH]": behind it, or NULL where it is too wide. */
static const char *take_width(const char *text, struct format_item *item)
{
	unsigned long width;
	char *end;

	if (*text == '.') {
		item->right = true;
		text++;
	}
	if (!isdigit((unsigned char)*text))
		return text;
	width = strtoul(text, &end, 10);
	item->width = (int)width;
	return width > WIDTH_MAX ? NULL : end;
}

/* Parses the text after a '%'. */
static const char *take_field(const struct column_table *table, const char *text,
	struct format_item *item, struct err *err)
{
	const char *p = text;
	size_t size;

	if (*p == '#') {
		item->fitted = true;
		p++;
	}
	p = take_width(p, item);
	if (!p) {
		(void)err_set_text(err, -EINVAL, "'%%%.50s' is wider than %d", text, WIDTH_MAX);
		return NULL;
	}
	size = *p == '{' ? strcspn(p, "}") : 0;
	item->column = size && p[size] ? find_name(table, p + 1, size - 1) : find_letter(table, *p);
	if (!item->column) {
		(void)err_set_text(err, -EINVAL,
			"'%%%.50s' does not begin with a column of %s; see the table of letters in "
			"jobctl(1)",
			text, table->command);
		return NULL;
	}
	return p + size + 1;
}

int format_parse(const struct column_table *table, const char *text, struct format *ret_format,
	struct err *err)
{
	_cleanup_format_ struct format format = {0};
	struct format_item item;
	size_t before;
	int r = 0;

	while (r == 0 && *text) {
		const char *literal = text;

		item = (struct format_item){0};
		before = strcspn(text, "%");
		text += before;
		if (*text) {
			text = take_field(table, text + 1, &item, err);
			if (!text)
				return -EINVAL;
		}
		r = add_item(&format, item, literal, before, err);
	}
	if (r == 0)
		*ret_format = take_struct(format);
	return r;
}

int format_parse_names(const struct column_table *table, const char *text,
	struct format *ret_format, struct err *err)
{
	_cleanup_format_ struct format format = {0};
	struct format_item item;
	const char *p;
	size_t size;
	int r = 0;

	for (; r == 0 && *text; text = p + (*p == ',')) {
		size = strcspn(text, ":,");
		item = (struct format_item){
			.column = find_name(table, text, size), .width = NAMED_WIDTH};
		p = text + size;
		if (!item.column)
			return err_set_text(err, -EINVAL, "'%.*s' is not a column of %s",
				(int)(size < 100 ? size : 100), text, table->command);
		if (*p == ':')
			p = take_width(p + 1, &item);
		if (!p || (*p && *p != ','))
			return err_set_text(
				err, -EINVAL, "'%.100s' is not NAME[:[.]WIDTH],...", text);
		r = add_item(&format, item, "", 0, err);
	}
	if (r == 0)
		*ret_format = take_struct(format);
	return r;
}

/* ---- cells ------------------------------------------------------------------------------------
 */

/* Bytes of the character that text begins with; *ret_shown: whether it may be shown as it is. */
static size_t next_character(const char *text, bool *ret_shown)
{
	const unsigned char c = (unsigned char)text[0];
	size_t size = err_utf8_size(text);

	*ret_shown = size > 0 && c >= 0x20 && c != 0x7f &&
		!(c == 0xc2 && (unsigned char)text[1] < 0xa0); /* U+0080 to U+009F */
	return size ? size : 1;
}

static int count_columns(const char *text)
{
	bool shown;
	int n = 0;

	for (; *text; text += next_character(text, &shown))
		n++;
	return n;
}

void text_print(const char *text, int width, bool right, FILE *out)
{
	const int size = count_columns(text);
	int left = width && size > width ? width : size;
	bool shown;
	size_t bytes;

	if (right && size < width)
		(void)fprintf(out, "%*s", width - size, "");
	for (; left > 0; left--, text += bytes) {
		bytes = next_character(text, &shown);
		if (shown)
			(void)fwrite(text, 1, bytes, out);
		else
			(void)fputc('?', out);
	}
	if (!right && size < width)
		(void)fprintf(out, "%*s", width - size, "");
}

size_t text_cut(const char *text, size_t size, int columns)
{
	size_t at = 0;
	bool shown;

	for (; at < size && columns > 0; columns--)
		at += next_character(text + at, &shown);
	return at;
}

/* The width of each item, of which some depend on their cells. */
static int fit(const struct format *format, const void *const *rows, size_t n, int *widths)
{
	const struct format_item *item;
	size_t i, k;
	int size;

	for (i = 0; i < format->n; i++) {
		item = &format->items[i];
		widths[i] = item->width;
		if (!item->fitted || !item->column)
			continue;
		size = count_columns(item->column->title);
		widths[i] = item->column->least > size ? item->column->least : size;
		for (k = 0; k < n; k++) {
			_cleanup_free_ char *text = item->column->cell(item->column, rows[k]);

			if (!text)
				return -ENOMEM;
			size = count_columns(text);
			widths[i] = widths[i] > size ? widths[i] : size;
		}
	}
	return 0;
}

/* row NULL: the header. */
static int print_row(const struct format *format, const int *widths, const void *row, FILE *out)
{
	const struct format_item *item;
	size_t i;

	for (i = 0; i < format->n; i++) {
		_cleanup_free_ char *text = NULL;

		item = &format->items[i];
		(void)fputs(item->before, out);
		if (!item->column)
			continue;
		text = row ? item->column->cell(item->column, row) : strdup(item->column->title);
		if (!text)
			return -ENOMEM;
		text_print(text, widths[i], item->right, out);
	}
	(void)fputc('\n', out);
	return 0;
}

int format_print(
	const struct format *format, FILE *out, bool header, const void *const *rows, size_t n)
{
	_cleanup_free_ int *widths = calloc(format->n + 1, sizeof(*widths));
	int r = widths ? fit(format, rows, n, widths) : -ENOMEM;
	size_t i;

	if (r == 0 && header)
		r = print_row(format, widths, NULL, out);
	for (i = 0; r == 0 && i < n; i++)
		r = print_row(format, widths, rows[i], out);
	if (r == 0 && (fflush(out) == EOF || ferror(out)))
		r = errno ? -errno : -EIO;
	return r;
}

/* ---- order ------------------------------------------------------------------------------------
 */

struct sort_key {
	const struct column *column;
	column_number_fn *number;
	bool falling;
};

/* A row with the values of its keys, made once. */
struct sort_row {
	const void *row;
	size_t index;
	struct sort_value {
		double number;
		char *text;
	} * values;
};

struct sort {
	struct sort_key keys[SORT_KEYS_MAX];
	size_t keys_count;
	struct sort_row *rows;
	size_t n;
};

static int parse_keys(const struct column_table *table, const char *text,
	column_number_fn *by_index, struct sort *sort, struct err *err)
{
	struct sort_key key;

	for (; *text; text++) {
		if (*text == ',' || *text == '+' || *text == ' ')
			continue;
		key = (struct sort_key){.falling = *text == '-'};
		text += *text == '-';
		if (*text == '#') {
			key.number = by_index;
			text++;
		}
		key.column = find_letter(table, *text);
		if (!key.column)
			return err_set_text(err, -EINVAL,
				"--sort: '%.50s' does not begin with a column of %s; see the table "
				"of letters in jobctl(1)",
				text, table->command);
		if (sort->keys_count == SORT_KEYS_MAX)
			return err_set_text(
				err, -E2BIG, "--sort: there are more than %d keys", SORT_KEYS_MAX);
		if (!key.number)
			key.number = key.column->number;
		sort->keys[sort->keys_count++] = key;
	}
	return 0;
}

static int compare_sort_rows(const void *a, const void *b, void *userdata)
{
	const struct sort *sort = userdata;
	const struct sort_row *x = a, *y = b;
	size_t i;
	int r;

	for (i = 0; i < sort->keys_count; i++) {
		const struct sort_value *v = &x->values[i], *w = &y->values[i];

		r = v->text ? strcmp(v->text, w->text)
			    : (v->number > w->number) - (v->number < w->number);
		if (r != 0)
			return sort->keys[i].falling ? -r : r;
	}
	return (x->index > y->index) - (x->index < y->index);
}

static int fill_row(const struct sort *sort, struct sort_row *row)
{
	const struct sort_key *key;
	size_t i;

	row->values = calloc(sort->keys_count + 1, sizeof(*row->values));
	for (i = 0; row->values && i < sort->keys_count; i++) {
		key = &sort->keys[i];
		if (key->number) {
			row->values[i].number = key->number(key->column, row->row);
			continue;
		}
		row->values[i].text = key->column->cell(key->column, row->row);
		if (!row->values[i].text)
			return -ENOMEM;
	}
	return row->values ? 0 : -ENOMEM;
}

static void sort_clear(struct sort *sort)
{
	size_t i, k;

	for (i = 0; i < sort->n; i++) {
		for (k = 0; sort->rows[i].values && k < sort->keys_count; k++)
			free(sort->rows[i].values[k].text);
		free(sort->rows[i].values);
	}
	free(sort->rows);
}

int rows_sort(const struct column_table *table, const char *keys, column_number_fn *by_index,
	const void **rows, size_t n, struct err *err)
{
	_cleanup_(sort_clear) struct sort sort = {0};
	size_t i;
	int r = parse_keys(table, keys, by_index, &sort, err);

	if (r < 0)
		return r;
	sort.rows = calloc(n + 1, sizeof(*sort.rows));
	sort.n = sort.rows ? n : 0;
	r = sort.rows ? 0 : -ENOMEM;
	for (i = 0; r == 0 && i < n; i++) {
		sort.rows[i] = (struct sort_row){.row = rows[i], .index = i};
		r = fill_row(&sort, &sort.rows[i]);
	}
	if (r < 0)
		return err_set(err, r, "sort %zu lines", n);
	qsort_r(sort.rows, n, sizeof(*sort.rows), compare_sort_rows, &sort);
	for (i = 0; i < n; i++)
		rows[i] = sort.rows[i].row;
	return 0;
}

/* ---- texts ------------------------------------------------------------------------------------
 */

char *text_printf(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;
	int r;

	va_start(args, fmt);
	r = vasprintf(&text, fmt, args);
	va_end(args);
	return r < 0 ? NULL : text;
}

char *column_constant(const struct column *column, const void *row)
{
	(void)row;
	return strdup(column->missing);
}

bool has_state_flag(const json_t *record, const char *flag)
{
	const json_t *value;
	size_t i;

	json_array_foreach (json_get_array(record, "state_flags"), i, value) {
		if (json_is_string(value) && strcmp(json_string_value(value), flag) == 0)
			return true;
	}
	return false;
}

char *text_of_seconds(int64_t seconds)
{
	const long long days = seconds / 86400, hours = seconds / 3600 % 24,
			minutes = seconds / 60 % 60, rest = seconds % 60;

	if (seconds < 0)
		return strdup("INVALID");
	if (days)
		return text_printf("%lld-%02lld:%02lld:%02lld", days, hours, minutes, rest);
	if (hours)
		return text_printf("%lld:%02lld:%02lld", hours, minutes, rest);
	return text_printf("%lld:%02lld", minutes, rest);
}

char *text_of_limit(int64_t minutes, const char *unlimited)
{
	return minutes < 0 || minutes > INT32_MAX ? strdup(unlimited)
						  : text_of_seconds(minutes * 60);
}

char *text_of_time(int64_t time, const char *missing)
{
	const time_t t = (time_t)time;
	char text[64];
	struct tm tm;

	if (t <= 0 || !localtime_r(&t, &tm) ||
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		return strdup(missing);
	return strdup(text);
}

char *text_of_size(uint64_t n, char unit)
{
	static const char units[] = "\0KMGTPE"; /* the first is for none */
	size_t i = 0;

	while (unit && units[i] != unit)
		i++;
	while (n && n % 1024 == 0 && i < sizeof(units) - 2) {
		n /= 1024;
		i++;
	}
	if (n == 0 || !units[i])
		return text_printf("%llu", (unsigned long long)n);
	return text_printf("%llu%c", (unsigned long long)n, units[i]);
}

char *text_of_user(int64_t uid)
{
	const struct passwd *pw = uid < 0 ? NULL : getpwuid((uid_t)uid);

	return pw ? strdup(pw->pw_name) : text_printf("%lld", (long long)uid);
}

char *text_of_group(int64_t gid)
{
	const struct group *group = gid < 0 ? NULL : getgrgid((gid_t)gid);

	return group ? strdup(group->gr_name) : text_printf("%lld", (long long)gid);
}

bool list_has(const char *list, const char *text)
{
	const size_t wanted = strlen(text);
	size_t size;

	if (!list)
		return true;
	for (; *list; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		if (size == wanted && memcmp(list, text, size) == 0)
			return true;
	}
	return false;
}

static int add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int find_node(const char *name, void *userdata)
{
	const struct strv *others = userdata;

	return strv_index((const char *const *)others->v, others->n, name) >= 0 ? -EEXIST : 0;
}

bool nodes_meet(const char *nodes, const char *others)
{
	_cleanup_strv_ struct strv names = {0};

	if (!others)
		return true;
	return hostlist_each(others, CONF_NODES_MAX, add_name, &names) >= 0 &&
		hostlist_each(nodes, CONF_NODES_MAX, find_node, &names) == -EEXIST;
}
