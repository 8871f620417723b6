/* SPDX-License-Identifier: BSD-3-Clause
 *
 * conf_read() on any bytes: an input is a slurm.conf, and behind the first "%%" a QOS file. What is
 * refused has a sentence; what is taken keeps its promises. Inputs with a bracket and a number of
 * five digits are left out: a million nodes are no fault, and take time.
 */
#include "contrib/jobd/conf/conf.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_large(const uint8_t *data, size_t size)
{
	size_t i, digits = 0;

	if (!memchr(data, '[', size))
		return false;
	for (i = 0; i < size && digits < 5; i++)
		digits = isdigit(data[i]) ? digits + 1 : 0;
	return digits == 5;
}

static void check_conf(const struct conf *conf)
{
	size_t i;

	if (conf->nodes_count == 0 || conf->nodes_count > CONF_NODES_MAX || conf->parts_count == 0)
		abort();
	for (i = 0; i < conf->nodes_count; i++) {
		const struct conf_node *n = &conf->nodes[i];

		if (!*n->name || n->cpus == 0 || n->real_memory == 0 ||
			n->cpus != (uint32_t)n->sockets * n->cores_per_socket * n->threads_per_core)
			abort();
	}
	for (i = 0; i < conf->parts_count; i++) {
		if (conf_find_part(conf, conf->parts[i].name) != (int)i ||
			bit_size(conf->parts[i].nodes) != (bitoff_t)conf->nodes_count)
			abort();
	}
	for (i = 0; i < conf->qos_count; i++) {
		if (conf_find_qos(conf, conf->qos[i].name) != (int)i ||
			bit_size(conf->qos[i].preempts) != (bitoff_t)conf->qos_count)
			abort();
	}
}

/* The path of a file of memory, for what takes a path. */
static int make_file(const void *data, size_t size, char path[32])
{
	int fd = fs_memory("fuzz", data, size);

	(void)snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_conf_ struct conf *conf = NULL;
	struct err err = ERR_INIT;
	char path[32], qos_path[32];
	int fd, qos_fd;
	const uint8_t *mark = size ? memmem(data, size, "%%", 2) : NULL;
	size_t first = mark ? (size_t)(mark - data) : size;

	if (is_large(data, size))
		return 0;
	fd = make_file(data, first, path);
	qos_fd = make_file(
		mark ? mark + 2 : (const void *)"", mark ? size - first - 2 : 0, qos_path);
	if (conf_read(path, qos_path, &conf, &err) == 0)
		check_conf(conf);
	else if (err.code >= 0 || !*err.text || conf)
		abort();
	(void)close_fd(fd);
	(void)close_fd(qos_fd);
	return 0;
}
