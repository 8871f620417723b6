# Requests and messages to systemd; the agent and proctrack/cgroup link it.
noinst_LTLIBRARIES += libstepdsystemd.la
libstepdsystemd_la_SOURCES = \
	systemd/systemd.c systemd/systemd.h
libstepdsystemd_la_CPPFLAGS = $(AM_CPPFLAGS) $(SYSTEMD_CFLAGS)

EXTRA_DIST += systemd/stepd@.service.in systemd/stepd.conf systemd/stepd.slice \
	systemd/stepd-clean.service.in systemd/stepd-clean.timer
if SYSTEMD_UNITS
systemdsystemunit_DATA = systemd/stepd@.service systemd/stepd.slice systemd/stepd-clean.service \
	systemd/stepd-clean.timer
tmpfiles_DATA = systemd/stepd.conf
endif
CLEANFILES += systemd/stepd@.service systemd/stepd-clean.service
systemd/stepd-clean.service: $(srcdir)/systemd/stepd-clean.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) systemd && \
		sed 's|@stepctl[@]|$(bindir)/stepctl|' '$(srcdir)/systemd/stepd-clean.service.in' >'$@.new' && \
		mv '$@.new' '$@'
systemd/stepd@.service: $(srcdir)/systemd/stepd@.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) systemd && \
		sed 's|@sbindir[@]|$(sbindir)|' '$(srcdir)/systemd/stepd@.service.in' >'$@.new' && \
		mv '$@.new' '$@'
