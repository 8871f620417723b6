/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/plugin/plugin.h"

#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

struct plugin {
	void *handle;
	char *path;
	const char *type; /* in the plugin's memory, as the next two */
	const char *name;
	const uint32_t *version; /* NULL: any */
	int (*init)(void);
	void (*fini)(void);
	int (*probe)(char *text, size_t size);
	int (*checkup)(stepd_tell_fn report, void *ctx);
	bool initialised;
};

/* Stores the running program's path in exe. False if it is not known. */
static bool read_exe(char exe[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", exe, PATH_MAX - 1);

	if (n <= 0)
		return false;
	exe[n] = '\0';
	return true;
}

/* Where an open file is, without symbolic links. */
struct place {
	int fd;
	char path[PATH_MAX];
};

static void place_close(struct place *p)
{
	(void)close_fd(p->fd);
}
#define _cleanup_place_ _cleanup_(place_close)

/* The kernel knows it of what it has opened; realpath(3) looks at each name of the path. */
static int place_open(struct place *p, const char *path, int flags)
{
	p->fd = open(path, O_PATH | O_CLOEXEC | flags);
	if (p->fd < 0)
		return -errno;
	if (fs_find_path(p->fd, p->path) == 0 || realpath(path, p->path)) /* without /proc */
		return 0;
	return -errno;
}

/* A user who can change the directories above the program controls the program itself; refusing a
 * build tree in a home directory would gain nothing. */
static int check_place(const struct place *p, const char *program, struct err *err)
{
	int r = fs_check_trusted(p->fd, p->path, err);

	return r < 0 ? r : fs_check_parents(p->path, program, err);
}

/* A link in a good directory may lead to a bad one. */
static int check_trusted(
	const struct place *dir, const char *path, const struct place *file, struct err *err)
{
	char exe[PATH_MAX];
	const char *program;
	int r;

	if (geteuid() != 0)
		return 0; /* its writer gains no privileges through it */
	program = read_exe(exe) ? exe : NULL;
	r = check_place(dir, program, err);
	if (r == 0)
		r = check_place(file, program, err);
	if (r < 0 && err)
		return err_prefix(err, "plugin '%s' is refused", path);
	return r;
}

/* dlopen() would wait for a writer of a FIFO. */
static int check_regular(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set_text(
			err, -ENOEXEC, "'%s' is not a plugin: it is not a regular file", path);
	return 0;
}

static int check_identity(
	struct plugin *p, const struct plugin_kind *kind, const char *name, struct err *err)
{
	size_t len = strlen(kind->name);

	p->type = dlsym(p->handle, "plugin_type");
	p->name = dlsym(p->handle, "plugin_name");
	p->version = dlsym(p->handle, "plugin_version");
	p->init = (int (*)(void))dlsym(p->handle, "init");
	p->fini = (void (*)(void))dlsym(p->handle, "fini");
	p->probe = (int (*)(char *, size_t))dlsym(p->handle, "plugin_probe");
	p->checkup = (int (*)(stepd_tell_fn, void *))dlsym(p->handle, "plugin_checkup");
	if (!p->type || !p->name)
		return err_set_text(err, -ENOEXEC,
			"'%s' is not a plugin: it does not export %s (see <stepd/plugin.h>)",
			p->path, p->type ? "plugin_name" : "plugin_type");
	if (strncmp(p->type, kind->name, len) != 0 || p->type[len] != '/')
		return err_set_text(err, -ENOEXEC,
			"plugin '%s' is of type '%.64s', not of kind '%s'", p->path, p->type,
			kind->name);
	if (strcmp(p->type + len + 1, name) != 0)
		return err_set_text(err, -ENOEXEC,
			"plugin '%s' has the type '%.64s'; a plugin's file is named after its type",
			p->path, p->type);
	if (p->version && *p->version != STEPD_API_VERSION)
		return err_set_text(err, -ENOEXEC,
			"plugin '%s' was built for version %u.%u.%u of the plugin interface, this is "
			"%u.%u.%u; build it again",
			p->path, *p->version >> 16, *p->version >> 8 & 255, *p->version & 255,
			STEPD_API_VERSION >> 16, STEPD_API_VERSION >> 8 & 255,
			STEPD_API_VERSION & 255);
	return 0;
}

static int check_symbols(struct plugin *p, const struct plugin_kind *kind, struct err *err)
{
	size_t i;

	if (!p->init || !p->fini)
		return err_set_text(err, -ENOEXEC, "plugin '%s' lacks the function %s()", p->path,
			p->init ? "fini" : "init");
	for (i = 0; i < kind->symbols_count; i++) {
		if (!kind->symbols[i].optional && !dlsym(p->handle, kind->symbols[i].name))
			return err_set_text(err, -ENOEXEC, "plugin '%s' lacks the function %s()",
				p->path, kind->symbols[i].name);
	}
	return 0;
}

size_t plugin_functions_size(const struct plugin_kind *kind)
{
	size_t i, end = 0;

	for (i = 0; i < kind->symbols_count; i++) {
		if (kind->symbols[i].offset + sizeof(void *) > end)
			end = kind->symbols[i].offset + sizeof(void *);
	}
	return end;
}

static void fill_functions(struct plugin *p, const struct plugin_kind *kind, void *functions)
{
	void *address;
	size_t i;

	for (i = 0; i < kind->symbols_count; i++) {
		address = dlsym(p->handle, kind->symbols[i].name);
		memcpy((char *)functions + kind->symbols[i].offset, &address, sizeof(address));
	}
}

static int plugin_add_name(const char *name, void *userdata)
{
	char **list = userdata, *longer = NULL;

	if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? ", " : "", name) < 0)
		return -ENOMEM;
	free(*list);
	*list = longer;
	return 0;
}

/* Lists the plugins that exist, for the message about the one that can't be opened. */
static int err_missing(const char *dir, const char *path, const struct plugin_kind *kind,
	const char *name, int error, struct err *err)
{
	_cleanup_free_ char *list = NULL;

	if (error != -ENOENT)
		return err_set(err, error, "open '%s'", path);
	if (plugin_each(dir, kind, plugin_add_name, &list, NULL) < 0 || !list)
		return err_set_text(err, -ENOENT,
			"there is no plugin %s/%s: '%s' holds no %s plugin at all; install one or name "
			"another plugin directory",
			kind->name, name, dir, kind->name);
	return err_set_text(err, -ENOENT,
		"there is no plugin %s/%s in '%s'; the plugin files there are: %s", kind->name,
		name, dir, list);
}

static int load_checked(struct plugin *p, const struct plugin_kind *kind, const char *name,
	void *functions, struct err *err)
{
	int r;

	p->handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
	if (!p->handle)
		return err_set_text(
			err, -ENOEXEC, "'%s' can't be loaded as a plugin: %s", p->path, dlerror());
	r = check_identity(p, kind, name, err);
	if (r == 0)
		r = check_symbols(p, kind, err);
	if (r < 0)
		return r;
	errno = 0;
	if (p->init() != SLURM_SUCCESS)
		return err_set(
			err, errno > 0 ? -errno : -EIO, "plugin '%s': init() failed", p->path);
	p->initialised = true;
	fill_functions(p, kind, functions);
	return 0;
}

int plugin_load(const char *dir, const struct plugin_kind *kind, const char *name, void *functions,
	struct plugin **ret_plugin, struct err *err)
{
	_cleanup_plugin_ struct plugin *p = NULL;
	_cleanup_place_ struct place at = {.fd = -1}, file = {.fd = -1};
	const char *bare = parse_plugin_name(name, kind->name);
	int r;

	if (!bare)
		return err_set_text(err, -EINVAL,
			"'%.70s' is not the name of a %s plugin; write NAME or %s/NAME, of letters, "
			"digits, '_' and '-'",
			name, kind->name, kind->name);
	r = place_open(&at, dir, O_DIRECTORY);
	if (r < 0)
		return err_set(err, r, "plugin directory '%s'", dir);
	p = calloc(1, sizeof(*p));
	if (!p || asprintf(&p->path, "%s/%s_%s.so", at.path, kind->name, bare) < 0)
		return err_set(err, -ENOMEM, "load plugin %s/%s", kind->name, bare);
	r = place_open(&file, p->path, 0);
	if (r < 0)
		return err_missing(at.path, p->path, kind, bare, r, err);
	r = check_regular(file.fd, p->path, err);
	if (r == 0)
		r = check_trusted(&at, p->path, &file, err);
	if (r == 0)
		r = load_checked(p, kind, bare, functions, err);
	if (r < 0)
		return r;
	*ret_plugin = take_ptr(p);
	return 0;
}

struct plugin *plugin_unload(struct plugin *p)
{
	if (!p)
		return NULL;
	if (p->initialised)
		p->fini();
	if (p->handle)
		(void)dlclose(p->handle); /* a plugin that can't be unloaded stays mapped, unused */
	free(p->path);
	free(p);
	return NULL;
}

const char *plugin_get_type(const struct plugin *p)
{
	return p->type;
}

const char *plugin_get_name(const struct plugin *p)
{
	return p->name;
}

void plugin_get_version(const struct plugin *p, char *text, size_t size)
{
	uint32_t v = p->version ? *p->version : 0;

	if (p->version)
		(void)snprintf(text, size, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
	else
		(void)snprintf(text, size, "any");
}

bool plugin_probe_here(const struct plugin *p, char *text, size_t size)
{
	bool usable;

	text[0] = '\0';
	if (!p->probe)
		return true;
	usable = p->probe(text, size) == SLURM_SUCCESS;
	text[size - 1] = '\0';
	return usable;
}

int plugin_check_up(const struct plugin *p, stepd_tell_fn report, void *ctx)
{
	if (!p->checkup)
		return -EOPNOTSUPP;
	errno = 0;
	if (p->checkup(report, ctx) == SLURM_SUCCESS)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

/* plugins/ beside the running program: with it a build tree works without an installation. */
static int find_beside_program(char **ret_dir)
{
	char exe[PATH_MAX];
	_cleanup_free_ char *dir = NULL;

	if (!read_exe(exe))
		return -ENOENT;
	if (asprintf(&dir, "%s/plugins", dirname(exe)) < 0)
		return -ENOMEM;
	if (access(dir, F_OK) < 0)
		return -ENOENT;
	*ret_dir = take_ptr(dir);
	return 0;
}

int plugin_dir_find(const char *configured, char **ret_dir, struct err *err)
{
	const char *dir = configured ? configured : secure_getenv("STEPD_PLUGIN_DIR");
	int r;

	if (!dir) {
		r = find_beside_program(ret_dir);
		if (r != -ENOENT)
			return r == 0 ? 0 : err_set(err, r, "find the plugin directory");
		dir = STEPD_PLUGIN_DIR;
	}
	*ret_dir = realpath(dir, NULL);
	return *ret_dir ? 0 : err_set(err, -errno, "plugin directory '%s'", dir);
}

static int plugin_compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int plugin_each(const char *dir, const struct plugin_kind *kind, plugin_found_fn found,
	void *userdata, struct err *err)
{
	struct dirent **list = NULL;
	size_t prefix = strlen(kind->name) + 1, len;
	char *name;
	int n, i, r = 0;

	assert(found);
	n = scandir(dir, &list, NULL, plugin_compare_names);
	if (n < 0)
		return err_set(err, -errno, "read the plugin directory '%s'", dir);
	for (i = 0; i < n; i++) {
		name = list[i]->d_name;
		len = strlen(name);
		if (r >= 0 && len > prefix + 3 && strncmp(name, kind->name, prefix - 1) == 0 &&
			name[prefix - 1] == '_' && strcmp(name + len - 3, ".so") == 0) {
			name[len - 3] = '\0';
			r = found(name + prefix, userdata);
		}
		free(list[i]);
	}
	free(list);
	return r < 0 ? r : 0;
}
