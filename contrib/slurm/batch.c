/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/batch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contrib/slurm/accounting.h"
#include "contrib/slurm/delivery.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/fs.h"
#include "stepd/process/identity.h"

#define SCRIPT_NAME "slurm_script"

/* slurmstepd tries every 15 seconds; a controller that is just restarted is there sooner. */
static const struct delivery_retry to_controller = {.first_s = 1, .longest_s = 15};

struct batch {
	const struct slurm_init *init;
	struct batch_files files;
	struct user_probe_file probe_files[3];
	char *script;                    /* the path of the copy */
	char name[24];                   /* of its directory */
	int spool, dir;                  /* descriptors */
	int notes;                       /* of the script's errors; -1: none */
	struct user_probe_options probe; /* of whom the files are */
	bool appends;
};

/* ---- the script's copy --------------------------------------------------------------------- */

/* A script that a killed process has left is in it, perhaps. */
static int open_dir(struct batch *b, gid_t gid, struct err *err)
{
	struct stat st;

	if (mkdirat(b->spool, b->name, 0750) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the job's directory '%s'", b->script);
	b->dir = openat(b->spool, b->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (b->dir < 0 || fstat(b->dir, &st) < 0)
		return err_set(err, -errno, "open the job's directory of '%s'", b->script);
	if (st.st_uid != geteuid() || (st.st_mode & 0022))
		return err_set_text(err, -EEXIST,
			"the job's directory of '%s' can be changed by others than root",
			b->script);
	if (fchown(b->dir, (uid_t)-1, gid) < 0 || fchmod(b->dir, 0750) < 0)
		return err_set(err, -errno, "open the job's directory of '%s'", b->script);
	if (unlinkat(b->dir, SCRIPT_NAME, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "replace '%s'", b->script);
	return 0;
}

static int write_script(const struct batch *b, const char *text, uid_t uid, struct err *err)
{
	_cleanup_close_ int fd = openat(
		b->dir, SCRIPT_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
	int r = fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));

	if (r == 0 && (fchmod(fd, 0700) < 0 || fchown(fd, uid, (gid_t)-1) < 0))
		r = -errno;
	return r < 0 ? err_set(err, r, "write the script '%s'", b->script) : 0;
}

static int make_script(struct batch *b, struct err *err)
{
	const struct slurm_launch *l = &b->init->launch;
	const char *spool = b->init->conf.spool_dir;
	int r;

	if (!spool || spool[0] != '/' || !l->batch.script || !*l->batch.script || !l->cwd)
		return err_set_text(err, -EBADMSG, "the message has no script, or no directory");
	(void)snprintf(b->name, sizeof(b->name), "job%05u", l->id.job);
	if (asprintf(&b->script, "%s/%s/" SCRIPT_NAME, spool, b->name) < 0) {
		b->script = NULL;
		return err_set(err, -ENOMEM, "write the script");
	}
	b->spool = open(spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->spool < 0)
		return err_set(err, -errno, "open slurmd's directory '%s'", spool);
	r = fs_check_file(b->spool, spool, err);
	if (r == 0)
		r = open_dir(b, l->gid, err);
	return r == 0 ? write_script(b, l->batch.script, l->uid, err) : r;
}

static void remove_script(struct batch *b)
{
	if (b->dir >= 0)
		(void)unlinkat(b->dir, SCRIPT_NAME, 0); /* slurmd removes what is left */
	b->dir = close_fd(b->dir);
}

int batch_new(const struct slurm_init *init, struct batch **ret_batch, struct err *err)
{
	struct batch *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(err, -ENOMEM, "serve the script");
	b->init = init;
	b->spool = b->dir = b->notes = -1;
	b->appends = init->launch.open_mode == SLURM_OPEN_APPEND ||
		(init->launch.open_mode == SLURM_OPEN_DEFAULT && init->site->appends);
	r = batch_expand_files(&init->launch, &init->conf, &b->files, err);
	if (r == 0)
		r = make_script(b, err);
	if (r < 0) {
		(void)batch_free(b); /* always NULL */
		return r;
	}
	*ret_batch = b;
	return 0;
}

struct batch *batch_free(struct batch *b)
{
	if (!b)
		return NULL;
	if (b->dir >= 0)
		remove_script(b);
	if (b->spool >= 0)
		(void)unlinkat(b->spool, b->name, AT_REMOVEDIR); /* slurmd removes what is left */
	(void)close_fd(b->spool);
	(void)close_fd(b->notes);
	batch_files_clear(&b->files);
	free(b->script);
	free(b);
	return NULL;
}

/* ---- its files ----------------------------------------------------------------------------- */

/* slurmstepd appends in both modes. */
void batch_fill_probe(struct batch *b, struct user_probe_options *probe)
{
	int i, flags = O_WRONLY | O_CREAT | O_APPEND | (b->appends ? 0 : O_TRUNC);

	probe->programs = &b->script;
	probe->programs_count = 1;
	probe->files = b->probe_files;
	probe->files_count = 0;
	for (i = 0; i < 3; i++) {
		if (!b->files.path[i])
			continue;
		b->probe_files[probe->files_count++] = (struct user_probe_file){
			.path = b->files.path[i], .flags = i == 0 ? O_RDONLY : flags};
	}
	b->probe = *probe;
}

void batch_open_notes(struct batch *b)
{
	struct identity id = {.uid = b->probe.uid,
		.gid = b->probe.gid,
		.groups = (gid_t *)b->probe.groups,
		.groups_count = b->probe.groups_count};
	struct err err = ERR_INIT;
	mode_t old;

	if (identity_compare_with_agent(&id, &err) == 0 && identity_assume(&id, &err) == 0) {
		old = umask(b->probe.umask);
		b->notes = userpath_open(b->files.path[b->files.path[2] ? 2 : 1],
			O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0666);
		(void)umask(old);
		identity_restore(&id);
	}
	free(id.agent_groups);
	if (b->notes < 0)
		b->notes = -1;
}

bool batch_put_note(const struct batch *b, const char *line)
{
	return b->notes >= 0 && fs_write_all(b->notes, line, strlen(line)) == 0;
}

int batch_make_spec(const struct batch *b, const struct step_spec_input *input,
	struct json_t **ret_doc, struct err *err)
{
	return batch_spec_make(input, &b->files, b->script, ret_doc, err);
}

/* ---- its end ------------------------------------------------------------------------------- */

/* Until 25.05 the job has ended, from 25.11 on its step. */
static void put_end(const struct batch *b, const struct batch_end *end, struct pack *body)
{
	const struct slurm_launch *l = &b->init->launch;
	uint16_t release = b->init->frame.release;

	accounting_pack(end->accounting, false, body);
	if (release < SLURM_25_11)
		pack_u32(body, l->id.job);
	pack_u32(body, (uint32_t)end->job_status);
	pack_u32(body, (uint32_t)end->error);
	if (release >= SLURM_25_11)
		slurm_rpc_put_step(body, release, &l->id);
	pack_u32(body, l->uid);
	pack_text(body, b->init->conf.node_name);
}

int batch_report(struct batch *b, const struct batch_end *end, struct err *err)
{
	const struct delivery_options to = {.loop = end->loop,
		.auth = end->auth,
		.retry = &to_controller,
		.hosts = end->controllers,
		.version = b->init->frame.release,
		.type = SLURM_REQUEST_COMPLETE_BATCH_SCRIPT,
		.reader = (uid_t)-1,
		.done = end->done,
		.userdata = end->userdata};
	struct delivery *delivery;
	struct pack body = {0};

	remove_script(b);
	put_end(b, end, &body);
	return delivery_begin_take(&to, &body, &delivery, err);
}
