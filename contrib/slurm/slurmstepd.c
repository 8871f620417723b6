/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd-slurmstepd: what slurmd starts in place of slurmstepd, "slurmd -d". It reads what slurmd
 * writes, finds out which step it is and whether it can be served here, and hands what can't be
 * over to Slurm's own slurmstepd: see decision.h and handover.h. Every call with arguments is not a
 * step, and is Slurm's own at once.
 */
#include <fcntl.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/gres_bind.h"
#include "contrib/slurm/handover.h"
#include "contrib/slurm/served.h"
#include "contrib/slurm/settings.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/site_nodes.h"
#include "stepd/base/hostlist.h"

#define READ_SIZE (16u << 10)

/* Of Slurm's levels. */
#define SLURM_LEVEL_ERROR 2u
#define SLURM_LEVEL_INFO  3u

/* slurmd's log: its file, in the form of its lines, or syslog where it has none. */
struct slurm_log {
	struct log log; /* first: the hook gets only this */
	uint32_t most;  /* SlurmdDebug */
	char label[SLURM_LABEL_SIZE];
};

struct stepd {
	struct slurm_log log;
	struct slurm_settings settings;
	struct buffer bytes; /* what was read of the init */
	struct slurm_init init;
	struct site_conf site;
};

/* ---- the log ------------------------------------------------------------------------------- */

static int send_line(const struct log *log, enum log_level level, const char *text)
{
	const struct slurm_log *l = (const struct slurm_log *)log;
	bool error = level <= LOG_LEVEL_WARNING;
	struct timespec now;
	char when[32] = "";
	struct tm tm;

	if (l->most < (error ? SLURM_LEVEL_ERROR : SLURM_LEVEL_INFO))
		return 0; /* as the site has it */
	if (log->fd < 0) {
		syslog(error ? LOG_ERR : LOG_INFO, "%s%s%s", l->label, *l->label ? " " : "", text);
		return 0;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)dprintf(log->fd, "[%s.%03ld] [%s] stepd-slurmstepd: %s%s\n", when,
		now.tv_nsec / 1000000, *l->label ? l->label : "-", error ? "error: " : "", text);
	return 0;
}

static void open_log(struct slurm_log *l, const struct slurm_init *init)
{
	const struct slurm_node_conf *conf = &init->conf;

	if (init->has_launch)
		slurm_step_label(&init->launch.id, l->label);
	if (conf->node_name)
		l->most = conf->debug_level;
	/* slurmd has made it; not to wait where it is a pipe that nobody reads */
	if (conf->log_file)
		l->log.fd = open(conf->log_file,
			O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

/* ---- the init ------------------------------------------------------------------------------ */

/* Reads more of it: what there is, up to a piece, and never waits for more than is missing. */
static int read_some(struct buffer *bytes)
{
	char piece[READ_SIZE];
	ssize_t n;

	do
		n = read(STDIN_FILENO, piece, sizeof(piece));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == 0 ? -ENODATA : buffer_add(bytes, piece, (size_t)n);
}

/* Until what is wanted is there. */
static int read_until(struct buffer *bytes, struct slurm_frame *frame,
	ssize_t (*find_missing)(const void *data, size_t size, struct slurm_frame *frame))
{
	ssize_t missing = 0;
	int r = 0;

	while (r == 0 &&
		(missing = find_missing(buffer_bytes(bytes), buffer_size(bytes), frame)) > 0)
		r = read_some(bytes);
	return r == 0 && missing < 0 ? (int)missing : r;
}

static void read_init(struct stepd *s)
{
	struct slurm_frame frame = {0};
	int r = read_until(&s->bytes, &frame, slurm_init_missing);

	slurm_init_decode(&s->init, buffer_bytes(&s->bytes), &frame, r);
	if (!slurm_init_has_gres_conf(&s->init))
		return;
	r = read_until(&s->bytes, &frame, slurm_init_missing_gres_conf);
	/* The bytes may have moved. */
	slurm_launch_clear(&s->init.launch);
	slurm_init_decode(&s->init, buffer_bytes(&s->bytes), &frame, r);
}

/* ---- what becomes of it -------------------------------------------------------------------- */

static void prepare_record(const struct stepd *s, struct handover *h)
{
	struct err err = ERR_INIT;

	h->record_dir = -1;
	if (!s->settings.record_dir)
		return;
	h->record_dir = handover_open_records(s->settings.record_dir, &err);
	if (h->record_dir < 0)
		log_warning(&s->log.log, "%s, ignoring", err.text);
	(void)snprintf(h->record_name, sizeof(h->record_name), "%s-%d.init",
		*s->log.label ? s->log.label : "unknown", (int)getpid());
}

static int hand_over(const struct stepd *s, const char *why)
{
	struct handover h = {.init = &s->bytes, .log = &s->log.log, .record_dir = -1};
	struct err err = ERR_INIT;

	if (slurm_settings_find(&s->settings, &h.path, &err) == 0) {
		log_info(&s->log.log, "%s%sstep handed over to %s: %s",
			s->init.has_launch ? slurm_kind_name(s->init.launch.kind) : "",
			s->init.has_launch ? " " : "", h.path, why);
		prepare_record(s, &h);
		handover_exec(&h, &err);
	}
	log_error(&s->log.log, "%s: the step is refused", err.text);
	handover_refuse();
	return EXIT_FAILURE;
}

/* And those of its tasks. */
static int check_gres(const struct slurm_init *init, struct err *err)
{
	_cleanup_(gres_binding_free_p) struct gres_binding *binding = NULL;
	int r = err->code ? err->code : gres_check(init, err);

	return r == 0 ? gres_binding_new(init, false, &binding, err) : r;
}

/* Where its slurmd listens, if it is known by its name: without that the step is handed over. */
static void find_parent(struct stepd *s)
{
	struct slurm_frame *f = &s->init.frame;
	char name[HOSTLIST_NAME_MAX + 1], *names[] = {name};
	struct err err = ERR_INIT;

	if (f->parent_rank < 0 || f->parent_name.size == 0 || f->parent_name.size >= sizeof(name))
		return;
	memcpy(name, (const char *)buffer_bytes(&s->bytes) + f->parent_name.at,
		f->parent_name.size);
	name[f->parent_name.size] = '\0';
	if (site_nodes_find(NULL, names, 1, &f->parent, &err) < 0)
		log_info(&s->log.log, "the node above is not found: %s", err.text);
}

static int read_site_conf(struct stepd *s, struct err *err)
{
	int r = site_conf_read(NULL, &s->site, err);

	return r == 0
		? site_check_spank(&s->site, slurm_release_version(s->init.frame.release), err)
		: r;
}

static void find_self(struct stepd *s)
{
	char *names[] = {(char *)s->init.conf.node_name};
	struct err err = ERR_INIT;

	if (names[0] && slurm_needs_own_address(&s->init) &&
		site_nodes_find(NULL, names, 1, &s->init.frame.self, &err) < 0)
		log_info(&s->log.log, "the node's own address is not found: %s", err.text);
}

static int find_namespace(struct stepd *s, struct err *err)
{
	const char *path = NULL;
	int r = site_conf_find(&path, err);

	return r == 0 ? job_namespace_find(buffer_bytes(&s->bytes), &s->init.frame, &s->init.conf,
				&s->site, path, s->init.launch.id.job, &s->init.name_space, err)
		      : r;
}

/* Names of users and slurm.conf are only looked at where they decide. */
static void read_site(struct stepd *s)
{
	int r;

	s->init.chosen = s->init.has_launch && s->settings.serves[s->init.launch.kind];
	if (s->init.chosen)
		s->init.rule =
			rules_find(&s->settings.handover, &s->init.launch, &s->init.rule_err);
	if (!s->init.chosen || s->init.rule || read_site_conf(s, &s->init.site_err) < 0)
		return;
	/* slurmd sends its own from 23.02 on; the default is another one since 23.11. */
	if (s->init.conf.tree_width)
		s->site.tree_width = s->init.conf.tree_width;
	s->init.site = &s->site;
	find_parent(s);
	find_self(s);
	r = find_namespace(s, &s->init.namespace_err);
	if (r == 0)
		r = check_gres(&s->init, &s->init.gres_err);
	if (r == 0 && s->site.limits && s->init.frame.cgroup.size == 0)
		r = err_set_text(
			&s->init.limits_err, -EOPNOTSUPP, "slurmd has sent nothing of cgroup.conf");
	else if (r == 0 && s->site.limits)
		r = step_limits_find(&s->init, &s->init.limits, &s->init.limits_err);
	(void)r; /* the errors are reasons */
}

/* What fails before slurmd has its answer is handed over, too. */
static int serve(const struct stepd *s)
{
	_cleanup_(served_free_p) struct served *served = NULL;
	struct err err = ERR_INIT;
	int r;

	if (served_prepare(&s->init, &s->log.log, &served, &err) < 0)
		return hand_over(s, err.text);
	r = served_run(served);
	if (r >= 0)
		return r;
	served = served_free(served);
	return hand_over(s, "its agent does not start");
}

static int decide(struct stepd *s)
{
	enum slurm_reason reason;
	char why[SLURM_REASON_SIZE];

	read_site(s);
	reason = slurm_decide(&s->init);
	if (reason == SLURM_REASON_NONE)
		return serve(s);
	slurm_reason_print(&s->init, reason, why);
	return hand_over(s, why);
}

/* "infinity", "spank", "getenv" and what else slurmd and Slurm's programs have it do: no step. */
static int run_other(const struct slurm_settings *settings, char **argv)
{
	const char *path = argv[0];
	struct err err = ERR_INIT;

	if (slurm_settings_find(settings, &path, &err) == 0) {
		argv[0] = (char *)path;
		(void)execv(path, argv);
		(void)err_set(&err, -errno, "can't execute '%s'", path);
	}
	(void)fprintf(stderr, "stepd-slurmstepd: %s\n", err.text);
	return EXIT_FAILURE;
}

static void stepd_clear(struct stepd *s)
{
	s->log.log.fd = close_fd(s->log.log.fd);
	slurm_settings_clear(&s->settings);
	site_conf_clear(&s->site);
	step_limits_clear(&s->init.limits);
	job_namespace_clear(&s->init.name_space);
	slurm_launch_clear(&s->init.launch);
	buffer_clear(&s->bytes);
}

int main(int argc, char **argv)
{
	_cleanup_(stepd_clear) struct stepd s = {
		.log = {.log = {.send = send_line, .fd = -1, .most = LOG_LEVEL_INFO},
			.most = SLURM_LEVEL_INFO}};
	struct err err = ERR_INIT;
	int r = slurm_settings_read(&s.settings, &err);

	if (argc > 1)
		return run_other(&s.settings, argv);
	read_init(&s);
	openlog("stepd-slurmstepd", LOG_PID, LOG_DAEMON);
	open_log(&s.log, &s.init);
	if (r < 0)
		log_warning(&s.log.log, "%s, ignoring", err.text);
	return decide(&s);
}
