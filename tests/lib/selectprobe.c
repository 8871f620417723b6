/* SPDX-License-Identifier: BSD-3-Clause
 *
 * selectprobe PLUGIN_DIR NAME: loads a select plugin, starts three jobs of one node one after the
 * other, each as the one before it has ended, on nodes n[1-4], and prints the node of each.
 */
#include <err.h>
#include <stdio.h>

#include "tests/lib/jobd_cluster.h"

static void run_job(struct cluster *c)
{
	job_record_t *job = cluster_add_job(c, &c->parts[0]);
	struct select_request q;
	struct err e = ERR_INIT;

	cluster_request(c, job, &q);
	if (select_test(c->select, &q, SELECT_MODE_TEST_ONLY, &e) < 0)
		errx(1, "%s", e.text);
	bit_free(q.nodes);
	cluster_request(c, job, &q);
	if (select_test(c->select, &q, SELECT_MODE_RUN_NOW, &e) < 0 ||
		select_job_begin(c->select, job, &e) < 0)
		errx(1, "%s", e.text);
	job->job_state = JOB_RUNNING;
	(void)printf("%s\n", c->nodes[bit_ffs(q.nodes)].name);
	if (select_job_fini(c->select, job, &e) < 0)
		errx(1, "%s", e.text);
	bit_free(q.nodes);
	cluster_free_job(job);
}

int main(int argc, char **argv)
{
	struct cluster c;
	char text[512];
	int i;

	if (argc != 3)
		errx(2, "selectprobe PLUGIN_DIR NAME");
	(void)snprintf(text, sizeof(text),
		"SelectType=select/%s\nNodeName=n[1-4] CPUs=2\nPartitionName=p Nodes=ALL\n",
		argv[2]);
	cluster_make(&c, text, argv[1], NULL);
	(void)printf("%s\n", select_get_type(c.select));
	for (i = 0; i < 3; i++)
		run_job(&c);
	cluster_clear(&c);
	return 0;
}
