/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/binding/topology.h"

#include "config.h"

void topology_clear(struct topology *topology)
{
	free(topology->cpus);
	*topology = (struct topology){0};
}

#ifndef LIBHWLOC_SONAME

int topology_load(_unused_ const char *file, _unused_ const struct identity *id,
	_unused_ struct topology *ret_topology, struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP,
		"needs the machine's topology, but this stepd was built without hwloc; name the CPUs "
		"or NUMA nodes in a map or mask instead");
}

#else

#include <fcntl.h>
#include <hwloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/dynlib.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/process/identity.h"
#include "stepd/process/process.h"

#define TIME_LIMIT_S 20
#define ANSWER_MAX   (16u << 20) /* bytes */

/* The parts of hwloc used here. */
struct hwloc {
	void *handle;
	hwloc_topology_t topology;
	__typeof__(&hwloc_topology_init) init;
	__typeof__(&hwloc_topology_set_flags) set_flags;
	__typeof__(&hwloc_topology_set_xmlbuffer) set_xmlbuffer;
	__typeof__(&hwloc_topology_load) load;
	__typeof__(&hwloc_get_type_depth) get_type_depth;
	__typeof__(&hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth;
	__typeof__(&hwloc_get_obj_by_depth) get_obj_by_depth;
	__typeof__(&hwloc_bitmap_first) bitmap_first;
};

static const struct dynlib_symbol symbols[] = {
	{"hwloc_topology_init", offsetof(struct hwloc, init)},
	{"hwloc_topology_set_flags", offsetof(struct hwloc, set_flags)},
	{"hwloc_topology_set_xmlbuffer", offsetof(struct hwloc, set_xmlbuffer)},
	{"hwloc_topology_load", offsetof(struct hwloc, load)},
	{"hwloc_get_type_depth", offsetof(struct hwloc, get_type_depth)},
	{"hwloc_get_nbobjs_by_depth", offsetof(struct hwloc, get_nbobjs_by_depth)},
	{"hwloc_get_obj_by_depth", offsetof(struct hwloc, get_obj_by_depth)},
	{"hwloc_bitmap_first", offsetof(struct hwloc, bitmap_first)},
};

/* Its plugins (graphics, PCI, another XML parser) have nothing about CPUs, and finding them takes
 * most of hwloc's time: 1 to 15 ms of 1.5 to 17, measured with 2.9. This variable is the only way
 * to leave them out. */
static int without_plugins(void)
{
	return setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1) | setenv("HWLOC_LIBXML", "0", 1);
}

static int hwloc_open(struct hwloc *h, struct err *err)
{
	if (without_plugins() < 0)
		return err_set(err, -ENOMEM, "read the machine's topology");
	h->handle = dynlib_open(LIBHWLOC_SONAME, symbols, ARRAY_SIZE(symbols), h);
	if (!h->handle)
		return err_set_text(err, -EOPNOTSUPP,
			"needs the machine's topology, but %s can't be loaded; install it, or name the "
			"CPUs or NUMA nodes in a map or mask instead",
			LIBHWLOC_SONAME);
	if (h->init(&h->topology) < 0)
		return err_set(err, -ENOMEM, "read the machine's topology");
	return 0;
}

/* The caller decides what the process may use: disallowed CPUs are shown, too. No kind of part is
 * filtered out: NUMA nodes are attached to caches and groups, and would move to the whole socket.
 */
static int choose_flags(struct hwloc *h)
{
	unsigned long must = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED, flags = must;

#if HWLOC_API_VERSION >= 0x00020500
	flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
	flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
		HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
	/* It may be older than the header, and lack an option that only saves time. */
	if (h->set_flags(h->topology, flags) < 0 && h->set_flags(h->topology, must) < 0)
		return -errno;
	return 0;
}

static int err_no_topology(const char *file, struct err *err)
{
	return err_set_text(err, -EINVAL,
		"'%s' is not a topology in the XML of hwloc (lstopo --of xml writes one)", file);
}

static int use_file(struct hwloc *h, const char *file, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd =
		userpath_open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	const char *why = userpath_explain(fd);
	size_t size = 0;
	struct stat st;
	int r;

	if (fd < 0 && why)
		return err_set_text(err, fd, "open '%s': %s", file, why);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, fd < 0 ? fd : -errno, "open '%s'", file);
	if (!S_ISREG(st.st_mode)) /* a FIFO would block the agent */
		return err_set_text(err, -EINVAL, "'%s' is not a regular file", file);
	r = fs_read_fd(fd, TOPOLOGY_FILE_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read '%s'", file);
	/* The size counts a NUL at the end. The library has a copy. */
	if (size == 0 || h->set_xmlbuffer(h->topology, text, (int)size + 1) < 0)
		return err_no_topology(file, err);
	return 0;
}

/* ---- into the table ------------------------------------------------------------------------ */

static uint32_t index_above(hwloc_obj_t obj, hwloc_obj_type_t type, uint32_t otherwise)
{
	for (; obj; obj = obj->parent) {
		if (obj->type == type)
			return obj->logical_index;
	}
	return otherwise;
}

static int add_cpu(struct hwloc *h, hwloc_obj_t pu, unsigned i, struct topology *t)
{
	int node = pu->nodeset ? h->bitmap_first(pu->nodeset) : -1;

	/* A core of its own, where the machine shows none. */
	t->cpus[t->count++] = (struct topology_cpu){
		.cpu = pu->os_index,
		.core = index_above(pu, HWLOC_OBJ_CORE, i),
		.socket = index_above(pu, HWLOC_OBJ_PACKAGE, 0),
		.node = node < 0 ? TOPOLOGY_NONE : (uint32_t)node,
	};
	return pu->os_index > TOPOLOGY_CPU_MAX ? -ERANGE : 0;
}

static int read_cpus(struct hwloc *h, struct topology *ret_topology, struct err *err)
{
	_cleanup_topology_ struct topology t = {0};
	int depth = h->get_type_depth(h->topology, HWLOC_OBJ_PU), r = 0;
	unsigned n = h->get_nbobjs_by_depth(h->topology, depth), i;
	hwloc_obj_t pu;

	t.cpus = calloc(n + 1, sizeof(*t.cpus));
	if (!t.cpus)
		return err_set(err, -ENOMEM, "read the machine's topology");
	for (i = 0; i < n && r == 0; i++) {
		pu = h->get_obj_by_depth(h->topology, depth, i);
		r = add_cpu(h, pu, i, &t);
	}
	if (r < 0 || n == 0)
		return err_set_text(err, -EINVAL,
			n ? "the topology has a CPU with a number above %u"
			  : "the topology has no CPU",
			TOPOLOGY_CPU_MAX);
	*ret_topology = take_struct(t);
	return 0;
}

/* In the child, which never frees the library's memory. */
static int read_machine(const char *file, struct topology *ret_topology, struct err *err)
{
	struct hwloc h = {0};
	int r = hwloc_open(&h, err);

	if (r < 0)
		return r;
	r = choose_flags(&h);
	if (r < 0)
		return err_set(err, r, "read the machine's topology");
	if (file)
		r = use_file(&h, file, err);
	if (r < 0)
		return r;
	errno = 0;
	if (h.load(h.topology) < 0)
		return file ? err_no_topology(file, err)
			    : err_set(err, errno ? -errno : -EIO, "read the machine's topology");
	return read_cpus(&h, ret_topology, err);
}

/* ---- the child and its parent -------------------------------------------------------------- */

/* What the child writes, with count entries of the table behind it. */
struct answer {
	int32_t code;
	uint32_t count;
	char text[ERR_TEXT_SIZE];
};

/* hwloc reads the file as the user, with no descriptor of the agent's but the pipe. */
static int leave_agent(const struct identity *id, int fd, struct err *err)
{
	static const struct rlimit none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i, r;
	char **entry;

	/* hwloc prints what it dislikes. */
	for (i = 0; i <= STDERR_FILENO; i++) {
		if (null < 0 || dup2(null, i) < 0)
			return err_set(err, -errno, "open '/dev/null'");
	}
	process_close_inherited(&fd, 1);
	/* No terminal, no new privileges, no other process. */
	if (setsid() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		(id && id->uid != 0 && setrlimit(RLIMIT_NPROC, &none) < 0))
		return err_set(err, -errno, "leave the agent");
	for (entry = environ; entry && *entry; entry++)
		explicit_bzero(*entry, strlen(*entry));
	r = clearenv() ? -ENOMEM : 0;
	if (r == 0 && id)
		r = identity_become(id);
	return r < 0 ? err_set(err, r, "read the machine's topology as the step's user") : 0;
}

_noreturn_ static void child(const char *file, const struct identity *id, int fd)
{
	struct answer answer = {0};
	struct topology t = {0};
	struct err err = ERR_INIT;
	sigset_t none;

	process_default_signals();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL); /* can't fail */
	(void)alarm(TIME_LIMIT_S);
	answer.code = leave_agent(id, fd, &err);
	if (answer.code == 0)
		answer.code = read_machine(file, &t, &err);
	answer.count = (uint32_t)t.count;
	memcpy(answer.text, err.text, sizeof(answer.text));
	/* A short read is enough. */
	if (fs_write_all(fd, &answer, sizeof(answer)) == 0 && t.count)
		(void)!fs_write_all(fd, t.cpus, t.count * sizeof(*t.cpus));
	_exit(0);
}

/* One read(2), or 0 at the end or the deadline. The child's user may have stopped the child, and
 * then neither its alarm nor its end comes. */
static ssize_t read_piece(int fd, pid_t pid, int64_t deadline_ms, char *buf, size_t size)
{
	ssize_t n;

	if (fs_wait_readable(fd, deadline_ms) <= 0) {
		(void)kill(pid, SIGKILL); /* our child, not reaped; its status has the reason */
		return 0;
	}
	do
		n = read(fd, buf, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int read_answer(int fd, pid_t pid, struct buffer *bytes)
{
	const int64_t deadline_ms = clock_now_ms() + (TIME_LIMIT_S + 1) * 1000;
	char piece[16384];
	ssize_t n = 1;

	while (n > 0 && buffer_size(bytes) <= ANSWER_MAX) {
		n = read_piece(fd, pid, deadline_ms, piece, sizeof(piece));
		if (n > 0 && buffer_add(bytes, piece, (size_t)n) < 0)
			return -ENOMEM;
	}
	if (n > 0)
		(void)kill(pid, SIGKILL); /* it writes more than the maximum */
	return n < 0 ? (int)n : 0;
}

static int wait_child(pid_t pid, int *ret_status)
{
	pid_t r;

	do
		r = waitpid(pid, ret_status, 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int err_death(const char *file, int status, struct err *err)
{
	char why[64] = "ended early", name[SIGNALS_NAME_SIZE];

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		(void)snprintf(why, sizeof(why), "took longer than %d s", TIME_LIMIT_S);
	else if (WIFSIGNALED(status))
		(void)snprintf(why, sizeof(why), "was ended by SIG%s",
			signals_name(WTERMSIG(status), name, sizeof(name)));
	if (file)
		return err_set_text(err, -EINVAL,
			"hwloc %s when it read '%s'; is it from lstopo --of xml?", why, file);
	return err_set_text(err, -EIO,
		"hwloc %s when it read this machine; describe it in a file (topology)", why);
}

/* A malicious file may have made hwloc write this. */
static bool is_sound(const struct topology *t)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		const struct topology_cpu *cpu = &t->cpus[i];

		if (cpu->cpu > TOPOLOGY_CPU_MAX || cpu->core > TOPOLOGY_CPU_MAX ||
			cpu->socket > TOPOLOGY_CPU_MAX ||
			(cpu->node > TOPOLOGY_CPU_MAX && cpu->node != TOPOLOGY_NONE))
			return false;
	}
	return true;
}

static int take_answer(
	const char *bytes, size_t size, struct topology *ret_topology, struct err *err)
{
	_cleanup_topology_ struct topology t = {0};
	struct answer answer;

	memcpy(&answer, bytes, sizeof(answer));
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (answer.code < 0)
		return err_set_text(err, answer.code, "%s", answer.text);
	size -= sizeof(answer);
	if (answer.count == 0 || size != answer.count * sizeof(*t.cpus))
		return err_set_text(err, -EIO, "hwloc's result is incomplete");
	t.cpus = malloc(size);
	if (!t.cpus)
		return err_set(err, -ENOMEM, "read the machine's topology");
	memcpy(t.cpus, bytes + sizeof(answer), size);
	t.count = answer.count;
	if (!is_sound(&t))
		return err_set_text(
			err, -EINVAL, "the topology has numbers above %u", TOPOLOGY_CPU_MAX);
	*ret_topology = take_struct(t);
	return 0;
}

int topology_load(
	const char *file, const struct identity *id, struct topology *ret_topology, struct err *err)
{
	_cleanup_close_ int from = -1, to = -1;
	_cleanup_buffer_ struct buffer bytes = {0};
	int fds[2], status = 0, r, waited;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe to read the machine's topology");
	from = fds[0];
	to = fds[1];
	pid = fork();
	if (pid == 0)
		child(file, id, to);
	if (pid < 0)
		return err_set(err, -errno, "fork to read the machine's topology");
	to = close_fd(to);
	r = read_answer(from, pid, &bytes);
	if (r < 0)
		(void)kill(pid, SIGKILL); /* our child, not reaped */
	waited = wait_child(pid, &status);
	if (r == 0)
		r = waited;
	if (r < 0)
		return err_set(err, r, "read the machine's topology");
	if (buffer_size(&bytes) < sizeof(struct answer))
		return err_death(file, status, err);
	return take_answer(buffer_bytes(&bytes), buffer_size(&bytes), ret_topology, err);
}

#endif
