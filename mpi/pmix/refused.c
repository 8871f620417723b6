/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The upcalls that are refused as not supported, whoever asks. They are there all the same: what a
 * client hears of one that is NULL, each version of libpmix decides for itself.
 */
#include "mpi/pmix/px.h"

/* The step's resources are the scheduler's, and an agent knows none. */
static pmix_status_t allocate(const pmix_proc_t *client, pmix_alloc_directive_t directive,
	const pmix_info_t data[], size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)client;
	(void)directive;
	(void)data;
	(void)ndata;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

/* libpmix watches heartbeats and files itself; this is what it can't. */
static pmix_status_t monitor(const pmix_proc_t *requestor, const pmix_info_t *what,
	pmix_status_t error, const pmix_info_t directives[], size_t ndirs,
	pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)requestor;
	(void)what;
	(void)error;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t get_credential(const pmix_proc_t *proc, const pmix_info_t directives[],
	size_t ndirs, pmix_credential_cbfunc_t cbfunc, void *cbdata)
{
	(void)proc;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t validate_credential(const pmix_proc_t *proc, const pmix_byte_object_t *cred,
	const pmix_info_t directives[], size_t ndirs, pmix_validation_cbfunc_t cbfunc, void *cbdata)
{
	(void)proc;
	(void)cred;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t fabric(const pmix_proc_t *requestor, pmix_fabric_operation_t op,
	const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)requestor;
	(void)op;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

void refused_fill(pmix_server_module_t *table)
{
	table->allocate = allocate;
	table->monitor = monitor;
	table->get_credential = get_credential;
	table->validate_credential = validate_credential;
	table->fabric = fabric;
}
