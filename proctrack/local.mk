stepdplugin_LTLIBRARIES += proctrack/pgid/proctrack_pgid.la
proctrack_pgid_proctrack_pgid_la_SOURCES = \
	proctrack/pgid/pgid.c proctrack/procs.c proctrack/procs.h \
	proctrack/reporter.c proctrack/reporter.h
proctrack_pgid_proctrack_pgid_la_LIBADD = libbase.la
proctrack_pgid_proctrack_pgid_la_LDFLAGS = $(PLUGIN_LDFLAGS)

# Built everywhere: it loads the vendor's library when it is used.
stepdplugin_LTLIBRARIES += proctrack/cray_aries/proctrack_cray_aries.la
proctrack_cray_aries_proctrack_cray_aries_la_SOURCES = \
	proctrack/cray_aries/cray_aries.c proctrack/cray_aries/libjob.c proctrack/cray_aries/libjob.h \
	proctrack/procs.c proctrack/procs.h \
	proctrack/reporter.c proctrack/reporter.h
proctrack_cray_aries_proctrack_cray_aries_la_LIBADD = libbase.la
proctrack_cray_aries_proctrack_cray_aries_la_LDFLAGS = $(PLUGIN_LDFLAGS)

stepdplugin_LTLIBRARIES += proctrack/linuxproc/proctrack_linuxproc.la
proctrack_linuxproc_proctrack_linuxproc_la_SOURCES = \
	proctrack/linuxproc/linuxproc.c proctrack/procs.c proctrack/procs.h \
	proctrack/reporter.c proctrack/reporter.h
proctrack_linuxproc_proctrack_linuxproc_la_LIBADD = libbase.la
proctrack_linuxproc_proctrack_linuxproc_la_LDFLAGS = $(PLUGIN_LDFLAGS)

# The unit tests are linked with it, too.
if LIBCGROUP
noinst_LTLIBRARIES += libcgroups.la
stepdplugin_LTLIBRARIES += proctrack/cgroup/proctrack_cgroup.la
endif
libcgroups_la_SOURCES = \
	proctrack/cgroup/controllers.c proctrack/cgroup/controllers.h \
	proctrack/cgroup/devices.c proctrack/cgroup/devices.h \
	proctrack/cgroup/group.c proctrack/cgroup/group.h \
	proctrack/cgroup/libcgroup.c proctrack/cgroup/libcgroup.h \
	proctrack/cgroup/limits.c proctrack/cgroup/limits.h \
	proctrack/cgroup/probe.c proctrack/cgroup/probe.h \
	proctrack/cgroup/root.c proctrack/cgroup/root.h \
	proctrack/cgroup/step.c proctrack/cgroup/step.h
libcgroups_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBCGROUP_CFLAGS)
libcgroups_la_LIBADD = libstepdsystemd.la libbase.la
proctrack_cgroup_proctrack_cgroup_la_SOURCES = \
	proctrack/cgroup/cgroup.c \
	proctrack/cgroup/checkup.c \
	proctrack/reporter.c proctrack/reporter.h
proctrack_cgroup_proctrack_cgroup_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBCGROUP_CFLAGS)
proctrack_cgroup_proctrack_cgroup_la_LIBADD = libcgroups.la
proctrack_cgroup_proctrack_cgroup_la_LDFLAGS = $(PLUGIN_LDFLAGS)
