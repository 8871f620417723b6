/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a step spec is read from JSON: tables of fields, one row each, with the parser, its limits
 * and its documentation. For spec*.c, for the frontends that make a document, and for
 * doc/generate/, which makes the schema and stepd-spec(5) of the tables.
 *
 * Every error begins with the path of the value it is about: "tasks[3].cwd: ...".
 */
#ifndef STEPD_SPEC_SPEC_JSON_H
#define STEPD_SPEC_SPEC_JSON_H

#include "stepd/base/parse.h"
#include "stepd/spec/spec.h"

/* The path of a value: a chain on the stack, from the value up. NULL is the document. */
struct spec_at {
	const struct spec_at *up;
	const char *name; /* NULL: an element of an array */
	size_t index;
};

/* Modes of a stream that have members of their own. */
#define SPEC_MODES_NOT_ALONE (1u << SPEC_STREAM_RANK | 1u << SPEC_STREAM_FILE)

#define SPEC_AT(up_, name_)        (&(const struct spec_at){.up = (up_), .name = (name_)})
#define SPEC_AT_INDEX(up_, index_) (&(const struct spec_at){.up = (up_), .index = (index_)})

/* When a row of the document is read. */
enum spec_phase {
	SPEC_PHASE_STEP,  /* by itself */
	SPEC_PHASE_KIND,  /* first: which other rows are allowed depends on it */
	SPEC_PHASE_RANKS, /* last: it names ranks, so the layout must be known */
	SPEC_PHASE_MAX,
};

enum spec_kinds {
	SPEC_KINDS_ALL = 0,
	SPEC_KINDS_NORMAL = 1u << STEPD_STEP_NORMAL,
	SPEC_KINDS_BATCH = 1u << STEPD_STEP_BATCH,
	SPEC_KINDS_EXTERN = 1u << STEPD_STEP_EXTERN,
};

struct bitset;
struct spec_field;

/* Reads the value with path at into the object at into, by the row. 0 or -errno. */
typedef int spec_parse_fn(const struct spec_field *field, void *into, const struct spec_at *at,
	const struct json_t *value, struct err *err);

/* The fault in a text ("is not an absolute path"), or NULL. */
typedef const char *(*spec_problem_fn)(const char *text);

struct spec_field {
	const char *name;
	spec_parse_fn *parse;
	size_t offset;              /* of the member to fill */
	size_t given;               /* of a bool that is set if the field is there; 0: none */
	int64_t least, most;        /* of a number; most: of a text's length, 0 for any */
	const char *const *choices; /* of a name, NULL-terminated, in the order of its enum */
	spec_problem_fn problem;    /* of a text */
	unsigned modes;             /* of a stream: bits 1u << enum spec_stream_mode */
	int table;                  /* of an object: enum spec_table */
	unsigned kinds;             /* enum spec_kinds that may have it */
	enum spec_phase phase;
	bool required;

	/* For the documentation: doc/generate/generate.h. */
	const char *form;  /* of other values: their entry in spec.json there */
	const char *doc;   /* whole sentences */
	const char *unset; /* the default: "the agent's"; NULL: none */
};

/* The tables of the document and of the objects in it. */
enum spec_table {
	SPEC_TABLE_STEP, /* the document itself */
	SPEC_TABLE_NODE,
	SPEC_TABLE_TASK,
	SPEC_TABLE_STREAM,
	SPEC_TABLE_RLIMIT,
	SPEC_TABLE_KILL,
	SPEC_TABLE_PMI,
	SPEC_TABLE_WIRE,
	SPEC_TABLE_LIMITS, /* a row for each enum stepd_limit, in its order */
	SPEC_TABLE_IO,
	SPEC_TABLE_DEVICE,
	SPEC_TABLE_MAX,
};

const struct spec_field *spec_table_get(enum spec_table table, size_t *ret_count);

/* Joins the names up to NULL with ", " in text, and returns it: for messages. */
#define SPEC_NAMES_SIZE 256
const char *spec_list_names(const char *const *names, char text[static SPEC_NAMES_SIZE]);

const char *spec_node_name_problem(const char *name); /* NULL: none */

/* The fault in a text field's value, or NULL. */
const char *spec_field_problem(enum spec_table table, const char *name, const char *text);

/* The ranks that a field lists. */
struct spec_ranks {
	uint32_t *v; /* NULL: not given */
	size_t n, capacity;
};

/* A spec that is being read. */
struct spec_draft {
	struct spec spec;
	const struct json_t *doc;
	bool layout_wrong; /* some fields of the layout are invalid */
	struct spec_ranks ranks;
	uint32_t first_rank;
	size_t tasks_per_node_count;
	struct spec_ranks map_ranks; /* node.ranks, node after node */
	uint32_t *map_counts;        /* of each node; NULL: not given */
	size_t map_nodes_count;
};

/* ---- values (spec.c) ----------------------------------------------------------------------- */

/* -EINVAL and "PATH: text" in err. */
int spec_bad(struct err *err, const struct spec_at *at, const char *fmt, ...) _printf_(3, 4);
int spec_no_memory(struct err *err);

/* With err->list a failure is added to it and 0 is returned, so that reading continues. At the
 * end err has all of them. */
int spec_collect(int r, struct err *err) _must_check_;

int spec_get_int(const struct spec_at *at, const struct json_t *value, int64_t least, int64_t most,
	int64_t *ret_n, struct err *err) _must_check_;

/* The text is borrowed from the value. It holds no NUL byte. */
int spec_get_text(const struct spec_at *at, const struct json_t *value, const char **ret_text,
	struct err *err) _must_check_;

/* An array of at most max values. */
int spec_check_array(const struct spec_at *at, const struct json_t *value, size_t most,
	struct err *err) _must_check_;

/* Checks that value is an object, that every field in it has a row, and that required ones exist.
 */
int spec_check_object(enum spec_table table, const struct spec_at *at, const struct json_t *value,
	struct err *err) _must_check_;

/* Reads the rows of table whose fields are in value, in the order of the table;
 * spec_read_object() checks the object first, spec_read_phase() reads those of the document that
 * are of the phase. */
int spec_read_rows(enum spec_table table, void *into, const struct spec_at *at,
	const struct json_t *value, struct err *err) _must_check_;
int spec_read_object(enum spec_table table, void *into, const struct spec_at *at,
	const struct json_t *value, struct err *err) _must_check_;

/* Row parsers. An object's rows fill the row's member, or the object that the row itself is in. */
spec_parse_fn spec_row_bool, spec_row_u32, spec_row_u64, spec_row_text, spec_row_choice,
	spec_row_object;

/* ---- rows with rules of their own (spec_rows.c) -------------------------------------------- */

spec_parse_fn spec_row_version, spec_row_argv, spec_row_env, spec_row_account, spec_row_accounts,
	spec_row_umask, spec_row_script, spec_row_script_base64, spec_row_cpu_bind,
	spec_row_mem_bind, spec_row_distribution, spec_row_stream, spec_row_rlimits, spec_row_limit,
	spec_row_kill_sequence, spec_row_signal;

/* ---- spec_limits.c ------------------------------------------------------------------------- */

#define SPEC_IO_FIELDS     5
#define SPEC_DEVICE_FIELDS 2

extern const struct spec_field spec_limit_fields[STEPD_LIMIT_COUNT];
extern const struct spec_field spec_io_fields[SPEC_IO_FIELDS];
extern const struct spec_field spec_device_fields[SPEC_DEVICE_FIELDS];

spec_parse_fn spec_row_limits, spec_row_limit_size, spec_row_limit_count, spec_row_limit_weight,
	spec_row_limit_bool, spec_row_limit_cpus, spec_row_limit_list, spec_row_limit_io,
	spec_row_limit_devices, spec_row_limit_access;

/* ---- pmi and wire (spec_rows.c) ------------------------------------------------------------ */

#define SPEC_PMI_FIELDS  3
#define SPEC_WIRE_FIELDS 7

extern const struct spec_field spec_pmi_fields[SPEC_PMI_FIELDS];
extern const struct spec_field spec_wire_fields[SPEC_WIRE_FIELDS];

spec_parse_fn spec_row_addresses;
void spec_wire_clear(struct spec_wire *wire);

/* The fault in a "HOST:PORT" or "[IPV6]:PORT"; NULL: none. */
const char *spec_address_problem(const char *address);

/* Whether the wire's fields fit the step and each other. */
int spec_check_wire(const struct spec *spec, struct err *err) _must_check_;

/* ---- which ranks are here (spec_layout.c) -------------------------------------------------- */

spec_parse_fn spec_row_node_ranks, spec_row_tasks_per_node, spec_row_ranks, spec_row_tasks,
	spec_row_task_rank, spec_row_task_ranks, spec_row_pty;

/* An entry of "tasks" that is being read. */
struct spec_task_draft {
	struct spec_override override;
	size_t ranks_capacity;
	uint32_t ntasks;
	uint32_t entry;             /* number of this entry, from 1 */
	uint32_t *rank_entries;     /* by rank: the entry it is in; 0: none yet */
	const struct bitset *local; /* ranks of this node */
};

void spec_override_clear(struct spec_override *o);

/* Whether a step with pseudo-terminals has no field that excludes them. */
int spec_check_pty(const struct spec *spec, struct err *err) _must_check_;

/* Fills in ntasks, local_ntasks and ranks. */
int spec_layout(struct spec_draft *draft, struct err *err) _must_check_;

/* ---- for what makes documents -------------------------------------------------------------- */

/* The same for the rest of a file. */
int spec_json_load_fd(int fd, struct json_t **ret_doc, struct err *err) _must_check_;

/* The edit distance of a and b, swapped neighbours counting once; up to 99 where they have little
 * in common. For "did you mean". */
unsigned spec_name_distance(const char *a, const char *b);

#define SPEC_NAME_NEAR 2u

#endif
