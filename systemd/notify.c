/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/notify.h"

#include <stdarg.h>
#include <string.h>

#include "systemd/dgram.h"

static const char *get_address(void)
{
	const char *address = secure_getenv("NOTIFY_SOCKET");

	/* Of the forms of sd_notify(3) these two; a vsock is a virtual machine's init's. */
	return address && (address[0] == '/' || address[0] == '@') && address[1] ? address : NULL;
}

bool notify_is_wanted(void)
{
	return get_address() != NULL;
}

int notify_send(const char *fmt, ...)
{
	const char *address = get_address();
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	if (!address)
		return 0;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return dgram_send(address, text, strlen(text));
}
