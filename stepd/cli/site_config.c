/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/site_config.h"

#include <fcntl.h>
#include <grp.h>
#include <ini.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "stepd/base/dynlib.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec_json.h"
#include "stepd/step/agent.h"

#define CONFIG_SIZE_MAX (1u << 20)
#define GID_MOST        0xfffffffeu /* the last one is "no group" */

/* ---- the keys ------------------------------------------------------------------------------ */

struct site_config {
	gid_t operator_gid;
	bool keep_result_given;
	uint64_t keep_result_ms;
	bool mpi_unfiltered;
	json_t *fields;          /* by the key: defaults for steps whose spec lacks the field */
	site_foreign_fn foreign; /* of a program in contrib/; NULL: an agent reads */
	void *userdata;
};

/* Each row has an entry in stepd.conf(5), which a test checks. */
struct site_key {
	const char *name;
	int (*take)(struct site_config *config, const struct site_key *key, const char *value,
		struct err *err);
	enum spec_table table; /* of the field */
	const char *parent;    /* the object it is in; NULL: the spec itself */
	const char *field;     /* NULL: it is no field of the spec */
};

/* Owns field, which may be NULL for no memory. */
static int set_field(
	struct site_config *config, const struct site_key *key, json_t *field, struct err *err)
{
	return json_object_set_new(config->fields, key->name, field) < 0
		? err_set(err, -ENOMEM, "read the configuration")
		: 0;
}

static int take_operator_group(struct site_config *config, _unused_ const struct site_key *key,
	const char *value, struct err *err)
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
		return err_set_text(err, -EINVAL,
			"there is no group '%s'; give the name of one, or its number", value);
	config->operator_gid = group->gr_gid;
	return 0;
}

static int take_keep_result(struct site_config *config, _unused_ const struct site_key *key,
	const char *value, struct err *err)
{
	if (parse_duration_ms(value, &config->keep_result_ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%s' is not a duration; write 90s, 5m, 2h or 1d, or 0 for no result",
			value);
	config->keep_result_given = true;
	return 0;
}

/* A text that is valid in the spec's field. */
static int take_text(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	const char *problem =
		*value ? spec_field_problem(key->table, key->field, value) : "is empty";

	if (problem)
		return err_set_text(err, -EINVAL, "'%s' %s", value, problem);
	return set_field(config, key, json_string(value), err);
}

static int take_kill_on_bad_exit(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0 && strcmp(value, "mpi") != 0)
		return err_set_text(err, -EINVAL, "'%s' is neither 0 nor 1 nor mpi", value);
	if (strcmp(value, "mpi") == 0)
		return 0; /* as the MPI plugin has it */
	return set_field(config, key, json_boolean(value[0] == '1'), err);
}

static int take_deadline(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(value, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%s' is not a duration; write 90s, 5m or 2h, or 0 for no deadline", value);
	return set_field(config, key, json_integer((json_int_t)ms), err);
}

static int take_size(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	uint64_t bytes;

	if (parse_size(value, 1, &bytes) < 0 || bytes > INT64_MAX)
		return err_set_text(err, -EINVAL,
			"'%s' is not a size; write 512M or 4G, or 0 for no limit", value);
	return set_field(config, key, json_integer((json_int_t)bytes), err);
}

/* For the site only: a step's document may come from its user. */
static int take_mpi_filter(struct site_config *config, _unused_ const struct site_key *key,
	const char *value, struct err *err)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return err_set_text(err, -EINVAL, "'%s' is neither yes nor no", value);
	config->mpi_unfiltered = strcmp(value, "no") == 0;
	return 0;
}

/* Without "secret", which a step has for itself. */
static int take_wire_auth(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	if (strcmp(value, "munge") != 0 && strcmp(value, "none") != 0)
		return err_set_text(err, -EINVAL, "'%s' is neither munge nor none", value);
	return take_text(config, key, value, err);
}

static int take_wire_fanout(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	uint32_t n;

	if (parse_u32(value, 2, 1024, &n) < 0)
		return err_set_text(
			err, -EINVAL, "'%s' is not a whole number in the range 2 to 1024", value);
	return set_field(config, key, json_integer(n), err);
}

/* Of a program in contrib/, which checks the value. */
static int take_foreign(
	struct site_config *config, const struct site_key *key, const char *value, struct err *err)
{
	return config->foreign ? config->foreign(key->name, value, config->userdata, err) : 0;
}

static const struct site_key keys[] = {
	{"operator_group", take_operator_group, 0, NULL, NULL},
	{"keep_result", take_keep_result, 0, NULL, NULL},
	{"mpi_default", take_text, SPEC_TABLE_STEP, NULL, "mpi"},
	{"kill_on_bad_exit", take_kill_on_bad_exit, SPEC_TABLE_STEP, NULL, "kill_on_bad_exit"},
	{"pmi_timeout", take_deadline, SPEC_TABLE_PMI, "pmi", "timeout_ms"},
	{"pmi_memory", take_size, SPEC_TABLE_PMI, "pmi", "memory_bytes"},
	{"mpi_filter", take_mpi_filter, 0, NULL, NULL},
	{"wire_auth", take_wire_auth, SPEC_TABLE_WIRE, "wire", "auth"},
	{"wire_fanout", take_wire_fanout, SPEC_TABLE_WIRE, "wire", "fanout"},
	{"wire_ifname", take_text, SPEC_TABLE_WIRE, "wire", "ifname"},
	{"slurm_stepd_path", take_foreign, 0, NULL, NULL},
	{"slurm_record", take_foreign, 0, NULL, NULL},
	{"slurm_serve", take_foreign, 0, NULL, NULL},
	{"slurm_handover", take_foreign, 0, NULL, NULL},
};

/* ---- the file ------------------------------------------------------------------------------ */

struct reader {
	struct site_config *config;
	const char *next; /* the text that inih has not read */
	unsigned line;    /* the line that it has read */
	bool given[ARRAY_SIZE(keys)];
	int r; /* of the first line that is wrong */
	struct err err;
};

static int report_line(struct reader *reader, int code)
{
	char text[ERR_TEXT_SIZE];

	if (reader->r < 0)
		return 0; /* only the first one */
	memcpy(text, reader->err.text, sizeof(text));
	reader->r = err_set_text(&reader->err, code, "line %u: %s", reader->line, text);
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
		(void)err_set_text(
			&reader->err, -EINVAL, "the line is longer than %d bytes", size - 2);
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

/* Returns 0 for a wrong line, as inih requires. */
static int take_pair(void *user, const char *section, const char *name, const char *value)
{
	struct reader *reader = user;
	size_t i = find_key(name);
	int r;

	if (*section)
		return report_line(reader,
			err_set_text(&reader->err, -EINVAL,
				"[%s]: there are no sections; write the keys without one",
				section));
	if (i == ARRAY_SIZE(keys))
		return report_line(reader,
			err_set_text(&reader->err, -EINVAL,
				"there is no key '%s'; stepd.conf(5) lists the keys", name));
	if (reader->given[i])
		return report_line(reader,
			err_set_text(&reader->err, -EINVAL,
				"%s is given twice (a line that begins with a blank continues the value "
				"before it)",
				name));
	reader->given[i] = true;
	r = keys[i].take(reader->config, &keys[i], value, &reader->err);
	if (r == 0)
		return 1;
	(void)err_prefix(&reader->err, "%s", name);
	return report_line(reader, r);
}

static int site_parse(struct reader *reader, const char *file, struct err *err)
{
	__typeof__(&ini_parse_stream) parse_stream = NULL;
	const struct dynlib_symbol symbol = {"ini_parse_stream", 0};
	void *handle = dynlib_open(INIH_SONAME, &symbol, 1, &parse_stream);
	int line;

	if (!handle)
		return err_set_text(err, -ELIBACC,
			"can't read '%s': %s is missing; install libinih", file, INIH_SONAME);
	line = parse_stream(read_line, reader, take_pair, reader);
	(void)dynlib_close(handle);
	/* inih returns its first line with a fault: one that is no pair, or one of ours. */
	if (line > 0 && (reader->r == 0 || (unsigned)line < reader->line))
		return err_set_text(err, -EINVAL, "%s: line %d: write 'key = value'", file, line);
	if (line < 0)
		return err_set(err, -ENOMEM, "read '%s'", file);
	if (reader->r < 0)
		return err_set_text(err, reader->r, "%s: %s", file, reader->err.text);
	return 0;
}

static int check_file(int fd, const char *file, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "read the configuration '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_set_text(
			err, -EINVAL, "configuration: '%s' is not a regular file", file);
	r = fs_check_trusted(fd, file, err);
	return r < 0 && err ? err_prefix(err, "configuration") : r;
}

/* Reads file, which must be there; NULL: the site's, which may be missing. One that others than
 * root or this process's user could change is refused. An error names the file and the line. */
static int site_config_read(const char *file, struct site_config *config, struct err *err)
{
	struct reader reader = {.config = config, .err = ERR_INIT};
	const char *path = file ? file : STEPD_CONFIG_FILE;
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t size;
	int r;

	/* non-blocking: a pipe of that name must not hold the agent */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && !file)
		return 0;
	if (fd < 0)
		return err_set(err, -errno, "open the configuration '%s'", path);
	r = check_file(fd, path, err);
	if (r < 0)
		return r;
	r = fs_read_fd(fd, CONFIG_SIZE_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read the configuration '%s'", path);
	if (strlen(text) != size)
		return err_set_text(err, -EINVAL, "%s: there is a NUL byte in it", path);
	reader.next = text;
	return site_parse(&reader, path, err);
}

/* ---- a step's document --------------------------------------------------------------------- */

/* Sets the field, unless the document has it. Returns whether it did. The spec reports what is
 * not an object. */
static int fill_field(json_t *doc, const struct site_key *key, json_t *value)
{
	if (key->parent && !json_object_get(doc, key->parent) &&
		json_object_set_new(doc, key->parent, json_object()) < 0)
		return -ENOMEM;
	if (key->parent)
		doc = json_object_get(doc, key->parent);
	if (!json_is_object(doc) || json_object_get(doc, key->field))
		return 0;
	return json_object_set(doc, key->field, value) < 0 ? -ENOMEM : 1;
}

/* Sets the site's defaults that the document lacks. Returns whether there were any. */
static int fill_doc(const struct site_config *config, json_t *doc, struct err *err)
{
	const char *kind = json_get_text(doc, "kind", "normal");
	bool has_secret = json_object_get(json_object_get(doc, "wire"), "secret_fd");
	json_t *value;
	int changes = 0;
	size_t i;

	if (!json_is_object(doc) || strcmp(kind, "normal") != 0)
		return 0;
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		value = json_object_get(config->fields, keys[i].name);
		if (value && !(has_secret && keys[i].take == take_wire_auth))
			changes |= fill_field(doc, &keys[i], value);
	}
	return changes < 0 ? err_set(err, -ENOMEM, "read the step spec") : changes;
}

/* ---- for an agent -------------------------------------------------------------------------- */

int site_take_keep_result(struct site_options *site, const char *arg, struct err *err)
{
	if (parse_duration_ms(arg, &site->keep_result_ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not a duration such as 90, 30s, 5m, 2h or 1d, or 0 for no result",
			arg);
	site->keep_result_given = true;
	return 0;
}

int site_apply(const struct site_options *site, uint64_t keep_result_ms,
	struct agent_options *options, json_t *doc, struct err *err)
{
	json_auto_t *fields = json_object();
	struct site_config config = {.operator_gid = (gid_t)-1, .fields = fields};
	int r = site_config_read(site->config_file, &config, err);

	if (r == 0 && doc)
		r = fill_doc(&config, doc, err);
	if (r < 0 || !options)
		return r;
	options->operator_gid = config.operator_gid;
	options->mpi_unfiltered = config.mpi_unfiltered;
	options->keep_result_ms = keep_result_ms;
	if (keep_result_ms && config.keep_result_given)
		options->keep_result_ms = config.keep_result_ms;
	if (site->keep_result_given)
		options->keep_result_ms = site->keep_result_ms;
	return r;
}

int site_read_foreign(const char *file, site_foreign_fn fn, void *userdata, struct err *err)
{
	json_auto_t *fields = json_object();
	struct site_config config = {.fields = fields, .foreign = fn, .userdata = userdata};

	return site_config_read(file, &config, err);
}
