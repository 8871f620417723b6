/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/methods.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "config.h"
#include "stepd/base/clock.h"
#include "stepd/base/log.h"
#include "stepd/base/procstat.h"
#include "stepd/control/interface.h"
#include "stepd/frontend/methods_impl.h"
#include "stepd/frontend/mpi_requests.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"

/* How long the agent's end waits for those who still take their last answers: hundreds of them, on
 * a busy machine. Who takes nothing is not waited for. */
#define END_PATIENCE_MS 5000

/* One takes callers in, one reads what they ask, and one is for those whose turn came between. */
#define LAST_ROUNDS 3

/* ---- calls that are answered later ---------------------------------------------------------- */

void kept_free(struct kept *kept)
{
	if (kept->clear)
		kept->clear(kept);
	*kept->at = kept->next;
	if (kept->next)
		kept->next->at = kept->at;
	if (kept->kind == KEPT_LISTING)
		reexec_answered(kept->m->a);
	free(kept);
}

static void on_gone(struct control_call *call, void *userdata)
{
	struct kept *kept = userdata;

	(void)call;
	assert(kept);
	kept->call = NULL;
	if (kept->kind != KEPT_SIGNAL) /* whose request ends in it */
		kept_free(kept);
}

void *kept_new(struct methods *m, struct control_call *call, enum kept_kind kind, size_t size,
	void (*clear)(struct kept *kept))
{
	struct kept *kept = calloc(1, size);

	assert(size >= sizeof(*kept));
	if (!kept) {
		control_no_memory(call);
		return NULL;
	}
	*kept = (struct kept){.m = m, .call = call, .kind = kind, .clear = clear};
	kept->at = &m->kept;
	kept->next = m->kept;
	if (kept->next)
		kept->next->at = &kept->next;
	m->kept = kept;
	control_call_on_gone(call, on_gone, kept);
	return kept;
}

void kept_reply_take(struct kept *kept, json_t *parameters)
{
	struct control_call *call = kept->call;

	kept_free(kept);
	if (call)
		control_reply_take(call, parameters);
	else
		json_decref(parameters);
}

void kept_error_take(struct kept *kept, const char *name, json_t *parameters)
{
	struct control_call *call = kept->call;

	kept_free(kept);
	if (call)
		control_error_take(call, name, parameters);
	else
		json_decref(parameters);
}

/* ---- the step's state ------------------------------------------------------------------------ */

const char *methods_state_word(const struct agent *a)
{
	return a->end.unkillable ? "unkillable" : suspend_state_word(a);
}

static void methods_state_changed(struct methods *m)
{
	struct event event = EVENT_INIT(EVENT_STATE);
	const char *word;

	if (!m)
		return;
	word = methods_state_word(m->a);
	/* "ended" is the last that is told, when the result is there */
	if (m->a->state == AGENT_ENDED && !m->ending)
		return;
	if (m->told_state && strcmp(m->told_state, word) == 0)
		return;
	m->told_state = word;
	event.state = word;
	if (m->a->state >= AGENT_ENDING)
		event.text = agent_reason_words[m->a->reason];
	events_add(m->a->events, &event);
	follow_state_changed(m);
}

/* ---- life ------------------------------------------------------------------------------------ */

void methods_get_options(struct methods *m, struct control_options *ret_options)
{
	const struct agent *a = m->a;
	size_t count;
	const struct control_method *table = methods_get_table(&count);

	*ret_options = (struct control_options){
		.loop = a->loop,
		.log = a->log,
		.dir_fd = registry_get_dirfd(a->registry),
		.path = registry_get_path(a->registry),
		.methods = table,
		.methods_count = count,
		.interface = CONTROL_INTERFACE,
		.description = control_interface_text,
		.vendor = "stepd",
		.product = "stepd",
		.version = a->options->version,
		.url = PACKAGE_URL,
		.owner_uid = a->plan.job.uid,
		.operator_gid = a->options->operator_gid,
		.userdata = m,
	};
}

static void note_identity(struct methods *m)
{
	struct procstat self;
	struct timespec now;
	struct stat st;

	(void)clock_gettime(CLOCK_REALTIME, &now); /* can't fail with this clock */
	m->start_time_usec = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 -
		(int64_t)(clock_now_ns() - m->a->origin.begin_ns) / 1000;
	m->agent_start_ticks = procstat_read(getpid(), &self) == 0 ? self.start_ticks : 0;
	m->pid_namespace = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

struct methods *methods_new(struct agent *a)
{
	struct methods *m = calloc(1, sizeof(*m));

	if (m) {
		m->a = a;
		note_identity(m);
	}
	return m;
}

static int methods_open(struct agent *a, struct err *err)
{
	struct methods *m = methods_new(a);
	struct control_options options;
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "open the step's socket");
	methods_get_options(m, &options);
	r = control_open(&options, &m->control, err);
	if (r < 0) {
		free(m);
		return r;
	}
	a->methods = m;
	follow_begin(m);
	methods_state_changed(m);
	return 0;
}

static void methods_ready(struct methods *m)
{
	if (m)
		control_set_ready(m->control);
}

static void on_finished(void *userdata)
{
	struct methods *m = userdata;

	assert(m);
	m->finished = true;
	ev_break(m->a->loop, EVBREAK_ALL);
}

static void methods_end(struct methods *m)
{
	int i;

	if (!m)
		return;
	m->ending = true;
	methods_state_changed(m);
	follow_end(m);
	/* Who stands in the socket's queue has asked in time. */
	for (i = 0; i < LAST_ROUNDS; i++)
		ev_run(m->a->loop, EVRUN_NOWAIT);
	control_finish(m->control, END_PATIENCE_MS, on_finished, m);
	if (!m->finished)
		ev_run(m->a->loop, 0);
}

struct methods *methods_close(struct methods *m)
{
	if (!m)
		return NULL;
	events_set_listener(m->a->events, NULL, NULL);
	ev_prepare_stop(m->a->loop, &m->push);
	m->control = control_close(m->control);
	while (m->kept)
		kept_free(m->kept);
	m->a->methods = NULL;
	free(m);
	return NULL;
}

const struct frontend methods_frontend = {
	.open = methods_open,
	.ready = methods_ready,
	.state_changed = methods_state_changed,
	.suspended = methods_suspended,
	.mpi_request = mpi_requests_take,
	.end = methods_end,
	.close = methods_close,
	.is_answering = methods_is_listing,
	.not_reexeced = methods_not_reexeced,
	.save = methods_save,
	.restore = methods_restore,
};
