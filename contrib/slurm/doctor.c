/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd-slurm-doctor: the findings of "stepd doctor --slurm", a JSON object a line. What this
 * node's slurm.conf has that concerns a step daemon, what of it would be against serving a step
 * (the reasons of decision.h), what of the node's release, GRES, limits and SPANK plugins is
 * served, and whether steps can be handed over. It changes nothing.
 */
#include <assert.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/decision.h"
#include "contrib/slurm/handover.h"
#include "contrib/slurm/job_namespace.h"
#include "contrib/slurm/settings.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/spank_check.h"
#include "contrib/slurm/spank_file.h"
#include "stepd/base/fs.h"

/* As slurmd looks for it: the last one is slurmctld's copy where nodes have none. */
static const char *const usual_confs[] = {
	"/etc/slurm/slurm.conf",
	"/etc/slurm-llnl/slurm.conf",
	"/usr/local/etc/slurm.conf",
	"/run/slurm/conf/slurm.conf",
};

/* Keys, with what is there if they are not. */
enum conf_key {
	KEY_PROCTRACK,
	KEY_TASK,
	KEY_ACCOUNTING,
	KEY_MPI,
	KEY_PROLOG_FLAGS,
	KEY_SLURMCTLD,
	KEY_NAMESPACE,
	KEY_PROFILE,
	KEY_INTERCONNECT,
	KEY_FILESYSTEM,
	KEY_TRES,
	KEY_FREQUENCY,
	KEY_LAUNCH,
	KEY_TLS,
	KEY_PLUGSTACK,
	KEY_PLUGIN_DIR,
	KEY_GRES,
	KEY_MAX,
};

static const struct {
	const char *name, *usual;
} keys[KEY_MAX] = {
	[KEY_PROCTRACK] = {"ProctrackType", "proctrack/cgroup"},
	[KEY_TASK] = {"TaskPlugin", "task/none"},
	[KEY_ACCOUNTING] = {"JobAcctGatherType", "jobacct_gather/none"},
	[KEY_MPI] = {"MpiDefault", "none"},
	[KEY_PROLOG_FLAGS] = {"PrologFlags", ""},
	[KEY_SLURMCTLD] = {"SlurmctldParameters", ""},
	[KEY_NAMESPACE] = {"NamespaceType", ""},
	[KEY_PROFILE] = {"AcctGatherProfileType", ""},
	[KEY_INTERCONNECT] = {"AcctGatherInterconnectType", ""},
	[KEY_FILESYSTEM] = {"AcctGatherFilesystemType", ""},
	[KEY_TRES] = {"AccountingStorageTRES", ""},
	[KEY_FREQUENCY] = {"CpuFreqDef", ""},
	[KEY_LAUNCH] = {"LaunchParameters", ""},
	[KEY_TLS] = {"TLSType", ""},
	[KEY_PLUGSTACK] = {"PlugStackConfig", ""},
	[KEY_PLUGIN_DIR] = {"PluginDir", ""},
	[KEY_GRES] = {"GresTypes", ""},
};

struct slurm_doctor {
	const char *conf;      /* the file */
	char *values[KEY_MAX]; /* NULL: not given */
	uint32_t version;      /* of Slurm's plugins, as plugin_version has it; 0: not known */
	int error;             /* of writing */
};

static void doctor_clear(struct slurm_doctor *d)
{
	size_t i;

	for (i = 0; i < KEY_MAX; i++)
		free(d->values[i]);
}

/* ---- a finding ----------------------------------------------------------------------------- */

static _printf_(6, 7) void report(struct slurm_doctor *d, const char *level, const char *id,
	const char *value, const char *remedy, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	json_t *finding = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		finding = json_pack("{s:s, s:s, s:s, s:s, s:s}", "level", level, "id", id, "value",
			value, "text", text, "remedy", remedy);
	if (!finding || json_dumpf(finding, stdout, 0) < 0 || putchar('\n') == EOF)
		d->error = -EIO;
	json_decref(finding);
}

/* ---- slurm.conf ---------------------------------------------------------------------------- */

/* Of a key that is given twice the last one counts, as for Slurm. */
static int take_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct slurm_doctor *d = userdata;
	char *value;
	size_t i, k;

	assert(d);
	for (i = 0; i < line->n; i++) {
		for (k = 0; k < KEY_MAX && strcasecmp(line->pairs[i].key, keys[k].name) != 0; k++)
			;
		if (k == KEY_MAX)
			continue;
		value = strdup(line->pairs[i].value);
		if (!value)
			return err_set(err, -ENOMEM, "read slurm.conf");
		free(d->values[k]);
		d->values[k] = value;
	}
	return 0;
}

static const char *find_conf(void)
{
	const char *given = secure_getenv("SLURM_CONF");
	size_t i;

	for (i = 0; !given && i < ARRAY_SIZE(usual_confs); i++) {
		if (access(usual_confs[i], F_OK) == 0)
			given = usual_confs[i];
	}
	return given;
}

static bool read_conf(struct slurm_doctor *d)
{
	struct err err = ERR_INIT;

	d->conf = find_conf();
	if (!d->conf) {
		report(d, "warning", "slurm.conf", "", "name it by SLURM_CONF",
			"there is no slurm.conf in /etc/slurm or another usual place");
		return false;
	}
	if (conf_lines_read(d->conf, take_line, d, &err) < 0) {
		report(d, "warning", "slurm.conf", d->conf, "", "%s", err.text);
		return false;
	}
	report(d, "ok", "slurm.conf", d->conf, "", "the node's Slurm is configured by '%s'",
		d->conf);
	return true;
}

static const char *value_of(const struct slurm_doctor *d, enum conf_key key)
{
	return d->values[key] ? d->values[key] : keys[key].usual;
}

/* Whether a list of words with commas has this one, alone or with a value behind "=". */
static bool has_word(const char *list, const char *word)
{
	size_t size = strlen(word), n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n >= size && strncasecmp(list, word, size) == 0 &&
			(n == size || list[size] == '='))
			return true;
	}
	return false;
}

/* ---- what steps need ----------------------------------------------------------------------- */

static void report_needs(struct slurm_doctor *d)
{
	static const enum conf_key needs[] = {
		KEY_PROCTRACK, KEY_TASK, KEY_ACCOUNTING, KEY_MPI, KEY_PROLOG_FLAGS};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(needs); i++) {
		if (*value_of(d, needs[i]))
			report(d, "note", "slurm.needs", value_of(d, needs[i]), "",
				"a step daemon has to do what %s=%s says%s", keys[needs[i]].name,
				value_of(d, needs[i]),
				d->values[needs[i]] ? "" : ", which is the default");
	}
}

static bool names_plugin(const char *value)
{
	const char *slash = strchr(value, '/');

	return *value && strcasecmp(slash ? slash + 1 : value, "none") != 0;
}

static bool runs_in_job(const char *value)
{
	return has_word(value, "RunInJob");
}

static bool has_step_manager(const char *value)
{
	return has_word(value, "enable_stepmgr");
}

static bool can_set_frequency(const char *value)
{
	return *value && access("/sys/devices/system/cpu/cpu0/cpufreq", F_OK) == 0;
}

static bool can_set_batch_frequency(const char *value)
{
	return has_word(value, "batch_step_set_cpu_freq") && can_set_frequency(value);
}

/* What slurm.conf says of the reasons, and of which steps. */
static const struct {
	enum conf_key key;
	bool (*holds)(const char *value);
	enum slurm_reason reason;
	const char *steps;
} obstacles[] = {
	{KEY_NAMESPACE, job_namespace_is_other, SLURM_REASON_NAMESPACE, "every step"},
	{KEY_PROFILE, names_plugin, SLURM_REASON_PROFILE, "steps that are profiled"},
	{KEY_FREQUENCY, can_set_frequency, SLURM_REASON_FREQUENCY, "every step of srun"},
	{KEY_LAUNCH, can_set_batch_frequency, SLURM_REASON_FREQUENCY, "every batch script"},
	{KEY_TLS, names_plugin, SLURM_REASON_TLS, "every step"},
	{KEY_PROLOG_FLAGS, runs_in_job, SLURM_REASON_PROLOG, "every extern step"},
	{KEY_SLURMCTLD, has_step_manager, SLURM_REASON_STEP_MANAGER,
		"the extern step of a job's first node"},
};

/* Whether there is such a file beside slurm.conf. */
static bool find_neighbour(
	const struct slurm_doctor *d, const char *name, char path[static PATH_MAX])
{
	const char *slash = strrchr(d->conf, '/');
	int dir = slash ? (int)(slash - d->conf + 1) : 0;

	return snprintf(path, PATH_MAX, "%.*s%s", dir, d->conf, name) < PATH_MAX &&
		access(path, F_OK) == 0;
}

/* What a plugin gathers is a TRES by its name: "ic/ofed". */
static void report_usage(struct slurm_doctor *d, enum conf_key key, const char *type)
{
	const char *value = value_of(d, key), *slash = strchr(value, '/');
	_cleanup_free_ char *name = NULL;

	if (!names_plugin(value))
		return;
	if (asprintf(&name, "%s/%s", type, slash ? slash + 1 : value) < 0) {
		name = NULL;
		d->error = -ENOMEM;
		return;
	}
	if (has_word(value_of(d, KEY_TRES), name))
		report(d, "note", "slurm.handover", slurm_reason_name(SLURM_REASON_USAGE), "",
			"by %s=%s and AccountingStorageTRES this is handed over in any case: every "
			"step; %s",
			keys[key].name, value, slurm_reason_text(SLURM_REASON_USAGE));
}

/* What the program itself reads of the file, and refuses. */
static void report_site(struct slurm_doctor *d)
{
	_cleanup_site_conf_ struct site_conf site = {0};
	struct err err = ERR_INIT;
	size_t i;

	if (site_conf_read(d->conf, &site, &err) < 0)
		report(d, "warning", "slurm.handover", slurm_reason_name(SLURM_REASON_SITE),
			"mend it; no step is served before", "every step is handed over: %s",
			err.text);
	for (i = 0; i < site.not_served.n; i++)
		report(d, "note", "slurm.handover", slurm_reason_name(SLURM_REASON_SITE), "",
			"by %s this is handed over in any case: every step; %s",
			site.not_served.v[i], slurm_reason_text(SLURM_REASON_SITE));
}

static void report_obstacles(struct slurm_doctor *d)
{
	const char *value;
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(obstacles); i++) {
		value = value_of(d, obstacles[i].key);
		if (obstacles[i].holds(value))
			report(d, "note", "slurm.handover", slurm_reason_name(obstacles[i].reason),
				"", "by %s=%s this is handed over in any case: %s; %s",
				keys[obstacles[i].key].name, value, obstacles[i].steps,
				slurm_reason_text(obstacles[i].reason));
	}
	report_usage(d, KEY_INTERCONNECT, "ic");
	report_usage(d, KEY_FILESYSTEM, "fs");
	if (find_neighbour(d, "oci.conf", path))
		report(d, "note", "slurm.handover", slurm_reason_name(SLURM_REASON_CONTAINER), "",
			"by oci.conf this is handed over in any case: steps with --container; %s",
			slurm_reason_text(SLURM_REASON_CONTAINER));
}

/* ---- SPANK plugins ------------------------------------------------------------------------- */

static void report_plugin(
	struct slurm_doctor *d, const struct plugstack_plugin *plugin, uint32_t version)
{
	char text[ERR_TEXT_SIZE];

	switch (spank_check(plugin, version, text)) {
	case SPANK_USE_OBSTACLE:
		report(d, "note", "slurm.spank", plugin->path, "",
			"for this plugin every step is handed over: %s", text);
		break;
	case SPANK_USE_LOADED:
		report(d, "ok", "slurm.spank", plugin->path, "", "served steps load it: %s", text);
		break;
	case SPANK_USE_IGNORED:
		report(d, "warning", "slurm.spank", plugin->path,
			"mend or remove its line in plugstack.conf",
			"Slurm goes on without this plugin: %s", text);
		break;
	default:
		report(d, "ok", "slurm.spank", plugin->path, "", "%s", text);
		break;
	}
}

static void report_spank(struct slurm_doctor *d, const char *path, const struct plugstack *stack,
	const struct err *err)
{
	uint32_t version = d->version ? d->version : slurm_release_version(SLURM_22_05);
	size_t i;

	if (err->code) {
		report(d, "warning", "slurm.spank", path, "",
			"for this file every step is handed over: %s", err->text);
		return;
	}
	if (stack->ignored)
		report(d, "warning", "slurm.spank", stack->ignored,
			"a line is 'required|optional PLUGIN ARGUMENT...' or 'include PATTERN'",
			"%s is ignored", stack->ignored);
	for (i = 0; i < stack->n; i++)
		report_plugin(d, &stack->v[i], version);
}

/* ---- the release --------------------------------------------------------------------------- */

/* 0: it is none that is known here. */
static unsigned find_release(const char *text)
{
	unsigned release;
	const char *name;

	for (release = SLURM_22_05; (name = slurm_release_name(release)); release += 256) {
		if (strcmp(name, text) == 0)
			return release;
	}
	return 0;
}

/* As every plugin of Slurm's has it; 0: it is not known. */
static uint32_t find_version(struct slurm_doctor *d, const struct plugstack *stack)
{
	_cleanup_spank_file_ struct spank_file file = {0};
	_cleanup_free_ char *path = NULL;

	if (plugstack_find(stack, SPANK_KNOWN_PLUGIN, &path) < 0) {
		d->error = -ENOMEM;
		return 0;
	}
	if (!path || spank_file_read(path, &file, NULL) < 0)
		return 0;
	return file.version & SPANK_VERSION_MASK;
}

static void report_release(struct slurm_doctor *d)
{
	char text[16];
	bool served;

	if (!d->version) {
		report(d, "note", "slurm.release", "", "",
			"the release of this node's Slurm is not known: no directory of plugins "
			"has %s",
			SPANK_KNOWN_PLUGIN);
		return;
	}
	(void)snprintf(
		text, sizeof(text), "%u.%02u", d->version >> 16 & 0xff, d->version >> 8 & 0xff);
	served = slurm_release_is_served(find_release(text));
	report(d, served ? "ok" : "note", "slurm.release", text, "",
		served ? "steps of this node's Slurm, %s, are served as stepd-slurm(8) has it"
		       : "steps of this node's Slurm, %s, are all handed over",
		text);
}

/* ---- limits -------------------------------------------------------------------------------- */

struct cgroup_reading {
	struct slurm_cgroup_conf conf;
	char *mount, *slice; /* what conf has of the file */
};

static void clear_cgroup_reading(struct cgroup_reading *r)
{
	free(r->mount);
	free(r->slice);
}

static bool is_yes(const char *value)
{
	return strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0 ||
		strcasecmp(value, "up") == 0 || strcmp(value, "1") == 0;
}

static int take_cgroup_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct cgroup_reading *r = userdata;
	const struct {
		const char *key;
		bool *value;
	} rows[] = {
		{"ConstrainCores", &r->conf.constrains_cores},
		{"ConstrainRAMSpace", &r->conf.constrains_memory},
		{"ConstrainSwapSpace", &r->conf.constrains_swap},
		{"ConstrainDevices", &r->conf.constrains_devices},
	};
	struct {
		const char *key;
		char **copy;
		const char **value;
	} texts[] = {
		{"CgroupMountpoint", &r->mount, &r->conf.mount},
		{"CgroupSlice", &r->slice, &r->conf.slice},
	};
	size_t i, k;

	for (i = 0; i < line->n; i++) {
		const struct conf_pair *pair = &line->pairs[i];

		for (k = 0; k < ARRAY_SIZE(rows); k++) {
			if (strcasecmp(pair->key, rows[k].key) == 0)
				*rows[k].value = is_yes(pair->value);
		}
		for (k = 0; k < ARRAY_SIZE(texts); k++) {
			if (strcasecmp(pair->key, texts[k].key) != 0)
				continue;
			free(*texts[k].copy);
			*texts[k].value = *texts[k].copy = strdup(pair->value);
			if (!*texts[k].copy)
				return err_set(err, -ENOMEM, "read cgroup.conf");
		}
	}
	return 0;
}

/* "cores,memory", of those that are constrained. */
static const char *list_limits(const struct slurm_cgroup_conf *c, char text[static 32])
{
	(void)snprintf(text, 32, "%s%s%s%s", c->constrains_cores ? ",cores" : "",
		c->constrains_memory ? ",memory" : "", c->constrains_swap ? ",swap" : "",
		c->constrains_devices ? ",devices" : "");
	return *text ? text + 1 : "none";
}

static void report_constraints(struct slurm_doctor *d, const struct slurm_cgroup_conf *conf)
{
	_cleanup_free_ char *root = NULL;
	struct err err = ERR_INIT;
	char text[32], host[256] = "";
	const char *list = list_limits(conf, text);

	(void)!gethostname(host, sizeof(host) - 1); /* the scope may have no name */
	host[strcspn(host, ".")] = '\0';
	if (strcmp(list, "none") == 0)
		report(d, "note", "slurm.limits", list, "",
			"steps have no limits of task/cgroup: cgroup.conf constrains nothing");
	else if (step_limits_check(conf, host, &root, &err) < 0)
		report(d, "note", "slurm.limits", list, "",
			"for these limits of cgroup.conf steps are handed over: %s", err.text);
	else
		report(d, "ok", "slurm.limits", list, "",
			"served steps have these limits of cgroup.conf%s%s%s", root ? ", in '" : "",
			root ? root : "", root ? "'" : "");
}

static void report_limits(struct slurm_doctor *d)
{
	_cleanup_(clear_cgroup_reading) struct cgroup_reading reading = {
		.conf = {.mount = SLURM_CGROUP_MOUNT, .slice = SLURM_CGROUP_SLICE}};
	struct err err = ERR_INIT;
	char path[PATH_MAX];

	if (!has_word(value_of(d, KEY_TASK), "task/cgroup")) {
		report(d, "note", "slurm.limits", "none", "",
			"steps have no limits of cores, memory and devices: TaskPlugin has no "
			"task/cgroup");
		return;
	}
	if (find_neighbour(d, "cgroup.conf", path) &&
		conf_lines_read(path, take_cgroup_line, &reading, &err) < 0)
		report(d, "warning", "slurm.limits", path, "", "%s", err.text);
	else
		report_constraints(d, &reading.conf);
}

/* ---- GRES ---------------------------------------------------------------------------------- */

/* One of which Slurm itself has no plugin. */
static void report_other_gres(
	struct slurm_doctor *d, const struct plugstack *stack, const char *name)
{
	_cleanup_free_ char *file = NULL, *plugin = NULL;

	if (asprintf(&file, "gres_%s.so", name) < 0)
		file = NULL;
	if (!file || plugstack_find(stack, file, &plugin) < 0)
		d->error = -ENOMEM;
	else if (plugin)
		report(d, "note", "slurm.gres", name, "",
			"what '%s' does is not done for served steps; steps are handed over if "
			"what it tells them of the node is not understood",
			plugin);
	else
		report(d, "ok", "slurm.gres", name, "",
			"'%s' is counted by slurmctld: a step has no variable or device of it",
			name);
}

static void report_gres_type(
	struct slurm_doctor *d, const struct plugstack *stack, const char *name)
{
	if (gres_has_plugin(name))
		report(d, "ok", "slurm.gres", name, "",
			"served steps have the variables of '%s', and with ConstrainDevices in "
			"cgroup.conf no others of its devices",
			name);
	else
		report_other_gres(d, stack, name);
}

static void report_gres(struct slurm_doctor *d, const struct plugstack *stack)
{
	_cleanup_free_ char *types = strdup(value_of(d, KEY_GRES));
	char *rest = types, *name;

	if (!types)
		d->error = -ENOMEM;
	while ((name = strsep(&rest, ", \t"))) {
		if (*name)
			report_gres_type(d, stack, name);
	}
}

/* ---- what depends on Slurm's plugins ------------------------------------------------------- */

static void report_plugins(struct slurm_doctor *d)
{
	_cleanup_free_ char *path = site_plugstack_path(d->values[KEY_PLUGSTACK], d->conf);
	_cleanup_plugstack_ struct plugstack stack = {0};
	struct err err = ERR_INIT;

	if (!path) {
		d->error = -ENOMEM;
		return;
	}
	/* Else the directories of plugins are not known. */
	if (plugstack_read(path, d->values[KEY_PLUGIN_DIR], &stack, &err) == 0) {
		d->version = find_version(d, &stack);
		report_release(d);
		report_gres(d, &stack);
	}
	report_limits(d);
	report_spank(d, path, &stack, &err);
}

/* ---- whether steps can be handed over ------------------------------------------------------ */

static void report_stepd(struct slurm_doctor *d, const struct slurm_settings *settings)
{
	const char *path;
	struct err err = ERR_INIT;

	if (slurm_settings_find(settings, &path, &err) < 0)
		report(d, "problem", "slurm.slurmstepd", "",
			"without it no step can be handed over: each one would fail", "%s",
			err.text);
	else
		report(d, "ok", "slurm.slurmstepd", path, "", "steps can be handed over to '%s'",
			path);
}

/* It is root's; it isn't made here. */
static void report_records(struct slurm_doctor *d, const char *path)
{
	_cleanup_close_ int dir = -1;
	struct err err = ERR_INIT;
	struct stat st;
	int full;

	if (stat(path, &st) < 0 && errno == ENOENT) {
		report(d, "ok", "slurm.record", path, "", "inits will be kept in '%s'", path);
		return;
	}
	dir = handover_open_records(path, &err);
	full = dir < 0 ? 0 : handover_records_full(dir);
	if (dir < 0)
		report(d, "warning", "slurm.record", path, "chown root DIR; chmod 700 DIR", "%s",
			err.text);
	else if (full)
		report(d, "warning", "slurm.record", path, "move files out of it",
			"'%s' is full: no more inits are kept", path);
	else
		report(d, "ok", "slurm.record", path, "",
			"inits are kept in '%s', with credentials and environments in them", path);
}

static void report_served(struct slurm_doctor *d, const struct slurm_settings *settings)
{
	char kinds[64] = "";
	size_t n = 0;
	int kind;

	for (kind = 0; kind < SLURM_KIND_MAX; kind++) {
		if (settings->serves[kind] && n < sizeof(kinds))
			n += (size_t)snprintf(kinds + n, sizeof(kinds) - n, "%s%s", n ? "," : "",
				slurm_kind_name((enum slurm_step_kind)kind));
	}
	if (n > 0)
		report(d, "note", "slurm.served", kinds, "",
			"with stepd-slurmstepd steps of these kinds are served, others are handed "
			"over");
	else
		report(d, "note", "slurm.served", "none", "",
			"with stepd-slurmstepd every step is handed over: %s",
			slurm_reason_text(SLURM_REASON_NOT_SERVED));
}

static void report_rules(struct slurm_doctor *d, const struct rules *rules)
{
	struct err err;
	size_t i;

	for (i = 0; i < rules->n; i++) {
		err = (struct err)ERR_INIT;
		if (rules_check(rules, i, &err) < 0)
			report(d, "warning", "slurm.rule", rules_text(rules, i),
				"mend slurm_handover in stepd.conf",
				"by the rule '%s' all steps are handed over: %s",
				rules_text(rules, i), err.text);
		else
			report(d, "note", "slurm.rule", rules_text(rules, i), "",
				"by the rule '%s' these steps are handed over",
				rules_text(rules, i));
	}
}

static void report_handover(struct slurm_doctor *d)
{
	_cleanup_slurm_settings_ struct slurm_settings settings = {0};
	struct err err = ERR_INIT;

	if (slurm_settings_read(&settings, &err) < 0)
		report(d, "warning", "slurm.settings", "", "", "%s", err.text);
	report_stepd(d, &settings);
	if (settings.record_dir)
		report_records(d, settings.record_dir);
	report_served(d, &settings);
	report_rules(d, &settings.handover);
}

int main(void)
{
	_cleanup_(doctor_clear) struct slurm_doctor d = {0};

	if (read_conf(&d)) {
		report_needs(&d);
		report_site(&d);
		report_obstacles(&d);
		report_plugins(&d);
	}
	report_handover(&d);
	if (d.error || fflush(stdout) == EOF) {
		(void)fprintf(stderr, "stepd-slurm-doctor: can't write the findings\n");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
