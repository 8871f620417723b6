# Slurm's step sockets for the steps of stepd; its tests take the parts that do nothing by themselves.
noinst_LTLIBRARIES += libslurmwire.la
libslurmwire_la_SOURCES = \
	contrib/slurm/lookup.c contrib/slurm/lookup.h \
	contrib/slurm/names.c contrib/slurm/names.h \
	contrib/slurm/requests.c contrib/slurm/requests.h \
	contrib/slurm/wire.c contrib/slurm/wire.h
libslurmwire_la_LIBADD = libbase.la $(JANSSON_LIBS)

sbin_PROGRAMS += contrib/slurm/stepd-slurm-socket
contrib_slurm_stepd_slurm_socket_SOURCES = \
	contrib/slurm/call.c contrib/slurm/call.h \
	contrib/slurm/conn.c \
	contrib/slurm/listener.c \
	contrib/slurm/main.c \
	contrib/slurm/server.h \
	contrib/slurm/spool.c contrib/slurm/spool.h \
	contrib/slurm/watch.c contrib/slurm/watch.h
contrib_slurm_stepd_slurm_socket_LDADD = libslurmwire.la libclient.la libstepdsystemd.la \
	libstate.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

# What slurmd starts in slurmstepd's place. The reader of its messages is a library for tests.
noinst_LTLIBRARIES += libslurminit.la
libslurminit_la_SOURCES = \
	contrib/jobd/conf/lines.c contrib/jobd/conf/lines.h \
	contrib/slurm/batch_spec.c contrib/slurm/batch_spec.h \
	contrib/slurm/bind.c contrib/slurm/bind.h \
	contrib/slurm/decision.c contrib/slurm/decision.h \
	contrib/slurm/fifos.c contrib/slurm/fifos.h \
	contrib/slurm/gres.c contrib/slurm/gres.h contrib/slurm/gres_impl.h \
	contrib/slurm/gres_bind.c contrib/slurm/gres_bind.h \
	contrib/slurm/hosts.h \
	contrib/slurm/init.c contrib/slurm/init.h \
	contrib/slurm/job_cgroup.c contrib/slurm/job_cgroup.h \
	contrib/slurm/job_namespace.c contrib/slurm/job_namespace.h \
	contrib/slurm/launch.c contrib/slurm/launch.h \
	contrib/slurm/pmix_settings.c contrib/slurm/pmix_settings.h \
	contrib/slurm/plugstack.c contrib/slurm/plugstack.h \
	contrib/slurm/release.c contrib/slurm/release.h \
	contrib/slurm/rules.c contrib/slurm/rules.h \
	contrib/slurm/site_conf.c contrib/slurm/site_conf.h \
	contrib/slurm/site_nodes.c contrib/slurm/site_nodes.h \
	contrib/slurm/spank_check.c contrib/slurm/spank_check.h \
	contrib/slurm/spank_file.c contrib/slurm/spank_file.h \
	contrib/slurm/step_limits.c contrib/slurm/step_limits.h \
	contrib/slurm/step_spec.c contrib/slurm/step_spec.h \
	contrib/slurm/task_script.c contrib/slurm/task_script.h \
	contrib/slurm/token.c contrib/slurm/token.h \
	contrib/slurm/unpack.c contrib/slurm/unpack.h
libslurminit_la_LIBADD = libpmi.la libbase.la $(JANSSON_LIBS)

# The steps that it serves: messages to srun and slurmctld, and srun's streams.
noinst_LTLIBRARIES += libslurmserve.la
libslurmserve_la_SOURCES = \
	contrib/slurm/auth.c contrib/slurm/auth.h \
	contrib/slurm/credential.c contrib/slurm/credential.h \
	contrib/slurm/delivery.c contrib/slurm/delivery.h \
	contrib/slurm/k12.c contrib/slurm/k12.h \
	contrib/slurm/pack.c contrib/slurm/pack.h \
	contrib/slurm/rpc.c contrib/slurm/rpc.h \
	contrib/slurm/sack.c contrib/slurm/sack.h \
	contrib/slurm/io_client.c contrib/slurm/io_client.h \
	contrib/slurm/pmi_gather.c contrib/slurm/pmi_gather.h \
	contrib/slurm/pmi_messages.c contrib/slurm/pmi_messages.h \
	contrib/slurm/pmix_fence.c contrib/slurm/pmix_fence.h \
	contrib/slurm/pmix_messages.c contrib/slurm/pmix_messages.h \
	contrib/slurm/srun_io.c contrib/slurm/srun_io.h \
	contrib/slurm/srun_message.c contrib/slurm/srun_message.h \
	contrib/slurm/step_record.c contrib/slurm/step_record.h \
	contrib/slurm/step_energy.c contrib/slurm/step_energy.h \
	contrib/slurm/step_usage.c contrib/slurm/step_usage.h \
	contrib/slurm/tree.c contrib/slurm/tree.h \
	contrib/slurm/window.c contrib/slurm/window.h
libslurmserve_la_LIBADD = libmungeclient.la libpmi.la libslurminit.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

# The program without its main().
noinst_LTLIBRARIES += libslurmstep.la
libslurmstep_la_CPPFLAGS = $(AM_CPPFLAGS) -DSTEPD_PROGRAM='"$(sbindir)/stepd"' \
	-DTASK_PROGRAM='"$(pkglibexecdir)/stepd-slurm-task"' \
	-DSPANK_LIBRARY='"$(pkglibexecdir)/step_hooks_spank.so"'
libslurmstep_la_SOURCES = \
	contrib/slurm/accounting.c contrib/slurm/accounting.h \
	contrib/slurm/attach.c contrib/slurm/attach.h \
	contrib/slurm/batch.c contrib/slurm/batch.h \
	contrib/slurm/call.c contrib/slurm/call.h \
	contrib/slurm/conn.c \
	contrib/slurm/epilogs.c contrib/slurm/epilogs.h \
	contrib/slurm/handover.c contrib/slurm/handover.h \
	contrib/slurm/job_tmpfs.c contrib/slurm/job_tmpfs.h \
	contrib/slurm/listener.c \
	contrib/slurm/manager_socket.c contrib/slurm/manager_socket.h \
	contrib/slurm/origin.c contrib/slurm/origin.h \
	contrib/slurm/pam_session.c contrib/slurm/pam_session.h \
	contrib/slurm/pmi_tree.c contrib/slurm/pmi_tree.h \
	contrib/slurm/pmix_nodes.c contrib/slurm/pmix_nodes.h \
	contrib/slurm/pmix_peers.c contrib/slurm/pmix_peers.h \
	contrib/slurm/programs.c contrib/slurm/programs.h \
	contrib/slurm/served.c contrib/slurm/served.h \
	contrib/slurm/served_impl.h \
	contrib/slurm/served_prepare.c \
	contrib/slurm/served_report.c \
	contrib/slurm/served_request.c \
	contrib/slurm/server.h \
	contrib/slurm/settings.c contrib/slurm/settings.h \
	contrib/slurm/site_script.c contrib/slurm/site_script.h \
	contrib/slurm/spank_serve.c contrib/slurm/spank_serve.h contrib/slurm/spank_wire.h \
	contrib/slurm/spool.c contrib/slurm/spool.h \
	contrib/slurm/srun_abort.c contrib/slurm/srun_abort.h \
	contrib/slurm/suspension.c contrib/slurm/suspension.h \
	contrib/slurm/user_child.c contrib/slurm/user_child.h \
	contrib/slurm/user_probe.c contrib/slurm/user_probe.h \
	contrib/slurm/x11.c contrib/slurm/x11.h \
	contrib/slurm/xauthority.c contrib/slurm/xauthority.h \
	mpi/wire/listener.c mpi/wire/listener.h \
	stepd/cli/options.c stepd/cli/options.h \
	stepd/cli/relay/supervisor.c stepd/cli/relay/supervisor.h \
	stepd/cli/run/multi_prog.c stepd/cli/run/multi_prog.h \
	stepd/cli/site_config.c stepd/cli/site_config.h \
	stepd/loop/trim.c stepd/loop/trim.h \
	stepd/process/identity.c stepd/process/identity.h \
	stepd/process/mount_namespace.c stepd/process/mount_namespace.h \
	stepd/process/process.c stepd/process/process.h
libslurmstep_la_LIBADD = libslurmserve.la libpeer.la libslurminit.la libslurmwire.la libclient.la libnode.la \
	libstate.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

pkglibexec_PROGRAMS += contrib/slurm/stepd-slurmstepd
contrib_slurm_stepd_slurmstepd_SOURCES = contrib/slurm/slurmstepd.c
contrib_slurm_stepd_slurmstepd_LDADD = libslurmstep.la

# The library of step hooks that hosts SPANK plugins in the agent.
stephooksdir = $(pkglibexecdir)
stephooks_LTLIBRARIES = contrib/slurm/step_hooks_spank.la
contrib_slurm_step_hooks_spank_la_SOURCES = \
	contrib/slurm/origin.c contrib/slurm/origin.h \
	contrib/slurm/spank_api.c contrib/slurm/spank_facts.c \
	contrib/slurm/spank_file.c contrib/slurm/spank_file.h \
	contrib/slurm/spank_host.c contrib/slurm/spank_host.h \
	contrib/slurm/spank_option.c contrib/slurm/spank_wire.h
contrib_slurm_step_hooks_spank_la_LIBADD = libbase.la $(JANSSON_LIBS)
contrib_slurm_step_hooks_spank_la_LDFLAGS = $(PLUGIN_LDFLAGS) \
	-export-symbols-regex '^(stepd_step_hooks|slurm_(debug[2-5]?|error|info|spank_log|verbose)|spank_(context|remote|strerror|symbol_supported|get_item|(get|set|unset)env|job_control_(get|set|unset)env|option_(getopt|register)))$$'

# What a task is executed as that has a prolog.
pkglibexec_PROGRAMS += contrib/slurm/stepd-slurm-task
contrib_slurm_stepd_slurm_task_SOURCES = contrib/slurm/task_program.c contrib/slurm/origin.c contrib/slurm/origin.h
# A plugin has origin.c, too, made another way.
contrib_slurm_stepd_slurm_task_CPPFLAGS = $(AM_CPPFLAGS)
contrib_slurm_stepd_slurm_task_LDADD = libbase.la

# The findings of "stepd doctor --slurm". jobd's reader of slurm.conf is the only one.
pkglibexec_PROGRAMS += contrib/slurm/stepd-slurm-doctor
contrib_slurm_stepd_slurm_doctor_SOURCES = \
	contrib/slurm/doctor.c \
	contrib/slurm/handover.c contrib/slurm/handover.h \
	contrib/slurm/settings.c contrib/slurm/settings.h \
	stepd/cli/site_config.c stepd/cli/site_config.h
contrib_slurm_stepd_slurm_doctor_LDADD = libslurminit.la libnode.la libbase.la $(JANSSON_LIBS)

dist_man_MANS += doc/stepd-slurm.8 doc/stepd-slurm-socket.8
EXTRA_DIST += contrib/slurm/README.md contrib/slurm/stepd-slurm-socket.service.in
if SYSTEMD_UNITS
systemdsystemunit_DATA += contrib/slurm/stepd-slurm-socket.service
endif
CLEANFILES += contrib/slurm/stepd-slurm-socket.service
contrib/slurm/stepd-slurm-socket.service: $(srcdir)/contrib/slurm/stepd-slurm-socket.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/slurm && \
		sed 's|@sbindir[@]|$(sbindir)|' '$(srcdir)/contrib/slurm/stepd-slurm-socket.service.in' >'$@.new' && \
		mv '$@.new' '$@'
