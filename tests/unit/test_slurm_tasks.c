/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a launch message asks for its tasks: binding, programs in their place, MPI; and how long a
 * large one takes.
 */
#include "contrib/slurm/bind.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/step_spec.h"
#include "contrib/slurm/task_script.h"
#include "stepd/base/buffer.h"
#include "stepd/base/strv.h"
#include "tests/lib/scratch.h"

static void test_bind(void **state)
{
	static const struct {
		uint16_t cpu_type;
		const char *cpu;
		uint16_t mem_type;
		const char *mem, *cpu_field, *mem_field;
	} rows[] = {
		{0, NULL, 0, NULL, NULL, NULL},
		{SLURM_CPU_VERBOSE, "", SLURM_MEM_PREFER, "", NULL, NULL},
		{SLURM_CPU_OFF, NULL, SLURM_MEM_OFF, NULL, "none", "none"},
		{SLURM_CPU_BY_MASK | 4, "0x1,0x2", SLURM_MEM_TO_LOCAL, NULL, "mask_cpu:0x1,0x2",
			"local"},
		{SLURM_CPU_BY_MAP | SLURM_CPU_VERBOSE, "1,0", SLURM_MEM_BY_MAP, "0", "map_cpu:1,0",
			"map_mem:0"},
		{SLURM_CPU_BY_RANK, "left over", SLURM_MEM_BY_RANK, NULL, "rank", "rank"},
		{SLURM_CPU_BY_LDOM_RANK, NULL, SLURM_MEM_BY_MASK | SLURM_MEM_PREFER, "0x1",
			"rank_ldom", "prefer,mask_mem:0x1"},
		{SLURM_CPU_BY_LDOM_MAP, "0", 0, NULL, "map_ldom:0", NULL},
		{SLURM_CPU_BY_LDOM_MASK, "0x3", 0, NULL, "mask_ldom:0x3", NULL},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct slurm_launch launch = {.cpu_bind_type = rows[i].cpu_type,
			.cpu_bind = rows[i].cpu,
			.mem_bind_type = rows[i].mem_type,
			.mem_bind = rows[i].mem};
		json_t *doc = json_object();
		const char *cpu, *mem;

		assert_true(bind_is_served(&launch));
		assert_int_equal(bind_set(doc, &launch), 0);
		cpu = json_string_value(json_object_get(doc, "cpu_bind"));
		mem = json_string_value(json_object_get(doc, "mem_bind"));
		assert_string_equal(cpu ? cpu : "", rows[i].cpu_field ? rows[i].cpu_field : "");
		assert_string_equal(mem ? mem : "", rows[i].mem_field ? rows[i].mem_field : "");
		json_decref(doc);
	}
}

static void test_bind_not_served(void **state)
{
	const struct slurm_launch sort = {.mem_bind_type = SLURM_MEM_SORT | SLURM_MEM_TO_LOCAL},
				  no_list = {.cpu_bind_type = SLURM_CPU_BY_MASK},
				  empty = {.mem_bind_type = SLURM_MEM_BY_MAP, .mem_bind = ""};

	(void)state;
	assert_false(bind_is_served(&sort));
	assert_false(bind_is_served(&no_list));
	assert_false(bind_is_served(&empty));
}

static void assert_script(
	const struct slurm_launch *launch, const struct site_conf *site, const char *expected)
{
	_cleanup_strv_ struct strv args = {0};
	_cleanup_free_ char *text = NULL;

	assert_int_equal(task_script_add(launch, site, "n1", "/x/task", &args), 0);
	text = strv_join(args.v, ' ');
	assert_non_null(text);
	assert_string_equal(text, expected);
}

static void test_script(void **state)
{
	struct slurm_launch launch = {.cpu_bind_type = SLURM_CPU_VERBOSE | SLURM_CPU_BY_MASK,
		.mem_bind_type = SLURM_MEM_VERBOSE | SLURM_MEM_TO_LOCAL};
	struct site_conf site = {0};
	char site_prolog[] = "/site", site_epilog[] = "/after";

	(void)state;
	assert_script(&launch, &site, ""); /* without task/affinity nothing is bound */
	site.binds = true;
	assert_script(&launch, &site, "/x/task node=n1 cpu_bind=MASK mem_bind=LOC --");
	launch.cpu_bind_type = SLURM_CPU_BY_MASK;
	launch.mem_bind_type = SLURM_MEM_VERBOSE;
	assert_script(&launch, &site, "");
	launch.task_prolog = "user prolog";
	assert_true(task_script_has_prolog(&launch, &site));
	site.task_prolog = site_prolog;
	assert_script(
		&launch, &site, "/x/task node=n1 site_prolog=/site user_prolog=user prolog --");
	launch.task_prolog = "";
	assert_script(&launch, &site, "/x/task node=n1 site_prolog=/site --");
	assert_false(task_script_has_epilog(&launch, &site));
	site.task_epilog = site_epilog;
	assert_true(task_script_has_epilog(&launch, &site));
}

static void test_mpi(void **state)
{
	(void)state;
	assert_string_equal(step_spec_find_mpi(NULL), "none");
	assert_string_equal(step_spec_find_mpi(""), "none");
	assert_string_equal(step_spec_find_mpi("none"), "none");
	assert_string_equal(step_spec_find_mpi("pmi2"), "pmi2");
	assert_string_equal(step_spec_find_mpi("pmix"), "pmix");
	assert_string_equal(step_spec_find_mpi("pmix_v4"), "pmix");
	assert_null(step_spec_find_mpi("cray_shasta"));
	assert_null(step_spec_find_mpi("pmi"));
}

static void test_interval(void **state)
{
	const struct site_conf site = {.sample_s = 17};

	(void)state;
	assert_int_equal(site_sample_interval(NULL, &site), 17);
	assert_int_equal(site_sample_interval("", &site), 17);
	assert_int_equal(site_sample_interval("5", &site), 5);
	assert_int_equal(site_sample_interval("0", &site), 0);
	assert_int_equal(site_sample_interval("task=6", &site), 6);
	assert_int_equal(site_sample_interval("energy=3,Task=8,network=1", &site), 8);
	assert_int_equal(site_sample_interval("energy=3", &site), 17);
	assert_int_equal(site_sample_interval("task=", &site), 17);
	assert_int_equal(site_sample_interval("x", &site), 17);
}

/* ---- slurm.conf ----------------------------------------------------------------------------- */

static void read_site(const char *lines, struct site_conf *site)
{
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf"),
			    *text = NULL;
	struct err err = ERR_INIT;

	assert_true(asprintf(&text, "SlurmctldHost=localhost(127.0.0.1)\n%s\n", lines) > 0);
	scratch_write(dir, "slurm.conf", text, strlen(text), 0644);
	if (site_conf_read(path, site, &err) < 0)
		fail_msg("%s", err.text);
	scratch_remove(dir);
}

static void test_site_defaults(void **state)
{
	_cleanup_site_conf_ struct site_conf site = {0};

	(void)state;
	read_site("", &site);
	assert_int_equal(site.not_served.n, 0);
	assert_int_equal(site.accounting, SITE_ACCOUNTING_NONE);
	assert_int_equal(site.sample_s, 30);
	assert_false(site.binds || site.limits);
	assert_int_equal(site.priority, SITE_PRIORITY_DEFAULT);
	assert_int_equal(site.virtual_percent, 0);
	assert_null(site.task_prolog);
	assert_null(site.task_epilog);
}

static void test_site(void **state)
{
	_cleanup_site_conf_ struct site_conf site = {0};

	(void)state;
	read_site(
		"JobAcctGatherType=jobacct_gather/cgroup\nJobAcctGatherFrequency=task=5,energy=1\n"
		"JobAcctGatherParams=NoOverMemoryKill\nTaskPlugin=task/affinity,task/cgroup\n"
		"TaskProlog=/x/prolog\nTaskEpilog=/x/epilog\nPropagatePrioProcess=2\n"
		"VSizeFactor=110%\nMpiDefault=pmix\nKillWait=7",
		&site);
	assert_int_equal(site.not_served.n, 0);
	assert_int_equal(site.accounting, SITE_ACCOUNTING_CGROUP);
	assert_int_equal(site.sample_s, 5);
	assert_true(site.binds && site.limits);
	assert_int_equal(site.priority, SITE_PRIORITY_NICER);
	assert_int_equal(site.virtual_percent, 110);
	assert_string_equal(site.task_prolog, "/x/prolog");
	assert_string_equal(site.task_epilog, "/x/epilog");
	assert_string_equal(site.mpi_default, "pmix");
	assert_int_equal(site.kill_wait_s, 7);
}

static void check_tmp(const char *lines, const char *wanted, bool home)
{
	_cleanup_site_conf_ struct site_conf site = {0};
	_cleanup_free_ char *path = NULL;

	read_site(lines, &site);
	assert_int_equal(site.not_served.n, 0);
	path = site_tmp_directory(&site, "n1", "host");
	assert_string_equal(path, wanted);
	assert_int_equal(site.has_home_xauthority, home);
}

/* Both are the same plugin, or the credentials' is what is not served. */
static void test_site_auth(void **state)
{
	static const struct {
		const char *lines, *not_served;
		bool uses_tokens;
	} rows[] = {
		{"AuthType=auth/slurm\nCredType=cred/slurm", NULL, true},
		{"CredType=auth/slurm\nAuthType=AUTH/SLURM", NULL, true},
		{"AuthType=auth/munge\nCredType=cred/munge", NULL, false},
		{"AuthType=auth/slurm", "CredType=cred/munge", true},
		{"CredType=cred/slurm", "CredType=cred/slurm", false},
		{"AuthType=auth/none", "AuthType=auth/none", false},
		{"CredType=cred/none", "CredType=cred/none", false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_site_conf_ struct site_conf site = {0};

		read_site(rows[i].lines, &site);
		assert_int_equal(site.uses_tokens, rows[i].uses_tokens);
		if (!rows[i].not_served)
			assert_int_equal(site.not_served.n, 0);
		else
			assert_string_equal(site.not_served.v[0], rows[i].not_served);
	}
}

/* Where the cookie of an X display is kept. */
static void test_site_x11(void **state)
{
	(void)state;
	check_tmp("MpiDefault=none", "/tmp", false);
	check_tmp("TmpFS=/scratch/%n/%h/%j%\nX11Parameters=use_raw_hostname",
		"/scratch/n1/host/%j%", false);
	check_tmp("X11Parameters=Home_Xauthority", "/tmp", true);
}

/* Several words of a value are served as each of them is. */
static void test_site_words(void **state)
{
	static const struct {
		const char *lines, *not_served;
	} confs[] = {
		{"LaunchParameters=send_gids,use_interactive_step", NULL},
		{"LaunchParameters=TEST_EXEC,mpir_use_nodeaddr,mem_sort,enable_nss_slurm", NULL},
		{"JobAcctGatherParams=NoOverMemoryKill,DisableGPUAcct", NULL},
		{"UsePAM=1", NULL},
		{"JobAcctGatherParams=UsePss", NULL},
		{"JobAcctGatherParams=UsePss\nJobAcctGatherType=jobacct_gather/cgroup", NULL},
		{"JobAcctGatherParams=UsePss,DisableGPUAcct\nJobAcctGatherType=jobacct_gather/linux",
			"JobAcctGatherParams=UsePss,DisableGPUAcct"},
		{"JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherParams=NoShared",
			"JobAcctGatherParams=NoShared"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(confs); i++) {
		_cleanup_site_conf_ struct site_conf site = {0};

		read_site(confs[i].lines, &site);
		if (!confs[i].not_served != (site.not_served.n == 0))
			fail_msg("%s: %s", confs[i].lines,
				site.not_served.n > 0 ? site.not_served.v[0] : "");
		if (confs[i].not_served)
			assert_string_equal(site.not_served.v[0], confs[i].not_served);
	}
}

/* Each is "address:port", those of slurmctld. */
static void check_controllers(const char *text, const char *const *addresses, size_t n)
{
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	_cleanup_site_conf_ struct site_conf site = {0};
	struct err err = ERR_INIT;
	char address[64];
	size_t i;

	scratch_write(dir, "slurm.conf", text, strlen(text), 0644);
	if (site_conf_read(path, &site, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	scratch_remove(dir);
	assert_int_equal(site.not_served.n, 0);
	assert_int_equal(site.controllers.n, n);
	for (i = 0; i < n; i++) {
		const struct sockaddr_in *at = &site.controllers.address[i];

		(void)snprintf(address, sizeof(address), "%s:%u", inet_ntoa(at->sin_addr),
			ntohs(at->sin_port));
		assert_string_equal(address, addresses[i]);
	}
}

static void test_controllers(void **state)
{
	static const char *const three[] = {"127.0.0.1:7000", "127.0.0.2:7000", "127.0.0.3:7000"},
				 *const others[] = {"127.0.0.1:6817", "127.0.0.3:6817"},
				 *const shared[] = {"127.0.0.9:6817"};

	(void)state;
	check_controllers("SlurmctldHost=a(127.0.0.1)\nSlurmctldHost=b(127.0.0.2)\n"
			  "SlurmctldPort=7000-7003\nSlurmctldHost=127.0.0.3\n",
		three, 3);
	/* A backup without an address is none. */
	check_controllers("SlurmctldHost=a(127.0.0.1)\nSlurmctldHost=no.such.host.invalid\n"
			  "SlurmctldHost=127.0.0.3\n",
		others, 2);
	check_controllers("SlurmctldHost=a(127.0.0.1)\nSlurmctldHost=b(127.0.0.2)\n"
			  "SlurmctldAddr=127.0.0.9\n",
		shared, 1);
	check_controllers("ControlMachine=a\nControlAddr=127.0.0.1\nBackupController=b\n"
			  "BackupAddr=127.0.0.3\n",
		others, 2);
	check_controllers("ControlMachine=127.0.0.1\nBackupController=127.0.0.3\n", others, 2);
	/* The old keys don't count beside the new one. */
	check_controllers("ControlMachine=a\nBackupController=127.0.0.8\n"
			  "SlurmctldHost=127.0.0.1\nSlurmctldHost=127.0.0.3\n",
		others, 2);
}

static void test_controllers_fail(void **state)
{
	static const char *const texts[] = {"ClusterName=c\n", "BackupController=127.0.0.1\n",
		"SlurmctldHost=no.such.host.invalid\nSlurmctldHost=127.0.0.1\n"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
		_cleanup_site_conf_ struct site_conf site = {0};
		struct err err = ERR_INIT;

		scratch_write(dir, "slurm.conf", texts[i], strlen(texts[i]), 0644);
		assert_int_equal(site_conf_read(path, &site, &err), -EADDRNOTAVAIL);
		assert_non_null(strstr(err.text, "slurmctld's host"));
		scratch_remove(dir);
	}
}

/* The file beside slurm.conf; NULL: there is none. */
static void check_profile(const char *plugin, const char *gather, enum site_profile expected)
{
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf"),
			    *text = NULL;
	_cleanup_site_conf_ struct site_conf site = {0};
	struct err err = ERR_INIT;

	assert_true(
		asprintf(&text, "SlurmctldHost=127.0.0.1\nAcctGatherProfileType=%s\n", plugin) > 0);
	scratch_write(dir, "slurm.conf", text, strlen(text), 0644);
	if (gather)
		scratch_write(dir, "acct_gather.conf", gather, strlen(gather), 0600);
	if (site_conf_read(path, &site, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	scratch_remove(dir);
	assert_int_equal(site.not_served.n, 0);
	assert_int_equal(site.profile, expected);
}

static void test_site_profile(void **state)
{
	(void)state;
	check_profile("acct_gather_profile/none", NULL, SITE_PROFILE_NEVER);
	check_profile("acct_gather_profile/hdf5", "ProfileHDF5Dir=/p\n", SITE_PROFILE_ASKED);
	check_profile("acct_gather_profile/HDF5",
		"EnergyIPMIFrequency=10 ProfileHDF5Dir=/p\nprofilehdf5default=Task\n",
		SITE_PROFILE_DEFAULT);
	check_profile("acct_gather_profile/hdf5",
		"ProfileHDF5Default=All\nProfileHDF5Default=None\n", SITE_PROFILE_ASKED);
	check_profile(
		"acct_gather_profile/influxdb", "ProfileInfluxDBHost=h:1\n", SITE_PROFILE_RELEASE);
	check_profile("acct_gather_profile/influxdb",
		"ProfileHDF5Default=All\nProfileInfluxDBDefault=NONE\n", SITE_PROFILE_ASKED);
	check_profile("acct_gather_profile/influxdb", "ProfileInfluxDBDefault=Energy,Task\n",
		SITE_PROFILE_DEFAULT);
}

/* What decides can't be read, or others could have written it. */
static void test_site_profile_fails(void **state)
{
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf"),
			    *gather = scratch_path(dir, "acct_gather.conf");
	static const char text[] =
		"SlurmctldHost=127.0.0.1\nAcctGatherProfileType=acct_gather_profile/hdf5\n";
	struct err err = ERR_INIT;
	struct site_conf site;

	(void)state;
	scratch_write(dir, "slurm.conf", text, strlen(text), 0644);
	assert_int_equal(site_conf_read(path, &site, &err), -ENOENT);
	assert_non_null(strstr(err.text, "acct_gather.conf"));
	site_conf_clear(&site);
	scratch_write(dir, "acct_gather.conf", "", 0, 0600);
	assert_int_equal(chmod(gather, 0666), 0);
	err = (struct err)ERR_INIT;
	assert_int_equal(site_conf_read(path, &site, &err), -EPERM);
	site_conf_clear(&site);
	scratch_remove(dir);
}

/* Plugins that gather what slurmctld may account for, and frequencies. */
static void test_site_gathers(void **state)
{
	_cleanup_site_conf_ struct site_conf none = {0}, site = {0};

	(void)state;
	read_site("AcctGatherInterconnectType=acct_gather_interconnect/none\n"
		  "AcctGatherFilesystemType=acct_gather_filesystem/none",
		&none);
	assert_int_equal(none.not_served.n, 0);
	assert_null(none.interconnect);
	assert_null(none.filesystem);
	assert_false(none.sets_frequency);
	read_site("AcctGatherInterconnectType=acct_gather_interconnect/OFED\n"
		  "AcctGatherFilesystemType=acct_gather_filesystem/lustre\nCpuFreqDef=Performance",
		&site);
	assert_int_equal(site.not_served.n, 0);
	assert_string_equal(site.interconnect, "ofed");
	assert_string_equal(site.filesystem, "lustre");
	assert_true(site.sets_frequency);
}

static void test_site_launch_parameters(void **state)
{
	_cleanup_site_conf_ struct site_conf none = {0}, all = {0};

	(void)state;
	read_site("LaunchParameters=send_gids,lustre_no_flush,mem_sort", &none);
	assert_int_equal(none.not_served.n, 0);
	assert_false(none.sets_batch_frequency);
	assert_false(none.limits_adopted);
	read_site("LaunchParameters=disable_send_gids,ULIMIT_PAM_ADOPT,batch_step_set_cpu_freq",
		&all);
	assert_int_equal(all.not_served.n, 0);
	assert_true(all.sets_batch_frequency);
	assert_true(all.limits_adopted);
	assert_int_equal(all.lock_memory, SITE_LOCK_NONE);
}

static void test_site_locks_memory(void **state)
{
	_cleanup_site_conf_ struct site_conf current = {0}, all = {0};

	(void)state;
	read_site("LaunchParameters=slurmstepd_memlock,send_gids", &current);
	assert_int_equal(current.not_served.n, 0);
	assert_int_equal(current.lock_memory, SITE_LOCK_CURRENT);
	read_site("LaunchParameters=send_gids,Slurmstepd_Memlock_All", &all);
	assert_int_equal(all.not_served.n, 0);
	assert_int_equal(all.lock_memory, SITE_LOCK_ALL);
}

static void test_site_not_served(void **state)
{
	static const char *const lines[] = {"TaskPlugin=task/cgroup,task/other",
		"JobAcctGatherType=jobacct_gather/other", "JobAcctGatherParams=OverMemoryKill",
		"JobAcctGatherParams=NoOverMemoryKill,OverMemoryKill",
		"LaunchParameters=send_gids,unheard_of", "PropagatePrioProcess=3", "VSizeFactor=-1",
		"AcctGatherProfileType=acct_gather_profile/own",
		"AcctGatherInterconnectType=acct_gather_interconnect/own",
		"AcctGatherFilesystemType=acct_gather_filesystem/own",
		"AcctGatherEnergyType=acct_gather_energy/ipmi",
		"AcctGatherEnergyType=acct_gather_energy/rapl,acct_gather_energy/gpu"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		_cleanup_site_conf_ struct site_conf site = {0};

		read_site(lines[i], &site);
		assert_int_equal(site.not_served.n, 1);
		assert_string_equal(site.not_served.v[0], lines[i]);
	}
}

static void test_site_energy(void **state)
{
	static const struct {
		const char *line;
		enum site_energy energy;
	} rows[] = {{"AcctGatherEnergyType=acct_gather_energy/none", SITE_ENERGY_NONE},
		{"AcctGatherEnergyType=acct_gather_energy/rapl", SITE_ENERGY_RAPL},
		{"AcctGatherEnergyType=rapl", SITE_ENERGY_RAPL},
		{"AcctGatherEnergyType=acct_gather_energy/pm_counters", SITE_ENERGY_CRAY}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_site_conf_ struct site_conf site = {0};

		read_site(rows[i].line, &site);
		assert_int_equal(site.not_served.n, 0);
		assert_int_equal(site.energy, rows[i].energy);
	}
}

/* ---- a large message ----------------------------------------------------------------------- */

#define MANY  40000u
#define CPU_S 8

static void add_u32(struct buffer *b, uint32_t n)
{
	n = htobe32(n);
	assert_int_equal(buffer_add(b, &n, sizeof(n)), 0);
}

/* Variables of a user's that the PMI server's are among. */
static void add_variables(struct buffer *b)
{
	char text[40];
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		(void)snprintf(text, sizeof(text), "SLURM_PMI2_%u=", i);
		add_u32(b, (uint32_t)strlen(text) + 1);
		assert_int_equal(buffer_add(b, text, strlen(text) + 1), 0);
	}
}

/* A task for each node. */
static void add_ranks(struct buffer *b)
{
	const uint16_t count = htobe16(1);
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		assert_int_equal(buffer_add(b, &count, sizeof(count)), 0);
		add_u32(b, 1);
		add_u32(b, i);
	}
}

/* slurmd waits for it: it must not take seconds for each thing squared that a user can have. */
static void test_large(void **state)
{
	_cleanup_buffer_ struct buffer variables = {0}, ranks = {0};
	static const uint32_t rank = 7;
	char pmi2[] = "pmi2";
	const struct site_conf site = {.mpi_default = pmi2, .tree_width = UINT16_MAX};
	const struct slurm_node_conf node = {.node_name = "n7"};
	struct slurm_launch launch = {.uid = 1000,
		.gid = 1000,
		.ntasks = MANY,
		.nnodes = MANY,
		.id = {.job = 1, .het_component = SLURM_NO_VAL},
		.files = {"/dev/null", "/dev/null", "/dev/null"}};
	const struct step_spec_input input = {.node = &node,
		.launch = &launch,
		.site = &site,
		.node_id = rank,
		.ranks = &rank,
		.ntasks = 1,
		.pmi_manager = "/socket",
		.cwd = "/"};
	_cleanup_free_ char *last = NULL;
	struct timespec begin, end;
	struct err err = ERR_INIT;
	const json_t *layout;
	json_t *doc;

	(void)state;
	add_variables(&variables);
	add_ranks(&ranks);
	launch.env = (struct slurm_strs){.n = MANY,
		.bytes = (const uint8_t *)buffer_bytes(&variables),
		.size = buffer_size(&variables)};
	launch.node_tasks = (struct slurm_array){
		(uint32_t)buffer_size(&ranks), (const uint8_t *)buffer_bytes(&ranks)};
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	assert_int_equal(step_spec_make(&input, &doc, &err), 0);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	layout = json_object_get(json_object_get(doc, "node"), "ranks");
	assert_int_equal(json_array_size(layout), MANY);
	assert_true(asprintf(&last, "%u", MANY - 1) > 0);
	assert_string_equal(json_string_value(json_array_get(layout, MANY - 1)), last);
	assert_true(json_object_size(json_object_get(doc, "env")) >= MANY);
	json_decref(doc);
	assert_true(end.tv_sec - begin.tv_sec < CPU_S);
}

static int check_root(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip(); /* who could change the file is checked */
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bind),
		cmocka_unit_test(test_bind_not_served),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_mpi),
		cmocka_unit_test(test_interval),
		cmocka_unit_test(test_large),
		cmocka_unit_test_setup(test_site_defaults, check_root),
		cmocka_unit_test_setup(test_site, check_root),
		cmocka_unit_test_setup(test_site_words, check_root),
		cmocka_unit_test_setup(test_site_auth, check_root),
		cmocka_unit_test_setup(test_site_x11, check_root),
		cmocka_unit_test_setup(test_controllers, check_root),
		cmocka_unit_test_setup(test_controllers_fail, check_root),
		cmocka_unit_test_setup(test_site_launch_parameters, check_root),
		cmocka_unit_test_setup(test_site_locks_memory, check_root),
		cmocka_unit_test_setup(test_site_not_served, check_root),
		cmocka_unit_test_setup(test_site_energy, check_root),
		cmocka_unit_test_setup(test_site_profile, check_root),
		cmocka_unit_test_setup(test_site_profile_fails, check_root),
		cmocka_unit_test_setup(test_site_gathers, check_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
