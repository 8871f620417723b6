/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/rpc.h"

bool pack(pmix_data_buffer_t *buffer, const void *values, size_t count, pmix_data_type_t type)
{
	return count <= INT32_MAX &&
		PMIx_Data_pack(NULL, buffer, (void *)values, (int32_t)count, type) == PMIX_SUCCESS;
}

bool unpack(pmix_data_buffer_t *buffer, void *values, size_t count, pmix_data_type_t type)
{
	int32_t n = (int32_t)count;

	return count <= INT32_MAX &&
		PMIx_Data_unpack(NULL, buffer, values, &n, type) == PMIX_SUCCESS &&
		(size_t)n == count;
}

bool pack_infos(pmix_data_buffer_t *buffer, const pmix_info_t *infos, size_t count)
{
	return pack(buffer, &count, 1, PMIX_SIZE) &&
		(count == 0 || pack(buffer, infos, count, PMIX_INFO));
}

bool unpack_infos(pmix_data_buffer_t *buffer, pmix_info_t **ret_infos, size_t *ret_count)
{
	pmix_info_t *infos = NULL;
	size_t count;

	if (!unpack(buffer, &count, 1, PMIX_SIZE) || count > PACK_MAX)
		return false;
	if (count) {
		PMIX_INFO_CREATE(infos, count);
		if (!infos)
			return false;
		if (!unpack(buffer, infos, count, PMIX_INFO)) {
			PMIX_INFO_FREE(infos, count);
			return false;
		}
	}
	*ret_infos = infos;
	*ret_count = count;
	return true;
}

bool pack_procs(pmix_data_buffer_t *buffer, const pmix_proc_t *procs, size_t count)
{
	return pack(buffer, &count, 1, PMIX_SIZE) &&
		(count == 0 || pack(buffer, procs, count, PMIX_PROC));
}

bool unpack_procs(pmix_data_buffer_t *buffer, pmix_proc_t **ret_procs, size_t *ret_count)
{
	pmix_proc_t *procs = NULL;
	size_t count;

	if (!unpack(buffer, &count, 1, PMIX_SIZE) || count > PACK_MAX)
		return false;
	if (count) {
		procs = calloc(count, sizeof(*procs));
		if (!procs)
			return false;
		if (!unpack(buffer, procs, count, PMIX_PROC)) {
			free(procs);
			return false;
		}
	}
	*ret_procs = procs;
	*ret_count = count;
	return true;
}
