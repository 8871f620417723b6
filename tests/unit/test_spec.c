/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <jansson.h>
#include <signal.h>

#include "stepd/base/fs.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"
#include "tests/lib/scratch.h"

/* Documents are written with ' for ", to be readable here. */
static char *json_text(const char *text)
{
	char *copy = strdup(text), *p;

	assert_non_null(copy);
	for (p = copy; (p = strchr(p, '\'')); p++)
		*p = '"';
	return copy;
}

static struct spec *good(const char *text)
{
	_cleanup_free_ char *json = json_text(text);
	struct spec *spec = NULL;
	struct err err = ERR_INIT;

	if (spec_from_text(json, strlen(json), &spec, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return spec;
}

static void bad(const char *text, const char *wanted)
{
	_cleanup_free_ char *json = json_text(text);
	struct spec *spec = (struct spec *)&json; /* must stay */
	struct err err = ERR_INIT;
	int r = spec_from_text(json, strlen(json), &spec, &err);

	if (r >= 0)
		fail_msg("%s: was taken", text);
	if (strcmp(err.text, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", text, err.text, wanted);
	assert_int_equal(r, err.code);
	assert_ptr_equal(spec, &json);
}

/* ---- defaults ----------------------------------------------------------------------------- */

static void test_least_document(void **state)
{
	_cleanup_spec_ struct spec *s = good("{'argv': ['/bin/echo', '', 'x']}");
	char host[256];

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	host[strcspn(host, ".")] = '\0';
	assert_int_equal(s->kind, STEPD_STEP_NORMAL);
	assert_int_equal(s->job_id, getpid());
	assert_int_equal(s->step_id, 0);
	assert_string_equal(s->step_name, "0");
	assert_string_equal(s->job_name, "echo");
	assert_string_equal(s->node_name, host);
	assert_int_equal(s->node_id, 0);
	assert_int_equal(s->node_count, 1);
	assert_null(s->node_list);
	assert_null(s->tasks_per_node);
	assert_int_equal(s->ntasks, 1);
	assert_int_equal(s->local_ntasks, 1);
	assert_int_equal(s->ranks[0], 0);
	assert_int_equal(s->argv.n, 3);
	assert_string_equal(s->argv.v[1], "");
	assert_int_equal(s->env.n, 0);
	assert_null(s->cwd);
	assert_null(s->user);
	assert_null(s->group);
	assert_false(s->groups_given || s->umask_given || s->nice_given || s->oom_score_adj_given);
	assert_false(s->no_new_privs || s->label || s->kill_on_bad_exit || s->wait_given);
	assert_int_equal(s->in.mode, SPEC_STREAM_NONE);
	assert_int_equal(s->out.mode, SPEC_STREAM_INHERIT);
	assert_int_equal(s->err.mode, SPEC_STREAM_INHERIT);
	assert_string_equal(s->proctrack, "auto");
	assert_string_equal(s->mpi, "none");
	assert_null(s->cgroup_root);
	assert_int_equal(s->scope, SPEC_SCOPE_AUTO);
	assert_int_equal(s->session, SPEC_SESSION_AUTO);
	assert_true(s->hold);
	assert_int_equal(s->time_limit_ms, 0);
	assert_int_equal(s->background, SPEC_BACKGROUND_KILL);
	assert_int_equal(s->unkillable_timeout_ms, 60000);
	assert_int_equal(s->suspend_timeout_ms, 10000);
	assert_int_equal(s->input_overflow, SPEC_OVERFLOW_SPILL);
	assert_int_equal(s->input_spill_max, 1u << 30);
	assert_int_equal(s->kill_sequence_count, 3);
	assert_int_equal(s->kill_sequence[0].signal, SIGCONT);
	assert_int_equal(s->kill_sequence[0].wait_ms, 0);
	assert_int_equal(s->kill_sequence[1].signal, SIGTERM);
	assert_int_equal(s->kill_sequence[1].wait_ms, 30000);
	assert_int_equal(s->kill_sequence[2].signal, SIGKILL);
}

/* ---- good values -------------------------------------------------------------------------- */

static void test_identity_and_surroundings(void **state)
{
	_cleanup_spec_ struct spec *s = good(
		"{'version': 1, 'kind': 'normal', 'job': 4294967293, 'step': 4294967280, 'name': 'a b',"
		" 'node': {'name': 'n-1_x.y', 'list': 'm[3]'}, 'argv': ['a/b/c'],"
		" 'env': {'B': 'x=y', 'A': '', 'a b': 'c'}, 'cwd': '/tmp/x', 'uid': 'nobody', 'gid': 0,"
		" 'groups': ['audio', 44, '4294967294'], 'umask': '027', 'nice': -20,"
		" 'oom_score_adj': -1000, 'no_new_privs': true, 'mount_namespace': '/n/.ns', 'label': true, 'hold': false,"
		" 'proctrack': 'proctrack/cgroup', 'mpi': 'pmi2', 'cgroup_root': '/sys/fs/cgroup', 'scope': 'no',"
		" 'session': 'agent'}");

	(void)state;
	assert_int_equal(s->job_id, 4294967293u);
	assert_string_equal(s->step_name, "4294967280");
	assert_string_equal(s->job_name, "a b");
	assert_string_equal(s->node_name, "n-1_x.y");
	assert_string_equal(s->node_list, "m[3]");
	assert_string_equal(strv_env_get(&s->env, "B"), "x=y");
	assert_string_equal(strv_env_get(&s->env, "A"), "");
	assert_string_equal(s->env.v[2], "a b=c");
	assert_string_equal(s->cwd, "/tmp/x");
	assert_string_equal(s->user, "nobody");
	assert_string_equal(s->group, "0");
	assert_true(s->groups_given);
	assert_int_equal(s->groups.n, 3);
	assert_string_equal(s->groups.v[1], "44");
	assert_true(s->umask_given);
	assert_int_equal(s->umask, 027);
	assert_true(s->nice_given);
	assert_int_equal(s->nice, -20);
	assert_true(s->oom_score_adj_given);
	assert_int_equal(s->oom_score_adj, -1000);
	assert_true(s->no_new_privs);
	assert_string_equal(s->mount_namespace, "/n/.ns");
	assert_true(s->label);
	assert_false(s->hold);
	assert_string_equal(s->proctrack, "proctrack/cgroup");
	assert_string_equal(s->mpi, "pmi2");
	assert_string_equal(s->cgroup_root, "/sys/fs/cgroup");
	assert_int_equal(s->scope, SPEC_SCOPE_NO);
	assert_string_equal(spec_scope_names[s->scope], "no");
	assert_int_equal(s->session, SPEC_SESSION_AGENT);
}

static void test_interactive(void **state)
{
	_cleanup_spec_ struct spec *s = good("{'argv': ['x'], 'step': 4294967290}");

	(void)state;
	assert_int_equal(s->step_id, STEPD_STEP_ID_INTERACTIVE);
	assert_string_equal(s->step_name, "interactive");
}

static void test_ptys(void **state)
{
	_cleanup_spec_ struct spec *none = good("{'argv': ['x']}");
	_cleanup_spec_ struct spec *s = good(
		"{'argv': ['x'], 'ntasks': 10, 'pty': '7,2-3', 'stdin': {'mode': 'rank', 'rank': 3},"
		" 'stderr': 'stdout', 'unbuffered': true}");
	_cleanup_spec_ struct spec *alone = good("{'argv': ['x'], 'ntasks': 2, 'pty': '1',"
						 " 'stdout': {'mode': 'rank', 'rank': 1},"
						 " 'stderr': {'mode': 'rank', 'rank': 1}}");
	uint32_t rank;

	(void)state;
	assert_int_equal(alone->out.rank, 1);
	assert_int_equal(none->pty_count, 0);
	assert_false(spec_has_pty(none, 0));
	assert_false(none->unbuffered);
	assert_int_equal(s->pty_count, 3);
	for (rank = 0; rank < 10; rank++)
		assert_int_equal(spec_has_pty(s, rank), rank == 2 || rank == 3 || rank == 7);
	assert_true(s->unbuffered);
}

static void test_binding_fields(void **state)
{
	_cleanup_spec_ struct spec *none = good("{'argv': ['x']}");
	_cleanup_spec_ struct spec *s = good(
		"{'argv': ['x'], 'cpu_bind': 'verbose,map_cpu:1,0*2', 'mem_bind': 'prefer,local',"
		" 'distribution': 'block:plane=5', 'cpus_per_task': 65536, 'topology': '/m'}");

	(void)state;
	assert_false(none->cpu_bind.given || none->mem_bind.given);
	assert_int_equal(none->cpu_bind.how, BIND_CPU_NONE);
	assert_int_equal(none->cpus_per_task, 0);
	assert_true(s->cpu_bind.given && s->cpu_bind.verbose);
	assert_int_equal(s->cpu_bind.how, BIND_CPU_MAP);
	assert_int_equal(s->cpu_bind.items_count, 2);
	assert_true(s->mem_bind.given && s->mem_bind.prefer);
	assert_int_equal(s->mem_bind.how, BIND_MEM_LOCAL);
	assert_string_equal(s->distribution, "block:plane=5");
	assert_int_equal(s->plane, 5);
	assert_int_equal(s->cpus_per_task, 65536);
	assert_string_equal(s->topology, "/m");
}

static void test_limits(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'argv': ['x'], 'limits': {'memory_max_bytes': '2G', 'cpuset_cpus': '0'},"
		     " 'task_limits': {'pids_max': 9, 'devices': [{'device': 'c 195:0'}]},"
		     " 'limits_mode': 'best-effort'}");
	_cleanup_spec_ struct spec *none = good("{'argv': ['x']}");
	_cleanup_spec_ struct spec *holder =
		good("{'kind': 'extern', 'limits': {'pids_max': 'max'}}");
	_cleanup_spec_ struct spec *some =
		good("{'argv': ['x'], 'ntasks': 2, 'tasks': [{'rank': 1, 'limits': "
		     "{'pids_max': 5}}, {'rank': 0}]}");

	(void)state;
	assert_int_equal(
		s->limits.set, 1u << STEPD_LIMIT_MEMORY_MAX | 1u << STEPD_LIMIT_CPUSET_CPUS);
	assert_int_equal(s->limits.number[STEPD_LIMIT_MEMORY_MAX], 2ull << 30);
	assert_int_equal(
		s->task_limits.set, 1u << STEPD_LIMIT_PIDS_MAX | 1u << STEPD_LIMIT_DEVICES);
	assert_int_equal(s->limits_mode, LIMITS_BEST_EFFORT);
	assert_int_equal(none->limits.set | none->task_limits.set, 0);
	assert_int_equal(none->limits_mode, LIMITS_STRICT);
	assert_int_equal(holder->limits.set, 1u << STEPD_LIMIT_PIDS_MAX);
	assert_int_equal(some->overrides[0].limits.set, 1u << STEPD_LIMIT_PIDS_MAX);
	assert_int_equal(some->overrides[1].limits.set, 0);
	bad("{'argv': ['x'], 'tasks': [{'rank': 0, 'limits': {'pids_max': 'x'}}]}",
		"tasks[0].limits.pids_max: 'x' is neither a number nor \"max\"");
	bad("{'kind': 'extern', 'task_limits': {}}",
		"task_limits: is not for a step of kind 'extern'");
}

static void test_policies(void **state)
{
	_cleanup_spec_ struct spec *s = good(
		"{'argv': ['x'], 'groups': [], 'time_limit_ms': 3153600000000, 'kill_on_bad_exit': true,"
		" 'time_limit_signal': 'USR2', 'time_limit_signal_to': 'tasks',"
		" 'kill_on_bad_exit_grace_ms': 7, 'oom_kill_step': true, 'wait_ms': 0, 'background': 'wait',"
		" 'kill_sequence': [{'signal': 'SIGUSR1', 'wait_ms': 250}, {'signal': 9}],"
		" 'unkillable_timeout_ms': 0, 'lock_memory': 'all'}");

	(void)state;
	assert_true(s->groups_given);
	assert_int_equal(s->groups.n, 0);
	assert_int_equal(s->time_limit_ms, 3153600000000);
	assert_true(s->kill_on_bad_exit && s->kill_on_bad_exit_given);
	assert_int_equal(s->time_limit_signal, SIGUSR2);
	assert_int_equal(s->time_limit_signal_ms, 60000);
	assert_int_equal(s->time_limit_signal_to, SPEC_SIGNAL_TASKS);
	assert_true(s->oom_kill_step);
	assert_int_equal(s->lock_memory, SPEC_LOCK_ALL);
	assert_int_equal(s->kill_on_bad_exit_grace_ms, 7);
	assert_true(s->wait_given);
	assert_int_equal(s->wait_ms, 0);
	assert_int_equal(s->background, SPEC_BACKGROUND_WAIT);
	assert_int_equal(s->kill_sequence_count, 2);
	assert_int_equal(s->kill_sequence[0].signal, SIGUSR1);
	assert_int_equal(s->kill_sequence[0].wait_ms, 250);
	assert_int_equal(s->kill_sequence[1].signal, SIGKILL);
	assert_int_equal(s->unkillable_timeout_ms, 0);
}

static void test_rlimits(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'argv': ['x'], 'rlimits': {'nofile': 10, 'core': 'unlimited',"
		     " 'stack': {'soft': 1, 'hard': 'unlimited'}, 'cpu': {'soft': 3}}}");

	(void)state;
	assert_int_equal(s->rlimits_count, 4);
	assert_int_equal(s->rlimits[0].resource, RLIMIT_NOFILE);
	assert_int_equal(s->rlimits[0].value.rlim_cur, 10);
	assert_int_equal(s->rlimits[0].value.rlim_max, 10);
	assert_int_equal(s->rlimits[1].resource, RLIMIT_CORE);
	assert_true(s->rlimits[1].value.rlim_cur == RLIM_INFINITY);
	assert_true(s->rlimits[1].value.rlim_max == RLIM_INFINITY);
	assert_int_equal(s->rlimits[2].value.rlim_cur, 1);
	assert_true(s->rlimits[2].value.rlim_max == RLIM_INFINITY);
	assert_int_equal(s->rlimits[3].value.rlim_max, 3);
}

static void test_rlimit_names(void **state)
{
	char list[SPEC_NAMES_SIZE];
	int i;

	(void)state;
	(void)spec_list_names(spec_rlimit_names, list);
	for (i = 0; i < (int)RLIM_NLIMITS; i++) {
		assert_non_null(spec_rlimit_names[i]); /* all that the C library knows */
		assert_non_null(strstr(list, spec_rlimit_names[i]));
	}
	assert_null(spec_rlimit_names[RLIM_NLIMITS]);
	assert_string_equal(list + strlen(list) - strlen("rttime"), "rttime");
}

static void test_streams(void **state)
{
	_cleanup_spec_ struct spec *s = good(
		"{'argv': ['x'], 'ntasks': 3, 'stdin': {'mode': 'rank', 'rank': 2},"
		" 'stdout': {'mode': 'file', 'path': 'o%t', 'append': true}, 'stderr': 'stdout'}");
	_cleanup_spec_ struct spec *t = good(
		"{'argv': ['x'], 'stdin': 'all', 'stdout': 'none', 'stderr': {'mode': 'inherit'}}");
	_cleanup_spec_ struct spec *u = good(
		"{'argv': ['x'], 'stdin': {'mode': 'file', 'path': '/in/%4t'}, 'stdout': 'inherit'}");

	(void)state;
	assert_int_equal(s->in.mode, SPEC_STREAM_RANK);
	assert_int_equal(s->in.rank, 2);
	assert_int_equal(s->out.mode, SPEC_STREAM_FILE);
	assert_string_equal(s->out.pattern, "o%t");
	assert_true(s->out.append);
	assert_int_equal(s->err.mode, SPEC_STREAM_STDOUT);
	assert_int_equal(t->in.mode, SPEC_STREAM_ALL);
	assert_int_equal(t->out.mode, SPEC_STREAM_NONE);
	assert_int_equal(t->err.mode, SPEC_STREAM_INHERIT);
	assert_string_equal(u->in.pattern, "/in/%4t");
	assert_false(u->in.append);
}

/* ---- layout ------------------------------------------------------------------------------- */

/* The ranks of a step that document describes, as "0 1 2 of 8". */
static void layout(const char *text, const char *wanted)
{
	_cleanup_spec_ struct spec *s = good(text);
	char got[256] = "";
	size_t at = 0;
	uint32_t i;

	for (i = 0; i < s->local_ntasks; i++)
		at += (size_t)snprintf(got + at, sizeof(got) - at, "%u ", s->ranks[i]);
	(void)snprintf(got + at, sizeof(got) - at, "of %u", s->ntasks);
	if (strcmp(got, wanted) != 0)
		fail_msg("%s: %s, not %s", text, got, wanted);
}

static void test_layout(void **state)
{
	(void)state;
	layout("{'argv': ['x'], 'ntasks': 3}", "0 1 2 of 3");
	layout("{'argv': ['x'], 'local_ntasks': 2}", "0 1 of 2");
	layout("{'argv': ['x'], 'local_ntasks': 2, 'ntasks': 5}", "0 1 of 5");
	layout("{'argv': ['x'], 'local_ntasks': 2, 'ntasks': 5, 'first_rank': 3}", "3 4 of 5");
	layout("{'argv': ['x'], 'ranks': '1,0'}", "1 0 of 2");
	layout("{'argv': ['x'], 'ranks': [7, 0, 3], 'ntasks': 8}", "7 0 3 of 8");
	layout("{'argv': ['x'], 'ranks': '0-2,5', 'local_ntasks': 4, 'ntasks': 6}", "0 1 2 5 of 6");
	layout("{'argv': ['x'], 'node': {'count': 2}, 'local_ntasks': 2, 'ntasks': 4}", "0 1 of 4");
	layout("{'argv': ['x'], 'node': {'count': 3, 'id': 1, 'tasks_per_node': [3, 2, 1]}}",
		"3 4 of 6");
	layout("{'argv': ['x'], 'node': {'count': 2, 'id': 1, 'tasks_per_node': [2, 2]},"
	       " 'ranks': [1, 3]}",
		"1 3 of 4");
	layout("{'argv': ['x'], 'node': {'count': 2, 'id': 1, 'tasks_per_node': [2, 2]},"
	       " 'ntasks': 4, 'local_ntasks': 2, 'first_rank': 0}",
		"0 1 of 4");
}

static void test_largest_step(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'argv': ['x'], 'ntasks': 16777216, 'ranks': '0-65534,16777215',"
		     " 'tasks': [{'ranks': '0-16777215', 'cwd': '/'}]}");

	(void)state;
	assert_int_equal(s->local_ntasks, 65536);
	assert_int_equal(s->ranks[65535], 16777215);
	assert_int_equal(s->overrides[0].ranks_count, 65536);
}

static void test_overrides(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'ntasks': 8, 'local_ntasks': 4, 'first_rank': 2, 'tasks': ["
		     " {'rank': 7, 'argv': ['other'], 'cwd': '/', 'env': {'E': '2'}},"
		     " {'ranks': [5, 0, 4], 'argv': ['/p/a', 'b'], 'cwd': '/c', 'env': {'E': '1'}},"
		     " {'ranks': '2-3', 'argv': ['z']}]}");

	(void)state;
	assert_int_equal(s->overrides_count, 3); /* rank 7 and rank 0 are other nodes' */
	assert_int_equal(s->overrides[0].ranks_count, 0);
	assert_string_equal(s->overrides[0].argv.v[0], "other");
	assert_int_equal(s->overrides[0].env.n, 0);
	assert_int_equal(s->overrides[1].ranks_count, 2);
	assert_int_equal(s->overrides[1].ranks[0], 4);
	assert_int_equal(s->overrides[1].ranks[1], 5);
	assert_string_equal(s->overrides[1].argv.v[1], "b");
	assert_string_equal(s->overrides[1].cwd, "/c");
	assert_string_equal(strv_env_get(&s->overrides[1].env, "E"), "1");
	assert_int_equal(s->overrides[2].ranks_count, 2);
	assert_null(s->overrides[2].cwd);
	assert_int_equal(s->rank_entries[0], 2); /* of all ranks it is known */
	assert_int_equal(s->rank_entries[1], 0);
	assert_int_equal(s->rank_entries[3], 3);
	assert_int_equal(s->rank_entries[7], 1);
	assert_string_equal(s->job_name, "a");
}

static void is_map(const struct spec *s, const char *wanted)
{
	char text[64] = "";
	uint32_t i;

	assert_non_null(s->rank_nodes);
	for (i = 0; i < s->ntasks; i++)
		text[i] = (char)('0' + s->rank_nodes[i]);
	assert_string_equal(text, wanted);
}

static void test_rank_map(void **state)
{
	_cleanup_spec_ struct spec *s = good(
		"{'argv': ['x'], 'node': {'id': 1, 'count': 3, 'ranks': ['0,4', '3,1', '2']}}");
	_cleanup_spec_ struct spec *t =
		good("{'argv': ['x'], 'ntasks': 5, 'ranks': '3,1',"
		     "'node': {'id': 1, 'count': 3, 'ranks': ['0,4', '3,1', '2'],"
		     " 'tasks_per_node': [2, 2, 1]}}");

	(void)state;
	assert_int_equal(s->ntasks, 5);
	assert_int_equal(s->local_ntasks, 2);
	assert_int_equal(s->ranks[0], 3);
	assert_int_equal(s->ranks[1], 1);
	assert_int_equal(s->tasks_per_node[0], 2);
	assert_int_equal(s->tasks_per_node[2], 1);
	is_map(s, "01210");
	is_map(t, "01210");
}

/* What the map is where no one gives it. */
static void test_rank_map_by_itself(void **state)
{
	_cleanup_spec_ struct spec *one = good("{'argv': ['x'], 'ntasks': 3, 'ranks': '2,0,1'}");
	_cleanup_spec_ struct spec *block =
		good("{'argv': ['x'], 'node': {'id': 1, 'count': 3, 'tasks_per_node': [1, 2, 1]}}");
	_cleanup_spec_ struct spec *cyclic =
		good("{'argv': ['x'], 'ranks': '1,3', 'ntasks': 4,"
		     " 'node': {'id': 1, 'count': 2, 'tasks_per_node': [2, 2]}}");
	_cleanup_spec_ struct spec *part = good("{'argv': ['x'], 'ntasks': 4, 'local_ntasks': 2}");
	_cleanup_spec_ struct spec *own = good("{'argv': ['x'], 'ntasks': 4, 'local_ntasks': 2,"
					       " 'first_rank': 2, 'node': {'id': 1, 'count': 2}}");

	(void)state;
	is_map(one, "000");
	is_map(block, "0112");
	assert_null(cyclic->rank_nodes);
	assert_null(part->rank_nodes);
	assert_null(own->rank_nodes);
}

static void test_node_names(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'argv': ['x'], 'node': {'count': 4, 'list':"
		     " 'n[08-09]-ib,x1,a[3]b[1]', 'tasks_per_node': [1, 1, 1, 1]}}");

	(void)state;
	assert_int_equal(s->node_names.n, 4);
	assert_string_equal(s->node_names.v[0], "n08-ib");
	assert_string_equal(s->node_names.v[1], "n09-ib");
	assert_string_equal(s->node_names.v[2], "x1");
	assert_string_equal(s->node_names.v[3], "a3b1");
}

/* ---- collective operations and the wire ---------------------------------------------------- */

static void test_pmi_and_wire(void **state)
{
	_cleanup_spec_ struct spec *d = good("{'argv': ['x']}");
	_cleanup_spec_ struct spec *s =
		good("{'argv': ['x'], 'pmi': {'timeout_ms': 0, 'tcp': true,"
		     " 'memory_bytes': 0}, 'wire': {'addresses':"
		     " ['[fe80::1%eth0]:1'], 'auth': 'none', 'fanout': 2, 'ifname': 'eth0',"
		     " 'connect_timeout_ms': 5, 'listen_fd': 77}}");
	_cleanup_spec_ struct spec *t = good("{'argv': ['x'], 'wire': {'secret_fd': 99}}");

	(void)state;
	assert_int_equal(d->pmi.timeout_ms, 300000);
	assert_false(d->pmi.tcp);
	assert_true(d->pmi.memory_bytes == SPEC_PMI_MEMORY_DEFAULT);
	assert_null(d->wire.addresses);
	assert_int_equal(d->wire.listen_fd, -1);
	assert_string_equal(d->wire.auth, "munge");
	assert_int_equal(d->wire.fanout, 16);
	assert_int_equal(d->wire.connect_timeout_ms, 60000);
	assert_int_equal(s->pmi.timeout_ms, 0);
	assert_true(s->pmi.tcp);
	assert_true(s->pmi.memory_bytes == 0);
	assert_int_equal(s->wire.addresses_count, 1);
	assert_string_equal(s->wire.addresses[0], "[fe80::1%eth0]:1");
	assert_string_equal(s->wire.auth, "none");
	assert_int_equal(s->wire.fanout, 2);
	assert_string_equal(s->wire.ifname, "eth0");
	assert_int_equal(s->wire.listen_fd, -1); /* the number alone opens nothing */
	assert_string_equal(t->wire.auth, "secret");
	assert_null(t->wire.secret);
}

/* A spec with the two descriptors. */
static struct spec *with_fds(int listen_fd, int secret_fd)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "{'argv': ['x'], 'wire': {'listen_fd': %d, 'secret_fd': %d}}",
			    listen_fd, secret_fd) > 0);
	return good(text);
}

static int make_socket(int type, bool listening)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (listening)
		assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static int make_secret(size_t size)
{
	char bytes[SPEC_SECRET_MAX + 1] = "0123456789abcdef";
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], bytes, size), size);
	(void)close(fd[1]);
	return fd[0];
}

static void test_descriptors(void **state)
{
	int listening = make_socket(SOCK_STREAM, true), secret = make_secret(17);
	struct spec *s = with_fds(listening, secret);
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(spec_take_fds(s, &err), 0);
	assert_int_equal(s->wire.listen_fd, listening);
	assert_int_equal(s->wire.secret_size, 17);
	assert_memory_equal(s->wire.secret, "0123456789abcdef", 17);
	assert_int_equal(fcntl(secret, F_GETFD), -1);
	assert_int_equal(spec_take_fds(s, &err), 0); /* once */
	assert_null(strstr(s->text, "0123456789"));
	(void)spec_free(s);
	assert_int_equal(fcntl(listening, F_GETFD), -1);
}

static void refuses(int listening, int secret, const char *why)
{
	struct spec *s = with_fds(listening, secret);
	struct err err = ERR_INIT;

	assert_int_equal(spec_take_fds(s, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("got:    %s\n  wanted: %s", err.text, why);
	(void)spec_free(s);
	(void)close(listening);
	(void)close(secret);
}

static void test_wrong_descriptors(void **state)
{
	(void)state;
	refuses(1000, 1001, "wire.listen_fd: 1000 is not an open descriptor");
	refuses(make_secret(16), 1001, "is not a TCP socket");
	refuses(make_socket(SOCK_DGRAM, false), 1001, "is not a TCP socket");
	refuses(make_socket(SOCK_STREAM, false), 1001, "does not listen");
	refuses(make_socket(SOCK_STREAM, true), 1001,
		"wire.secret_fd: 1001 is not an open descriptor");
	refuses(make_socket(SOCK_STREAM, true), make_secret(15),
		"wire.secret_fd: the secret has 15 bytes, less than 16");
	refuses(make_socket(SOCK_STREAM, true), make_secret(SPEC_SECRET_MAX + 1),
		"wire.secret_fd: the secret has more than 4096 bytes");
}

static void test_batch(void **state)
{
	_cleanup_spec_ struct spec *s =
		good("{'kind': 'batch', 'script': '#!/bin/sh\\n', 'argv': ['', 'x'], 'ntasks': 1,"
		     " 'mpi': 'none', 'node': {'id': 1, 'count': 2}}");
	_cleanup_spec_ struct spec *t = good("{'kind': 'batch', 'script_base64': 'IyEAAf8='}");
	_cleanup_spec_ struct spec *u = good("{'kind': 'batch', 'script_base64': 'QQ=='}");
	_cleanup_spec_ struct spec *v = good("{'kind': 'batch', 'script_file': '/job/script'}");

	(void)state;
	assert_int_equal(s->kind, STEPD_STEP_BATCH);
	assert_int_equal(s->step_id, STEPD_STEP_ID_BATCH);
	assert_string_equal(s->step_name, "batch");
	assert_string_equal(s->job_name, "batch");
	assert_int_equal(s->ntasks, 1);
	assert_int_equal(s->local_ntasks, 1);
	assert_int_equal(s->ranks[0], 0);
	assert_int_equal(s->script_size, 10);
	assert_string_equal(s->script, "#!/bin/sh\n");
	assert_int_equal(s->argv.n, 2);
	assert_int_equal(t->script_size, 5);
	assert_memory_equal(t->script, "#!\0\1\377", 5);
	assert_int_equal(u->script_size, 1);
	assert_int_equal(u->script[0], 'A');
	assert_null(v->script);
	assert_string_equal(v->script_file, "/job/script");
}

static void test_extern(void **state)
{
	_cleanup_spec_ struct spec *s = good("{'kind': 'extern', 'job': 9}");

	(void)state;
	assert_int_equal(s->kind, STEPD_STEP_EXTERN);
	assert_int_equal(s->step_id, STEPD_STEP_ID_EXTERN);
	assert_string_equal(s->step_name, "extern");
	assert_int_equal(s->ntasks, 0);
	assert_int_equal(s->local_ntasks, 0);
}

/* ---- bad values --------------------------------------------------------------------------- */

/* Fields of the document beside argv; what stands in X of "{'argv': ['x'], X}". */
#define CONFLICTS_WITH_PTY                                                                         \
	"conflicts with pty: a pseudo-terminal is all three streams of its rank; leave this out, " \
	"or run those ranks without pty"

static const struct {
	const char *fields;
	const char *error;
} wrong[] = {
	{"'version': 2", "version: 2 is not known here, only 1"},
	{"'version': '1'", "version: must be a whole number, not a string"},
	{"'kind': 'Batch'", "kind: 'Batch' is not one of normal, batch, extern"},
	{"'kind': null", "kind: must be a string, not null"},
	{"'job': 0", "job: 0 is not in the range 1 to 4294967293"},
	{"'job': 4294967294", "job: 4294967294 is not in the range 1 to 4294967293"},
	{"'job': 1.5", "job: must be a whole number, not a fraction"},
	{"'step': -1", "step: -1 is not in the range 0 to 4294967290"},
	{"'step': 4294967291", "step: 4294967291 is not in the range 0 to 4294967290"},
	{"'name': ''", "name: is empty"},
	{"'name': 5", "name: must be a string, not a number"},
	{"'node': 'n1'", "node: must be an object, not a string"},
	{"'node': {'nam': 'n1'}", "node.nam: unknown field; did you mean 'name'?"},
	{"'node': {'name': 'a/b'}",
		"node.name: 'a/b' is not a node's name (letters, digits, '-', '_' and '.', none of '-' "
		"and '.' first)"},
	{"'node': {'name': '.x'}",
		"node.name: '.x' is not a node's name (letters, digits, '-', '_' and '.', none of '-' "
		"and '.' first)"},
	{"'node': {'name': 'a234567890123456789012345678901234567890123456789012345678901234'}",
		NULL}, /* 64 bytes are fine */
	{"'node': {'name': 'a2345678901234567890123456789012345678901234567890123456789012345'}",
		"node.name: has 65 bytes, more than 64"},
	{"'node': {'id': 1}", "node.id: 1 is not below node.count (1)"},
	{"'node': {'id': 65536}", "node.id: 65536 is not in the range 0 to 65535"},
	{"'node': {'count': 0}", "node.count: 0 is not in the range 1 to 65536"},
	{"'node': {'count': 65537}", "node.count: 65537 is not in the range 1 to 65536"},
	{"'node': {'cpus': 0}", "node.cpus: 0 is not in the range 1 to 65536"},
	{"'node': {'list': 'a b'}",
		"node.list: 'a b' is not a list of nodes such as \"n[01-04,7],login\""},
	{"'node': {'list': 'n[1-2'}",
		"node.list: 'n[1-2' is not a list of nodes such as \"n[01-04,7],login\""},
	{"'node': {'list': 'n[1-99999]'}",
		"node.list: 'n[1-99999]' names more nodes than a step can have"},
	{"'node': {'list': 'n[1-2]'}", "node.list: names 2 nodes, but node.count is 1"},
	{"'node': {'ranks': '0'}", "node.ranks: must be an array, not a string"},
	{"'node': {'ranks': [[0]]}", "node.ranks[0]: must be a string, not an array"},
	{"'node': {'ranks': ['x']}", "node.ranks[0]: 'x' is not a list of ranks such as \"0-3,8\""},
	{"'node': {'ranks': ['0', '1']}", "node.ranks: has 2 entries, but node.count is 1"},
	{"'node': {'count': 2, 'ranks': ['0', '2']}",
		"node.ranks[1]: rank 2 is not below the number of ranks that are listed (2)"},
	{"'node': {'count': 2, 'ranks': ['0-1', '1']}", "node.ranks[1]: rank 1 is listed twice"},
	{"'node': {'count': 2, 'ranks': ['', '0']}", "node.ranks[0]: has no rank for this node"},
	{"'node': {'count': 2, 'ranks': ['0', '1']}, 'ntasks': 3",
		"node.ranks: lists 2 ranks, but ntasks is 3"},
	{"'node': {'count': 2, 'ranks': ['0', '1'], 'tasks_per_node': [1, 2]}",
		"node.ranks[1]: lists 1 ranks, but node.tasks_per_node has 2 tasks there"},
	{"'node': {'count': 2, 'ranks': ['0', '1']}, 'ranks': '1'",
		"ranks: differs from node.ranks[0]; give one of them"},
	{"'node': {'count': 2, 'ranks': ['0', '1']}, 'first_rank': 0",
		"first_rank: conflicts with node.ranks; give one of them"},
	{"'node': {'count': 2, 'ranks': ['0', '1']}, 'local_ntasks': 2",
		"local_ntasks: 2, but ranks lists 1"},
	{"'node': {'ranks': ['0-65536']}", "node.ranks[0]: has more than 65536 ranks for one node"},
	{"'node': {'tasks_per_node': 2}", "node.tasks_per_node: must be an array, not a number"},
	{"'node': {'tasks_per_node': [1, 1]}",
		"node.tasks_per_node: has 2 entries, but node.count is 1"},
	{"'node': {'tasks_per_node': []}",
		"node.tasks_per_node: has 0 entries, but node.count is 1"},
	{"'node': {'tasks_per_node': [1, -1], 'count': 2}",
		"node.tasks_per_node[1]: -1 is not in the range 0 to 65536"},
	{"'node': {'tasks_per_node': [0, 1], 'count': 2}",
		"node.tasks_per_node: has no task for this node (node.id 0)"},
	{"'node': {'tasks_per_node': [2, 1], 'count': 2}, 'ntasks': 4",
		"node.tasks_per_node: its sum is 3, but ntasks is 4"},
	{"'node': {'tasks_per_node': [2, 1], 'count': 2}, 'local_ntasks': 1",
		"node.tasks_per_node[0]: 2, but this node has 1 tasks"},
	{"'node': {'count': 2}",
		"local_ntasks: is missing: node.count is 2, so give the number of this node's tasks "
		"(local_ntasks, ranks or node.tasks_per_node)"},
	{"'node': {'count': 2, 'id': 1}, 'local_ntasks': 1, 'ntasks': 2",
		"first_rank: is missing: node.id is 1, so give this node's ranks (first_rank, "
		"ranks or node.tasks_per_node)"},
	{"'ntasks': 0", "ntasks: 0 is not in the range 1 to 16777216"},
	{"'ntasks': 16777217", "ntasks: 16777217 is not in the range 1 to 16777216"},
	{"'ntasks': 65537", "ntasks: 65537 tasks are more than one node can have (65536)"},
	{"'local_ntasks': 0", "local_ntasks: 0 is not in the range 1 to 65536"},
	{"'local_ntasks': 65537", "local_ntasks: 65537 is not in the range 1 to 65536"},
	{"'local_ntasks': 3, 'ntasks': 2",
		"local_ntasks: the node's 3 tasks from rank 0 on don't fit into ntasks (2)"},
	{"'local_ntasks': 3, 'ranks': '0-1'", "local_ntasks: 3, but ranks lists 2"},
	{"'first_rank': 16777216", "first_rank: 16777216 is not in the range 0 to 16777215"},
	{"'first_rank': 1, 'ntasks': 2",
		"first_rank: the node's 2 tasks from rank 1 on don't fit into ntasks (2)"},
	{"'first_rank': 0, 'ranks': '0'", "first_rank: conflicts with ranks; give one of them"},
	{"'ranks': {}", "ranks: must be an array, not an object"},
	{"'ranks': []", "ranks: is empty"},
	{"'ranks': ''", "ranks: '' is not a list of ranks such as \"0-3,8\""},
	{"'ranks': '3-1'", "ranks: '3-1' is not a list of ranks such as \"0-3,8\""},
	{"'ranks': '0,'", "ranks: '0,' is not a list of ranks such as \"0-3,8\""},
	{"'ranks': '16777216'", "ranks: '16777216' holds a rank above 16777215"},
	{"'ranks': '0-65536'", "ranks: has more than 65536 ranks for one node"},
	{"'ranks': [0, -1]", "ranks[1]: -1 is not in the range 0 to 16777215"},
	{"'ranks': [1]", "ranks: rank 1 is not below ntasks (1 by default; give it)"},
	{"'ranks': [0, 4], 'ntasks': 4", "ranks: rank 4 is not below ntasks (4)"},
	{"'ranks': '0,1,0', 'ntasks': 4", "ranks: rank 0 is listed twice"},
	{"'env': ['A=1']", "env: must be an object, not an array"},
	{"'env': {'A=': '1'}", "env.A=: a variable's name can't hold '='"},
	{"'env': {'': '1'}", "env: holds a variable without a name"},
	{"'env': {'A': 1}", "env.A: must be a string, not a number"},
	{"'cwd': 'tmp'", "cwd: 'tmp' is not an absolute path"},
	{"'cwd': ''", "cwd: is empty"},
	{"'script': 'x'", "script: is not for a step of kind 'normal'"},
	{"'script_base64': 'x'", "script_base64: is not for a step of kind 'normal'"},
	{"'script_file': '/x'", "script_file: is not for a step of kind 'normal'"},
	{"'env_complete': 1", "env_complete: must be true or false, not a number"},
	{"'tasks': {}", "tasks: must be an array, not an object"},
	{"'tasks': [3]", "tasks[0]: must be an object, not a number"},
	{"'tasks': [{}]", "tasks[0]: has no rank; give rank or ranks"},
	{"'tasks': [{'rank': 0, 'ranks': '0'}]",
		"tasks[0]: rank and ranks conflict; give one of them"},
	{"'tasks': [{'rank': 1}]", "tasks[0].rank: 1 is not in the range 0 to 0"},
	{"'tasks': [{'rank': '0'}]", "tasks[0].rank: must be a whole number, not a string"},
	{"'ntasks': 4, 'tasks': [{'rank': 1}, {'ranks': '0-1'}]",
		"tasks[1].ranks: rank 1 has an entry already"},
	{"'ntasks': 4, 'tasks': [{'rank': 1}, {'rank': 1}]",
		"tasks[1].rank: rank 1 has an entry already"},
	{"'ntasks': 4, 'tasks': [{'ranks': '2-4'}]", "tasks[0].ranks: '2-4' holds a rank above 3"},
	{"'ntasks': 4, 'tasks': [{'ranks': [0, 4]}]",
		"tasks[0].ranks[1]: 4 is not in the range 0 to 3"},
	{"'ntasks': 4, 'tasks': [{'ranks': []}]", "tasks[0].ranks: is empty"},
	{"'ntasks': 4, 'tasks': [{'ranks': 'x'}]",
		"tasks[0].ranks: 'x' is not a list of ranks such as \"0-3,8\""},
	{"'ntasks': 4, 'tasks': [{'rank': 0}, {'rank': 1}, {'rank': 2}, {'rank': 3, 'cwd': 'tmp'}]",
		"tasks[3].cwd: 'tmp' is not an absolute path"},
	{"'tasks': [{'rank': 0, 'argv': []}]", "tasks[0].argv: is empty"},
	{"'tasks': [{'rank': 0, 'argv': ['']}]", "tasks[0].argv[0]: is empty"},
	{"'tasks': [{'rank': 0, 'argv': ['a', 1]}]",
		"tasks[0].argv[1]: must be a string, not a number"},
	{"'tasks': [{'rank': 0, 'env': {'A': true}}]",
		"tasks[0].env.A: must be a string, not true"},
	{"'uid': ''", "uid: is empty"},
	{"'uid': -1", "uid: -1 is not in the range 0 to 4294967294"},
	{"'uid': '4294967295'", "uid: 4294967295 is not in the range 0 to 4294967294"},
	{"'uid': true", "uid: must be a name or a number"},
	{"'uid': 'a:b'", "uid: 'a:b' is neither a name nor a number"},
	{"'gid': 4294967295", "gid: 4294967295 is not in the range 0 to 4294967294"},
	{"'groups': 'audio'", "groups: must be an array, not a string"},
	{"'groups': ['audio', '']", "groups[1]: is empty"},
	{"'umask': '9x'", "umask: '9x' is not an octal number such as \"0022\""},
	{"'umask': ''", "umask: '' is not an octal number such as \"0022\""},
	{"'umask': '00022'", "umask: '00022' is not an octal number such as \"0022\""},
	{"'umask': '1000'", "umask: '1000' is above 0777"},
	{"'umask': 18", "umask: must be a string, not a number"},
	{"'rlimits': []", "rlimits: must be an object, not an array"},
	{"'rlimits': {'fles': 1}",
		"rlimits.fles: there is no such limit; there are cpu, fsize, data, stack, core, rss, "
		"nproc, nofile, memlock, as, locks, sigpending, msgqueue, nice, rtprio, rttime"},
	{"'rlimits': {'nofile': -1}",
		"rlimits.nofile: -1 is not in the range 0 to 9223372036854775807"},
	{"'rlimits': {'nofile': 'much'}",
		"rlimits.nofile: 'much' is neither a number nor 'unlimited'"},
	{"'rlimits': {'nofile': {'hard': 1}}", "rlimits.nofile.soft: is missing"},
	{"'rlimits': {'nofile': {'soft': 2, 'hard': 1}}",
		"rlimits.nofile.soft: is above the hard limit"},
	{"'rlimits': {'nofile': {'soft': 'unlimited', 'hard': 1}}",
		"rlimits.nofile.soft: is above the hard limit"},
	{"'rlimits': {'nofile': {'soft': 1, 'hard': []}}",
		"rlimits.nofile.hard: must be a whole number, not an array"},
	{"'nice': 20", "nice: 20 is not in the range -20 to 19"},
	{"'nice': -21", "nice: -21 is not in the range -20 to 19"},
	{"'oom_score_adj': 1001", "oom_score_adj: 1001 is not in the range -1000 to 1000"},
	{"'no_new_privs': 1", "no_new_privs: must be true or false, not a number"},
	{"'mount_namespace': ''", "mount_namespace: is empty"},
	{"'mount_namespace': 'ns'", "mount_namespace: 'ns' is not an absolute path"},
	{"'stdin': 'stdout'", "stdin: stdin can't have this mode"},
	{"'stdin': 'rank'",
		"stdin: 'rank' is not one of inherit, none, all, stdout, tool, attach (a file is "
		"{\"mode\": \"file\", \"path\": ...})"},
	{"'stdin': 7", "stdin: must be an object, not a number"},
	{"'stdin': {}", "stdin.mode: is missing"},
	{"'stdin': {'mode': 'pty'}",
		"stdin.mode: 'pty' is not one of inherit, none, all, rank, file, stdout, "
		"tool, attach"},
	{"'stdin': {'mode': 'rank'}", "stdin.rank: is missing"},
	{"'stdin': {'mode': 'rank', 'rank': 1}", "stdin.rank: 1 is not below ntasks (1)"},
	{"'stdin': {'mode': 'all', 'rank': 0}", "stdin.rank: goes with mode 'rank' only"},
	{"'stdin': {'mode': 'file'}", "stdin.path: is missing"},
	{"'stdin': {'mode': 'none', 'path': 'x'}", "stdin.path: goes with mode 'file' only"},
	{"'stdin': {'mode': 'none', 'append': true}", "stdin.append: goes with mode 'file' only"},
	{"'stdin': {'mode': 'file', 'path': 'x', 'append': false}",
		"stdin.append: is nothing for stdin"},
	{"'stdin': {'mode': 'file', 'path': 'x', 'apend': false}",
		"stdin.apend: unknown field; did you mean 'append'?"},
	{"'stdout': 'all'", "stdout: stdout can't have this mode"},
	{"'stdout': {'mode': 'stdout'}", "stdout.mode: stdout can't have this mode"},
	{"'stdout': {'mode': 'file', 'path': 'x', 'append': 1}",
		"stdout.append: must be true or false, not a number"},
	{"'stderr': 'all'", "stderr: stderr can't have this mode"},
	{"'stderr': {'mode': 'rank', 'rank': -1}",
		"stderr.rank: -1 is not in the range 0 to 16777215"},
	{"'stderr': {'mode': 'file', 'path': ''}", "stderr.path: is empty"},
	{"'label': 'yes'", "label: must be true or false, not a string"},
	{"'forward': 1", "forward: must be true or false, not a number"},
	{"'input_overflow': 'keep'", "input_overflow: 'keep' is not one of spill, drop, wait"},
	{"'input_spill_max': -1",
		"input_spill_max: -1 is not in the range 0 to 2305843009213693951"},
	{"'unbuffered': 'yes'", "unbuffered: must be true or false, not a string"},
	{"'attachable': 1", "attachable: must be true or false, not a number"},
	{"'attachable': true, 'attach_ring': 4095",
		"attach_ring: 4095 is not in the range 4096 to 16777216"},
	{"'attach_ring': 4096", "attach_ring: needs attachable to be true"},
	{"'stdin': 'attach'",
		"stdin: 'attach' needs attachable (--attachable): nobody else could give the tasks "
		"their input"},
	{"'pty': true", "pty: must be an array, not true"},
	{"'pty': []", "pty: is empty"},
	{"'pty': [1]", "pty[0]: 1 is not in the range 0 to 0"},
	{"'pty': '0-1'", "pty: '0-1' holds a rank above 0"},
	{"'pty': '0,0'", "pty: rank 0 is listed twice"},
	{"'pty': '0', 'stdin': 'inherit'", "stdin: " CONFLICTS_WITH_PTY},
	{"'pty': '0', 'stdin': 'tool'", "stdin: " CONFLICTS_WITH_PTY},
	{"'pty': '0', 'stdout': {'mode': 'file', 'path': 'x'}", "stdout: " CONFLICTS_WITH_PTY},
	{"'pty': '0', 'stdout': 'none'", "stdout: " CONFLICTS_WITH_PTY},
	{"'pty': '0', 'stderr': 'none'", "stderr: " CONFLICTS_WITH_PTY},
	{"'ntasks': 2, 'pty': '0', 'stdin': {'mode': 'rank', 'rank': 1}",
		"stdin.rank: 1 is not one of pty, whose ranks alone read standard input in such a "
		"step; add it there"},
	{"'ntasks': 2, 'pty': '0', 'stdout': {'mode': 'rank', 'rank': 1}",
		"stdout.rank: 1 is not one of pty; add it there, or leave this out"},
	{"'ntasks': 2, 'pty': '0', 'stderr': {'mode': 'rank', 'rank': 1}",
		"stderr.rank: 1 is not one of pty; add it there, or leave this out"},
	{"'pty': '0', 'session': 'agent'",
		"session: 'agent' conflicts with pty: a task with a terminal leads a session of its "
		"own; give auto or task"},
	{"'limits': 5", "limits: must be an object, not a number"},
	{"'limits': {'pids_max': 0}", "limits.pids_max: 0 is not in the range 1 to 4194304"},
	{"'task_limits': {'cpu_max': 'x'}",
		"task_limits.cpu_max: 'x' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"'limits_mode': 'best'", "limits_mode: 'best' is not one of strict, best-effort"},
	{"'cpu_bind': 'cores:1'", "cpu_bind: cores takes no list"},
	{"'cpu_bind': true", "cpu_bind: must be a string, not true"},
	{"'mem_bind': 'map_mem:x'", "mem_bind: 'x' is not a number"},
	{"'distribution': 'plane'",
		"distribution: 'plane' is not one of block, cyclic and plane=N"},
	{"'cpus_per_task': 0", "cpus_per_task: 0 is not in the range 1 to 65536"},
	{"'topology': 'm.xml'", "topology: 'm.xml' is not an absolute path"},
	{"'proctrack': '../x'",
		"proctrack: '../x' is not the name of a proctrack plugin (\"auto\", \"cgroup\" or "
		"\"proctrack/cgroup\")"},
	{"'proctrack': 'mpi/none'",
		"proctrack: 'mpi/none' is not the name of a proctrack plugin (\"auto\", \"cgroup\" or "
		"\"proctrack/cgroup\")"},
	{"'mpi': 'mpi/'",
		"mpi: 'mpi/' is not the name of an mpi plugin (\"none\" or \"mpi/none\")"},
	{"'pmi': 1", "pmi: must be an object, not a number"},
	{"'pmi': {'timeout_ms': -1}", "pmi.timeout_ms: -1 is not in the range 0 to 3153600000000"},
	{"'pmi': {'tcp': 1}", "pmi.tcp: must be true or false, not a number"},
	{"'pmi': {'memory_bytes': -1}",
		"pmi.memory_bytes: -1 is not in the range 0 to 9223372036854775807"},
	{"'wire': []", "wire: must be an object, not an array"},
	{"'wire': {'addresses': 'a:1'}", "wire.addresses: must be an array, not a string"},
	{"'wire': {'addresses': ['a:1', 'b:2']}",
		"wire.addresses: has 2 entries, but node.count is 1"},
	{"'wire': {'addresses': ['a:65536']}",
		"wire.addresses[0]: 'a:65536' has no port from 1 to 65535 behind its last ':'"},
	{"'wire': {'addresses': ['a b:1']}",
		"wire.addresses[0]: 'a b:1' is neither HOST:PORT nor [IPV6]:PORT"},
	{"'wire': {'addresses': ['::1:1']}",
		"wire.addresses[0]: '::1:1' is neither HOST:PORT nor [IPV6]:PORT"},
	{"'wire': {'addresses': ['[1.2.3.4]:1']}",
		"wire.addresses[0]: '[1.2.3.4]:1' holds no IPv6 address between '[' and ']'"},
	{"'wire': {'addresses': ['[]:1']}",
		"wire.addresses[0]: '[]:1' holds no IPv6 address between '[' and ']'"},
	{"'wire': {'addresses': [1]}", "wire.addresses[0]: must be a string, not a number"},
	{"'wire': {'listen_fd': 2}", "wire.listen_fd: 2 is not in the range 3 to 1048576"},
	{"'wire': {'secret_fd': -1}", "wire.secret_fd: -1 is not in the range 3 to 1048576"},
	{"'wire': {'secret_fd': 7, 'listen_fd': 7}", "wire.secret_fd: 7 is listen_fd too"},
	{"'wire': {'secret_fd': 7, 'auth': 'munge'}",
		"wire.secret_fd: conflicts with auth 'munge'"},
	{"'wire': {'auth': 'secret'}", "wire.auth: 'secret' needs secret_fd"},
	{"'wire': {'auth': 'ssh'}", "wire.auth: 'ssh' is not one of secret, munge, none"},
	{"'wire': {'fanout': 1}", "wire.fanout: 1 is not in the range 2 to 1024"},
	{"'wire': {'ifname': 'a/b'}", "wire.ifname: 'a/b' is not a network interface's name"},
	{"'wire': {'ifname': 'a234567890123456'}",
		"wire.ifname: 'a234567890123456' is not a network interface's name"},
	{"'wire': {'connect_timeout_ms': 0}",
		"wire.connect_timeout_ms: 0 is not in the range 1 to 3153600000000"},
	{"'scope': 'maybe'", "scope: 'maybe' is not one of auto, yes, no"},
	{"'session': 'step'", "session: 'step' is not one of auto, task, agent"},
	{"'cgroup_root': 'sys'", "cgroup_root: 'sys' is not an absolute path"},
	{"'hold': 0", "hold: must be true or false, not a number"},
	{"'time_limit_ms': -1", "time_limit_ms: -1 is not in the range 0 to 3153600000000"},
	{"'time_limit_ms': 3153600000001",
		"time_limit_ms: 3153600000001 is not in the range 0 to 3153600000000"},
	{"'kill_on_bad_exit': 'yes'", "kill_on_bad_exit: must be true or false, not a string"},
	{"'oom_kill_step': 1", "oom_kill_step: must be true or false, not a number"},
	{"'kill_on_bad_exit_grace_ms': 1",
		"kill_on_bad_exit_grace_ms: needs kill_on_bad_exit to be true"},
	{"'time_limit_signal': 'USR1'",
		"time_limit_signal: needs a time limit: give time_limit_ms (--time or --time-limit), too"},
	{"'time_limit_signal': 65, 'time_limit_ms': 1",
		"time_limit_signal: 65 is not in the range 1 to 64"},
	{"'time_limit_signal_ms': 1", "time_limit_signal_ms: needs time_limit_signal"},
	{"'time_limit_signal_to': 'tasks'", "time_limit_signal_to: needs time_limit_signal"},
	{"'kill_on_bad_exit_grace_ms': '1s'",
		"kill_on_bad_exit_grace_ms: must be a whole number, not a string"},
	{"'wait_ms': false", "wait_ms: must be a whole number, not false"},
	{"'kill_sequence': 'KILL'", "kill_sequence: must be an array, not a string"},
	{"'kill_sequence': []", "kill_sequence: has 0 entries, not 1 to 16"},
	{"'kill_sequence': [{}]", "kill_sequence[0].signal: is missing"},
	{"'kill_sequence': [{'signal': 'FOO'}]", "kill_sequence[0].signal: 'FOO' is not a signal"},
	{"'kill_sequence': [{'signal': 0}]",
		"kill_sequence[0].signal: 0 is not in the range 1 to 64"},
	{"'kill_sequence': [{'signal': 'TERM'}]",
		"kill_sequence[0].signal: the last one must be KILL"},
	{"'kill_sequence': [{'signal': 'KILL'}, {'signal': 'KILL'}]",
		"kill_sequence[0].signal: nothing can come after KILL"},
	{"'kill_sequence': [{'signal': 'KILL', 'wait_ms': 1}]",
		"kill_sequence[0].wait_ms: the wait after KILL is unkillable_timeout_ms"},
	{"'kill_sequence': [{'signal': 'KILL', 'wait': 1}]",
		"kill_sequence[0].wait: unknown field"},
	{"'background': 'keep'", "background: 'keep' is not one of kill, wait"},
	{"'unkillable_timeout_ms': -1",
		"unkillable_timeout_ms: -1 is not in the range 0 to 3153600000000"},
	{"'lock_memory': true", "lock_memory: must be a string, not true"},
	{"'suspend_timeout_ms': 3600001",
		"suspend_timeout_ms: 3600001 is not in the range 0 to 3600000"},
	{"'stdinn': 'none'", "stdinn: unknown field; did you mean 'stdin'?"},
	{"'nodes': {}", "nodes: unknown field; did you mean 'node'?"},
	{"'labe1': true", "labe1: unknown field; did you mean 'label'?"},
	{"'something': 1", "something: unknown field"},
};

static void test_wrong_fields(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		free(text);
		assert_true(asprintf(&text, "{'argv': ['x'], %s}", wrong[i].fields) > 0);
		if (wrong[i].error)
			bad(text, wrong[i].error);
		else
			(void)spec_free(good(text));
	}
}

/* The last part of the path that the error begins with is name, without "[3]" and the like. */
static bool error_is_about(const char *error, const char *name)
{
	size_t len = strlen(name), path = error ? strcspn(error, ": ") : 0, i;

	for (i = 0; i + len <= path; i++) {
		if (strncmp(error + i, name, len) == 0 && (i == 0 || error[i - 1] == '.') &&
			strchr(":.[", error[i + len]))
			return true;
	}
	return false;
}

static void test_every_field_has_a_wrong_value(void **state)
{
	const struct spec_field *fields;
	size_t n, i, k, found;
	int table;

	(void)state;
	for (table = 0; table < SPEC_TABLE_LIMITS; table++) { /* those behind: test_limits.c */
		fields = spec_table_get((enum spec_table)table, &n);
		for (i = 0; i < n; i++) {
			found = strcmp(fields[i].name, "argv") == 0; /* test_wrong_wholes() */
			for (k = 0; k < ARRAY_SIZE(wrong); k++)
				found += error_is_about(wrong[k].error, fields[i].name);
			if (!found)
				fail_msg("no wrong value of '%s' is tried", fields[i].name);
		}
	}
}

static void test_wrong_wholes(void **state)
{
	(void)state;
	bad("[]", "the document: must be an object, not an array");
	bad("{}", "argv: is missing: there is no program to run");
	bad("{'argv': 'ls'}", "argv: must be an array, not a string");
	bad("{'argv': []}", "argv: is missing: there is no program to run");
	bad("{'argv': ['']}", "argv[0]: is empty");
	bad("{'argv': ['ls', null]}", "argv[1]: must be a string, not null");
	bad("{'ntasks': 3, 'tasks': [{'rank': 1, 'argv': ['x']}]}",
		"argv: is missing: 2 of this node's 3 tasks have no program in tasks either");
	bad("{'ntasks': 2, 'tasks': [{'ranks': '0-1'}]}",
		"argv: is missing: there is no program to run");
	bad("{'kind': 'batch'}",
		"script: is missing: a batch step needs script, script_base64 or script_file");
	bad("{'kind': 'batch', 'script': ''}", "script: is empty");
	bad("{'kind': 'batch', 'script': 1}", "script: must be a string, not a number");
	bad("{'kind': 'batch', 'script': 'x', 'script_base64': 'QQ=='}",
		"script_base64: conflicts with script; give one of them");
	bad("{'kind': 'batch', 'script': 'x', 'script_file': '/x'}",
		"script_file: conflicts with script; give one of them");
	bad("{'kind': 'batch', 'script_file': 'x'}", "script_file: 'x' is not an absolute path");
	bad("{'kind': 'batch', 'script_base64': ''}", "script_base64: is empty");
	bad("{'kind': 'batch', 'script': 'x', 'step': 1}",
		"step: is not for a step of kind 'batch'");
	bad("{'kind': 'batch', 'script': 'x', 'ntasks': 2}", "ntasks: a batch step has one task");
	bad("{'kind': 'batch', 'script': 'x', 'local_ntasks': 2}",
		"local_ntasks: a batch step has one task");
	bad("{'kind': 'batch', 'script': 'x', 'tasks': []}",
		"tasks: is not for a step of kind 'batch'");
	bad("{'kind': 'batch', 'script': 'x', 'ranks': [0]}",
		"ranks: is not for a step of kind 'batch'");
	bad("{'kind': 'batch', 'script': 'x', 'mpi': 'pmix'}",
		"mpi: 'pmix' is not for a step of kind 'batch': give none or nothing");
	bad("{'kind': 'batch', 'script': 'x', 'node': {'tasks_per_node': [1]}}",
		"node.tasks_per_node: is for normal steps only");
	bad("{'kind': 'batch', 'script': 'x', 'node': {'ranks': ['0']}}",
		"node.ranks: is for normal steps only");
	bad("{'kind': 'batch', 'script': 'x', 'wire': {}}",
		"wire: is not for a step of kind 'batch'");
	bad("{'kind': 'extern', 'mount_namespace': '/ns'}",
		"mount_namespace: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'pmi': {}}", "pmi: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'argv': ['x']}", "argv: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'ntasks': 1}", "ntasks: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'tasks': []}", "tasks: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'stdout': 'none'}", "stdout: is not for a step of kind 'extern'");
	bad("{'kind': 'extern', 'mpi': 'pmix'}",
		"mpi: 'pmix' is not for a step of kind 'extern': give none or nothing");
}

static void test_wrong_base64(void **state)
{
	static const char *const texts[] = {"QQ", "QQ=", "QQ===", "=QQ=", "Q===", "====", "QR==",
		"QUJ=", "QQ==QQ==", "Q!==", "QUI\\n"};
	_cleanup_free_ char *text = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		free(text);
		assert_true(
			asprintf(&text, "{'kind': 'batch', 'script_base64': '%s'}", texts[i]) > 0);
		bad(text, "script_base64: is not base64 (RFC 4648, with padding, in one line)");
	}
}

static void test_pattern_is_checked(void **state)
{
	_cleanup_free_ char *json =
		json_text("{'argv': ['x'], 'stderr': {'mode': 'file', 'path': 'a%q'}}");
	struct spec *spec = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(spec_from_text(json, strlen(json), &spec, &err), -EINVAL);
	assert_int_equal(strncmp(err.text, "stderr.path: 'a%q' ", 19), 0);
}

/* ---- text --------------------------------------------------------------------------------- */

static void bad_bytes(const char *text, size_t size, const char *wanted)
{
	struct spec *spec = NULL;
	struct err err = ERR_INIT;

	assert_true(spec_from_text(text, size, &spec, &err) < 0);
	assert_null(spec);
	if (strncmp(err.text, wanted, strlen(wanted)) != 0)
		fail_msg("got: %s\nwanted: %s...", err.text, wanted);
}

static void test_syntax_errors_name_the_place(void **state)
{
	static const char nul[] = "{\"argv\": [\"a\0b\"]}",
			  escaped[] = "{\"argv\": [\"a\\u0000b\"]}";
	static const char latin[] = "{\"argv\":\n [\"\xe4\"]}";

	(void)state;
	bad("", "line 1, column 0: the document ends here, and is not complete");
	bad("{'argv': ['x'],\n 'job' 3}", "line 2, column 8: ':' expected near '3'");
	bad("{'argv': ['x']} x", "line 1, column 17: end of file expected near 'x'");
	bad_bytes("{\"job\": 1, \"job\": 2}", 20,
		"line 1, column 16: duplicate object key near '\"job\"'");
	bad_bytes(nul, sizeof(nul) - 1, "line 1, column ");
	bad_bytes(escaped, sizeof(escaped) - 1, "line 1, column 20: a string holds a NUL byte");
	bad_bytes(latin, sizeof(latin) - 1, "line 2, column ");
	bad_bytes("{\"job\": 99999999999999999999}", 29, "line 1, column ");
}

static void test_nul_in_a_made_document(void **state)
{
	json_t *doc = json_pack("{s:[s, o]}", "argv", "x", json_stringn("a\0b", 3));
	struct spec *spec = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(spec_from_json(doc, &spec, &err), -EINVAL);
	assert_string_equal(err.text, "argv[1]: holds a NUL byte");
	json_decref(doc);
}

static void test_long_names_are_cut(void **state)
{
	char name[2001], json[2100];
	struct spec *spec = NULL;
	struct err err = ERR_INIT;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(json, sizeof(json), "{\"%s\": 1}", name);
	assert_int_equal(spec_from_text(json, strlen(json), &spec, &err), -EINVAL);
	assert_int_equal(strlen(err.text), 64 + strlen(": unknown field"));
}

static void test_sizes(void **state)
{
	size_t size = SPEC_SIZE_MAX + 1u;
	_cleanup_free_ char *text = calloc(size, 1);

	(void)state;
	assert_non_null(text);
	bad_bytes(text, size, "the document has 67108865 bytes, more than 67108864");
	(void)snprintf(text, size, "{\"kind\": \"batch\", \"script\": \"");
	memset(text + strlen(text), 'x', SPEC_SCRIPT_MAX + 1u);
	memcpy(text + strlen(text), "\"}", 2);
	bad_bytes(text, strlen(text), "script: has 16777217 bytes, more than 16777216");
}

static void test_load_from_fd(void **state)
{
	static const char text[] = "{\"job\": 5}";
	int before = scratch_count_fds();
	json_t *doc = NULL;
	struct err err = ERR_INIT;
	int fd[2];

	(void)state;
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_int_equal(fs_write_all(fd[1], text, sizeof(text) - 1), 0);
	assert_int_equal(close(fd[1]), 0);
	assert_int_equal(spec_json_load_fd(fd[0], &doc, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(doc, "job")), 5);
	json_decref(doc);
	assert_int_equal(spec_json_load_fd(fd[0], &doc, &err), -EINVAL); /* at its end */
	assert_int_equal(close(fd[0]), 0);
	assert_int_equal(spec_json_load_fd(fd[0], &doc, &err), -EBADF);
	assert_string_equal(err.text, "read the step spec: Bad file descriptor");
	fd[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(spec_json_load_fd(fd[0], &doc, &err), -EFBIG);
	assert_string_equal(err.text, "the document has more than 67108864 bytes");
	assert_int_equal(close(fd[0]), 0);
	assert_int_equal(scratch_count_fds(), before);
}

static void test_free_of_nothing(void **state)
{
	(void)state;
	assert_null(spec_free(NULL));
}

static void test_kill_sequence_text(void **state)
{
	json_t *array = NULL;
	struct err err = ERR_INIT;
	_cleanup_free_ char *text = NULL;

	(void)state;
	assert_int_equal(
		spec_kill_sequence_json("CONT,sigterm:1.5s,12:250ms,KILL", &array, &err), 0);
	text = json_dumps(array, JSON_COMPACT);
	json_decref(array);
	assert_string_equal(text,
		"[{\"signal\":\"CONT\"},{\"signal\":\"TERM\",\"wait_ms\":1500},"
		"{\"signal\":\"USR2\",\"wait_ms\":250},{\"signal\":\"KILL\"}]");
	assert_int_equal(spec_kill_sequence_json("CONT,,KILL", &array, &err), -EINVAL);
	assert_string_equal(err.text, "'' is not a signal");
	assert_int_equal(spec_kill_sequence_json("TERM:soon,KILL", &array, &err), -EINVAL);
	assert_string_equal(err.text, "'soon' is not a duration such as 30s");
}

static void test_name_distance(void **state)
{
	(void)state;
	assert_int_equal(spec_name_distance("stdin", "stdin"), 0);
	assert_int_equal(spec_name_distance("sdtin", "stdin"), 1); /* swapped */
	assert_int_equal(spec_name_distance("stdinn", "stdin"), 1);
	assert_int_equal(spec_name_distance("label", "labels"), 1);
	assert_int_equal(spec_name_distance("xyz", "gid"), 99);
	assert_int_equal(spec_name_distance("", "gid"), 99);
	assert_int_equal(
		spec_name_distance("a very long name of more than forty bytes indeed", "gid"), 99);
}

/* ---- the tables --------------------------------------------------------------------------- */

/* They are joined to "DOC Default: UNSET." */
static void test_documentation_is_sentences(void **state)
{
	const struct spec_field *fields, *f;
	size_t n, i;
	int table;

	(void)state;
	for (table = 0; table < SPEC_TABLE_MAX; table++) {
		fields = spec_table_get((enum spec_table)table, &n);
		for (i = 0; i < n; i++) {
			f = &fields[i];
			assert_non_null(f->parse);
			assert_null(strchr(f->doc, '\n'));
			if (f->doc[strlen(f->doc) - 1] != '.')
				fail_msg("the documentation of %s is no sentence: %s", f->name,
					f->doc);
			if (f->unset && (!*f->unset || f->unset[strlen(f->unset) - 1] == '.'))
				fail_msg("the default of %s is no part of one: %s", f->name,
					f->unset);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_document),
		cmocka_unit_test(test_identity_and_surroundings),
		cmocka_unit_test(test_interactive),
		cmocka_unit_test(test_ptys),
		cmocka_unit_test(test_binding_fields),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_rlimits),
		cmocka_unit_test(test_rlimit_names),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_largest_step),
		cmocka_unit_test(test_overrides),
		cmocka_unit_test(test_rank_map),
		cmocka_unit_test(test_rank_map_by_itself),
		cmocka_unit_test(test_node_names),
		cmocka_unit_test(test_pmi_and_wire),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_wrong_descriptors),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_extern),
		cmocka_unit_test(test_wrong_fields),
		cmocka_unit_test(test_every_field_has_a_wrong_value),
		cmocka_unit_test(test_wrong_wholes),
		cmocka_unit_test(test_wrong_base64),
		cmocka_unit_test(test_pattern_is_checked),
		cmocka_unit_test(test_syntax_errors_name_the_place),
		cmocka_unit_test(test_nul_in_a_made_document),
		cmocka_unit_test(test_long_names_are_cut),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_load_from_fd),
		cmocka_unit_test(test_free_of_nothing),
		cmocka_unit_test(test_kill_sequence_text),
		cmocka_unit_test(test_name_distance),
		cmocka_unit_test(test_documentation_is_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
