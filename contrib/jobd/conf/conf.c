/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/conf/conf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/lines.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"

/* ---- keys of Slurm that jobd does not use (slurm.conf(5) of 22.05 and later) --------------------
 */

static const char *const other_keys[] = {
	"AccountingStorageBackupHost",
	"AccountingStorageEnforce",
	"AccountingStorageExternalHost",
	"AccountingStorageHost",
	"AccountingStorageParameters",
	"AccountingStoragePass",
	"AccountingStoragePort",
	"AccountingStorageTRES",
	"AccountingStorageType",
	"AccountingStorageUser",
	"AccountingStoreFlags",
	"AccountingStoreJobComment",
	"AcctGatherEnergyType",
	"AcctGatherFilesystemType",
	"AcctGatherInfinibandType",
	"AcctGatherInterconnectType",
	"AcctGatherNodeFreq",
	"AcctGatherProfileType",
	"AllowSpecResourcesUsage",
	"AuthAltParameters",
	"AuthAltTypes",
	"AuthInfo",
	"AuthType",
	"BackupAddr",
	"BackupController",
	"BatchStartTimeout",
	"BcastExclude",
	"BcastParameters",
	"BurstBufferParameters",
	"BurstBufferType",
	"CertgenParameters",
	"CertgenType",
	"CertmgrParameters",
	"CertmgrType",
	"CliFilterParameters",
	"CliFilterPlugins",
	"CommunicationParameters",
	"CompleteWait",
	"ControlAddr",
	"ControlMachine",
	"CoreSpecPlugin",
	"CpuFreqDef",
	"CpuFreqGovernors",
	"CredType",
	"CryptoType",
	"DataParserParameters",
	"DebugFlags",
	"DefCpuPerGPU",
	"DefMemPerGPU",
	"DefRuntimePlugin",
	"DependencyParameters",
	"DisableRootJobs",
	"EioTimeout",
	"Epilog",
	"EpilogMsgTime",
	"EpilogSlurmctld",
	"EpilogTimeout",
	"Exclusive",
	"ExtSensorsFreq",
	"ExtSensorsType",
	"FairShareDampeningFactor",
	"FastSchedule",
	"FederationParameters",
	"GetEnvTimeout",
	"GpuFreqDef",
	"GresTypes",
	"GroupUpdateForce",
	"GroupUpdateTime",
	"HashPlugin",
	"HealthCheckInterval",
	"HealthCheckNodeState",
	"HealthCheckProgram",
	"HealthCheckTimeout",
	"HttpParserType",
	"InactiveLimit",
	"InteractiveStepOptions",
	"JobAcctGatherFrequency",
	"JobAcctGatherParams",
	"JobAcctGatherType",
	"JobCompHost",
	"JobCompLoc",
	"JobCompParams",
	"JobCompPass",
	"JobCompPassScript",
	"JobCompPort",
	"JobCompType",
	"JobCompUser",
	"JobContainerType",
	"JobCredentialPrivateKey",
	"JobCredentialPublicCertificate",
	"JobFileAppend",
	"JobSubmitPlugins",
	"KeepAliveTime",
	"KillOnBadExit",
	"LaunchParameters",
	"LaunchType",
	"LicenseParameters",
	"Licenses",
	"Location",
	"LogTimeFormat",
	"MailDomain",
	"MailProg",
	"MaxBatchRequeue",
	"MaxDBDMsgs",
	"MaxNodeCount",
	"MaxStepCount",
	"MaxTasksPerNode",
	"MCSParameters",
	"MCSPlugin",
	"MessageTimeout",
	"MetricsAuthUsers",
	"MetricsParameters",
	"MetricsType",
	"MpiDefault",
	"MpiParams",
	"NamespaceType",
	"NodeFeaturesPlugins",
	"OverTimeLimit",
	"PluginDir",
	"PlugStackConfig",
	"PowerParameters",
	"PowerPlugin",
	"PrEpParameters",
	"PrEpPlugins",
	"PriorityCalcPeriod",
	"PriorityDecayHalfLife",
	"PriorityFavorSmall",
	"PriorityFlags",
	"PriorityMaxAge",
	"PriorityParameters",
	"PrioritySiteFactorParameters",
	"PrioritySiteFactorPlugin",
	"PriorityUsageResetPeriod",
	"PriorityWeightAge",
	"PriorityWeightAssoc",
	"PriorityWeightFairshare",
	"PriorityWeightJobSize",
	"PriorityWeightPartition",
	"PriorityWeightQOS",
	"PriorityWeightTRES",
	"PrivateData",
	"ProctrackType",
	"Program",
	"Prolog",
	"PrologEpilogTimeout",
	"PrologFlags",
	"PrologSlurmctld",
	"PrologTimeout",
	"PropagatePrioProcess",
	"PropagateResourceLimits",
	"PropagateResourceLimitsExcept",
	"RebootProgram",
	"ReconfigFlags",
	"RequeueExit",
	"RequeueExitHold",
	"ResumeFailProgram",
	"ResumeProgram",
	"ResumeRate",
	"ResumeTimeout",
	"ResvEpilog",
	"ResvOverRun",
	"ResvProlog",
	"ReturnToService",
	"RoutePlugin",
	"SallocDefaultCommand",
	"SbcastParameters",
	"ScronParameters",
	"SerializerParameters",
	"SerializerPlugins",
	"SlurmctldAddr",
	"SlurmctldDebug",
	"SlurmctldHost",
	"SlurmctldHttpAuthParameters",
	"SlurmctldLogFile",
	"SlurmctldParameters",
	"SlurmctldPidFile",
	"SlurmctldPlugstack",
	"SlurmctldPort",
	"SlurmctldPrimaryOffProg",
	"SlurmctldPrimaryOnProg",
	"SlurmctldSyslogDebug",
	"SlurmctldTimeout",
	"SlurmdDebug",
	"SlurmdHttpAuthParameters",
	"SlurmdLogFile",
	"SlurmdParameters",
	"SlurmdPidFile",
	"SlurmdPort",
	"SlurmdSpoolDir",
	"SlurmdSyslogDebug",
	"SlurmdTimeout",
	"SlurmdUser",
	"SlurmrestdHttpAuthParameters",
	"SlurmrestdParameters",
	"SlurmSchedLogFile",
	"SlurmSchedLogLevel",
	"SlurmstepdParameters",
	"SlurmUser",
	"SrunEpilog",
	"SrunPortRange",
	"SrunProlog",
	"SuspendExcNodes",
	"SuspendExcParts",
	"SuspendExcStates",
	"SuspendProgram",
	"SuspendRate",
	"SuspendTime",
	"SuspendTimeout",
	"SwitchParameters",
	"SwitchType",
	"TaskEpilog",
	"TaskPlugin",
	"TaskPluginParam",
	"TaskProlog",
	"TCPTimeout",
	"TLSParameters",
	"TLSType",
	"TmpFS",
	"TopologyParam",
	"TopologyPlugin",
	"TrackWCKey",
	"TreeWidth",
	"UnkillableStepProgram",
	"UnkillableStepTimeout",
	"UrlParserType",
	"UsePAM",
	"VSizeFactor",
	"WaitTime",
};

static const char *const other_node_keys[] = {
	"BcastAddr",
	"Boards",
	"CoreSpecCount",
	"CpuBind",
	"CpuSpecList",
	"CPUSpecList",
	"Gres",
	"GresConf",
	"NodeAddr",
	"NodeHostname",
	"Parameters",
	"Port",
	"RestrictedCoresPerGPU",
	"SocketsPerBoard",
	"SuspendTime",
	"TmpDisk",
	"Topology",
	"TRESWeights",
};

static const char *const other_part_keys[] = {
	"AllocNodes",
	"AllowAccounts",
	"AllowQos",
	"AllowUsers",
	"Alternate",
	"CpuBind",
	"DefCpuPerGPU",
	"DefMemPerGPU",
	"DenyAccounts",
	"DenyGroups",
	"DenyQos",
	"DenyUsers",
	"DisableRootJobs",
	"ExclusiveTopo",
	"ExclusiveUser",
	"LLN",
	"MaxCPUsPerNode",
	"MaxCPUsPerSocket",
	"OverTimeLimit",
	"PowerDownOnIdle",
	"Priority",
	"QOS",
	"ReqResv",
	"ResumeTimeout",
	"SelectTypeParameters",
	"SuspendTime",
	"SuspendTimeout",
	"Topology",
	"TRESBillingWeights",
};

/* ---- values -----------------------------------------------------------------------------------
 */

enum type {
	TYPE_OWN, /* set() takes it */
	TYPE_TEXT,
	TYPE_U16,
	TYPE_U32,
	TYPE_COUNT,   /* a u32, or INFINITE or UNLIMITED */
	TYPE_MB,      /* a u64 */
	TYPE_MOST_MB, /* likewise, INFINITE or UNLIMITED is 0 */
	TYPE_CPU_MB,  /* likewise, with MEM_PER_CPU */
	TYPE_BOOL,    /* YES, NO, 1, 0 */
	TYPE_MINUTES, /* a time, u32; -1: no limit */
	TYPE_SECONDS, /* a time as Slurm writes it, of which a bare number is minutes; -1: none */
};

struct reader;

/* The treatment of a key's new value when the file is read again. */
enum change {
	CHANGE_RESTART, /* it is named, and stays as it was; also what nobody has thought about */
	CHANGE_REFUSED, /* nothing at all is taken of the file */
	CHANGE_TAKEN,
};

/* A key, and where its value goes in the record of its line. */
struct key {
	const char *name;
	enum type type;
	size_t offset;
	uint32_t least, most; /* of numbers; most 0: what the type can hold */
	int (*set)(struct reader *r, void *record, const char *value, struct err *err);
	enum change change;
	enum type stored; /* of TYPE_OWN, unless it is taken: what is at offset */
	bool (*differs)(const void *old_record, const void *record); /* NULL: by the type */
};

static bool is_infinite(const char *value)
{
	return strcasecmp(value, "INFINITE") == 0 || strcasecmp(value, "UNLIMITED") == 0;
}

static int bad_value(const char *key, const char *value, const char *wanted, struct err *err)
{
	return err_set_text(err, -EINVAL, "%s=%.200s: must be %s", key, value, wanted);
}

static int set_text(char **text, const char *value, struct err *err)
{
	char *copy = strdup(value);

	if (!copy)
		return err_set(err, -ENOMEM, "read it");
	free(*text);
	*text = copy;
	return 0;
}

static int set_number(const struct key *key, char *field, const char *value, struct err *err)
{
	uint32_t most = key->most ? key->most : key->type == TYPE_U16 ? UINT16_MAX : UINT32_MAX - 2;
	uint32_t n;

	if (key->type == TYPE_COUNT && is_infinite(value))
		n = CONF_INFINITE;
	else if (parse_u32(value, key->least, most, &n) < 0)
		return err_set_text(err, -EINVAL, "%s=%.200s: must be from %u to %u%s", key->name,
			value, key->least, most, key->type == TYPE_COUNT ? ", or INFINITE" : "");
	if (key->type == TYPE_U16)
		*(uint16_t *)(void *)field = (uint16_t)n;
	else
		*(uint32_t *)(void *)field = n;
	return 0;
}

/* MB, or a size with its unit, of which a part of a MB is one. */
static int set_memory(const struct key *key, uint64_t *field, const char *value, struct err *err)
{
	uint64_t bytes = 0;

	if (!(is_infinite(value) && key->type != TYPE_MB) &&
		(parse_size(value, 1u << 20, &bytes) < 0 || bytes > UINT64_MAX / 2))
		return bad_value(key->name, value, "a number of MB, or one with its unit, 4G", err);
	*field = (bytes + (1u << 20) - 1) >> 20;
	if (*field < key->least)
		return bad_value(key->name, value, "a size of 1 MB or more", err);
	if (key->type == TYPE_CPU_MB && *field)
		*field |= MEM_PER_CPU;
	return 0;
}

static int set_bool(const struct key *key, bool *field, const char *value, struct err *err)
{
	if (strcasecmp(value, "YES") == 0 || strcmp(value, "1") == 0)
		*field = true;
	else if (strcasecmp(value, "NO") == 0 || strcmp(value, "0") == 0)
		*field = false;
	else
		return bad_value(key->name, value, "YES or NO", err);
	return 0;
}

static int set_time(const struct key *key, uint32_t *field, const char *value, struct err *err)
{
	uint64_t ms = 0, unit = key->type == TYPE_MINUTES ? 60000 : 1000;

	if (is_infinite(value) || (key->type == TYPE_MINUTES && strcmp(value, "-1") == 0)) {
		*field = CONF_INFINITE;
		return 0;
	}
	if (strcmp(value, "-1") != 0 && parse_slurm_time_ms(value, &ms) < 0)
		return bad_value(key->name, value,
			"a time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, "
			"days-hours:minutes or days-hours:minutes:seconds",
			err);
	ms = (ms + unit - 1) / unit;
	*field = ms < CONF_NONE ? (uint32_t)ms : CONF_INFINITE;
	return 0;
}

static int set_value(
	struct reader *r, const struct key *key, void *record, const char *value, struct err *err)
{
	void *field = (char *)record + key->offset;

	switch (key->type) {
	case TYPE_TEXT:
		return set_text(field, value, err);
	case TYPE_U16:
	case TYPE_U32:
	case TYPE_COUNT:
		return set_number(key, field, value, err);
	case TYPE_MB:
	case TYPE_MOST_MB:
	case TYPE_CPU_MB:
		return set_memory(key, field, value, err);
	case TYPE_BOOL:
		return set_bool(key, field, value, err);
	case TYPE_MINUTES:
	case TYPE_SECONDS:
		return set_time(key, field, value, err);
	case TYPE_OWN:
		break;
	}
	return key->set(r, record, value, err);
}

/* ---- values that have names --------------------------------------------------------------------
 */

struct choice {
	const char *name;
	uint32_t value;
};

static const struct choice *find_choice(
	const struct choice *choices, size_t n, const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strncasecmp(choices[i].name, text, size) == 0 && choices[i].name[size] == '\0')
			return &choices[i];
	}
	return NULL;
}

static int unknown_choice(const char *key, const char *text, size_t size,
	const struct choice *choices, size_t n, struct err *err)
{
	char known[512] = "";
	size_t i, at = 0;

	for (i = 0; i < n && at < sizeof(known); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s",
			i == 0               ? ""
				: i == n - 1 ? " or "
					     : ", ",
			choices[i].name);
	return err_set_text(err, -EINVAL, "%s=%.*s: must be %s", key,
		(int)(size < 100 ? size : 100), text, known);
}

static int parse_choice(const char *key, const char *text, const struct choice *choices, size_t n,
	uint32_t *ret_value, struct err *err)
{
	const struct choice *choice = find_choice(choices, n, text, strlen(text));

	if (!choice)
		return unknown_choice(key, text, strlen(text), choices, n, err);
	*ret_value = choice->value;
	return 0;
}

/* "A,B": or'ed. */
static int parse_choices(const char *key, const char *text, const struct choice *choices, size_t n,
	uint32_t *ret_value, struct err *err)
{
	const struct choice *choice;
	size_t size;

	*ret_value = 0;
	for (;; text += size + 1) {
		size = strcspn(text, ",");
		choice = find_choice(choices, n, text, size);
		if (!choice)
			return unknown_choice(key, text, size, choices, n, err);
		*ret_value |= choice->value;
		if (text[size] == '\0')
			return 0;
	}
}

static int set_select_param(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	static const struct choice choices[] = {
		{"CR_CPU", CR_CPU},
		{"CR_CPU_Memory", CR_CPU | CR_MEMORY},
		{"CR_Core", CR_CORE},
		{"CR_Core_Memory", CR_CORE | CR_MEMORY},
		{"CR_Socket", CR_SOCKET},
		{"CR_Socket_Memory", CR_SOCKET | CR_MEMORY},
		{"CR_Memory", CR_MEMORY},
		{"CR_ONE_TASK_PER_CORE", CR_ONE_TASK_PER_CORE},
		{"CR_CORE_DEFAULT_DIST_BLOCK", CR_CORE_DEFAULT_DIST_BLOCK},
		{"CR_LLN", CR_LLN},
		{"CR_Pack_Nodes", CR_PACK_NODES},
		{"CR_Least_Preempt", CR_LEAST_PREEMPT},
	};

	uint32_t *param = &((struct conf *)record)->select_type_param;
	uint32_t unit;
	int ret = parse_choices(
		"SelectTypeParameters", value, choices, ARRAY_SIZE(choices), param, err);

	unit = *param & (CR_CPU | CR_CORE | CR_SOCKET);
	return ret == 0 && unit & (unit - 1)
		? bad_value("SelectTypeParameters", value,
			  "with one of CR_CPU, CR_Core and CR_Socket at most", err)
		: ret;
}

static bool lists_name(const char *text, const char *name)
{
	size_t size;

	for (;; text += size + 1) {
		size = strcspn(text, ",");
		if (size == strlen(name) && strncasecmp(text, name, size) == 0)
			return true;
		if (text[size] == '\0')
			return false;
	}
}

static int parse_preempt_mode(const char *value, uint16_t *ret_mode, struct err *err)
{
	static const struct choice choices[] = {
		{"OFF", PREEMPT_MODE_OFF},
		{"CANCEL", PREEMPT_MODE_CANCEL},
		{"REQUEUE", PREEMPT_MODE_REQUEUE},
		{"SUSPEND", PREEMPT_MODE_SUSPEND},
		{"GANG", PREEMPT_MODE_GANG},
	};
	uint32_t mode;
	int r = parse_choices("PreemptMode", value, choices, ARRAY_SIZE(choices), &mode, err);
	uint32_t how = mode & ~PREEMPT_MODE_GANG;

	if (r == 0 && ((how & (how - 1)) || (how && lists_name(value, "OFF"))))
		r = bad_value("PreemptMode", value,
			"one of OFF, CANCEL, REQUEUE and SUSPEND, with GANG or "
			"without",
			err);
	if (r == 0)
		*ret_mode = (uint16_t)mode;
	return r;
}

static int note_place(struct reader *r, struct conf_place *ret_place);

/* Combinations are checked at the end. */
static int note_preemption(struct reader *r, struct conf *conf, struct err *err)
{
	return note_place(r, &conf->preempt_place) < 0 ? err_set(err, -ENOMEM, "read it") : 0;
}

static int set_cluster_preempt(struct reader *r, void *record, const char *value, struct err *err)
{
	int ret = parse_preempt_mode(value, &((struct conf *)record)->preempt_mode, err);

	return ret < 0 ? ret : note_preemption(r, record, err);
}

/* Of a partition or a QOS: GANG is the cluster's, and alone no mode of its own. */
static int set_own_mode(uint16_t *mode, bool *names_gang, const char *value, struct err *err)
{
	uint16_t given = NO_VAL16;
	int r = strcasecmp(value, "GANG") == 0 ? 0 : parse_preempt_mode(value, &given, err);

	if (r < 0)
		return r;
	*names_gang = lists_name(value, "GANG");
	*mode = given == NO_VAL16 ? given : given & (uint16_t)~PREEMPT_MODE_GANG;
	return 0;
}

static int set_part_preempt(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct conf_part *part = record;

	return set_own_mode(&part->preempt_mode, &part->names_gang, value, err);
}

static int set_qos_preempt_mode(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct conf_qos *qos = record;

	if (strcasecmp(value, "cluster") == 0)
		return 0;
	return set_own_mode(&qos->preempt_mode, &qos->names_gang, value, err);
}

static int leave_out(struct reader *r, const char *key);

/* "A,B"; names that jobd does not use are reported like keys. */
static int set_qos_flags(struct reader *r, void *record, const char *value, struct err *err)
{
	static const struct choice choices[] = {
		{"PartitionMinNodes", QOS_FLAG_PART_MIN_NODE},
		{"PartitionMaxNodes", QOS_FLAG_PART_MAX_NODE},
		{"PartitionTimeLimit", QOS_FLAG_PART_TIME_LIMIT},
		{"RequiresReservation", QOS_FLAG_REQ_RESV},
		{"DenyOnLimit", 0},
		{"EnforceUsageThreshold", 0},
		{"NoDecay", 0},
		{"NoReserve", 0},
		{"OverPartQOS", 0},
		{"Relative", 0},
		{"UsageFactorSafe", 0},
	};
	struct conf_qos *qos = record;
	const struct choice *choice;
	size_t size;

	for (;; value += size + 1) {
		size = strcspn(value, ",");
		choice = find_choice(choices, ARRAY_SIZE(choices), value, size);
		if (!choice)
			return unknown_choice(
				"Flags", value, size, choices, ARRAY_SIZE(choices), err);
		qos->flags |= choice->value;
		if (!choice->value && leave_out(r, choice->name) < 0)
			return err_set(err, -ENOMEM, "read it");
		if (value[size] == '\0')
			return 0;
	}
}

/* "select/linear": the name becomes a part of a file's. */
static int set_plugin(
	char **field, const char *key, const char *kind, const char *value, struct err *err)
{
	static const char plugin_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	size_t size = strlen(kind);

	if (strncmp(value, kind, size) != 0 || value[size] != '/' || !value[size + 1] ||
		strspn(value + size + 1, plugin_letters) != strlen(value + size + 1))
		return err_set_text(err, -EINVAL, "%s=%.200s: must be %s/NAME", key, value, kind);
	return set_text(field, value + size + 1, err);
}

static int set_select_type(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	return set_plugin(
		&((struct conf *)record)->select_type, "SelectType", "select", value, err);
}

static int set_preempt_type(struct reader *r, void *record, const char *value, struct err *err)
{
	int ret = set_plugin(
		&((struct conf *)record)->preempt_type, "PreemptType", "preempt", value, err);

	return ret < 0 ? ret : note_preemption(r, record, err);
}

static int set_priority_type(
	_unused_ struct reader *r, _unused_ void *record, const char *value, struct err *err)
{
	return strcmp(value, "priority/basic") == 0
		? 0
		: bad_value("PriorityType", value, "priority/basic in jobd", err);
}

static int set_scheduler_type(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct conf *conf = record;

	conf->backfill = strcmp(value, "sched/backfill") == 0;
	return conf->backfill || strcmp(value, "sched/builtin") == 0
		? 0
		: bad_value("SchedulerType", value, "sched/backfill or sched/builtin", err);
}

static int set_enforce(_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	static const struct choice choices[] = {{"NO", 0}, {"YES", 1}, {"ALL", 1}, {"ANY", 1}};
	uint32_t yes = 0;
	int ret = parse_choice("EnforcePartLimits", value, choices, ARRAY_SIZE(choices), &yes, err);

	if (ret == 0)
		((struct conf *)record)->enforce_part_limits = yes;
	return ret;
}

/* ---- SchedulerParameters ------------------------------------------------------------------------
 */

#define SCHEDULER(field) offsetof(struct conf_scheduler, field)

static const struct key scheduler_keys[] = {
	{.name = "default_queue_depth",
		.type = TYPE_U32,
		.offset = SCHEDULER(default_queue_depth),
		.least = 1,
		.change = CHANGE_TAKEN},
	{.name = "preempt_reorder_count",
		.type = TYPE_U16,
		.offset = SCHEDULER(preempt_reorder_count),
		.change = CHANGE_TAKEN},
	{.name = "bf_interval",
		.type = TYPE_U32,
		.offset = SCHEDULER(bf_interval_s),
		.least = 1,
		.most = 10800,
		.change = CHANGE_TAKEN},
	{.name = "bf_window",
		.type = TYPE_U32,
		.offset = SCHEDULER(bf_window_min),
		.least = 1,
		.most = 43200,
		.change = CHANGE_TAKEN},
	{.name = "bf_resolution",
		.type = TYPE_U32,
		.offset = SCHEDULER(bf_resolution_s),
		.least = 1,
		.most = 3600,
		.change = CHANGE_TAKEN},
	{.name = "bf_max_job_test",
		.type = TYPE_U32,
		.offset = SCHEDULER(bf_max_job_test),
		.least = 1,
		.most = 1000000,
		.change = CHANGE_TAKEN},
	{.name = "bf_max_job_user",
		.type = TYPE_U32,
		.offset = SCHEDULER(bf_max_job_user),
		.change = CHANGE_TAKEN},
	{.name = "sched_interval",
		.type = TYPE_U32,
		.offset = SCHEDULER(sched_interval_s),
		.least = 1,
		.change = CHANGE_TAKEN},
};

static const struct {
	const char *name;
	size_t offset;
} scheduler_flags[] = {
	{"defer", SCHEDULER(defer)},
	{"bf_continue", SCHEDULER(bf_continue)},
	{"preempt_send_user_signal", SCHEDULER(preempt_send_user_signal)},
	{"preempt_strict_order", SCHEDULER(preempt_strict_order)},
	{"preempt_youngest_first", SCHEDULER(preempt_youngest_first)},
};

/* "name=value" or "name". There are too many of them to know all names. */
static int set_scheduler_param(
	struct reader *r, struct conf_scheduler *s, char *text, struct err *err)
{
	char *value = strchr(text, '=');
	size_t i;

	if (value)
		*value++ = '\0';
	for (i = 0; i < ARRAY_SIZE(scheduler_flags); i++) {
		if (strcasecmp(scheduler_flags[i].name, text) != 0)
			continue;
		if (value)
			return err_set_text(err, -EINVAL,
				"SchedulerParameters: %s must have no value",
				scheduler_flags[i].name);
		*(bool *)(void *)((char *)s + scheduler_flags[i].offset) = true;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(scheduler_keys); i++) {
		if (strcasecmp(scheduler_keys[i].name, text) == 0)
			return set_value(r, &scheduler_keys[i], s, value ? value : "", err);
	}
	return leave_out(r, text) < 0 ? err_set(err, -ENOMEM, "read it") : 0;
}

static int set_scheduler_params(struct reader *r, void *record, const char *value, struct err *err)
{
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy, *one;
	int ret = copy ? 0 : err_set(err, -ENOMEM, "read it");

	while (ret == 0 && (one = strsep(&rest, ",")))
		ret = *one ? set_scheduler_param(r, &((struct conf *)record)->scheduler, one, err)
			   : 0;
	return ret;
}

/* The same parameters by their newer names, "strict_order" for "preempt_strict_order". */
static int set_preempt_params(struct reader *r, void *record, const char *value, struct err *err)
{
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy, *one;
	int ret = copy ? 0 : err_set(err, -ENOMEM, "read it");

	while (ret == 0 && (one = strsep(&rest, ","))) {
		_cleanup_free_ char *name = NULL;

		if (!*one)
			continue;
		if (asprintf(&name, "preempt_%s", one) < 0) {
			name = NULL;
			return err_set(err, -ENOMEM, "read it");
		}
		ret = set_scheduler_param(r, &((struct conf *)record)->scheduler, name, err);
	}
	return ret;
}

/* ---- of partitions and nodes -------------------------------------------------------------------
 */

#define SHARE_DEFAULT 4 /* jobs on a resource with YES and FORCE */

static int set_share(_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct conf_part *part = record;
	const char *colon = strchr(value, ':');
	size_t size = colon ? (size_t)(colon - value) : strlen(value);
	bool force = strncasecmp(value, "FORCE", size) == 0 && size == 5;
	uint32_t n = SHARE_DEFAULT;

	if (!colon && strcasecmp(value, "NO") == 0)
		part->max_share = 1;
	else if (!colon && strcasecmp(value, "EXCLUSIVE") == 0)
		part->max_share = 0;
	else if ((force || (strncasecmp(value, "YES", size) == 0 && size == 3)) &&
		(!colon || parse_u32(colon + 1, 1, SHARED_FORCE - 1, &n) == 0))
		part->max_share = (uint16_t)(n | (force ? SHARED_FORCE : 0));
	else
		return bad_value(
			"OverSubscribe", value, "NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT]", err);
	return 0;
}

static int set_groups(_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct strv *groups = &((struct conf_part *)record)->allow_groups;
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy, *one;
	int ret = copy ? 0 : -ENOMEM;

	strv_clear(groups);
	if (strcasecmp(value, "ALL") == 0)
		return 0;
	while (ret == 0 && (one = strsep(&rest, ",")))
		ret = *one ? strv_add(groups, one) : 0;
	return ret < 0 ? err_set(err, ret, "read it") : 0;
}

static int set_part_state(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	struct conf_part *part = record;
	bool drained = strcasecmp(value, "DRAIN") == 0, up = strcasecmp(value, "UP") == 0;

	if (!drained && !up && strcasecmp(value, "DOWN") != 0 && strcasecmp(value, "INACTIVE") != 0)
		return bad_value("State", value, "UP, DOWN, DRAIN or INACTIVE", err);
	part->is_drained = drained || strcasecmp(value, "INACTIVE") == 0; /* takes no new job */
	part->is_up = up || drained;
	return 0;
}

static int set_node_state(
	_unused_ struct reader *r, void *record, const char *value, struct err *err)
{
	static const struct choice choices[] = {
		{"UNKNOWN", NODE_STATE_IDLE},
		{"IDLE", NODE_STATE_IDLE},
		{"CLOUD", NODE_STATE_IDLE},
		{"DOWN", NODE_STATE_DOWN},
		{"FAIL", NODE_STATE_DOWN},
		{"FAILING", NODE_STATE_IDLE | NODE_STATE_DRAIN},
		{"DRAIN", NODE_STATE_IDLE | NODE_STATE_DRAIN},
		{"FUTURE", NODE_STATE_UNKNOWN},
	};

	return parse_choice("State", value, choices, ARRAY_SIZE(choices),
		&((struct conf_node *)record)->state, err);
}

/* ---- the keys of each line ----------------------------------------------------------------------
 */

#define CONF(field) offsetof(struct conf, field)
#define NODE(field) offsetof(struct conf_node, field)
#define PART(field) offsetof(struct conf_part, field)
#define QOS(field)  offsetof(struct conf_qos, field)

static bool part_nodes_differ(const void *old_record, const void *record)
{
	const struct conf_part *a = old_record, *b = record;

	return !bit_equal(a->nodes, b->nodes);
}

static const struct key cluster_keys[] = {
	{.name = "ClusterName", .type = TYPE_TEXT, .offset = CONF(cluster_name)},
	{.name = "DefMemPerCPU",
		.type = TYPE_CPU_MB,
		.offset = CONF(def_mem),
		.change = CHANGE_TAKEN},
	{.name = "DefMemPerNode",
		.type = TYPE_MOST_MB,
		.offset = CONF(def_mem),
		.change = CHANGE_TAKEN},
	{.name = "EnforcePartLimits", .type = TYPE_OWN, .set = set_enforce, .change = CHANGE_TAKEN},
	{.name = "FirstJobId", .type = TYPE_U32, .offset = CONF(first_job_id), .least = 1},
	{.name = "JobRequeue",
		.type = TYPE_BOOL,
		.offset = CONF(job_requeue),
		.change = CHANGE_TAKEN},
	{.name = "KillWait", .type = TYPE_U32, .offset = CONF(kill_wait_s), .change = CHANGE_TAKEN},
	{.name = "MaxArraySize",
		.type = TYPE_U32,
		.offset = CONF(max_array_size),
		.least = 0,
		.most = 4000001,
		.change = CHANGE_TAKEN},
	{.name = "MaxJobCount",
		.type = TYPE_U32,
		.offset = CONF(max_job_count),
		.least = 1,
		.change = CHANGE_TAKEN},
	{.name = "MaxJobId",
		.type = TYPE_U32,
		.offset = CONF(max_job_id),
		.least = 1,
		.change = CHANGE_TAKEN},
	{.name = "MaxMemPerCPU",
		.type = TYPE_CPU_MB,
		.offset = CONF(max_mem),
		.change = CHANGE_TAKEN},
	{.name = "MaxMemPerNode",
		.type = TYPE_MOST_MB,
		.offset = CONF(max_mem),
		.change = CHANGE_TAKEN},
	{.name = "MinJobAge",
		.type = TYPE_U32,
		.offset = CONF(min_job_age_s),
		.change = CHANGE_TAKEN},
	{.name = "PreemptExemptTime",
		.type = TYPE_SECONDS,
		.offset = CONF(preempt_exempt_time_s),
		.change = CHANGE_TAKEN},
	{.name = "PreemptMode",
		.type = TYPE_OWN,
		.set = set_cluster_preempt,
		.offset = CONF(preempt_mode),
		.stored = TYPE_U16},
	{.name = "PreemptParameters",
		.type = TYPE_OWN,
		.set = set_preempt_params,
		.change = CHANGE_TAKEN},
	{.name = "PreemptType",
		.type = TYPE_OWN,
		.set = set_preempt_type,
		.offset = CONF(preempt_type),
		.stored = TYPE_TEXT},
	{.name = "PriorityType",
		.type = TYPE_OWN,
		.set = set_priority_type,
		.change = CHANGE_TAKEN},
	{.name = "SchedulerParameters",
		.type = TYPE_OWN,
		.set = set_scheduler_params,
		.change = CHANGE_TAKEN},
	{.name = "SchedulerTimeSlice",
		.type = TYPE_U32,
		.offset = CONF(sched_time_slice_s),
		.least = 5,
		.most = 65533,
		.change = CHANGE_TAKEN},
	{.name = "SchedulerType",
		.type = TYPE_OWN,
		.set = set_scheduler_type,
		.change = CHANGE_TAKEN},
	{.name = "SelectType",
		.type = TYPE_OWN,
		.set = set_select_type,
		.offset = CONF(select_type),
		.stored = TYPE_TEXT},
	{.name = "SelectTypeParameters",
		.type = TYPE_OWN,
		.set = set_select_param,
		.offset = CONF(select_type_param),
		.stored = TYPE_U32},
	{.name = "StateSaveLocation", .type = TYPE_TEXT, .offset = CONF(state_save_location)},
};

static const struct key node_keys[] = {
	{.name = "CPUs",
		.type = TYPE_U16,
		.offset = NODE(cpus),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "Procs",
		.type = TYPE_U16,
		.offset = NODE(cpus),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "CoresPerSocket",
		.type = TYPE_U16,
		.offset = NODE(cores_per_socket),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "Feature", .type = TYPE_TEXT, .offset = NODE(features), .change = CHANGE_TAKEN},
	{.name = "Features", .type = TYPE_TEXT, .offset = NODE(features), .change = CHANGE_TAKEN},
	{.name = "MemSpecLimit", .type = TYPE_MB, .offset = NODE(mem_spec_limit)},
	{.name = "RealMemory",
		.type = TYPE_MB,
		.offset = NODE(real_memory),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "Reason", .type = TYPE_TEXT, .offset = NODE(reason), .change = CHANGE_TAKEN},
	{.name = "Sockets",
		.type = TYPE_U16,
		.offset = NODE(sockets),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "State", .type = TYPE_OWN, .set = set_node_state, .change = CHANGE_TAKEN},
	{.name = "ThreadsPerCore",
		.type = TYPE_U16,
		.offset = NODE(threads_per_core),
		.least = 1,
		.change = CHANGE_REFUSED},
	{.name = "Weight", .type = TYPE_U32, .offset = NODE(weight), .change = CHANGE_TAKEN},
};

static const struct key part_keys[] = {
	{.name = "AllowGroups", .type = TYPE_OWN, .set = set_groups, .change = CHANGE_TAKEN},
	{.name = "Default", .type = TYPE_BOOL, .offset = PART(is_default), .change = CHANGE_TAKEN},
	{.name = "DefaultTime",
		.type = TYPE_MINUTES,
		.offset = PART(default_time_min),
		.change = CHANGE_TAKEN},
	{.name = "DefMemPerCPU",
		.type = TYPE_CPU_MB,
		.offset = PART(def_mem),
		.change = CHANGE_TAKEN},
	{.name = "DefMemPerNode",
		.type = TYPE_MOST_MB,
		.offset = PART(def_mem),
		.change = CHANGE_TAKEN},
	{.name = "GraceTime",
		.type = TYPE_U32,
		.offset = PART(grace_time_s),
		.change = CHANGE_TAKEN},
	{.name = "Hidden", .type = TYPE_BOOL, .offset = PART(is_hidden), .change = CHANGE_TAKEN},
	{.name = "MaxMemPerCPU",
		.type = TYPE_CPU_MB,
		.offset = PART(max_mem),
		.change = CHANGE_TAKEN},
	{.name = "MaxMemPerNode",
		.type = TYPE_MOST_MB,
		.offset = PART(max_mem),
		.change = CHANGE_TAKEN},
	{.name = "MaxNodes", .type = TYPE_COUNT, .offset = PART(max_nodes), .change = CHANGE_TAKEN},
	{.name = "MaxTime",
		.type = TYPE_MINUTES,
		.offset = PART(max_time_min),
		.change = CHANGE_TAKEN},
	{.name = "MinNodes", .type = TYPE_U32, .offset = PART(min_nodes), .change = CHANGE_TAKEN},
	{.name = "Nodes",
		.type = TYPE_TEXT,
		.offset = PART(nodes_text),
		.change = CHANGE_REFUSED,
		.differs = part_nodes_differ},
	{.name = "OverSubscribe", .type = TYPE_OWN, .set = set_share, .change = CHANGE_TAKEN},
	{.name = "PreemptMode", .type = TYPE_OWN, .set = set_part_preempt, .change = CHANGE_TAKEN},
	{.name = "PriorityJobFactor",
		.type = TYPE_U16,
		.offset = PART(priority_job_factor),
		.change = CHANGE_TAKEN},
	{.name = "PriorityTier",
		.type = TYPE_U16,
		.offset = PART(priority_tier),
		.change = CHANGE_TAKEN},
	{.name = "RootOnly",
		.type = TYPE_BOOL,
		.offset = PART(is_root_only),
		.change = CHANGE_TAKEN},
	{.name = "Shared", .type = TYPE_OWN, .set = set_share, .change = CHANGE_TAKEN},
	{.name = "State", .type = TYPE_OWN, .set = set_part_state, .change = CHANGE_TAKEN},
};

static const struct key qos_keys[] = {
	{.name = "Flags", .type = TYPE_OWN, .set = set_qos_flags},
	{.name = "GraceTime", .type = TYPE_U32, .offset = QOS(grace_time_s)},
	{.name = "Preempt", .type = TYPE_TEXT, .offset = QOS(preempts_text)},
	{.name = "PreemptExemptTime", .type = TYPE_SECONDS, .offset = QOS(exempt_time_s)},
	{.name = "PreemptMode", .type = TYPE_OWN, .set = set_qos_preempt_mode},
	{.name = "Priority", .type = TYPE_U32, .offset = QOS(priority)},
};

/* ---- lines --------------------------------------------------------------------------------------
 */

struct reader {
	struct conf *conf;
	struct conf_node node; /* what NodeName=DEFAULT has set */
	struct conf_part part;
	size_t nodes_capacity;
	const struct conf_line *line; /* that is being read */
};

/* A kind of line: what its other keys are. */
struct line_kind {
	const struct key *keys;
	size_t keys_count;
	const char *const *others; /* keys that jobd has no use for */
	size_t others_count;
};

static bool is_listed(const char *const *names, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static int leave_out(struct reader *r, const char *key)
{
	struct strv *left_out = &r->conf->left_out;

	return is_listed((const char *const *)left_out->v, left_out->n, key)
		? 0
		: strv_add(left_out, key);
}

/* Lines of a file come one after the other: the last one is most often it. */
static int note_place(struct reader *r, struct conf_place *ret_place)
{
	const struct conf_line *line = r->line;
	struct strv *files = &r->conf->files;
	int i;

	if (files->n == 0 || strcmp(files->v[files->n - 1], line->file) != 0) {
		i = strv_index((const char *const *)files->v, files->n, line->file);
		if (i < 0 && strv_add(files, line->file) < 0)
			return -ENOMEM;
		*ret_place = (struct conf_place){
			.file = (uint32_t)(i < 0 ? files->n - 1 : (size_t)i), .line = line->number};
		return 0;
	}
	*ret_place = (struct conf_place){.file = (uint32_t)files->n - 1, .line = line->number};
	return 0;
}

/* Line 0: a default, which stands nowhere. */
static int prefix_place(const struct conf *conf, const struct conf_place *place, struct err *err)
{
	if (place->line == 0)
		return err ? err->code : -EINVAL;
	return err_prefix(err, "%s:%u", conf->files.v[place->file], place->line);
}

static int take_pair(struct reader *r, const struct line_kind *kind, void *record,
	const struct conf_pair *pair, struct err *err)
{
	size_t i;

	for (i = 0; i < kind->keys_count; i++) {
		if (strcasecmp(kind->keys[i].name, pair->key) == 0)
			return set_value(r, &kind->keys[i], record, pair->value, err);
	}
	if (!is_listed(kind->others, kind->others_count, pair->key))
		return err_set_text(
			err, -EINVAL, "'%.100s' is not a key of such a line", pair->key);
	return leave_out(r, pair->key) < 0 ? err_set(err, -ENOMEM, "read it") : 0;
}

static int take_pairs(struct reader *r, const struct line_kind *kind, void *record,
	const struct conf_line *line, size_t first, struct err *err)
{
	size_t i;
	int ret = 0;

	for (i = first; ret == 0 && i < line->n; i++)
		ret = take_pair(r, kind, record, &line->pairs[i], err);
	return ret;
}

/* ---- nodes --------------------------------------------------------------------------------------
 */

static void node_clear(struct conf_node *node)
{
	free(node->name);
	free(node->features);
	free(node->reason);
	*node = (struct conf_node){.name = NULL};
}

static char *copy_text(const char *text, int *r)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		*r = -ENOMEM;
	return copy;
}

static int node_copy(const struct conf_node *from, const char *name, struct conf_node *to)
{
	int r = 0;

	*to = *from;
	to->name = copy_text(name, &r);
	to->features = copy_text(from->features, &r);
	to->reason = copy_text(from->reason, &r);
	if (r < 0)
		node_clear(to);
	return r;
}

/* Missing numbers of sockets, cores, threads and CPUs follow from the given ones. */
static int complete_node(struct conf_node *node, struct err *err)
{
	bool by_parts = node->sockets || node->cores_per_socket || node->threads_per_core;
	uint64_t cores;

	if (!by_parts)
		node->sockets = node->cpus ? node->cpus : 1;
	node->sockets = node->sockets ? node->sockets : 1;
	node->cores_per_socket = node->cores_per_socket ? node->cores_per_socket : 1;
	node->threads_per_core = node->threads_per_core ? node->threads_per_core : 1;
	cores = (uint64_t)node->sockets * node->cores_per_socket;
	if (cores * node->threads_per_core > UINT16_MAX)
		return err_set_text(
			err, -ERANGE, "%s has more than %u CPUs", node->name, UINT16_MAX);
	if (!node->cpus)
		node->cpus = (uint16_t)(cores * node->threads_per_core);
	if (node->cpus == cores)
		node->threads_per_core = 1; /* a CPU is a core there */
	if (node->cpus != cores * node->threads_per_core)
		return err_set_text(err, -EINVAL,
			"%s: CPUs=%u is neither its cores, %llu, nor its threads, %llu", node->name,
			node->cpus, (unsigned long long)cores,
			(unsigned long long)cores * node->threads_per_core);
	return 0;
}

struct add_node {
	struct reader *r;
	const struct conf_node *like;
	struct err *err;
};

static int add_node(const char *name, void *userdata)
{
	struct add_node *add = userdata;
	struct conf *conf = add->r->conf;
	struct conf_node *grown, *node;
	int ret;

	if (conf->nodes_count == add->r->nodes_capacity) {
		add->r->nodes_capacity = add->r->nodes_capacity ? 2 * add->r->nodes_capacity : 64;
		grown = reallocarray(conf->nodes, add->r->nodes_capacity, sizeof(*grown));
		if (!grown)
			return err_set(add->err, -ENOMEM, "read it");
		conf->nodes = grown;
	}
	node = &conf->nodes[conf->nodes_count];
	ret = node_copy(add->like, name, node);
	if (ret < 0)
		return err_set(add->err, ret, "read it");
	conf->nodes_count++;
	return complete_node(node, add->err);
}

static int take_node(struct reader *r, const struct conf_line *line, struct err *err)
{
	static const struct line_kind kind = {
		node_keys, ARRAY_SIZE(node_keys), other_node_keys, ARRAY_SIZE(other_node_keys)};
	const char *names = line->pairs[0].value;
	struct conf_node node;
	struct add_node add = {.r = r, .like = &node, .err = err};
	int ret;

	if (strcasecmp(names, "DEFAULT") == 0)
		return take_pairs(r, &kind, &r->node, line, 1, err);
	if (node_copy(&r->node, NULL, &node) < 0)
		return err_set(err, -ENOMEM, "read it");
	ret = note_place(r, &node.place) < 0 ? err_set(err, -ENOMEM, "read it") : 0;
	if (ret == 0)
		ret = take_pairs(r, &kind, &node, line, 1, err);
	if (ret == 0 && node.state != NODE_STATE_UNKNOWN) { /* FUTURE: not there yet */
		ret = hostlist_each(names, CONF_NODES_MAX - r->conf->nodes_count, add_node, &add);
		if (ret == -E2BIG)
			ret = err_set_text(
				err, ret, "there are more than %u nodes", CONF_NODES_MAX);
		else if (ret < 0 && !(err && err->code))
			ret = err_set_text(err, ret,
				"NodeName=%.200s: must be a list of nodes, n[1-4]", names);
	}
	node_clear(&node);
	return ret;
}

/* ---- partitions ---------------------------------------------------------------------------------
 */

static void part_clear(struct conf_part *part)
{
	free(part->name);
	free(part->nodes_text);
	FREE_NULL_BITMAP(part->nodes);
	strv_clear(&part->allow_groups);
	*part = (struct conf_part){.name = NULL};
}

static int part_copy(const struct conf_part *from, const char *name, struct conf_part *to)
{
	int r = 0;

	*to = *from;
	to->name = copy_text(name, &r);
	to->nodes_text = copy_text(from->nodes_text, &r);
	to->allow_groups = (struct strv){.v = NULL};
	if (r == 0)
		r = strv_extend(&to->allow_groups, &from->allow_groups);
	if (r < 0)
		part_clear(to);
	return r;
}

int conf_find_part(const struct conf *conf, const char *name)
{
	size_t i;

	for (i = 0; i < conf->parts_count; i++) {
		if (strcmp(conf->parts[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

static int take_part(struct reader *r, const struct conf_line *line, struct err *err)
{
	static const struct line_kind kind = {
		part_keys, ARRAY_SIZE(part_keys), other_part_keys, ARRAY_SIZE(other_part_keys)};
	const char *name = line->pairs[0].value;
	struct conf *conf = r->conf;
	struct conf_part *grown, *part;
	int ret;

	if (strcasecmp(name, "DEFAULT") == 0)
		return take_pairs(r, &kind, &r->part, line, 1, err);
	if (!*name || strpbrk(name, ",/ \t") || conf_find_part(conf, name) >= 0)
		return err_set_text(err, -EINVAL,
			"PartitionName=%.100s: must be a name without commas, slashes and blanks "
			"that no other partition has",
			name);
	grown = reallocarray(conf->parts, conf->parts_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "read it");
	conf->parts = grown;
	if (part_copy(&r->part, name, &grown[conf->parts_count]) < 0)
		return err_set(err, -ENOMEM, "read it");
	part = &grown[conf->parts_count++];
	if (note_place(r, &part->place) < 0)
		return err_set(err, -ENOMEM, "read it");
	ret = take_pairs(r, &kind, part, line, 1, err);
	if (ret == 0 && part->min_nodes > part->max_nodes)
		return err_set_text(err, -EINVAL, "MinNodes=%u: must not be above MaxNodes=%u",
			part->min_nodes, part->max_nodes);
	return ret;
}

/* ---- QOS ----------------------------------------------------------------------------------------
 */

int conf_find_qos(const struct conf *conf, const char *name)
{
	size_t i;

	for (i = 0; i < conf->qos_count; i++) {
		if (strcasecmp(conf->qos[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

static int take_qos_line(const struct conf_line *line, void *userdata, struct err *err)
{
	static const char *const others[] = {"Description"};
	static const struct line_kind kind = {
		qos_keys, ARRAY_SIZE(qos_keys), others, ARRAY_SIZE(others)};
	struct reader *r = userdata;
	struct conf *conf = r->conf;
	struct conf_qos *qos;
	int ret = 0;

	r->line = line;
	if (strcasecmp(line->pairs[0].key, "QOSName") != 0 ||
		conf_find_qos(conf, line->pairs[0].value) >= 0)
		return err_set_text(err, -EINVAL,
			"%.100s=%.100s: the line must begin with QOSName=NAME, each name once",
			line->pairs[0].key, line->pairs[0].value);
	qos = reallocarray(conf->qos, conf->qos_count + 1, sizeof(*qos));
	if (!qos)
		return err_set(err, -ENOMEM, "read it");
	conf->qos = qos;
	qos += conf->qos_count;
	*qos = (struct conf_qos){.preempt_mode = NO_VAL16, .exempt_time_s = CONF_NONE};
	qos->name = copy_text(line->pairs[0].value, &ret);
	if (ret == 0)
		ret = note_place(r, &qos->place);
	if (ret < 0) {
		free(qos->name);
		return err_set(err, ret, "read it");
	}
	conf->qos_count++;
	return take_pairs(r, &kind, qos, line, 1, err);
}

static int find_preempted_qos(struct conf *conf, struct conf_qos *qos, struct err *err)
{
	_cleanup_free_ char *copy = strdup(qos->preempts_text ? qos->preempts_text : "");
	char *rest = copy, *one;
	int i;

	if (!copy)
		return err_set(err, -ENOMEM, "read the QOS");
	qos->preempts = bit_alloc((bitoff_t)conf->qos_count);
	while ((one = strsep(&rest, ","))) {
		if (!*one)
			continue;
		i = conf_find_qos(conf, one);
		if (i < 0) {
			(void)err_set_text(err, -EINVAL, "QOS %s: Preempt=%s: there is no such QOS",
				qos->name, one);
			return prefix_place(conf, &qos->place, err);
		}
		bit_set(qos->preempts, i);
	}
	return 0;
}

static bool has_pair(const struct conf_line *line, const char *key)
{
	size_t i;

	for (i = 0; i < line->n; i++) {
		if (strcasecmp(line->pairs[i].key, key) == 0)
			return true;
	}
	return false;
}

/* Jobs of one could preempt each other in turns, or stand still for each other. */
static int check_qos_loops(const struct conf *conf, struct err *err)
{
	bitoff_t n = (bitoff_t)conf->qos_count, i, k;
	_cleanup_free_ bitstr_t **below = calloc(conf->qos_count + 1, sizeof(bitstr_t *));
	int r = 0;

	if (!below)
		return err_set(err, -ENOMEM, "read the QOS");
	for (i = 0; i < n; i++)
		below[i] = bit_copy(conf->qos[i].preempts);
	for (k = 0; k < n; k++) {
		for (i = 0; i < n; i++) {
			if (bit_test(below[i], k))
				bit_or(below[i], below[k]);
		}
	}
	for (i = 0; r == 0 && i < n; i++) {
		if (!bit_test(below[i], i))
			continue;
		(void)err_set_text(err, -EINVAL,
			"QOS %s: Preempt=%s leads back to it: of two QOS only one may preempt the "
			"other, and none itself",
			conf->qos[i].name, conf->qos[i].preempts_text);
		r = prefix_place(conf, &conf->qos[i].place, err);
	}
	for (i = 0; i < n; i++)
		bit_free(below[i]);
	return r;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static int take_line(const struct conf_line *line, void *userdata, struct err *err)
{
	static const struct line_kind kind = {
		cluster_keys, ARRAY_SIZE(cluster_keys), other_keys, ARRAY_SIZE(other_keys)};
	static const char *const left_out[] = {
		"DownNodes", "FrontendAddr", "FrontendName", "NodeSet", "PowerAction"};
	struct reader *r = userdata;
	const char *key = line->pairs[0].key;

	r->line = line;
	if (strcasecmp(key, "NodeName") == 0)
		return take_node(r, line, err);
	if (strcasecmp(key, "PartitionName") == 0)
		return take_part(r, line, err);
	if (is_listed(left_out, ARRAY_SIZE(left_out), key))
		return leave_out(r, key) < 0 ? err_set(err, -ENOMEM, "read it") : 0;
	if ((has_pair(line, "FirstJobId") || has_pair(line, "MaxJobId")) &&
		note_place(r, &r->conf->ids_place) < 0)
		return err_set(err, -ENOMEM, "read it");
	return take_pairs(r, &kind, r->conf, line, 0, err);
}

struct node_name {
	const char *name;
	size_t index;
};

/* Of two of a name the one that was configured first comes first. */
static int compare_entries(const void *a, const void *b)
{
	const struct node_name *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : (x->index > y->index) - (x->index < y->index);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct node_name *)a)->name, ((const struct node_name *)b)->name);
}

struct name_table {
	struct node_name *v;
	size_t n;
};

static int make_name_table(const struct conf *conf, struct name_table *table, struct err *err)
{
	size_t i;

	table->n = conf->nodes_count;
	table->v = calloc(table->n + 1, sizeof(*table->v));
	if (!table->v)
		return err_set(err, -ENOMEM, "read the nodes");
	for (i = 0; i < table->n; i++)
		table->v[i] = (struct node_name){.name = conf->nodes[i].name, .index = i};
	qsort(table->v, table->n, sizeof(*table->v), compare_entries);
	for (i = 1; i < table->n; i++) {
		if (strcmp(table->v[i - 1].name, table->v[i].name) != 0)
			continue;
		(void)err_set_text(err, -EEXIST, "node %s is defined twice", table->v[i].name);
		return prefix_place(conf, &conf->nodes[table->v[i].index].place, err);
	}
	return 0;
}

struct set_nodes {
	const struct name_table *table;
	struct conf_part *part;
	struct err *err;
};

static int set_node(const char *name, void *userdata)
{
	struct set_nodes *set = userdata;
	const struct node_name wanted = {.name = name};
	const struct node_name *found =
		bsearch(&wanted, set->table->v, set->table->n, sizeof(wanted), compare_names);

	if (!found)
		return err_set_text(set->err, -ENOENT, "partition %s: there is no node '%.100s'",
			set->part->name, name);
	bit_set(set->part->nodes, (bitoff_t)found->index);
	return 0;
}

static int find_part_nodes(const struct conf *conf, const struct name_table *table,
	struct conf_part *part, struct err *err)
{
	struct set_nodes set = {.table = table, .part = part, .err = err};
	int r;

	part->nodes = bit_alloc((bitoff_t)conf->nodes_count);
	if (!part->nodes_text || !*part->nodes_text)
		return 0;
	if (strcasecmp(part->nodes_text, "ALL") == 0) {
		bit_set_all(part->nodes);
		return 0;
	}
	r = hostlist_each(part->nodes_text, CONF_NODES_MAX, set_node, &set);
	if (r < 0 && !(err && err->code))
		(void)err_set_text(err, r,
			"partition %s: Nodes=%.200s: must be a list of nodes, n[1-4]", part->name,
			part->nodes_text);
	return r < 0 ? prefix_place(conf, &part->place, err) : 0;
}

/* The PreemptMode of a line: the cluster's, a partition's or that of a QOS. */
struct own_mode {
	const char *kind, *name;
	uint16_t mode; /* NO_VAL16: the cluster's */
	bool names_gang;
	uint32_t grace_time_s;
	const struct conf_place *place;
};

/* First the cluster's, then the partitions', then the QOS. False: there are no more. */
static bool get_own_mode(const struct conf *conf, size_t i, struct own_mode *ret)
{
	if (i == 0) {
		*ret = (struct own_mode){.mode = conf->preempt_mode, .place = &conf->preempt_place};
		return true;
	}
	i--;
	if (i < conf->parts_count) {
		const struct conf_part *part = &conf->parts[i];

		*ret = (struct own_mode){"partition", part->name, part->preempt_mode,
			part->names_gang, part->grace_time_s, &part->place};
		return true;
	}
	i -= conf->parts_count;
	if (i < conf->qos_count) {
		const struct conf_qos *qos = &conf->qos[i];

		*ret = (struct own_mode){"QOS", qos->name, qos->preempt_mode, qos->names_gang,
			qos->grace_time_s, &qos->place};
		return true;
	}
	return false;
}

static bool does_suspend(const struct own_mode *m)
{
	return m->mode != NO_VAL16 && m->mode & PREEMPT_MODE_SUSPEND;
}

/* The first line by which jobs are suspended. */
static bool find_suspension(const struct conf *conf, struct own_mode *ret)
{
	size_t i;

	for (i = 0; get_own_mode(conf, i, ret); i++) {
		if (does_suspend(ret))
			return true;
	}
	return false;
}

static bool has_type(const struct conf *conf, const char *name)
{
	return strcmp(conf->preempt_type, name) == 0;
}

/* Preemption by suspension: who resumes, and by which select plugin. */
static int check_suspension(const struct conf *conf, struct err *err)
{
	struct own_mode m;

	if (!find_suspension(conf, &m))
		return 0;
	if (!(conf->preempt_mode & PREEMPT_MODE_GANG)) {
		(void)err_set_text(err, -EINVAL,
			"PreemptMode=SUSPEND needs GANG in the cluster's PreemptMode: nobody would "
			"resume what is suspended");
		return prefix_place(conf, m.place, err);
	}
	if (has_type(conf, "qos") && strcmp(conf->select_type, "cons_res") != 0 &&
		strcmp(conf->select_type, "cons_tres") != 0) {
		(void)err_set_text(err, -EINVAL,
			"PreemptType=preempt/qos with PreemptMode=SUSPEND needs "
			"SelectType=select/cons_res or select/cons_tres, not select/%s",
			conf->select_type);
		return prefix_place(conf, m.place, err);
	}
	return 0;
}

/* Of a partition or a QOS. */
static int check_own_mode(const struct conf *conf, const struct own_mode *m, struct err *err)
{
	bool of_qos = strcmp(m->kind, "QOS") == 0;

	/* a site's own plugin may use either */
	if (m->mode != NO_VAL16 &&
		(has_type(conf, "none") || has_type(conf, of_qos ? "partition_prio" : "qos")))
		(void)err_set_text(err, -EINVAL,
			"%s %s: PreemptMode needs PreemptType=preempt/%s, but it is preempt/%s: "
			"remove this PreemptMode, or change PreemptType",
			m->kind, m->name, of_qos ? "qos" : "partition_prio", conf->preempt_type);
	else if (m->names_gang && !(conf->preempt_mode & PREEMPT_MODE_GANG))
		(void)err_set_text(err, -EINVAL,
			"%s %s: GANG is an option of the whole cluster: add it to the cluster's "
			"PreemptMode, or remove it here",
			m->kind, m->name);
	else
		return 0;
	return prefix_place(conf, m->place, err);
}

/* The combinations that the guide on preemption allows. */
static int check_preemption(const struct conf *conf, struct err *err)
{
	bool none = has_type(conf, "none");
	uint16_t how = conf->preempt_mode & (uint16_t)~PREEMPT_MODE_GANG;
	struct own_mode m;
	size_t i;
	int r = 0;

	if (none && how != PREEMPT_MODE_OFF)
		(void)err_set_text(err, -EINVAL,
			"PreemptMode has more than GANG, but PreemptType is preempt/none: set "
			"PreemptType to preempt/partition_prio or preempt/qos");
	else if (!none && how == PREEMPT_MODE_OFF)
		(void)err_set_text(err, -EINVAL,
			"PreemptType=preempt/%s needs a PreemptMode of CANCEL, REQUEUE or "
			"SUSPEND,GANG for the cluster",
			conf->preempt_type);
	if (none != (how == PREEMPT_MODE_OFF))
		return prefix_place(conf, &conf->preempt_place, err);
	for (i = 1; r == 0 && get_own_mode(conf, i, &m); i++)
		r = check_own_mode(conf, &m, err);
	return r == 0 ? check_suspension(conf, err) : r;
}

/* What depends on several lines. */
static int check_combinations(const struct conf *conf, struct err *err)
{
	if (conf->first_job_id > conf->max_job_id) {
		(void)err_set_text(err, -EINVAL, "FirstJobId=%u: must not be above MaxJobId=%u",
			conf->first_job_id, conf->max_job_id);
		return prefix_place(conf, &conf->ids_place, err);
	}
	return check_preemption(conf, err);
}

/* ---- what does not do what it seems to ----------------------------------------------------------
 */

static int add_warning(struct strv *warnings, const struct conf *conf,
	const struct conf_place *place, const char *text)
{
	_cleanup_free_ char *line = NULL;

	if (asprintf(&line, "%s:%u: %s", conf->files.v[place->file], place->line, text) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return strv_add(warnings, line);
}

/* The guide on preemption: "Slurm needs to be able to track memory resources to be able to suspend
 * jobs". */
static int warn_of_memory(const struct conf *conf, struct strv *warnings)
{
	struct own_mode m;

	if (conf->select_type_param & CR_MEMORY || !find_suspension(conf, &m))
		return 0;
	return add_warning(warnings, conf, m.place,
		"PreemptMode=SUSPEND, but memory is not counted: nodes may swap when suspended "
		"jobs and those in their place need more than there is; add CR_Memory, or "
		"CR_Core_Memory, to SelectTypeParameters");
}

/* "This option is only honored if PreemptMode=CANCEL." */
static int warn_of_grace(const struct conf *conf, struct strv *warnings)
{
	const char *kind = has_type(conf, "qos")   ? "QOS"
		: has_type(conf, "partition_prio") ? "partition"
						   : "";
	struct own_mode m;
	size_t i;
	int r = 0;

	for (i = 1; r == 0 && get_own_mode(conf, i, &m); i++) {
		uint16_t mode = m.mode == NO_VAL16 ? conf->preempt_mode : m.mode;
		char text[256];

		if (!m.grace_time_s || strcmp(m.kind, kind) != 0 ||
			!(mode & (PREEMPT_MODE_SUSPEND | PREEMPT_MODE_REQUEUE)))
			continue;
		(void)snprintf(text, sizeof(text),
			"%s %.100s: GraceTime has no effect with PreemptMode=%s: it is only "
			"honoured with CANCEL",
			m.kind, m.name, mode & PREEMPT_MODE_SUSPEND ? "SUSPEND" : "REQUEUE");
		r = add_warning(warnings, conf, m.place, text);
	}
	return r;
}

int conf_list_warnings(const struct conf *conf, struct strv *warnings)
{
	int r = warn_of_memory(conf, warnings);

	return r < 0 ? r : warn_of_grace(conf, warnings);
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static int finish(struct conf *conf, const char *file, struct err *err)
{
	struct name_table table = {.v = NULL};
	size_t i;
	int r;

	if (conf->nodes_count == 0 || conf->parts_count == 0)
		return err_set_text(err, -EINVAL,
			"%s: there is no NodeName line, or no PartitionName line", file);
	r = make_name_table(conf, &table, err);
	for (i = 0; r == 0 && i < conf->parts_count; i++)
		r = find_part_nodes(conf, &table, &conf->parts[i], err);
	for (i = 0; r == 0 && i < conf->qos_count; i++)
		r = find_preempted_qos(conf, &conf->qos[i], err);
	if (r == 0)
		r = check_qos_loops(conf, err);
	free(table.v);
	return r < 0 ? r : check_combinations(conf, err);
}

static int set_defaults(struct conf *conf)
{
	int r = 0;

	conf->cluster_name = copy_text("cluster", &r);
	conf->select_type = copy_text("cons_tres", &r);
	conf->preempt_type = copy_text("none", &r);
	conf->job_requeue = true;
	conf->sched_time_slice_s = 30;
	conf->kill_wait_s = 30;
	conf->backfill = true;
	conf->scheduler = (struct conf_scheduler){
		.default_queue_depth = 100,
		.preempt_reorder_count = 1,
		.bf_interval_s = 30,
		.bf_window_min = 1440,
		.bf_resolution_s = 60,
		.bf_max_job_test = 500,
		.sched_interval_s = 60,
	};
	conf->first_job_id = 1;
	conf->max_job_id = 0x03ff0000;
	conf->max_job_count = 10000;
	conf->max_array_size = 1001;
	conf->min_job_age_s = 300;
	return r;
}

typedef int (*read_lines_fn)(const char *file, conf_line_fn fn, void *userdata, struct err *err);

static int read_files(struct reader *r, const char *file, const char *qos_file,
	read_lines_fn read_lines, struct err *err)
{
	int ret = read_lines(file, take_line, r, err);

	if (ret == 0 && qos_file)
		ret = read_lines(qos_file, take_qos_line, r, err);
	if (ret < 0)
		return ret;
	return finish(r->conf, file, err);
}

static int read_conf(const char *file, const char *qos_file, read_lines_fn read_lines,
	struct conf **ret_conf, struct err *err)
{
	_cleanup_conf_ struct conf *conf = calloc(1, sizeof(*conf));
	struct reader r = {
		.conf = conf,
		.node = {.real_memory = 1, .weight = 1, .state = NODE_STATE_IDLE},
		.part = {.is_up = true,
			.min_nodes = 1,
			.max_nodes = CONF_INFINITE,
			.max_time_min = CONF_INFINITE,
			.default_time_min = CONF_NONE,
			.max_share = 1,
			.priority_tier = 1,
			.priority_job_factor = 1,
			.preempt_mode = NO_VAL16,
			.exempt_time_s = CONF_NONE},
	};
	int ret;

	if (!conf || set_defaults(conf) < 0)
		return err_set(err, -ENOMEM, "read '%s'", file);
	ret = read_files(&r, file, qos_file, read_lines, err);
	node_clear(&r.node);
	part_clear(&r.part);
	if (ret == 0)
		*ret_conf = take_ptr(conf);
	return ret;
}

int conf_read(const char *file, const char *qos_file, struct conf **ret_conf, struct err *err)
{
	return read_conf(file, qos_file, conf_lines_read, ret_conf, err);
}

int conf_read_trusted(
	const char *file, const char *qos_file, struct conf **ret_conf, struct err *err)
{
	return read_conf(file, qos_file, conf_lines_read_trusted, ret_conf, err);
}

/* ---- another one in its place -------------------------------------------------------------------
 */

static size_t stored_size(enum type type)
{
	switch (type) {
	case TYPE_U16:
		return sizeof(uint16_t);
	case TYPE_U32:
	case TYPE_COUNT:
	case TYPE_MINUTES:
	case TYPE_SECONDS:
		return sizeof(uint32_t);
	case TYPE_MB:
	case TYPE_MOST_MB:
	case TYPE_CPU_MB:
		return sizeof(uint64_t);
	case TYPE_BOOL:
		return sizeof(bool);
	case TYPE_TEXT:
		return sizeof(char *);
	case TYPE_OWN:
		break;
	}
	return 0;
}

static enum type stored_type(const struct key *key)
{
	return key->type == TYPE_OWN ? key->stored : key->type;
}

static bool key_differs(const struct key *key, const void *old_record, const void *record)
{
	const char *a = (const char *)old_record + key->offset;
	const char *b = (const char *)record + key->offset;
	const char *x, *y;

	if (key->differs)
		return key->differs(old_record, record);
	if (stored_type(key) != TYPE_TEXT)
		return memcmp(a, b, stored_size(stored_type(key))) != 0;
	x = *(char *const *)a;
	y = *(char *const *)b;
	return x && y ? strcmp(x, y) != 0 : x != y;
}

/* Two names of one key, such as CPUs and Procs. */
static bool is_alias(const struct key *keys, const struct key *key)
{
	for (; keys < key; keys++) {
		if (keys->offset == key->offset && keys->change == key->change)
			return true;
	}
	return false;
}

/* Records of one kind of line, of the old and the new configuration. */
struct record_pairs {
	const struct key *keys;
	size_t keys_count;
	void *old_records, *records;
	size_t count, size;
};

/* Whether any of them differs; the new ones become as the old ones are. */
static bool keep_key(const struct record_pairs *pairs, const struct key *key)
{
	size_t size = stored_size(stored_type(key)), i;
	bool differs = false;
	char swap[sizeof(uint64_t)];

	for (i = 0; i < pairs->count; i++) {
		char *a = (char *)pairs->old_records + i * pairs->size;
		char *b = (char *)pairs->records + i * pairs->size;

		if (!key_differs(key, a, b))
			continue;
		differs = true;
		if (key->change != CHANGE_RESTART)
			break;
		memcpy(swap, a + key->offset, size);
		memcpy(a + key->offset, b + key->offset, size);
		memcpy(b + key->offset, swap, size);
	}
	return differs;
}

static int note_key(struct strv *names, const char *name)
{
	return strv_index((const char *const *)names->v, names->n, name) < 0 ? strv_add(names, name)
									     : 0;
}

static int keep_keys(const struct record_pairs *pairs, enum change change, struct strv *names)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < pairs->keys_count; i++) {
		const struct key *key = &pairs->keys[i];

		/* else a new key would be left out in silence */
		assert(key->change == CHANGE_TAKEN || stored_size(stored_type(key)) > 0);
		if (key->change == change && !is_alias(pairs->keys, key) && keep_key(pairs, key))
			r = note_key(names, key->name);
	}
	return r;
}

/* The same nodes and partitions, by number, order and name. */
static int compare_lists(const struct conf *old, const struct conf *now, struct strv *names)
{
	bool nodes = old->nodes_count != now->nodes_count;
	bool parts = old->parts_count != now->parts_count;
	size_t i;
	int r;

	for (i = 0; !nodes && i < old->nodes_count; i++)
		nodes = strcmp(old->nodes[i].name, now->nodes[i].name) != 0;
	for (i = 0; !parts && i < old->parts_count; i++)
		parts = strcmp(old->parts[i].name, now->parts[i].name) != 0;
	r = nodes ? note_key(names, "NodeName") : 0;
	return r == 0 && parts ? note_key(names, "PartitionName") : r;
}

static int keep_all(struct conf *old, struct conf *now, enum change change, struct strv *names)
{
	const struct record_pairs kinds[] = {
		{cluster_keys, ARRAY_SIZE(cluster_keys), old, now, 1, sizeof(*old)},
		{scheduler_keys, ARRAY_SIZE(scheduler_keys), &old->scheduler, &now->scheduler, 1,
			sizeof(old->scheduler)},
		{node_keys, ARRAY_SIZE(node_keys), old->nodes, now->nodes, old->nodes_count,
			sizeof(*old->nodes)},
		{part_keys, ARRAY_SIZE(part_keys), old->parts, now->parts, old->parts_count,
			sizeof(*old->parts)},
	};
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++)
		r = keep_keys(&kinds[i], change, names);
	return r;
}

static int refuse_change(const struct strv *names, struct err *err)
{
	_cleanup_free_ char *text = strv_join(names->v, ' ');

	return err_set_text(err, -EINVAL,
		"nothing was changed: a restart of jobd is needed for another %s",
		text ? text : "list of nodes or partitions");
}

/* The values that have been swapped are in force with the others until a restart: that must be
 * allowed, too. Else they are swapped back. */
static int check_kept(struct conf *old, struct conf *now, struct strv *names, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char what[256];
	int r = check_combinations(now, err);

	if (r == 0)
		return 0;
	text = strv_join(names->v, ' ');
	(void)snprintf(what, sizeof(what),
		"nothing was changed: %.150s stays as it is until a restart, and does not go with "
		"the rest",
		text ? text : "a key");
	(void)err_prefix(err, "%s", what);
	if (keep_all(old, now, CHANGE_RESTART, names) < 0)
		return err_set(err, -ENOMEM, "compare the configurations");
	return r;
}

int conf_keep(struct conf *old, struct conf *now, char **ret_needs_restart, struct err *err)
{
	_cleanup_strv_ struct strv names = {.v = NULL};
	char *text = NULL;
	int r = compare_lists(old, now, &names);

	if (r == 0 && names.n == 0)
		r = keep_all(old, now, CHANGE_REFUSED, &names);
	if (r == 0 && names.n)
		return refuse_change(&names, err);
	if (r == 0)
		r = keep_all(old, now, CHANGE_RESTART, &names);
	if (r < 0)
		return err_set(err, r, "compare the configurations");
	r = names.n ? check_kept(old, now, &names, err) : 0;
	if (r < 0)
		return r;
	if (names.n && !(text = strv_join(names.v, ' ')))
		return err_set(err, -ENOMEM, "compare the configurations");
	*ret_needs_restart = text;
	return 0;
}

int conf_order_nodes(struct conf *conf, const uint32_t *order)
{
	struct conf_node *nodes = reallocarray(NULL, conf->nodes_count + 1, sizeof(*nodes));
	size_t i, k;

	if (!nodes)
		return -ENOMEM;
	for (i = 0; i < conf->nodes_count; i++)
		nodes[i] = conf->nodes[order[i]];
	free(conf->nodes);
	conf->nodes = nodes;
	for (k = 0; k < conf->parts_count; k++) {
		bitstr_t *ordered = bit_alloc((bitoff_t)conf->nodes_count);

		for (i = 0; i < conf->nodes_count; i++) {
			if (bit_test(conf->parts[k].nodes, (bitoff_t)order[i]))
				bit_set(ordered, (bitoff_t)i);
		}
		bit_free(conf->parts[k].nodes);
		conf->parts[k].nodes = ordered;
	}
	return 0;
}

struct conf *conf_free(struct conf *conf)
{
	size_t i;

	if (!conf)
		return NULL;
	for (i = 0; i < conf->nodes_count; i++)
		node_clear(&conf->nodes[i]);
	for (i = 0; i < conf->parts_count; i++)
		part_clear(&conf->parts[i]);
	for (i = 0; i < conf->qos_count; i++) {
		free(conf->qos[i].name);
		free(conf->qos[i].preempts_text);
		FREE_NULL_BITMAP(conf->qos[i].preempts);
	}
	free(conf->nodes);
	free(conf->parts);
	free(conf->qos);
	free(conf->cluster_name);
	free(conf->select_type);
	free(conf->preempt_type);
	free(conf->state_save_location);
	strv_clear(&conf->left_out);
	strv_clear(&conf->files);
	free(conf);
	return NULL;
}
