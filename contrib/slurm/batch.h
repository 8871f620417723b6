/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a batch script has and a step of srun has not, for served.h: its copy in slurmd's spool
 * directory, files of its own in place of srun's streams, and one message to slurmctld, when it is
 * over.
 *
 *	<spool>/job<id>/              root's, of the job's group, mode 0750
 *	<spool>/job<id>/slurm_script  the user's, mode 0700; executed
 *
 * The directory stays until slurmctld has the message: slurmd removes one that has no live step,
 * and reports the job as missing.
 */
#ifndef SLURM_BATCH_H
#define SLURM_BATCH_H

#include "contrib/slurm/batch_spec.h"
#include "contrib/slurm/decision.h"
#include "contrib/slurm/hosts.h"
#include "contrib/slurm/user_probe.h"

struct accounting;
struct batch;
struct ev_loop;
struct slurm_auth;

/* Writes the script. init is borrowed. -EEXIST: there is a directory of that name that is not
 * root's. */
int batch_new(
	const struct slurm_init *init, struct batch **ret_batch, struct err *err) _must_check_;

/* The script as the program, and its files; those that it writes are emptied, if the job wants
 * that. What is filled in is borrowed from batch, and what was there is borrowed by it. */
void batch_fill_probe(struct batch *batch, struct user_probe_options *probe);

/* Opens the file of the script's errors as the user of the probe that was filled in, for
 * batch_put_note(). Without it notes are the caller's. It may take as long as the user's file
 * system likes. */
void batch_open_notes(struct batch *batch);

/* False: it could not be written. */
bool batch_put_note(const struct batch *batch, const char *line);

int batch_make_spec(const struct batch *batch, const struct step_spec_input *input,
	struct json_t **ret_doc, struct err *err) _must_check_;

struct batch_end {
	struct ev_loop *loop;
	const struct slurm_auth *auth;
	struct hosts controllers;
	const struct accounting *accounting; /* NULL: none */
	int job_status; /* the script's wait status, or an error of Slurm in its place */
	int error;      /* of Slurm, if the node is at fault: it takes no more jobs then; else 0 */
	void (*done)(const struct err *err, void *userdata);
	void *userdata;
};

/* Removes the script, and reports to slurmctld until that has it; done() as delivery.h. */
int batch_report(struct batch *batch, const struct batch_end *end, struct err *err) _must_check_;

/* Removes what is left. NULL is fine. Returns NULL. */
struct batch *batch_free(struct batch *batch);

#endif
