/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Findings of a program outside the core. It writes them to its standard output, a JSON object each
 * with the members of "stepd doctor --json": id, level, value, text and remedy.
 */
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/json.h"
#include "stepd/cli/doctor/doctor.h"
#include "stepd/cli/doctor/findings.h"
#include "stepd/cli/options.h"

static int start_program(const char *path, pid_t *ret_pid, FILE **ret_out)
{
	_cleanup_close_ int from = -1, to = -1;
	char *const argv[] = {(char *)path, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	*ret_out = fdopen(from, "r");
	if (!*ret_out)
		return -errno;
	(void)take_fd(&from);
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static void take_finding(const struct reporter *reporter, const json_t *finding)
{
	int level = findings_level(json_get_text(finding, "level", ""));

	reporter_add(reporter, (enum stepd_finding_level)level, json_get_text(finding, "id", ""),
		json_get_text(finding, "value", ""), json_get_text(finding, "remedy", ""), "%s",
		json_get_text(finding, "text", ""));
}

/* Whether it has ended well. */
static bool wait_program(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void doctor_program(const struct reporter *reporter, const char *below, const char *installed)
{
	_cleanup_fclose_ FILE *out = NULL;
	_cleanup_free_ char *path = NULL;
	struct err err = ERR_INIT;
	json_t *finding;
	pid_t pid;
	int r = program_find(below, installed, &path, &err);

	if (r == 0)
		r = start_program(path, &pid, &out);
	if (r < 0) {
		reporter_add(reporter, STEPD_FINDING_WARNING, "doctor.program",
			path ? path : installed, "install all of stepd",
			"'%s' can't be executed: %s", path ? path : installed, strerror(-r));
		return;
	}
	while ((finding = json_loadf(out, JSON_DISABLE_EOF_CHECK, NULL))) {
		take_finding(reporter, finding);
		json_decref(finding);
	}
	if (!wait_program(pid))
		reporter_add(reporter, STEPD_FINDING_WARNING, "doctor.program", path,
			"run it by itself to see why",
			"'%s' has failed: its findings are incomplete", path);
}
