/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/devices.h"

#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "proctrack/cgroup/group.h"

#define ACCESS_ALL (STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD)

/* The size of the longest rule, and of the instructions before and behind all of them. */
#define RULE_INSNS   13
#define FIXED_INSNS  8
#define PROGRAMS_MAX 64 /* that the kernel lets one group have */

/* ---- the program -------------------------------------------------------------------------- */

/* Registers: the request, and a scratch one. Each comparison is made in SCRATCH, so that the
 * verifier learns nothing of the others from it and, whatever the rules, follows one path. */
enum {
	SCRATCH = BPF_REG_0,
	CONTEXT = BPF_REG_1,
	TYPE = BPF_REG_2,
	ACCESS = BPF_REG_3,
	MAJOR = BPF_REG_4,
	MINOR = BPF_REG_5
};

struct program {
	struct bpf_insn *insns;
	size_t n;
};

static void program_put(struct program *p, int code, int dst, int src, int off, int32_t imm)
{
	p->insns[p->n++] = (struct bpf_insn){.code = (uint8_t)code,
		.dst_reg = (uint8_t)dst & 0xf,
		.src_reg = (uint8_t)src & 0xf,
		.off = (int16_t)off,
		.imm = imm};
}

static void put_load(struct program *p, int dst, size_t offset)
{
	program_put(p, BPF_LDX | BPF_MEM | BPF_W, dst, CONTEXT, (int)offset, 0);
}

static void put_return(struct program *p, int32_t value)
{
	program_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, value);
	program_put(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* Leaves the rule where the register is another number. The jump is set by end_rule(). */
static void put_unless(struct program *p, int reg, uint32_t number)
{
	program_put(p, BPF_ALU | BPF_MOV | BPF_X, SCRATCH, reg, 0, 0);
	program_put(p, BPF_ALU | BPF_XOR | BPF_K, SCRATCH, 0, 0, (int32_t)number);
	program_put(p, BPF_JMP | BPF_JNE | BPF_K, SCRATCH, 0, 0, 0);
}

static uint32_t kernel_access(uint32_t access)
{
	return (access & STEPD_DEVICE_READ ? BPF_DEVCG_ACC_READ : 0) |
		(access & STEPD_DEVICE_WRITE ? BPF_DEVCG_ACC_WRITE : 0) |
		(access & STEPD_DEVICE_MKNOD ? BPF_DEVCG_ACC_MKNOD : 0);
}

/* A rule takes from ACCESS what it allows; nothing left is a yes. So what two rules allow together,
 * one reading and one writing, may be in one request. One that allows nothing is a no. */
static void put_rule(struct program *p, const stepd_device_rule_t *rule)
{
	size_t start = p->n, i;

	if (rule->type != 'a')
		put_unless(p, TYPE, rule->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
	if (rule->major != STEPD_DEVICE_ANY)
		put_unless(p, MAJOR, rule->major);
	if (rule->minor != STEPD_DEVICE_ANY)
		put_unless(p, MINOR, rule->minor);
	if (rule->access) {
		program_put(p, BPF_ALU | BPF_AND | BPF_K, ACCESS, 0, 0,
			(int32_t)~kernel_access(rule->access));
		program_put(p, BPF_JMP | BPF_JNE | BPF_K, ACCESS, 0, 0, 0);
	}
	put_return(p, rule->access != 0);
	for (i = start; i < p->n; i++) {
		if (p->insns[i].code == (BPF_JMP | BPF_JNE | BPF_K))
			p->insns[i].off = (int16_t)(p->n - i - 1);
	}
}

static int check_rule(const stepd_device_rule_t *rule, size_t i, struct err *err)
{
	if (rule->type != 'a' && rule->type != 'b' && rule->type != 'c')
		return err_set_text(err, -EINVAL,
			"device rule %zu has the type '%c'; it must be b, c or a (both)", i + 1,
			rule->type);
	if (rule->access & ~(uint32_t)ACCESS_ALL)
		return err_set_text(err, -EINVAL,
			"device rule %zu allows 0x%x; it must be some of read, write and mknod",
			i + 1, (unsigned)rule->access);
	/* What follows it would never be reached, which the verifier does not take. */
	if (rule->access == 0 && rule->type == 'a' && rule->major == STEPD_DEVICE_ANY &&
		rule->minor == STEPD_DEVICE_ANY)
		return err_set_text(err, -EINVAL,
			"device rule %zu refuses every device; leave the others out instead",
			i + 1);
	return 0;
}

static int put_rules(struct program *p, const stepd_device_rule_t *rules, size_t count,
	bool refusing, struct err *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < count; i++) {
		r = check_rule(&rules[i], i, err);
		if (r == 0 && (rules[i].access == 0) == refusing)
			put_rule(p, &rules[i]);
	}
	return r;
}

int devices_generate(const stepd_device_rule_t *rules, size_t count, struct bpf_insn **ret_insns,
	size_t *ret_count, struct err *err)
{
	_cleanup_free_ void *memory = NULL;
	struct program p;
	int r;

	if (count > (INT32_MAX - FIXED_INSNS) / RULE_INSNS)
		return err_set_text(err, -E2BIG, "%zu device rules are too many", count);
	memory = calloc(count * RULE_INSNS + FIXED_INSNS, sizeof(*p.insns));
	if (!memory)
		return err_set(err, -ENOMEM, "make a program of %zu device rules", count);
	p = (struct program){.insns = memory};
	/* access_type holds the access above the type; all of it is 32 bits wide. */
	put_load(&p, TYPE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
	program_put(&p, BPF_ALU | BPF_MOV | BPF_X, ACCESS, TYPE, 0, 0);
	program_put(&p, BPF_ALU | BPF_AND | BPF_K, TYPE, 0, 0, 0xffff);
	program_put(&p, BPF_ALU | BPF_RSH | BPF_K, ACCESS, 0, 0, 16);
	put_load(&p, MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
	put_load(&p, MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
	r = put_rules(&p, rules, count, true, err);
	if (r == 0)
		r = put_rules(&p, rules, count, false, err);
	if (r < 0)
		return r;
	put_return(&p, 0);
	*ret_insns = take_ptr(memory);
	*ret_count = p.n;
	return 0;
}

/* ---- the kernel --------------------------------------------------------------------------- */

/* A descriptor for those commands that give one, else 0; or -errno. */
static int call_bpf(int command, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

/* Since Linux 5.0 a load that finds a signal pending, as it does when this process was frozen and
 * goes on, fails with EAGAIN; so it may be tried that often. */
#define LOADS_MAX 20

static int load_once(const struct bpf_insn *insns, size_t count)
{
	union bpf_attr attr;
	int r, i;

	memset(&attr, 0, sizeof(attr)); /* with the padding, which the kernel wants to be 0 */
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = (uint32_t)count;
	attr.license = (uintptr_t) "Dual BSD/GPL";
	memcpy(attr.prog_name, DEVICES_PROGRAM, sizeof(DEVICES_PROGRAM));
	for (i = 0; i < LOADS_MAX; i++) {
		r = call_bpf(BPF_PROG_LOAD, &attr);
		if (r != -EAGAIN)
			break;
	}
	return r;
}

/* Before Linux 5.11 a program counts as locked memory of its loader, for as long as it is
 * loaded, but the limit is checked only now. */
static int load_with_memory(const struct bpf_insn *insns, size_t count)
{
	const struct rlimit all = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	struct rlimit before;
	int r = load_once(insns, count);

	if (r != -EPERM || getrlimit(RLIMIT_MEMLOCK, &before) < 0 ||
		before.rlim_cur == RLIM_INFINITY || setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		return r;
	r = load_once(insns, count);
	(void)setrlimit(RLIMIT_MEMLOCK, &before); /* lowering never fails */
	return r;
}

static int load(const struct bpf_insn *insns, size_t count, size_t rules, struct err *err)
{
	int r = load_with_memory(insns, count);

	if (r >= 0)
		return r;
	if (r == -EPERM || r == -EACCES)
		return err_set_text(err, -EOPNOTSUPP,
			"the kernel lets this process load no device program; run as root, with "
			"CAP_SYS_ADMIN, outside of user namespaces: %s",
			strerror(-r));
	if (r == -ENOSYS || r == -EINVAL)
		return err_set_text(err, -EOPNOTSUPP,
			"this kernel has no device programs for cgroups; it must be Linux 4.15 or later "
			"with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF");
	if (r == -E2BIG)
		return err_set_text(err, r,
			"%zu device rules make a program that is too long for this kernel; name fewer, or "
			"whole majors",
			rules);
	return err_set(err, r, "load the program of %zu device rules", rules);
}

static int change(int command, int fd, int program_fd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)fd;
	attr.attach_bpf_fd = (uint32_t)program_fd;
	attr.attach_type = BPF_CGROUP_DEVICE;
	attr.attach_flags = command == BPF_PROG_ATTACH ? BPF_F_ALLOW_MULTI : 0;
	return call_bpf(command, &attr);
}

/* The numbers of the programs that the group itself has. */
static int query(int fd, uint32_t ids[PROGRAMS_MAX], size_t *ret_count)
{
	union bpf_attr attr;
	int r;

	memset(&attr, 0, sizeof(attr));
	attr.query.target_fd = (uint32_t)fd;
	attr.query.attach_type = BPF_CGROUP_DEVICE;
	attr.query.prog_ids = (uintptr_t)ids;
	attr.query.prog_cnt = PROGRAMS_MAX;
	r = call_bpf(BPF_PROG_QUERY, &attr);
	if (r == 0)
		*ret_count = attr.query.prog_cnt;
	return r;
}

/* The program of that number if it is one of ours; -ENOENT. */
static int open_ours(uint32_t id)
{
	_cleanup_close_ int fd = -1;
	struct bpf_prog_info info;
	union bpf_attr attr;
	int r;

	memset(&attr, 0, sizeof(attr));
	attr.prog_id = id;
	fd = call_bpf(BPF_PROG_GET_FD_BY_ID, &attr);
	if (fd < 0)
		return fd;
	memset(&attr, 0, sizeof(attr));
	memset(&info, 0, sizeof(info));
	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	r = call_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
	if (r < 0)
		return r;
	return strncmp(info.name, DEVICES_PROGRAM, sizeof(info.name)) == 0 ? take_fd(&fd) : -ENOENT;
}

/* Takes ours off again, those of ids. What others attached to the group is theirs. */
static int detach(int fd, const uint32_t *ids, size_t count)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < count; i++) {
		_cleanup_close_ int old = open_ours(ids[i]);

		if (old < 0 && old != -ENOENT)
			return old;
		if (old >= 0)
			r = change(BPF_PROG_DETACH, fd, old);
		if (r == -ENOENT)
			r = 0; /* detached since */
	}
	return r;
}

static int err_attach(int fd, int r, struct err *err)
{
	char path[PATH_MAX];

	(void)cgfile_get_path(fd, path);
	if (r == -EPERM)
		return err_set_text(err, -EOPNOTSUPP,
			"a group above '%.400s' has a device program that allows none below it; attach "
			"that one with BPF_F_ALLOW_MULTI ('bpftool cgroup tree' shows it)",
			path);
	return err_set(err, r, "attach a device program to '%.400s'", path);
}

int devices_set(int fd, const stepd_device_rule_t *rules, size_t count, struct err *err)
{
	_cleanup_free_ void *memory = NULL;
	struct bpf_insn *insns;
	_cleanup_close_ int program = -1;
	uint32_t old[PROGRAMS_MAX];
	size_t n, old_count = 0;
	int r = devices_generate(rules, count, &insns, &n, err);

	if (r < 0)
		return r;
	memory = insns;
	program = load(insns, n, count, err);
	if (program < 0)
		return program;
	r = query(fd, old, &old_count);
	if (r == 0)
		r = change(BPF_PROG_ATTACH, fd, program);
	if (r < 0)
		return err_attach(fd, r, err);
	r = detach(fd, old, old_count);
	return r < 0 ? err_set(err, r, "take the earlier device program off") : 0;
}
