stepdplugin_LTLIBRARIES += proctrack/pgid/proctrack_pgid.la
proctrack_pgid_proctrack_pgid_la_SOURCES = \
	proctrack/pgid/pgid.c proctrack/procs.c proctrack/procs.h \
	proctrack/tell.c proctrack/tell.h
proctrack_pgid_proctrack_pgid_la_LIBADD = libbase.la
proctrack_pgid_proctrack_pgid_la_LDFLAGS = $(PLUGIN_LDFLAGS)

stepdplugin_LTLIBRARIES += proctrack/linuxproc/proctrack_linuxproc.la
proctrack_linuxproc_proctrack_linuxproc_la_SOURCES = \
	proctrack/linuxproc/linuxproc.c proctrack/procs.c proctrack/procs.h \
	proctrack/tell.c proctrack/tell.h
proctrack_linuxproc_proctrack_linuxproc_la_LIBADD = libbase.la
proctrack_linuxproc_proctrack_linuxproc_la_LDFLAGS = $(PLUGIN_LDFLAGS)

# What its unit tests are linked with, too.
if LIBCGROUP
noinst_LTLIBRARIES += libcgroups.la
stepdplugin_LTLIBRARIES += proctrack/cgroup/proctrack_cgroup.la
endif
libcgroups_la_SOURCES = \
	proctrack/cgroup/clone.c proctrack/cgroup/clone.h proctrack/cgroup/controllers.c \
	proctrack/cgroup/controllers.h proctrack/cgroup/controllers_why.c \
	proctrack/cgroup/devices.c proctrack/cgroup/devices.h proctrack/cgroup/files.c \
	proctrack/cgroup/files.h proctrack/cgroup/group.c proctrack/cgroup/group.h \
	proctrack/cgroup/group_signal.c proctrack/cgroup/libcgroup.c proctrack/cgroup/libcgroup.h \
	proctrack/cgroup/limits.c proctrack/cgroup/limits.h proctrack/cgroup/mounts.c \
	proctrack/cgroup/mounts.h proctrack/cgroup/own.c proctrack/cgroup/own.h \
	proctrack/cgroup/pidset.c proctrack/cgroup/pidset.h proctrack/cgroup/place.c \
	proctrack/cgroup/place.h proctrack/cgroup/place_leaf.c proctrack/cgroup/probe.c \
	proctrack/cgroup/probe.h proctrack/cgroup/step.c proctrack/cgroup/step.h \
	proctrack/cgroup/tree.c proctrack/cgroup/tree.h proctrack/cgroup/trial.c \
	proctrack/cgroup/trial.h proctrack/cgroup/usage.c proctrack/cgroup/usage.h
libcgroups_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBCGROUP_CFLAGS)
libcgroups_la_LIBADD = libstepdsystemd.la libbase.la
proctrack_cgroup_proctrack_cgroup_la_SOURCES = \
	proctrack/cgroup/cgroup.c proctrack/cgroup/cgroup_members.c proctrack/cgroup/checkup.c \
	proctrack/cgroup/checkup.h proctrack/cgroup/checkup_limits.c \
	proctrack/cgroup/checkup_room.c proctrack/cgroup/container.c proctrack/cgroup/container.h \
	proctrack/cgroup/members.c proctrack/cgroup/members.h proctrack/cgroup/state.c \
	proctrack/cgroup/state.h proctrack/tell.c proctrack/tell.h
proctrack_cgroup_proctrack_cgroup_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBCGROUP_CFLAGS)
proctrack_cgroup_proctrack_cgroup_la_LIBADD = libcgroups.la
proctrack_cgroup_proctrack_cgroup_la_LDFLAGS = $(PLUGIN_LDFLAGS)
