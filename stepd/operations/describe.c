/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Describe: what the step is, and how it stands.
 */
#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/spec/spec_json.h"

static json_t *pack_identity(const struct agent *a)
{
	const stepd_step_rec_t *job = &a->plan.job;

	return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I}",
		"version", a->options->version, "step", a->plan.label, "job_id",
		(json_int_t)job->job_id, "step_name", job->step_name, "kind",
		spec_kind_names[job->kind], "node", job->node_name, "node_id",
		(json_int_t)job->nodeid, "node_count", (json_int_t)job->nnodes, "uid",
		(json_int_t)job->uid, "gid", (json_int_t)job->gid, "user", job->user_name, "ntasks",
		(json_int_t)job->ntasks, "local_tasks", (json_int_t)a->tasks.n, "running_tasks",
		(json_int_t)a->tasks.running);
}

static json_t *pack_life(const struct operations *o)
{
	const struct agent *a = o->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	uint64_t suspended_ns = a->suspend.total_ns;

	if (a->suspend.stands)
		suspended_ns += now_ns - a->suspend.since_ns;
	return json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I}", "state",
		operations_state_name(a), "proctrack", proctrack_get_type(a->pt), "container_id",
		(json_int_t)a->plan.job.cont_id, "mpi",
		a->mpi.host ? mpi_get_type(a->mpi.host) : "mpi/none", "agent_pid",
		(json_int_t)getpid(), "agent_start_ticks", (json_int_t)o->agent_start_ticks,
		"pid_namespace", (json_int_t)o->pid_namespace, "adopted",
		(int)(a->origin.recover.adopted > 0), "start_time_usec",
		(json_int_t)o->start_time_usec, "elapsed_usec",
		(json_int_t)((end_ns - a->origin.begin_ns) / 1000), "suspended_usec",
		(json_int_t)(suspended_ns / 1000), "last_event",
		(json_int_t)events_last(a->events));
}

void op_describe(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	const struct agent *a = o->a;
	json_auto_t *doc = pack_identity(a);
	int r = doc ? json_object_update_new(doc, pack_life(o)) : -1;

	if (r == 0 && a->state >= AGENT_ENDING)
		r = json_object_set_new(doc, "reason", json_string(agent_reason_names[a->reason]));
	if (r == 0 && a->plan.spec->time_limit_ms)
		r = json_object_set_new(doc, "time_limit_usec",
			json_integer((json_int_t)a->plan.spec->time_limit_ms * 1000));
	if (r == 0)
		op_reply_take(call, take_ptr(doc));
	else
		op_fail_no_memory(call);
}
