/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/site_conf.h"

#include <ctype.h>
#include <fcntl.h>
#include <netdb.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/job_namespace.h"
#include "contrib/slurm/spank_check.h"
#include "contrib/slurm/token.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define PORT_DEFAULT  6817u
#define SELECT_LINEAR 102u /* the default */
#define SAMPLE_S      30u
#define SAMPLE_S_MAX  86400u
#define TREE_WIDTH    50u
#define KILL_WAIT_S   30

static const struct {
	const char *name, *field;
} limits[SITE_LIMIT_MAX] = {
	[SITE_LIMIT_CPU] = {"CPU", "cpu"},
	[SITE_LIMIT_FSIZE] = {"FSIZE", "fsize"},
	[SITE_LIMIT_DATA] = {"DATA", "data"},
	[SITE_LIMIT_STACK] = {"STACK", "stack"},
	[SITE_LIMIT_CORE] = {"CORE", "core"},
	[SITE_LIMIT_RSS] = {"RSS", "rss"},
	[SITE_LIMIT_NPROC] = {"NPROC", "nproc"},
	[SITE_LIMIT_NOFILE] = {"NOFILE", "nofile"},
	[SITE_LIMIT_MEMLOCK] = {"MEMLOCK", "memlock"},
	[SITE_LIMIT_AS] = {"AS", "as"},
};

#define ALL_LIMITS ((1u << SITE_LIMIT_MAX) - 1)

const char *site_limit_name(enum site_limit limit)
{
	return limits[limit].name;
}

const char *site_limit_field(enum site_limit limit)
{
	return limits[limit].field;
}

void site_conf_clear(struct site_conf *conf)
{
	free(conf->munge_socket);
	free(conf->mpi_default);
	free(conf->spool_pattern);
	free(conf->tmp_pattern);
	free(conf->cluster);
	free(conf->controller_name);
	free(conf->task_prolog);
	free(conf->task_epilog);
	plugstack_clear(&conf->plugstack);
	free(conf->spank_obstacle);
	strv_clear(&conf->not_served);
	*conf = (struct site_conf){0};
}

/* ---- the keys ------------------------------------------------------------------------------ */

/* While the file is read. */
struct reading {
	struct site_conf *conf;
	/* Of slurmctld, each the last one given; and by the keys of before 18.08, which count if
	 * there is no SlurmctldHost. */
	struct strv hosts;
	char *shared_address, *machine, *address, *backup, *backup_address;
	char *plugstack, *plugin_dirs;
	bool has_token_credentials; /* CredType */
	char *memory_params;        /* of JobAcctGatherParams, with UsePss or NoShared */
	const char *profile_key;    /* of acct_gather.conf, with the default; NULL: no plugin */
	uint32_t port;
};

static int refuse(struct reading *r, const char *key, const char *value)
{
	return strv_addf(&r->conf->not_served, "%s=%s", key, value);
}

static int set_text(char **member, const char *value, size_t size)
{
	free(*member);
	*member = strndup(value, size);
	return *member ? 0 : -ENOMEM;
}

/* "name" or "name(address)": the primary first, then its backups. */
static int take_host(struct reading *r, const char *key, const char *value)
{
	const char *address = strchr(value, '(');
	_cleanup_free_ char *host = NULL;

	if (r->hosts.n == HOSTS_MAX)
		return refuse(r, key, value);
	value = address ? address + 1 : value;
	host = strndup(value, strcspn(value, ")"));
	return host ? strv_add(&r->hosts, host) : -ENOMEM;
}

static int take_machine(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->machine, value, strlen(value));
}

static int take_address(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->address, value, strlen(value));
}

static int take_backup(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->backup, value, strlen(value));
}

static int take_backup_address(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->backup_address, value, strlen(value));
}

static int take_shared_address(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->shared_address, value, strlen(value));
}

/* A number, or a range, of which the first port is as good as any. */
static int take_port(struct reading *r, const char *key, const char *value)
{
	_cleanup_free_ char *first = strndup(value, strcspn(value, "-"));

	if (!first)
		return -ENOMEM;
	return parse_u32(first, 1, UINT16_MAX, &r->port) < 0 ? refuse(r, key, value) : 0;
}

static int take_auth_info(struct reading *r, _unused_ const char *key, const char *value)
{
	static const char name[] = "socket=";
	const char *at = strstr(value, name);

	if (!at)
		return 0;
	at += strlen(name);
	return set_text(&r->conf->munge_socket, at, strcspn(at, ","));
}

static int take_auth_type(struct reading *r, const char *key, const char *value)
{
	r->conf->uses_tokens = strcasecmp(value, "auth/slurm") == 0;
	return r->conf->uses_tokens || strcasecmp(value, "auth/munge") == 0 ? 0
									    : refuse(r, key, value);
}

static int take_cred_type(struct reading *r, const char *key, const char *value)
{
	r->has_token_credentials = slurm_token_is_type(value);
	return r->has_token_credentials || strcasecmp(value, "cred/munge") == 0
		? 0
		: refuse(r, key, value);
}

static int take_user(struct reading *r, const char *key, const char *value)
{
	const struct passwd *pw = getpwnam(value);
	uint32_t uid;

	if (pw)
		uid = pw->pw_uid;
	else if (parse_u32(value, 0, UINT32_MAX - 1, &uid) < 0)
		return refuse(r, key, value);
	r->conf->slurm_user = uid;
	return 0;
}

/* The limits of a list, "ALL" or "NONE". */
static unsigned parse_limits(const char *value)
{
	unsigned found = 0;
	size_t i, n;

	if (strcasecmp(value, "ALL") == 0)
		return ALL_LIMITS;
	for (; *value; value += n + (value[n] == ',')) {
		n = strcspn(value, ",");
		for (i = 0; i < SITE_LIMIT_MAX; i++) {
			if (strlen(limits[i].name) == n &&
				strncasecmp(value, limits[i].name, n) == 0)
				found |= 1u << i;
		}
	}
	return found;
}

static int take_propagated(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->propagated = parse_limits(value);
	return 0;
}

static int take_not_propagated(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->propagated = ALL_LIMITS & ~parse_limits(value);
	return 0;
}

static int take_append(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->appends = strcmp(value, "0") != 0;
	return 0;
}

static int take_proctrack(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->signals_all = strcasecmp(value, "proctrack/cgroup") != 0;
	return 0;
}

static int take_accounting(struct reading *r, const char *key, const char *value)
{
	static const char *const names[] = {
		[SITE_ACCOUNTING_NONE] = "jobacct_gather/none",
		[SITE_ACCOUNTING_LINUX] = "jobacct_gather/linux",
		[SITE_ACCOUNTING_CGROUP] = "jobacct_gather/cgroup",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcasecmp(value, names[i]) == 0) {
			r->conf->accounting = (enum site_accounting)i;
			return 0;
		}
	}
	return refuse(r, key, value);
}

uint32_t site_sample_interval(const char *text, const struct site_conf *conf)
{
	static const char name[] = "task=";
	_cleanup_free_ char *number = NULL;
	const char *at = text ? text : "";
	uint32_t s;

	if (!strchr(at, '=')) /* a number alone is the tasks' */
		number = strdup(at);
	for (; !number && *at; at += strcspn(at, ","), at += *at == ',') {
		if (strncasecmp(at, name, strlen(name)) == 0)
			number = strndup(at + strlen(name), strcspn(at + strlen(name), ","));
	}
	return number && parse_u32(number, 0, SAMPLE_S_MAX, &s) == 0 ? s : conf->sample_s;
}

static int take_frequency(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->sample_s = site_sample_interval(value, r->conf);
	return 0;
}

static int take_mpi(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->conf->mpi_default, value, strlen(value));
}

static int take_spool_dir(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->conf->spool_pattern, value, strlen(value));
}

static int take_tree_width(struct reading *r, const char *key, const char *value)
{
	uint32_t width;

	if (parse_u32(value, 0, UINT16_MAX, &width) < 0)
		return refuse(r, key, value);
	r->conf->tree_width = width ? width : TREE_WIDTH;
	return 0;
}

static int take_kill_wait(struct reading *r, const char *key, const char *value)
{
	return parse_u32(value, 0, UINT16_MAX, &r->conf->kill_wait_s) < 0 ? refuse(r, key, value)
									  : 0;
}

static int take_cluster(struct reading *r, _unused_ const char *key, const char *value)
{
	int e = set_text(&r->conf->cluster, value, strlen(value));
	char *at;

	for (at = r->conf->cluster; at && *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return e;
}

/* Slurm's numbers of these plugins. */
static int take_select(struct reading *r, _unused_ const char *key, const char *value)
{
	static const struct {
		const char *name;
		unsigned number;
	} plugins[] = {{"select/cons_res", 101}, {"select/linear", SELECT_LINEAR},
		{"select/cons_tres", 109}};
	size_t i;

	r->conf->select_plugin = 0;
	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcasecmp(plugins[i].name, value) == 0)
			r->conf->select_plugin = plugins[i].number;
	}
	return 0;
}

static int take_select_parameters(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->packs_nodes = strcasestr(value, "CR_Pack_Nodes");
	return 0;
}

static int take_task_plugin(struct reading *r, const char *key, const char *value)
{
	static const struct {
		const char *name;
		bool binds, limits;
	} plugins[] = {{"task/affinity", true, false}, {"task/cgroup", false, true},
		{"task/none", false, false}};
	const char *at;
	size_t i, n;

	r->conf->binds = r->conf->limits = false;
	for (at = value; *at; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		for (i = 0; i < ARRAY_SIZE(plugins); i++) {
			if (strlen(plugins[i].name) == n &&
				strncasecmp(plugins[i].name, at, n) == 0)
				break;
		}
		if (i == ARRAY_SIZE(plugins))
			return refuse(r, key, value);
		r->conf->binds |= plugins[i].binds;
		r->conf->limits |= plugins[i].limits;
	}
	return 0;
}

static int take_container(struct reading *r, const char *key, const char *value)
{
	r->conf->has_namespaces = job_namespace_is_tmpfs(value);
	return job_namespace_is_other(value) ? refuse(r, key, value) : 0;
}

static int take_profile(struct reading *r, const char *key, const char *value)
{
	static const struct {
		const char *name, *key;
		enum site_profile usual;
	} plugins[] = {
		{"acct_gather_profile/none", NULL, SITE_PROFILE_NEVER},
		{"acct_gather_profile/hdf5", "ProfileHDF5Default", SITE_PROFILE_ASKED},
		{"acct_gather_profile/influxdb", "ProfileInfluxDBDefault", SITE_PROFILE_RELEASE},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcasecmp(plugins[i].name, value) != 0)
			continue;
		r->conf->profile = plugins[i].usual;
		r->profile_key = plugins[i].key;
		return 0;
	}
	return refuse(r, key, value);
}

/* Other plugins have their numbers from slurmd; of several Slurm adds up what it reads. */
static int take_energy(struct reading *r, const char *key, const char *value)
{
	static const struct {
		const char *name;
		enum site_energy energy;
	} plugins[] = {{"none", SITE_ENERGY_NONE}, {"pm_counters", SITE_ENERGY_CRAY},
		{"rapl", SITE_ENERGY_RAPL}};
	static const char prefix[] = "acct_gather_energy/";
	const char *name = value;
	size_t i;

	if (strncasecmp(value, prefix, sizeof(prefix) - 1) == 0)
		name += sizeof(prefix) - 1;
	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcasecmp(plugins[i].name, name) != 0)
			continue;
		r->conf->energy = plugins[i].energy;
		return 0;
	}
	return refuse(r, key, value);
}

/* The plugin's name, of those that are known. */
static int take_gathered(struct reading *r, const char *key, const char *value)
{
	static const struct {
		const char *plugin, *name;
	} plugins[] = {
		{"acct_gather_interconnect/none", NULL},
		{"acct_gather_interconnect/ofed", "ofed"},
		{"acct_gather_interconnect/sysfs", "sysfs"},
		{"acct_gather_filesystem/none", NULL},
		{"acct_gather_filesystem/lustre", "lustre"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcasecmp(plugins[i].plugin, value) != 0)
			continue;
		if (strcasecmp(key, "AcctGatherFilesystemType") == 0)
			r->conf->filesystem = plugins[i].name;
		else
			r->conf->interconnect = plugins[i].name;
		return 0;
	}
	return refuse(r, key, value);
}

static int take_frequency_default(
	struct reading *r, _unused_ const char *key, _unused_ const char *value)
{
	r->conf->sets_frequency = true;
	return 0;
}

static int take_pam(struct reading *r, _unused_ const char *key, const char *value)
{
	static const char *const no[] = {"0", "no", "false", "down"};
	size_t i;

	r->conf->uses_pam = true;
	for (i = 0; i < ARRAY_SIZE(no); i++)
		r->conf->uses_pam &= strcasecmp(value, no[i]) != 0;
	return 0;
}

static int take_tmp(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->conf->tmp_pattern, value, strlen(value));
}

static int take_x11(struct reading *r, _unused_ const char *key, const char *value)
{
	r->conf->has_home_xauthority = strcasestr(value, "home_xauthority") != NULL;
	return 0;
}

static int take_task_prolog(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->conf->task_prolog, value, strlen(value));
}

static int take_task_epilog(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->conf->task_epilog, value, strlen(value));
}

static int take_priority(struct reading *r, const char *key, const char *value)
{
	return parse_u32(value, 0, SITE_PRIORITY_MAX - 1, &r->conf->priority) < 0
		? refuse(r, key, value)
		: 0;
}

static int take_virtual_percent(struct reading *r, const char *key, const char *value)
{
	_cleanup_free_ char *number = strndup(value, strcspn(value, "%"));

	if (!number)
		return -ENOMEM;
	return parse_u32(number, 0, UINT16_MAX, &r->conf->virtual_percent) < 0
		? refuse(r, key, value)
		: 0;
}

static int take_plugstack(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->plugstack, value, strlen(value));
}

static int take_plugin_dirs(struct reading *r, _unused_ const char *key, const char *value)
{
	return set_text(&r->plugin_dirs, value, strlen(value));
}

static bool has_word(const char *list, const char *word, size_t size)
{
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == size && strncasecmp(list, word, n) == 0)
			return true;
	}
	return false;
}

/* Whether each word of value is one of served. */
static bool is_served(const char *served, const char *value)
{
	size_t n;

	for (; *value; value += n + (value[n] == ',')) {
		n = strcspn(value, ",");
		if (n > 0 && !has_word(served, value, n))
			return false;
	}
	return true;
}

/* How memory that processes share is counted: what cgroups count is not changed by it. */
static int take_accounting_params(struct reading *r, const char *key, const char *value)
{
	if (!is_served("NoOverMemoryKill,DisableGPUAcct,UsePss,NoShared,NoShare", value))
		return refuse(r, key, value);
	free(take_ptr(r->memory_params));
	return strcasestr(value, "UsePss") || strcasestr(value, "NoShare")
		? set_text(&r->memory_params, value, strlen(value))
		: 0;
}

static int take_launch_parameters(struct reading *r, const char *key, const char *value)
{
	/* Those of the second line are srun's, of the third those of a plugin of switches. */
	static const char served[] =
		"enable_nss_slurm,send_gids,disable_send_gids,use_interactive_step,"
		"mem_sort,mpir_use_nodeaddr,test_exec,"
		"cray_net_exclusive,lustre_no_flush,"
		"batch_step_set_cpu_freq,ulimit_pam_adopt,"
		"slurmstepd_memlock,slurmstepd_memlock_all";

	if (!is_served(served, value))
		return refuse(r, key, value);
	r->conf->sets_batch_frequency = strcasestr(value, "batch_step_set_cpu_freq") != NULL;
	r->conf->limits_adopted = strcasestr(value, "ulimit_pam_adopt") != NULL;
	r->conf->lock_memory = strcasestr(value, "slurmstepd_memlock_all") ? SITE_LOCK_ALL
		: strcasestr(value, "slurmstepd_memlock")                  ? SITE_LOCK_CURRENT
									   : SITE_LOCK_NONE;
	return 0;
}

/* A key is read, or only some words of its value are served: those between commas. */
static const struct key_row {
	const char *key;
	int (*take)(struct reading *r, const char *key, const char *value);
	const char *served;
} key_rows[] = {
	{"SlurmctldHost", take_host, NULL},
	{"ControlMachine", take_machine, NULL},
	{"ControlAddr", take_address, NULL},
	{"BackupController", take_backup, NULL},
	{"BackupAddr", take_backup_address, NULL},
	{"SlurmctldAddr", take_shared_address, NULL},
	{"SlurmctldPort", take_port, NULL},
	{"AuthInfo", take_auth_info, NULL},
	{"SlurmUser", take_user, NULL},
	{"PropagateResourceLimits", take_propagated, NULL},
	{"PropagateResourceLimitsExcept", take_not_propagated, NULL},
	{"JobFileAppend", take_append, NULL},
	{"MpiDefault", take_mpi, NULL},
	{"ClusterName", take_cluster, NULL},
	{"SelectType", take_select, NULL},
	{"SelectTypeParameters", take_select_parameters, NULL},
	{"ProctrackType", take_proctrack, NULL},
	{"PlugStackConfig", take_plugstack, NULL},
	{"PluginDir", take_plugin_dirs, NULL},
	{"AcctGatherEnergyType", take_energy, NULL},
	{"AcctGatherFilesystemType", take_gathered, NULL},
	{"AcctGatherInterconnectType", take_gathered, NULL},
	{"AcctGatherProfileType", take_profile, NULL},
	{"AuthType", take_auth_type, NULL},
	{"CpuFreqDef", take_frequency_default, NULL},
	{"CredType", take_cred_type, NULL},
	{"HashPlugin", NULL, "hash/k12"},
	{"JobAcctGatherFrequency", take_frequency, NULL},
	{"JobAcctGatherParams", take_accounting_params, NULL},
	{"JobAcctGatherType", take_accounting, NULL},
	{"JobContainerType", take_container, NULL},
	{"KillWait", take_kill_wait, NULL},
	{"LaunchParameters", take_launch_parameters, NULL},
	{"PropagatePrioProcess", take_priority, NULL},
	{"SlurmdSpoolDir", take_spool_dir, NULL},
	{"SwitchType", NULL, "switch/none"},
	{"TaskEpilog", take_task_epilog, NULL},
	{"TaskPlugin", take_task_plugin, NULL},
	{"TaskProlog", take_task_prolog, NULL},
	{"TmpFS", take_tmp, NULL},
	{"TreeWidth", take_tree_width, NULL},
	{"UsePAM", take_pam, NULL},
	{"VSizeFactor", take_virtual_percent, NULL},
	{"X11Parameters", take_x11, NULL},
};

static int take_pair(struct reading *r, const struct conf_pair *pair)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(key_rows); i++) {
		const struct key_row *row = &key_rows[i];

		if (strcasecmp(row->key, pair->key) != 0)
			continue;
		if (row->take)
			return row->take(r, row->key, pair->value);
		return is_served(row->served, pair->value) ? 0 : refuse(r, row->key, pair->value);
	}
	return 0;
}

static int on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct reading *reading = userdata;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < line->n; i++)
		r = take_pair(reading, &line->pairs[i]);
	return r < 0 ? err_set(err, r, "read a line") : 0;
}

char *site_tmp_directory(const struct site_conf *conf, const char *node, const char *host)
{
	const char *at = conf->tmp_pattern ? conf->tmp_pattern : "/tmp";
	char *path = NULL;
	size_t size;
	FILE *out = open_memstream(&path, &size);

	if (!out)
		return NULL;
	for (; *at; at++) {
		if (at[0] == '%' && (at[1] == 'n' || at[1] == 'h'))
			(void)fputs(*++at == 'n' ? node : host, out);
		else
			(void)fputc(*at, out);
	}
	if (fclose(out) != 0)
		free(take_ptr(path));
	return path;
}

/* ---- the files beside it ------------------------------------------------------------------- */

char *site_conf_beside(const char *conf_path, const char *name)
{
	const char *slash = strrchr(conf_path, '/');
	char *path;

	if (asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - conf_path) : 0, conf_path, name) <
		0)
		return NULL;
	return path;
}

static int on_gather_line(const struct conf_line *line, void *userdata, _unused_ struct err *err)
{
	struct reading *r = userdata;
	size_t i;

	for (i = 0; i < line->n; i++) {
		if (strcasecmp(line->pairs[i].key, r->profile_key) == 0)
			r->conf->profile = strcasestr(line->pairs[i].value, "none")
				? SITE_PROFILE_ASKED
				: SITE_PROFILE_DEFAULT;
	}
	return 0;
}

/* What of a step is profiled that says nothing of it. */
static int read_gather_conf(struct reading *r, const char *conf_path, struct err *err)
{
	_cleanup_free_ char *path = site_conf_beside(conf_path, "acct_gather.conf");

	return path ? conf_lines_read_trusted(path, on_gather_line, r, err)
		    : err_set(err, -ENOMEM, "read acct_gather.conf");
}

/* ---- SPANK --------------------------------------------------------------------------------- */

char *site_plugstack_path(const char *given, const char *conf_path)
{
	return given ? strdup(given) : site_conf_beside(conf_path, "plugstack.conf");
}

static int read_plugstack(struct reading *r, const char *conf_path, struct err *err)
{
	_cleanup_free_ char *path = site_plugstack_path(r->plugstack, conf_path);

	if (!path)
		return err_set(err, -ENOMEM, "read plugstack.conf");
	return plugstack_read(path, r->plugin_dirs, &r->conf->plugstack, err);
}

int site_check_spank(struct site_conf *conf, uint32_t version, struct err *err)
{
	char text[ERR_TEXT_SIZE];
	enum spank_use use = spank_check_all(&conf->plugstack, version, text);

	conf->spank_loads = use >= SPANK_USE_LOADED;
	if (use == SPANK_USE_OBSTACLE && set_text(&conf->spank_obstacle, text, strlen(text)) < 0)
		return err_set(err, -ENOMEM, "check the plugins of plugstack.conf");
	return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* 0 or, where it has no IPv4 address, the error of getaddrinfo(3). */
static int add_controller(struct reading *r, const char *host)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct hosts *hosts = &r->conf->controllers;
	struct sockaddr_in *address = &hosts->address[hosts->n];
	struct addrinfo *found = NULL;
	int e = getaddrinfo(host, NULL, &hints, &found);

	if (e)
		return e;
	memcpy(address, found->ai_addr, sizeof(*address));
	freeaddrinfo(found);
	address->sin_port = htons((uint16_t)r->port);
	hosts->n++;
	return 0;
}

/* By the old keys. */
static int add_old_hosts(struct reading *r)
{
	const char *first = r->address ? r->address : r->machine,
		   *second = r->backup_address ? r->backup_address : r->backup;
	int e = r->machine && first ? strv_add(&r->hosts, first) : 0;

	return e == 0 && r->hosts.n > 0 && r->backup && second ? strv_add(&r->hosts, second) : e;
}

/* Backups without an address are left out, as Slurm does it. */
static int find_controllers(struct reading *r, struct err *err)
{
	const char *first;
	size_t i;
	int e;

	if (r->hosts.n == 0 && add_old_hosts(r) < 0)
		return err_set(err, -ENOMEM, "find slurmctld's host");
	first = r->shared_address ? r->shared_address : r->hosts.n ? r->hosts.v[0] : NULL;
	e = first ? add_controller(r, first) : EAI_NONAME;
	if (e)
		return err_set_text(err, -EADDRNOTAVAIL, "find slurmctld's host '%s': %s",
			first ? first : "", gai_strerror(e));
	for (i = 1; i < r->hosts.n && !r->shared_address; i++)
		(void)add_controller(r, r->hosts.v[i]);
	r->conf->controller_name = strdup(first);
	return r->conf->controller_name ? 0 : err_set(err, -ENOMEM, "find slurmctld's host");
}

static void reading_clear(struct reading *r)
{
	strv_clear(&r->hosts);
	free(r->shared_address);
	free(r->machine);
	free(r->address);
	free(r->backup);
	free(r->backup_address);
	free(r->plugstack);
	free(r->plugin_dirs);
	free(r->memory_params);
}

int site_conf_find(const char **path, struct err *err)
{
	if (!*path)
		*path = secure_getenv("SLURM_CONF");
	if (!*path)
		*path = SITE_CONF_DEFAULT;
	return (*path)[0] == '/'
		? 0
		: err_set_text(err, -EINVAL, "SLURM_CONF '%s' is not an absolute path", *path);
}

int site_conf_read(const char *path, struct site_conf *conf, struct err *err)
{
	_cleanup_(reading_clear) struct reading reading = {.conf = conf, .port = PORT_DEFAULT};
	int r = site_conf_find(&path, err);

	if (r < 0)
		return r;
	*conf = (struct site_conf){.propagated = ALL_LIMITS,
		.sample_s = SAMPLE_S,
		.select_plugin = SELECT_LINEAR,
		.tree_width = TREE_WIDTH,
		.kill_wait_s = KILL_WAIT_S};
	r = conf_lines_read_trusted(path, on_line, &reading, err);
	if (r == 0 && reading.memory_params && conf->accounting == SITE_ACCOUNTING_LINUX)
		r = refuse(&reading, "JobAcctGatherParams", reading.memory_params);
	if (r == 0 && conf->uses_tokens != reading.has_token_credentials)
		r = refuse(&reading, "CredType", conf->uses_tokens ? "cred/munge" : "cred/slurm");
	if (r == 0 && reading.profile_key)
		r = read_gather_conf(&reading, path, err);
	if (r == 0)
		r = read_plugstack(&reading, path, err);
	return r == 0 ? find_controllers(&reading, err) : r;
}
