/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/site_config.h"

#include <fcntl.h>
#include <grp.h>
#include <ini.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "stepd/base/dynlib.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec_json.h"
#include "stepd/step/agent.h"

#define GID_MOST 0xfffffffeu /* the last one is "no group" */

/* ---- the keys ----------------------------------------------------------------------------- */

static int take_operator_group(struct site_config *config, const char *value, struct err *err)
{
	struct group *group;
	uint32_t gid;

	if (parse_u32(value, 0, GID_MOST, &gid) == 0) {
		config->operator_gid = gid;
		return 0;
	}
	errno = 0;
	group = getgrnam(value);
	if (!group && errno && errno != ENOENT && errno != ESRCH)
		return err_set(err, -errno, "look up the group '%s'", value);
	if (!group)
		return err_say(err, -EINVAL,
			"there is no group '%s'; give the name of one, or its number", value);
	config->operator_gid = group->gr_gid;
	return 0;
}

static int take_keep_result(struct site_config *config, const char *value, struct err *err)
{
	if (parse_duration_ms(value, &config->keep_result_ms) < 0)
		return err_say(err, -EINVAL,
			"'%s' is no duration; write 90s, 5m, 2h or 1d, or 0 to keep none", value);
	config->keep_result_given = true;
	return 0;
}

/* A text that the field of the spec could hold, too. */
static int take_text(const char *value, enum spec_table table, const char *field, char *text,
	size_t size, struct err *err)
{
	const char *problem = *value ? spec_field_problem(table, field, value) : "is empty";

	if (problem)
		return err_say(err, -EINVAL, "'%s' %s", value, problem);
	(void)snprintf(text, size, "%s", value);
	return 0;
}

static int take_mpi_default(struct site_config *config, const char *value, struct err *err)
{
	return take_text(value, SPEC_TABLE_STEP, "mpi", config->mpi_default,
		sizeof(config->mpi_default), err);
}

static int take_kill_on_bad_exit(struct site_config *config, const char *value, struct err *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0 && strcmp(value, "mpi") != 0)
		return err_say(err, -EINVAL, "'%s' is neither 0 nor 1 nor mpi", value);
	config->kill_on_bad_exit_given = strcmp(value, "mpi") != 0;
	config->kill_on_bad_exit = strcmp(value, "1") == 0;
	return 0;
}

static int take_pmi_timeout(struct site_config *config, const char *value, struct err *err)
{
	if (parse_duration_ms(value, &config->pmi_timeout_ms) < 0)
		return err_say(err, -EINVAL,
			"'%s' is no duration; write 90s, 5m or 2h, or 0 for no deadline", value);
	config->pmi_timeout_given = true;
	return 0;
}

static int take_pmi_memory(struct site_config *config, const char *value, struct err *err)
{
	if (parse_size(value, 1, &config->pmi_memory_bytes) < 0 ||
		config->pmi_memory_bytes > INT64_MAX)
		return err_say(err, -EINVAL, "'%s' is no size; write 512M or 4G, or 0 for no limit",
			value);
	config->pmi_memory_given = true;
	return 0;
}

/* The site's alone: a step's own document may come from its user. */
static int take_mpi_filter(struct site_config *config, const char *value, struct err *err)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return err_say(err, -EINVAL, "'%s' is neither yes nor no", value);
	config->mpi_unfiltered = strcmp(value, "no") == 0;
	return 0;
}

/* No secret: that is a step's own. */
static int take_wire_auth(struct site_config *config, const char *value, struct err *err)
{
	if (strcmp(value, "munge") != 0 && strcmp(value, "none") != 0)
		return err_say(err, -EINVAL, "'%s' is neither munge nor none", value);
	return take_text(
		value, SPEC_TABLE_WIRE, "auth", config->wire_auth, sizeof(config->wire_auth), err);
}

static int take_wire_fanout(struct site_config *config, const char *value, struct err *err)
{
	if (parse_u32(value, 2, 1024, &config->wire_fanout) < 0)
		return err_say(
			err, -EINVAL, "'%s' is no whole number in the range 2 to 1024", value);
	return 0;
}

static int take_wire_ifname(struct site_config *config, const char *value, struct err *err)
{
	return take_text(value, SPEC_TABLE_WIRE, "ifname", config->wire_ifname,
		sizeof(config->wire_ifname), err);
}

/* A row here, an entry in stepd.conf(5): a test holds them together. */
static const struct {
	const char *name;
	int (*take)(struct site_config *config, const char *value, struct err *err);
} keys[] = {
	{"operator_group", take_operator_group},
	{"keep_result", take_keep_result},
	{"mpi_default", take_mpi_default},
	{"kill_on_bad_exit", take_kill_on_bad_exit},
	{"pmi_timeout", take_pmi_timeout},
	{"pmi_memory", take_pmi_memory},
	{"mpi_filter", take_mpi_filter},
	{"wire_auth", take_wire_auth},
	{"wire_fanout", take_wire_fanout},
	{"wire_ifname", take_wire_ifname},
};

const char *site_config_key(size_t index)
{
	return index < ARRAY_SIZE(keys) ? keys[index].name : NULL;
}

/* ---- the file ----------------------------------------------------------------------------- */

struct reader {
	struct site_config config;
	const char *next; /* what inih has not read */
	unsigned line;    /* the one that it has */
	bool given[ARRAY_SIZE(keys)];
	int r; /* of the first line that is wrong */
	struct err err;
};

static int report_line(struct reader *reader, int code)
{
	char text[ERR_TEXT_SIZE];

	if (reader->r < 0)
		return 0; /* one thing at a time */
	memcpy(text, reader->err.text, sizeof(text));
	reader->r = err_say(&reader->err, code, "line %u: %s", reader->line, text);
	return 0;
}

/* fgets(3) for inih. A line longer than its buffer would be read as two. */
static char *read_line(char *buf, int size, void *stream)
{
	struct reader *reader = stream;
	size_t n = strcspn(reader->next, "\n");

	if (*reader->next == '\0' || reader->r < 0)
		return NULL;
	reader->line++;
	if (n + 2 > (size_t)size) {
		(void)err_say(&reader->err, -EINVAL, "the line is longer than %d bytes", size - 2);
		(void)report_line(reader, -EINVAL);
		return NULL;
	}
	n += reader->next[n] == '\n';
	memcpy(buf, reader->next, n);
	buf[n] = '\0';
	reader->next += n;
	return buf;
}

static size_t find_key(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys) && strcmp(keys[i].name, name) != 0; i++)
		;
	return i;
}

/* As inih wants it: 0 where something is wrong. */
static int take_pair(void *user, const char *section, const char *name, const char *value)
{
	struct reader *reader = user;
	size_t i = find_key(name);
	int r;

	if (*section)
		return report_line(reader,
			err_say(&reader->err, -EINVAL,
				"[%s]: there are no sections; write the keys without one",
				section));
	if (i == ARRAY_SIZE(keys))
		return report_line(reader,
			err_say(&reader->err, -EINVAL,
				"there is no key '%s'; stepd.conf(5) has those that there are",
				name));
	if (reader->given[i])
		return report_line(reader,
			err_say(&reader->err, -EINVAL,
				"%s is given twice (a line that begins with a blank goes on with "
				"the value before)",
				name));
	reader->given[i] = true;
	r = keys[i].take(&reader->config, value, &reader->err);
	if (r == 0)
		return 1;
	(void)err_prefix(&reader->err, "%s", name);
	return report_line(reader, r);
}

static int parse(struct reader *reader, const char *file, struct err *err)
{
	__typeof__(&ini_parse_stream) parse_stream = NULL;
	const struct dynlib_symbol symbol = {"ini_parse_stream", 0};
	void *handle = dynlib_open(INIH_SONAME, &symbol, 1, &parse_stream);
	int line;

	if (!handle)
		return err_say(err, -ELIBACC, "can't read '%s': %s is missing; install libinih",
			file, INIH_SONAME);
	line = parse_stream(read_line, reader, take_pair, reader);
	(void)dynlib_close(handle);
	/* inih tells its first line with a fault: one that is no pair, or one of ours. */
	if (line > 0 && (reader->r == 0 || (unsigned)line < reader->line))
		return err_say(err, -EINVAL, "%s: line %d: write 'key = value'", file, line);
	if (line < 0)
		return err_set(err, -ENOMEM, "read '%s'", file);
	if (reader->r < 0)
		return err_say(err, reader->r, "%s: %s", file, reader->err.text);
	return 0;
}

static int check_file(int fd, const char *file, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "read the configuration '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_say(err, -EINVAL, "configuration: '%s' is no regular file", file);
	r = fs_check_trusted(fd, file, err);
	return r < 0 && err ? err_prefix(err, "configuration") : r;
}

int site_config_read(const char *file, struct site_config *ret_config, struct err *err)
{
	struct reader reader = {.config = SITE_CONFIG_INIT, .err = ERR_INIT};
	const char *path = file ? file : STEPD_CONFIG_FILE;
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t size;
	int r;

	/* non-blocking: a pipe of that name must not hold the agent */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && !file) {
		*ret_config = reader.config;
		return 0;
	}
	if (fd < 0)
		return err_set(err, -errno, "open the configuration '%s'", path);
	r = check_file(fd, path, err);
	if (r < 0)
		return r;
	r = fs_read_fd(fd, SITE_CONFIG_SIZE_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read the configuration '%s'", path);
	if (strlen(text) != size)
		return err_say(err, -EINVAL, "%s: there is a NUL byte in it", path);
	reader.next = text;
	r = parse(&reader, path, err);
	if (r == 0)
		*ret_config = reader.config;
	return r;
}

/* ---- a step's document --------------------------------------------------------------------- */

/* The object of that name in doc, which is made if need be. NULL: no memory, or it is no object,
 * which the spec's own check will find. */
static json_t *get_object(json_t *doc, const char *name)
{
	json_t *object = json_object_get(doc, name);

	if (!object) {
		object = json_object();
		if (json_object_set_new(doc, name, object) < 0)
			return NULL;
	}
	return json_is_object(object) ? object : NULL;
}

/* Owns value. */
static int fill(json_t *doc, const char *parent, const char *name, json_t *value)
{
	json_t *object = parent ? get_object(doc, parent) : doc;

	if (!object || json_object_get(object, name)) {
		json_decref(value);
		return 0;
	}
	return json_object_set_new(object, name, value) < 0 ? -ENOMEM : 1;
}

int site_config_fill_spec(const struct site_config *config, json_t *doc, struct err *err)
{
	const char *kind = json_string_value(json_object_get(doc, "kind"));
	const json_t *wire = json_object_get(doc, "wire");
	int changes = 0;

	if (!json_is_object(doc) || (kind && strcmp(kind, "normal") != 0))
		return 0;
	if (config->mpi_default[0])
		changes |= fill(doc, NULL, "mpi", json_string(config->mpi_default));
	if (config->kill_on_bad_exit_given)
		changes |=
			fill(doc, NULL, "kill_on_bad_exit", json_boolean(config->kill_on_bad_exit));
	if (config->pmi_timeout_given)
		changes |= fill(
			doc, "pmi", "timeout_ms", json_integer((json_int_t)config->pmi_timeout_ms));
	if (config->pmi_memory_given)
		changes |= fill(doc, "pmi", "memory_bytes",
			json_integer((json_int_t)config->pmi_memory_bytes));
	if (config->wire_auth[0] && !json_object_get(wire, "secret_fd"))
		changes |= fill(doc, "wire", "auth", json_string(config->wire_auth));
	if (config->wire_fanout)
		changes |= fill(doc, "wire", "fanout", json_integer(config->wire_fanout));
	if (config->wire_ifname[0])
		changes |= fill(doc, "wire", "ifname", json_string(config->wire_ifname));
	return changes < 0 ? err_set(err, -ENOMEM, "read the step spec") : changes;
}

/* ---- for an agent ------------------------------------------------------------------------- */

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err)
{
	if (parse_duration_ms(arg, &site->keep_result_ms) < 0)
		return err_say(err, -EINVAL,
			"'%.200s' is no duration such as 90, 30s, 5m, 2h or 1d; 0 keeps none", arg);
	site->keep_result_given = true;
	return 0;
}

int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, struct json_t *doc, struct err *err)
{
	struct site_config config = SITE_CONFIG_INIT;
	int r = site_config_read(site->config_file, &config, err);

	if (r < 0)
		return r;
	options->operator_gid = config.operator_gid;
	options->mpi_unfiltered = config.mpi_unfiltered;
	options->keep_result_ms = keep_result_ms;
	if (keep_result_ms && config.keep_result_given)
		options->keep_result_ms = config.keep_result_ms;
	if (site->keep_result_given)
		options->keep_result_ms = site->keep_result_ms;
	return doc ? site_config_fill_spec(&config, doc, err) : 0;
}
