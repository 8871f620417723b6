/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The new program's side of an upgrade: from the handover to the loop, as agent.c goes from the
 * spec to the loop.
 */
#include <string.h>

#include "stepd/base/clock.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/log.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/step/adopted.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/closing.h"
#include "stepd/step/ending.h"
#include "stepd/step/frontend.h"
#include "stepd/step/reexec.h"
#include "stepd/step/service.h"

static const struct json_t *get_plan(const struct handover *h)
{
	return json_get_object(handover_root((struct handover *)h), "plan");
}

static int read_handed_over_spec(const struct handover *h, struct spec **ret_spec, struct err *err)
{
	const char *text = handover_get_text(h, handover_root((struct handover *)h), "spec");
	int r;

	if (!text)
		return handover_err_part("spec", err);
	r = spec_from_text(text, strlen(text), ret_spec, err);
	return r < 0 ? r : plan_restore_names(*ret_spec, h, get_plan(h), err);
}

static int restore(
	struct agent *a, const struct spec *spec, const struct handover *h, struct err *err)
{
	int r;

	a->loop = ev_loop_new(EVFLAG_NOENV);
	if (!a->loop)
		return err_set(err, -ENOMEM, "make the event loop");
	r = reexec_restore(a, spec, h, err);
	return r < 0 ? r : reexec_init(a, err);
}

/* Without it the step goes on all the same. The trial did not try this: connections would see it.
 */
static void reopen_socket(struct agent *a, const struct handover *h)
{
	const struct json_t *object =
		json_get_object(handover_root((struct handover *)h), "methods");
	struct err err = ERR_INIT;
	int r = object ? frontend_restore(a, object, &err) : 0;

	if (r < 0) {
		log_error(a->log, "%s; all connections to the step are lost", err.text);
		r = frontend_open(a, &err);
		frontend_ready(a);
	}
	if (r < 0)
		log_error(a->log, "%s; no requests are served any more", err.text);
}

static void report_reexec(struct agent *a, const char *before)
{
	struct event event = EVENT_INIT(EVENT_REEXEC);
	char text[128];

	(void)snprintf(
		text, sizeof(text), "%.48s in the place of %.48s", a->options->version, before);
	event.text = text;
	events_add(a->events, &event);
}

static int take_over(struct agent *a, const struct spec *spec, const struct handover *h,
	const struct log *log, struct err *err)
{
	const char *before = handover_get_version(h);
	uint64_t requested_ns =
		(uint64_t)json_get_int(handover_root((struct handover *)h), "asked_ns", 0);
	int r = restore(a, spec, h, err);

	if (r == 0 && failpoint_breaks("reexec-restore"))
		r = err_say(err, -EPROTO, "a test has it fail here");
	if (r < 0)
		return r;
	reopen_socket(a, h);
	report_reexec(a, before);
	log_info(log, "goes on as version %s in the place of %s", a->options->version, before);
	log_debug(log, "the change of programs took %llu us",
		(unsigned long long)((clock_now_ns() - requested_ns) / 1000));
	ending_go_on(a);
	if (a->state != AGENT_ENDED)
		ev_run(a->loop, 0);
	return 0;
}

int agent_continue(int fd, const char *version, const struct frontend *frontend, int *ret_code,
	struct err *err)
{
	_cleanup_handover_ struct handover *h = NULL;
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_close_ int handover_fd = fd;
	struct agent_options options;
	struct agent a;
	struct log log;
	int signal_fd = -1, r;

	r = handover_open(fd, false, &h, err);
	if (r == 0)
		r = reexec_restore_options(h, &options, &log, err);
	if (r == 0)
		r = signal_fd = process_continue(reexec_ignores_hup(h), err);
	if (r < 0)
		return r;
	handover_fd = close_fd(handover_fd);
	options.version = version;
	options.frontend = frontend;
	service_use_journal(&log);
	agent_init(&a, &options);
	a.watch.signal_fd = signal_fd;
	r = read_handed_over_spec(h, &spec, err);
	if (r == 0)
		r = take_over(&a, spec, h, &log, err);
	if (r < 0) /* in spite of the trial: as if killed, and nothing is cleared that a successor
		    * needs
		    */
		return err_prefix(
			err, "the step is left without an agent ('stepd adopt' takes it over)");
	return closing_finish(&a, r, ret_code, err);
}

/* Nothing is cleared, for that would end the step: the process is to end by _exit(2). */
int agent_try_to_continue(int fd, const char *version, struct err *err)
{
	struct handover *h = NULL;
	struct spec *spec = NULL;
	struct agent *a = calloc(1, sizeof(*a));
	struct agent_options options;
	struct log log;
	int r;

	r = a ? handover_open(fd, true, &h, err) : err_set(err, -ENOMEM, "try to go on");
	if (r == 0)
		r = reexec_restore_options(h, &options, &log, err);
	if (r < 0)
		return r;
	options.version = version;
	agent_init(a, &options);
	r = a->watch.signal_fd = process_catch_signals(err);
	if (r >= 0)
		r = read_handed_over_spec(h, &spec, err);
	return r < 0 ? r : restore(a, spec, h, err);
}
