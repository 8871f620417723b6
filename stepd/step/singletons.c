/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/singletons.h"

#include <stdio.h>
#include <string.h>

#include "mpi/mpi.h"
#include "stepd/base/log.h"
#include "stepd/launch/child.h"
#include "stepd/step/agent_impl.h"

/* "pmi2" of "mpi/pmi2" */
static const char *name_plugin(const struct agent *a)
{
	const char *type = mpi_get_type(a->mpi.host), *slash = strchr(type, '/');

	return slash ? slash + 1 : type;
}

void singletons_linked(struct agent *a, unsigned number)
{
	const char *library = linked_library(number);

	if (!library || !a->mpi.host)
		return;
	a->start.linked = number;
	if (strcmp(name_plugin(a), "none") == 0)
		log_warning(a->log,
			"the program is linked with %s, and the step has no MPI plugin: each task "
			"runs as a job of one rank (--mpi=%s serves it)",
			library, linked_plugin(number));
}

char *singletons_warning(const struct agent *a)
{
	const char *wanted = linked_plugin(a->start.linked);
	char *text = NULL;

	if (!wanted || !a->mpi.host || strcmp(wanted, name_plugin(a)) == 0)
		return NULL;
	if (asprintf(&text,
		    "the program is linked with %s, and no task has spoken with %s: each ran as a "
		    "job of one rank (--mpi=%s serves it)",
		    linked_library(a->start.linked), mpi_get_type(a->mpi.host), wanted) < 0)
		return NULL;
	return text;
}
