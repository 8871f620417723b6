/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/journal.h"

#include <string.h>
#include <sys/stat.h>

#include "systemd/dgram.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

bool journal_has_stream(int fd)
{
	const char *stream = secure_getenv("JOURNAL_STREAM"); /* "DEVICE:INODE" */
	char text[64];
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		return false;
	(void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	return strcmp(text, stream) == 0;
}

int journal_send(const struct journal_line *line)
{
	_cleanup_free_ char *text = NULL;
	int n;

	if (strchr(line->text, '\n') || (line->step && strchr(line->step, '\n')))
		return -EINVAL; /* it would begin another field */
	n = asprintf(&text, "PRIORITY=%d\nSYSLOG_IDENTIFIER=stepd\n%s%s%sMESSAGE=%s\n",
		line->priority, line->step ? "STEPD_STEP=" : "", line->step ? line->step : "",
		line->step ? "\n" : "", line->text);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return dgram_send(JOURNAL_SOCKET, text, (size_t)n);
}
