/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The spec's rows on CPUs and memory: texts in srun's words.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/spec/spec_json.h"

typedef int (*bind_parse_fn)(const char *text, struct bind_text *ret_text, struct err *err);

static int read_bind(struct bind_text *bind, bind_parse_fn parse, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	r = parse(text, bind, &why);
	if (r == -ENOMEM)
		return spec_no_memory(err);
	return r < 0 ? spec_bad(err, at, "%s", why.text) : 0;
}

int spec_row_cpu_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;

	(void)field;
	return read_bind(&spec->cpu_bind, bind_text_parse_cpu, at, value, err);
}

int spec_row_mem_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;

	(void)field;
	return read_bind(&spec->mem_bind, bind_text_parse_mem, at, value, err);
}

int spec_row_distribution(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	(void)field;
	if (r < 0)
		return r;
	if (bind_text_parse_distribution(text, &spec->plane, &why) < 0)
		return spec_bad(err, at, "%s", why.text);
	spec->distribution = strdup(text);
	return spec->distribution ? 0 : spec_no_memory(err);
}
