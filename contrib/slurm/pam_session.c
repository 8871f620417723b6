/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pam_session.h"

#include "config.h"

#ifdef HAVE_LIBPAM

#include <security/pam_appl.h>
#include <stddef.h>
#include <stdlib.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/dynlib.h"

#define SERVICE "slurm"

struct pam_session {
	void *library;
	pam_handle_t *handle;
	bool has_credentials, is_open;
	int last; /* for the modules' clean-up */
	__typeof__(&pam_start) start;
	__typeof__(&pam_end) end;
	__typeof__(&pam_set_item) set_item;
	__typeof__(&pam_setcred) setcred;
	__typeof__(&pam_open_session) open_session;
	__typeof__(&pam_close_session) close_session;
	__typeof__(&pam_strerror) strerror;
};

static const struct dynlib_symbol pam_symbols[] = {
	{"pam_start", offsetof(struct pam_session, start)},
	{"pam_end", offsetof(struct pam_session, end)},
	{"pam_set_item", offsetof(struct pam_session, set_item)},
	{"pam_setcred", offsetof(struct pam_session, setcred)},
	{"pam_open_session", offsetof(struct pam_session, open_session)},
	{"pam_close_session", offsetof(struct pam_session, close_session)},
	{"pam_strerror", offsetof(struct pam_session, strerror)},
};

/* Nobody is there to be asked, or to be told. */
static int converse(_unused_ int n, _unused_ const struct pam_message **messages,
	_unused_ struct pam_response **ret_responses, _unused_ void *userdata)
{
	return PAM_CONV_ERR;
}

static void note_failure(struct pam_session *p, const char *what, const struct log *log)
{
	if (p->last != PAM_SUCCESS)
		log_warning(log, "PAM, service " SERVICE ": %s: %s", what,
			p->strerror(p->handle, p->last));
}

struct pam_session *pam_session_close(struct pam_session *p, const struct log *log)
{
	if (!p)
		return NULL;
	if (p->is_open) {
		p->last = p->close_session(p->handle, 0);
		note_failure(p, "close the session", log);
	}
	if (p->has_credentials) {
		p->last = p->setcred(p->handle, PAM_DELETE_CRED);
		note_failure(p, "delete the credentials", log);
	}
	if (p->handle)
		(void)p->end(p->handle, p->last);
	if (p->library)
		(void)dynlib_close(p->library);
	free(p);
	return NULL;
}

static int check(struct pam_session *p, int code, const char *what, struct err *err)
{
	p->last = code;
	return code == PAM_SUCCESS ? 0
				   : err_set_text(err, -EACCES, "PAM, service " SERVICE ": %s: %s",
					     what, p->strerror(p->handle, code));
}

static int begin(struct pam_session *p, const char *user, const char *host, struct err *err)
{
	static const struct pam_conv conversation = {.conv = converse};
	int r = check(p, p->start(SERVICE, user, &conversation, &p->handle), "begin", err);

	if (r == 0)
		r = check(p, p->set_item(p->handle, PAM_RUSER, user), "name the user", err);
	if (r == 0)
		r = check(p, p->set_item(p->handle, PAM_RHOST, host), "name the host", err);
	if (r == 0) {
		r = check(
			p, p->setcred(p->handle, PAM_ESTABLISH_CRED), "establish credentials", err);
		p->has_credentials = r == 0;
	}
	if (r == 0) {
		r = check(p, p->open_session(p->handle, 0), "open a session", err);
		p->is_open = r == 0;
	}
	return r;
}

int pam_session_open(
	const char *user, const char *host, struct pam_session **ret_session, struct err *err)
{
	static const struct log silent = {.fd = -1};
	struct pam_session *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "open a session of PAM");
	p->library = dynlib_open(LIBPAM_SONAME, pam_symbols, ARRAY_SIZE(pam_symbols), p);
	r = p->library
		? begin(p, user, host, err)
		: err_set_text(err, -EOPNOTSUPP, "%s can't be loaded: install it", LIBPAM_SONAME);
	if (r < 0)
		(void)pam_session_close(p, &silent); /* always NULL; err has the reason */
	else
		*ret_session = p;
	return r;
}

#else

int pam_session_open(_unused_ const char *user, _unused_ const char *host,
	_unused_ struct pam_session **ret_session, struct err *err)
{
	return err_set_text(
		err, -EOPNOTSUPP, "built without PAM (configure needs libpam0g-dev for UsePAM)");
}

struct pam_session *pam_session_close(
	_unused_ struct pam_session *session, _unused_ const struct log *log)
{
	return NULL;
}

#endif
