# Slurm's step sockets for the steps of stepd; its tests take the parts that do nothing by themselves.
noinst_LTLIBRARIES += libslurmwire.la
libslurmwire_la_SOURCES = \
	contrib/slurm-socket/names.c contrib/slurm-socket/names.h \
	contrib/slurm-socket/requests.c contrib/slurm-socket/requests.h \
	contrib/slurm-socket/wire.c contrib/slurm-socket/wire.h
libslurmwire_la_LIBADD = libbase.la $(JANSSON_LIBS)

sbin_PROGRAMS += contrib/slurm-socket/stepd-slurm-socket
contrib_slurm_socket_stepd_slurm_socket_SOURCES = \
	contrib/slurm-socket/call.c contrib/slurm-socket/call.h \
	contrib/slurm-socket/conn.c \
	contrib/slurm-socket/listener.c \
	contrib/slurm-socket/main.c \
	contrib/slurm-socket/server.h \
	contrib/slurm-socket/spool.c contrib/slurm-socket/spool.h \
	contrib/slurm-socket/watch.c contrib/slurm-socket/watch.h
contrib_slurm_socket_stepd_slurm_socket_LDADD = libslurmwire.la libclient.la libstepdsystemd.la \
	libstate.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

dist_man_MANS += doc/stepd-slurm-socket.8
EXTRA_DIST += contrib/slurm-socket/README.md contrib/slurm-socket/stepd-slurm-socket.service.in
if SYSTEMD_UNITS
systemdsystemunit_DATA += contrib/slurm-socket/stepd-slurm-socket.service
endif
CLEANFILES += contrib/slurm-socket/stepd-slurm-socket.service
contrib/slurm-socket/stepd-slurm-socket.service: $(srcdir)/contrib/slurm-socket/stepd-slurm-socket.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/slurm-socket && \
		sed 's|@sbindir[@]|$(sbindir)|' '$(srcdir)/contrib/slurm-socket/stepd-slurm-socket.service.in' >'$@.new' && \
		mv '$@.new' '$@'
