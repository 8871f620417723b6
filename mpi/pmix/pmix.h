/* SPDX-License-Identifier: BSD-3-Clause
 * The interface between the plugin mpi/pmix and its server module.
 */
#ifndef MPI_PMIX_PMIX_H
#define MPI_PMIX_PMIX_H

/* The module's file, beside the plugin; no plugin itself, and named so. */
#define STEPD_PMIX_SERVER "pmix_server.so"

/* Variables that the plugin passes to it: of the step's environment, borrowed; NULL where it is not
 * there. */
struct pmix_wishes {
	const char *tmpdir;     /* TMPDIR, or what the process manager has in its place */
	const char *data_store; /* PMIX_MCA_gds */
	const char *manager;    /* the socket of the process manager that has the other nodes */
	const char *nspace;     /* with it: what those call the step's ranks */
};

/* Its one symbol: the main of the service process, a stepd_mpi_service_fn. */
#define STEPD_PMIX_SERVE "stepd_pmix_serve"

#endif
