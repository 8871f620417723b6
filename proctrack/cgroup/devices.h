/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which device nodes the processes of a group may open and make: a program that the kernel runs at
 * each open(2) and mknod(2) of one (BPF_PROG_TYPE_CGROUP_DEVICE, Linux 4.15), for cgroup v2 has no
 * file for it. It needs no controller. What is open already stays open.
 *
 * The program is generated from the rules and loaded by bpf(2). The programs of the groups above
 * run too, and each must agree. It goes with its group.
 */
#ifndef PROCTRACK_CGROUP_DEVICES_H
#define PROCTRACK_CGROUP_DEVICES_H

#include <stddef.h>

#include "stepd/api/limits.h"
#include "stepd/base/err.h"

struct bpf_insn;

#define DEVICES_PROGRAM "stepd_devices" /* its name in 'bpftool cgroup show' */

/* Lets the group at fd use what the rules allow, and nothing else; with no rule nothing at all. An
 * earlier program of ours goes once the new one is there: between, both run. -EOPNOTSUPP: not
 * to be had here, for want of rights or in this kernel. -EINVAL: no such rule. */
int devices_set(
	int fd, const stepd_device_rule_t *rules, size_t count, struct err *err) _must_check_;

/* The program of the rules, the caller's to free. -EINVAL: a rule's type or access is none. */
int devices_generate(const stepd_device_rule_t *rules, size_t count, struct bpf_insn **ret_insns,
	size_t *ret_count, struct err *err) _must_check_;

#endif
