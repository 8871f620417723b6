/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What both protocols do alike.
 */
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

/* So that an answer with it is a message, whatever else it says. */
#define VALUE_ESCAPED_MAX (PMI2_BODY_MAX - 1024u)

const struct command *command_find(const struct command *table, size_t count, struct slice name)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (slice_is(name, table[i].name))
			return &table[i];
	}
	return NULL;
}

bool put_is_allowed(struct ask *ask, struct slice key, struct slice value)
{
	if (key.size == 0)
		answer_fail(ask, PMI_KEY, "a key is missing");
	else if (key.size > PMI_KEY_MAX)
		answer_fail(ask, PMI_KEYLEN, "the key has %zu bytes, more than %u", key.size,
			PMI_KEY_MAX);
	else if (pmi2_escaped_size(value) > VALUE_ESCAPED_MAX)
		answer_fail(ask, PMI_VALLEN, "the value has %zu bytes, more than %u", value.size,
			VALUE_ESCAPED_MAX);
	else
		return true;
	return false;
}

int run_abort(struct ask *ask, int code, struct slice text)
{
	struct pmi_task *task = ask->task;
	struct pmi *pmi = task->pmi;
	char sentence[800], of[32] = "";
	int status = code & 0xff;

	while (text.size > 0 && text.data[text.size - 1] == '\n')
		text.size--;
	if (task->space->number > 0)
		(void)snprintf(of, sizeof(of), " of spawn %u", task->space->number);
	(void)snprintf(sentence, sizeof(sentence),
		"rank %u%s called MPI_Abort() with code %d%s%.*s", task->rank, of, code,
		text.size > 0 ? ": " : "", (int)(text.size < 600 ? text.size : 600), text.data);
	/* What was no success must not become one by being cut to eight bits. */
	if (status == 0 && code != 0)
		status = 1;
	pmi->ops.abort(pmi->userdata, status, sentence);
	return 0;
}
