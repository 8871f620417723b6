/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/cray_aries: the container is a job of the vendor's job library, its id the job's
 * number, known to all processes of the machine. Whatever a member starts is in the job, too.
 *
 * A job can't be empty. It is created by the holder: a child of the agent that does nothing, is no
 * member, takes no signal but SIGKILL, and ends with the agent. A SIGKILL to the whole job ends it,
 * too; what is added later gets a new one, of the same number. Another process than the agent knows
 * a holder by its name, and where that process is root by the user, so that a user's process can't
 * hide from it.
 *
 * Signals other than SIGKILL go to the members of the library's list, which is read until it has
 * nothing new: job_killjid() sends to those there are when it is called. A process that forks and
 * exits faster than that outruns such a signal. Of a process that is added after it has made
 * threads, the library may take the first thread alone.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "proctrack/cray_aries/libjob.h"
#include "proctrack/procs.h"
#include "proctrack/reporter.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"

const char plugin_type[] = "proctrack/cray_aries";
const char plugin_name[] = "Process tracking by Cray job containers";
const uint32_t plugin_version = STEPD_API_VERSION;

#define HOLDER_NAME "stepd-jobholder"

/* How often a list is read again of which every process ended while it was read. */
#define TRIES_MAX 8

/* This process's container; the ABI has no argument for a handle. */
static struct {
	struct libjob lib;
	uint64_t id;  /* 0: none */
	uid_t uid;    /* the job's user */
	pid_t agent;  /* a copy of this process, a worker, has no holder to end */
	pid_t holder; /* 0: none */
	int pidfd;    /* of the holder */
} own = {.pidfd = -1};

static int to_slurm(int r)
{
	if (r >= 0)
		return SLURM_SUCCESS;
	errno = r == -ENODATA || r == -EBADF ? ESRCH : -r; /* no such job */
	return SLURM_ERROR;
}

/* ---- the library --------------------------------------------------------------------------- */

static int check_library(void)
{
	return own.lib.handle ? 0 : -ELIBACC;
}

/* What a function of the library that gives a job has come to. */
static int job_error(jid_t jid)
{
	if (jid != JID_NONE)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

/* The library attaches a process that is in no job. One that is in another, as all are that a login
 * in a job has started, leaves it first. */
static int job_attach(pid_t pid, jid_t jid)
{
	jid_t before;
	int r;

	errno = 0;
	r = job_error(own.lib.attachpid(pid, jid));
	if (r != -EINVAL)
		return r;
	before = own.lib.getjid(pid);
	if (before == jid)
		return 0;
	errno = 0;
	r = job_error(own.lib.detachpid(pid));
	if (r < 0)
		return r;
	errno = 0;
	r = job_error(own.lib.attachpid(pid, jid));
	if (r < 0)
		(void)own.lib.attachpid(pid, before); /* the failure that counts is the first */
	return r;
}

/* ---- the holder ---------------------------------------------------------------------------- */

struct holder_report {
	uint64_t id;
	int error; /* errno */
};

struct holder {
	uint64_t id; /* of the job that it shall create, 0 for any, or enter */
	bool enter;
	pid_t agent;
	int report_fd;
};

static int holder_make_job(struct holder *holder)
{
	jid_t jid;
	int r;

	if (holder->enter)
		return job_attach(getpid(), holder->id);
	errno = 0;
	jid = own.lib.create(holder->id, own.uid, 0);
	r = job_error(jid);
	if (r < 0)
		return r;
	holder->id = jid;
	return jid == 0 ? -EOPNOTSUPP : 0; /* jobs are switched off on this machine */
}

/* It must not keep open what the agent closes. */
static void holder_close_all(void)
{
	struct rlimit limit = {.rlim_cur = 1024};
	int fd;

	if (syscall(SYS_close_range, 0, ~0u, 0) == 0)
		return;
	(void)getrlimit(RLIMIT_NOFILE, &limit); /* Linux before 5.9 */
	for (fd = 0; (rlim_t)fd < limit.rlim_cur; fd++)
		(void)close(fd);
}

/* In the child, a copy of the agent. */
_noreturn_ static void be_holder(void *userdata)
{
	struct holder *holder = userdata;
	struct holder_report report = {0};
	sigset_t none;
	int i;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NAME, HOLDER_NAME) < 0)
		_exit(1);
	if (getppid() != holder->agent)
		_exit(1); /* the agent died before that was set */
	report.error = -holder_make_job(holder);
	report.id = holder->id;
	for (i = 1; i <= SIGRTMAX; i++)
		(void)signal(i, SIG_IGN); /* all that can be */
	if (write(holder->report_fd, &report, sizeof(report)) != sizeof(report) || report.error)
		_exit(1);
	holder_close_all();
	(void)sigemptyset(&none);
	/* what is ignored and not blocked does not queue up */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (;;)
		(void)pause();
}

static int read_report(int fd, struct holder_report *ret_report)
{
	ssize_t n;

	do
		n = read(fd, ret_report, sizeof(*ret_report));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n != (ssize_t)sizeof(*ret_report))
		return -EAGAIN; /* killed before it was done */
	return -ret_report->error;
}

static void end_holder(void)
{
	if (own.pidfd >= 0) {
		/* fails if it has ended: it is reaped below in any case */
		(void)syscall(SYS_pidfd_send_signal, own.pidfd, SIGKILL, NULL, 0);
		hidden_child_reap(own.pidfd);
	}
	own.pidfd = -1;
	own.holder = 0;
}

/* Starts a holder, in place of one that has ended, and sets own.id. */
static int start_holder(uint64_t id, bool enter)
{
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	struct holder holder = {.id = id, .enter = enter, .agent = getpid()};
	struct holder_report report;
	int fds[2], r;
	pid_t pid;

	end_holder();
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	write_fd = holder.report_fd = fds[1];
	pid = hidden_child_start(be_holder, &holder, &own.pidfd);
	if (pid < 0)
		return pid;
	own.holder = pid;
	write_fd = close_fd(write_fd);
	r = read_report(read_fd, &report);
	if (r < 0) {
		end_holder();
		return r;
	}
	own.id = report.id;
	own.agent = holder.agent;
	return 0;
}

/* Whether the process of this status, of proc_pid_status(5), is the holder of another agent. */
static bool is_holder_status(const char *status)
{
	static const char name[] = "Name:\t" HOLDER_NAME "\n";
	uint64_t uid;

	if (strncmp(status, name, sizeof(name) - 1) != 0)
		return false;
	return geteuid() != 0 || (parse_line_u64(status, "Uid:", &uid) == 0 && uid == 0);
}

/* The process that pid, maybe a thread's, belongs to. 0: it has ended, or is the job's holder. */
static pid_t find_process(uint64_t id, pid_t pid)
{
	_cleanup_free_ char *status = NULL;
	uint64_t process = 0;
	char path[40];

	if (pid <= 0 || (own.holder && pid == own.holder))
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fs_read(AT_FDCWD, path, 1u << 20, &status, NULL) < 0 ||
		parse_line_u64(status, "Tgid:", &process) < 0 || process > INT_MAX)
		return 0;
	return own.id != id && is_holder_status(status) ? 0 : (pid_t)process;
}

/* ---- members ------------------------------------------------------------------------------- */

static int check_id(uint64_t id)
{
	int r = check_library();

	return r == 0 && (id == 0 || id == JID_NONE) ? -ESRCH : r;
}

/* The processes of a job without its holder, each once; *ret_others is how many entries of the
 * library's list are not the holder. */
static int list_processes(uint64_t id, pid_t **ret_pids, size_t *ret_count, size_t *ret_others)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, i, n_left = 0, others = 0;
	int r = libjob_list(&own.lib, id, &pids, &n);

	if (r < 0 && !(r == -ENODATA && id == own.id)) /* which has ended with its last process */
		return r;
	for (i = 0; i < n; i++) {
		others += !own.holder || pids[i] != own.holder;
		pids[n_left] = find_process(id, pids[i]);
		n_left += pids[n_left] > 0;
	}
	if (n_left > 0)
		qsort(pids, n_left, sizeof(*pids), procs_compare_pids);
	for (i = n = 0; i < n_left; i++) {
		if (n == 0 || pids[n - 1] != pids[i])
			pids[n++] = pids[i];
	}
	*ret_pids = take_ptr(pids);
	*ret_count = n;
	*ret_others = others;
	return 0;
}

/* Members of which the start time is known are verified once more: a pid of the list may have
 * become a stranger's before its start time was read. Returns how many of them live, or -errno. */
static int mark_members(uint64_t id, struct procs *procs)
{
	int n = 0, r;
	size_t i;
	jid_t jid;

	for (i = 0; i < procs->n; i++) {
		errno = 0;
		jid = own.lib.getjid(procs->v[i].pid);
		r = job_error(jid);
		if (r < 0 && r != -ENODATA && r != -ESRCH)
			return r; /* no proof that it is none */
		procs->v[i].member = jid == id;
		n += procs->v[i].member && procs->v[i].living;
	}
	return n;
}

/* procs_fill_fn. A list of which nothing lives any more may have missed what that has forked, and
 * is read again. */
static int read_members(struct procs *ret_procs, void *userdata)
{
	uint64_t id = *(const uint64_t *)userdata;
	size_t n, others;
	int try, r;

	for (try = 0; try < TRIES_MAX; try++) {
		_cleanup_procs_ struct procs procs = {0};
		_cleanup_free_ pid_t *pids = NULL;

		r = list_processes(id, &pids, &n, &others);
		if (r == 0)
			r = procs_read_some(pids, n, &procs);
		if (r == 0)
			r = mark_members(id, &procs);
		if (r < 0)
			return r;
		if (r > 0 || others == 0 || try == TRIES_MAX - 1) {
			*ret_procs = take_struct(procs);
			return 0;
		}
	}
	return 0;
}

static int list_members(uint64_t id, pid_t **ret_pids, int *ret_count)
{
	_cleanup_procs_ struct procs procs = {0};
	_cleanup_free_ pid_t *pids = NULL;
	size_t i;
	int n = 0, r = read_members(&procs, &id);

	if (r < 0)
		return r;
	pids = calloc(procs.n + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	for (i = 0; i < procs.n; i++) {
		if (procs.v[i].member && procs.v[i].living)
			pids[n++] = procs.v[i].pid;
	}
	*ret_pids = n > 0 ? take_ptr(pids) : NULL;
	*ret_count = n;
	return 0;
}

/* The library ends all of the job at once, the holder too; what it has left, by its list. */
static int kill_members(uint64_t id)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, others = 0;
	int r = list_processes(id, &pids, &n, &others);

	if (r < 0)
		return r;
	if (others == 0)
		return -ESRCH;
	(void)own.lib.killjid(id, SIGKILL); /* whom it has missed the list shows */
	r = procs_signal_filled(read_members, &id, SIGKILL);
	return (r == -ESRCH || r == -ENODATA) && n > 0 ? 0 : r;
}

/* ---- the plugin --------------------------------------------------------------------------- */

STEPD_EXPORT int proctrack_p_create(stepd_step_rec_t *job)
{
	int r = own.id ? -EEXIST : check_library();

	if (r == 0) {
		own.uid = job->uid;
		r = start_holder(0, false);
	}
	if (r == 0)
		job->cont_id = own.id;
	return to_slurm(r);
}

STEPD_EXPORT int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	struct procstat st;
	int r;

	if (own.id == 0 || job->cont_id != own.id || pid <= 0)
		return to_slurm(-ESRCH);
	if (pid == own.agent || pid == own.holder)
		return to_slurm(-EINVAL);
	r = procstat_read(pid, &st);
	if (r == 0 && !procstat_is_living(&st))
		r = -ESRCH;
	if (r == 0)
		r = job_attach(pid, own.id);
	if (r == -ENODATA && own.agent == getpid()) {
		r = start_holder(own.id, false);
		if (r == 0)
			r = job_attach(pid, own.id);
	}
	return to_slurm(r);
}

STEPD_EXPORT int proctrack_p_signal(uint64_t id, int signal)
{
	int r = check_id(id);

	if (r < 0)
		return to_slurm(r);
	return to_slurm(signal == SIGKILL ? kill_members(id)
					  : procs_signal_filled(read_members, &id, signal));
}

/* The job itself lasts as long as its members do. */
STEPD_EXPORT int proctrack_p_destroy(uint64_t id)
{
	if (id == 0 || id != own.id || own.agent != getpid())
		return to_slurm(-ESRCH);
	end_holder();
	own.id = 0;
	return SLURM_SUCCESS;
}

STEPD_EXPORT uint64_t proctrack_p_find(pid_t pid)
{
	int r = pid > 0 ? check_library() : -ESRCH;
	jid_t jid = 0;

	if (r == 0) {
		errno = 0;
		jid = own.lib.getjid(pid);
		r = job_error(jid);
	}
	if (r == 0 && jid != 0 && find_process(jid, pid) > 0)
		return jid;
	errno = r < 0 && r != -ENODATA ? -r : ESRCH;
	return 0;
}

STEPD_EXPORT uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	int r = check_id(cont_id);

	return (uint32_t)to_slurm(r < 0 ? r : list_members(cont_id, pids, npids));
}

STEPD_EXPORT int proctrack_p_spans_sessions(void)
{
	return true;
}

/* A program that an agent has executed has the holder for its child, as before. */
static int find_holder(uint64_t id)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct procstat st;
	size_t n = 0, i;
	int r = libjob_list(&own.lib, id, &pids, &n);

	if (r < 0)
		return r;
	for (i = 0; i < n; i++) {
		if (procstat_read(pids[i], &st) < 0 || st.ppid != getpid() ||
			strcmp(st.comm, HOLDER_NAME) != 0)
			continue;
		own.pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);
		if (own.pidfd < 0)
			return -errno;
		own.holder = pids[i];
		return 0;
	}
	return -ESRCH;
}

/* The job is the step's as long as one of its processes is in it: a number may be used again. */
static bool has_one_of(uint64_t id, const pid_t *pids, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (own.lib.getjid(pids[i]) == id)
			return true;
	}
	return false;
}

STEPD_EXPORT int proctrack_p_adopt(stepd_step_rec_t *job, const pid_t *pids, int n)
{
	int r = own.id ? -EEXIST : check_id(job->cont_id);

	if (r < 0)
		return to_slurm(r);
	own.uid = job->uid;
	if (find_holder(job->cont_id) == 0) {
		own.id = job->cont_id;
		own.agent = getpid();
		return SLURM_SUCCESS;
	}
	if (!has_one_of(job->cont_id, pids, n))
		return to_slurm(-ESRCH);
	return to_slurm(start_holder(job->cont_id, true));
}

STEPD_EXPORT int init(void)
{
	/* Without it the plugin can be loaded, and plugin_probe() has the reason. */
	(void)!libjob_load(&own.lib);
	return SLURM_SUCCESS;
}

STEPD_EXPORT void fini(void)
{
	if (own.id)
		(void)proctrack_p_destroy(own.id); /* a copy of the agent has nothing to end */
	own.pidfd = close_fd(own.pidfd);
	libjob_unload(&own.lib);
}

/* 0, or -errno where no job can be queried: each process is in one or in none. */
static int try_service(void)
{
	int r;

	errno = 0;
	r = job_error(own.lib.getjid(getpid()));
	return r == -ENODATA || r == -ESRCH ? 0 : r;
}

#define HOLDS                                                                                       \
	"a job container of the Cray system, daemons too; what forks and exits quickly can outrun " \
	"a signal other than SIGKILL"
#define NO_SERVICE "the job service, which the library libjob.so.0 calls, does not answer"
#define REMEDY     "load the kernel's job module or start jobd, or use another tracker"

STEPD_EXPORT int plugin_probe(char *text, size_t size)
{
	int r;

	if (!own.lib.handle) {
		libjob_describe_missing(text, size);
		return SLURM_ERROR;
	}
	r = try_service();
	if (r == 0)
		(void)snprintf(text, size, HOLDS);
	else
		(void)snprintf(text, size, NO_SERVICE ": %s (" REMEDY ")", strerror(-r));
	return r == 0 ? SLURM_SUCCESS : SLURM_ERROR;
}

STEPD_EXPORT int plugin_checkup(stepd_tell_fn fn, void *ctx)
{
	const struct reporter reporter = {fn, ctx};
	char text[256];
	int r;

	if (!own.lib.handle) { /* as on all machines but the vendor's: nothing to mend */
		libjob_describe_missing(text, sizeof(text));
		reporter_add(&reporter, STEPD_FINDING_NOTE, "cray.library", NULL, NULL, "%s", text);
		return SLURM_SUCCESS;
	}
	reporter_add(&reporter, STEPD_FINDING_OK, "cray.library", NULL, NULL,
		"the job library is loaded, with all functions");
	r = try_service();
	if (r == 0)
		reporter_add(&reporter, STEPD_FINDING_OK, "cray.service", NULL, NULL,
			"the job service answers");
	else
		reporter_add(&reporter, STEPD_FINDING_PROBLEM, "cray.service", NULL, REMEDY,
			NO_SERVICE ": %s", strerror(-r));
	reporter_add(&reporter, STEPD_FINDING_NOTE, "cray.holds", NULL, NULL, "holds " HOLDS);
	return SLURM_SUCCESS;
}
