/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/stdio_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "stepd/base/userpath.h"
#include "stepd/process/identity.h"
#include "stepd/process/stdfd.h"
#include "stepd/spec/fname.h"
#include "stepd/spec/spec.h"

const char *stdio_word(int stream)
{
	static const char *const words[] = {"standard input", "standard output", "standard error"};

	return words[stream];
}

int stdio_files_expand(const struct stdio_files *files, const char *pattern, uint32_t rank,
	char **ret_name, struct err *err)
{
	const struct fname_vars vars = {
		.job_id = files->spec->job_id,
		.step_name = files->spec->step_name,
		.rank = rank,
		.node_id = files->spec->node_id,
		.node_name = files->spec->node_name,
		.user_name = files->id->user_name,
		.job_name = files->spec->job_name,
	};

	return fname_expand(pattern, &vars, ret_name, err);
}

void stdio_files_name(const struct spec *spec, const struct identity *id, int stream, uint32_t rank,
	char *text, size_t size)
{
	const struct spec_stream *const streams[] = {&spec->in, &spec->out, &spec->err};
	const struct stdio_files files = {.spec = spec, .id = id};
	const char *pattern = streams[stream]->pattern;
	_cleanup_free_ char *name = NULL;

	if (pattern && stdio_files_expand(&files, pattern, rank, &name, NULL) == 0)
		pattern = name;
	(void)snprintf(text, size, "%s", pattern ? pattern : "");
}

int stdio_files_flags(const struct spec_stream *stream)
{
	return O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		(stream->append ? O_APPEND : O_TRUNC);
}

/* The plan's rule: the last override that names a rank counts. */
const char *stdio_files_cwd(const struct stdio_files *files, uint32_t rank)
{
	const struct spec_override *o;
	size_t k, lo, hi, mid;

	for (k = files->spec->overrides_count; k-- > 0;) {
		o = &files->spec->overrides[k];
		for (lo = 0, hi = o->ranks_count; lo < hi;) {
			mid = lo + (hi - lo) / 2;
			if (o->ranks[mid] == rank)
				return o->cwd ? o->cwd : files->cwd;
			if (o->ranks[mid] < rank)
				lo = mid + 1;
			else
				hi = mid;
		}
	}
	return files->cwd;
}

static int explain(
	const struct stdio_files *files, int stream, const char *path, int r, struct err *err)
{
	const char *why = userpath_explain(r);

	if (why)
		return err_say(err, r, "%s: open '%s' as user %s: %s", stdio_word(stream), path,
			files->id->user_name ? files->id->user_name : "?", why);
	if (r == -ENXIO)
		return err_say(err, r,
			"%s: '%s' is a FIFO or socket that nobody reads; start its reader first",
			stdio_word(stream), path);
	return err_set(err, r, "%s: open '%s' as user %s", stdio_word(stream), path,
		files->id->user_name ? files->id->user_name : "?");
}

int stdio_files_open(const struct stdio_files *files, int stream, const char *cwd, const char *name,
	int flags, struct err *err)
{
	_cleanup_free_ char *joined = NULL;
	const char *path = name;
	mode_t old;
	int r;

	if (name[0] != '/' && cwd) {
		if (asprintf(&joined, "%s/%s", cwd, name) < 0)
			return err_set(err, -ENOMEM, "%s: open '%s'", stdio_word(stream), name);
		path = joined;
	}
	r = identity_assume(files->id, err);
	if (r < 0)
		return r;
	old = umask(files->mask);
	r = userpath_open(path, flags, 0666);
	(void)umask(old); /* can't fail */
	identity_restore(files->id);
	if (r >= 0)
		r = stdfd_move_above(r);
	return r < 0 ? explain(files, stream, path, r, err) : r;
}
