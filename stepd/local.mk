stepdinclude_HEADERS = \
	stepd/api/client.h stepd/api/env.h stepd/api/limits.h stepd/api/mpi.h stepd/api/plugin.h stepd/api/proctrack.h stepd/api/step.h \
	stepd/api/usage.h

# What knows nothing of steps; plugins link it too.
noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
	stepd/base/base64.c stepd/base/base64.h \
	stepd/base/bitset.c stepd/base/bitset.h \
	stepd/base/cleanup.h \
	stepd/base/dirnames.c stepd/base/dirnames.h \
	stepd/base/dynlib.c stepd/base/dynlib.h \
	stepd/base/err.c stepd/base/err.h \
	stepd/base/failpoint.h \
	stepd/base/fs.c stepd/base/fs.h \
	stepd/base/hostlist.c stepd/base/hostlist.h \
	stepd/base/log.c stepd/base/log.h \
	stepd/base/netaddr.c stepd/base/netaddr.h \
	stepd/base/parse.c stepd/base/parse.h \
	stepd/base/pidref.c stepd/base/pidref.h \
	stepd/base/rawcall.h \
	stepd/base/procstat.c stepd/base/procstat.h \
	stepd/base/signals.c stepd/base/signals.h \
	stepd/base/strv.c stepd/base/strv.h \
	stepd/base/userpath.c stepd/base/userpath.h

# The steps of the node, for all who read of them.
noinst_LTLIBRARIES += libstate.la
libstate_la_SOURCES = \
	stepd/state/steps.c stepd/state/steps.h
libstate_la_LIBADD = libbase.la $(JANSSON_LIBS)

# The client library. The commands of the tree have it built in, so that they run where they were
# built and beside an installed library of another version.
noinst_LTLIBRARIES += libclient.la
libclient_la_SOURCES = \
	stepd/client/act.c \
	stepd/client/ask.c \
	stepd/client/client.c stepd/client/client_impl.h \
	stepd/client/connect.c \
	stepd/client/error.c stepd/client/error.h \
	stepd/client/follow.c \
	stepd/client/reply.c stepd/client/reply.h \
	stepd/client/steps.c \
	stepd/client/stream.c stepd/client/stream.h
libclient_la_LIBADD = libstate.la $(JANSSON_LIBS) # libstate.la has libbase.la in it

lib_LTLIBRARIES += libstepd.la
libstepd_la_SOURCES =
libstepd_la_LIBADD = libclient.la
libstepd_la_LDFLAGS = $(STEPD_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-Wl,--version-script=$(srcdir)/stepd/client/libstepd.map
EXTRA_libstepd_la_DEPENDENCIES = stepd/client/libstepd.map
EXTRA_DIST += stepd/client/libstepd.map

# The control socket's server. The interface file is what clients are written by, and the program
# hands out the same text.
noinst_LTLIBRARIES += libcontrol.la
libcontrol_la_SOURCES = \
	stepd/control/access.c \
	stepd/control/buffer.c stepd/control/buffer.h \
	stepd/control/call.c \
	stepd/control/conn.c \
	stepd/control/control.h stepd/control/control_impl.h \
	stepd/control/frame.c stepd/control/frame.h \
	stepd/control/interface.h \
	stepd/control/listen.c stepd/control/listen.h \
	stepd/control/reply.c \
	stepd/control/room.c \
	stepd/control/save.c \
	stepd/control/server.c \
	stepd/control/service.c
nodist_libcontrol_la_SOURCES = stepd/control/interface.c
libcontrol_la_LIBADD = libbase.la $(JANSSON_LIBS) $(EV_LIBS)
varlinkdir = $(datadir)/varlink
dist_varlink_DATA = stepd/control/io.stepd.Step.varlink
CLEANFILES += stepd/control/interface.c
stepd/control/interface.c: stepd/control/io.stepd.Step.varlink
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		echo '#include "stepd/control/interface.h"'; \
		echo 'const char control_interface_text[] ='; \
		sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $(top_srcdir)/stepd/control/io.stepd.Step.varlink; \
		echo ';'; } >$@.tmp && mv $@.tmp $@

# The agent without its command line: tests link it.
noinst_LTLIBRARIES += libagent.la
libagent_la_SOURCES = \
	stepd/plugin/plugin.c stepd/plugin/plugin.h \
	proctrack/generic.c proctrack/generic.h \
	proctrack/members.c proctrack/members.h \
	proctrack/procs.c proctrack/procs.h \
	proctrack/procusage.c proctrack/procusage.h \
	proctrack/proctrack.c proctrack/proctrack.h proctrack/proctrack_impl.h \
	proctrack/proctrack_members.c \
	proctrack/tell.c proctrack/tell.h \
	mpi/confine.c mpi/confine.h \
	mpi/mpi.c mpi/mpi.h \
	mpi/service.c mpi/service.h mpi/service_process.c mpi/service_process.h \
	stepd/agent/account/account.c stepd/agent/account/account.h \
	stepd/agent/agent.c stepd/agent/agent.h stepd/agent/agent_impl.c stepd/agent/agent_impl.h \
	stepd/agent/launch/batch.c stepd/agent/launch/batch.h \
	stepd/agent/binding/bind_text.c stepd/agent/binding/bind_text.h \
	stepd/agent/binding/binding.c stepd/agent/binding/binding.h \
	stepd/agent/binding/binding_bounds.c \
	stepd/agent/binding/binding_child.c \
	stepd/agent/binding/binding_env.c \
	stepd/agent/launch/child.c stepd/agent/launch/child.h \
	stepd/agent/launch/linked.c stepd/agent/launch/linked.h \
	stepd/agent/singletons.c stepd/agent/singletons.h \
	stepd/agent/clean.c stepd/agent/clean.h \
	stepd/agent/closing.c stepd/agent/closing.h \
	stepd/agent/ending.c stepd/agent/ending.h \
	stepd/agent/ending_save.c \
	stepd/agent/reaping.c stepd/agent/reaping.h \
	stepd/agent/launch/environ.c stepd/agent/launch/environ.h \
	stepd/agent/mpi_door.c stepd/agent/mpi_door.h \
	stepd/agent/mpi_streams.c stepd/agent/mpi_streams.h \
	stepd/agent/launch/join.c stepd/agent/launch/join.h \
	stepd/agent/launch/join_part.c stepd/agent/launch/join_part.h \
	stepd/agent/launch/join_request.c stepd/agent/launch/join_request.h \
	stepd/agent/event_text.c stepd/agent/event_text.h \
	stepd/agent/events.c stepd/agent/events.h \
	stepd/agent/stdio/copy.c stepd/agent/stdio/copy.h \
	stepd/agent/stdio/feed.c stepd/agent/stdio/feed.h \
	stepd/agent/stdio/fname.c stepd/agent/stdio/fname.h \
	stepd/agent/launch/identity.c stepd/agent/launch/identity.h \
	stepd/agent/keeper_line.c stepd/agent/keeper_line.h \
	stepd/agent/killseq.c stepd/agent/killseq.h \
	stepd/agent/launch/launch.c stepd/agent/launch/launch.h \
	stepd/agent/launch/launcher.c stepd/agent/launch/launcher.h \
	stepd/agent/limits.c stepd/agent/limits.h \
	stepd/agent/limits_devices.c \
	stepd/agent/account/oom.c stepd/agent/account/oom.h \
	stepd/agent/leftover.c stepd/agent/leftover.h \
	stepd/agent/member_watch.c stepd/agent/member_watch.h \
	stepd/agent/methods/act.c \
	stepd/agent/methods/ask.c \
	stepd/agent/methods/carry.c \
	stepd/agent/methods/change.c \
	stepd/agent/methods/find.c \
	stepd/agent/methods/follow.c \
	stepd/agent/methods/listing.c stepd/agent/methods/listing.h \
	stepd/agent/methods/methods.c stepd/agent/methods/methods.h stepd/agent/methods/methods_impl.h \
	stepd/agent/methods/notify.c \
	stepd/agent/methods/params.c \
	stepd/agent/methods/processes.c \
	stepd/agent/methods/table.c \
	stepd/agent/methods/usage.c \
	stepd/agent/stdio/note.c stepd/agent/stdio/note.h \
	stepd/agent/binding/placement.c stepd/agent/binding/placement.h \
	stepd/agent/launch/plan.c stepd/agent/launch/plan.h \
	stepd/agent/launch/plan_binding.c \
	stepd/agent/launch/plan_programs.c \
	stepd/agent/pri_watch.c stepd/agent/pri_watch.h \
	stepd/agent/stdio/pump.c stepd/agent/stdio/pump.h stepd/agent/stdio/pump_impl.h \
	stepd/agent/stdio/pump_copy.c \
	stepd/agent/stdio/pump_save.c \
	stepd/agent/reexec/handover.c stepd/agent/reexec/handover.h \
	stepd/agent/recover/added.c stepd/agent/recover/added.h \
	stepd/agent/recover/adopt.c stepd/agent/recover/adopt.h \
	stepd/agent/recover/adopted.c stepd/agent/recover/adopted.h \
	stepd/agent/recover/exit_watch.c stepd/agent/recover/exit_watch.h \
	stepd/agent/recover/heir.c stepd/agent/recover/heir.h \
	stepd/agent/recover/history.c stepd/agent/recover/history.h \
	stepd/agent/recover/recover.h \
	stepd/agent/recover/state_doc.c stepd/agent/recover/state_doc.h \
	stepd/agent/reexec/continue.c \
	stepd/agent/reexec/reexec.c stepd/agent/reexec/reexec.h \
	stepd/agent/reexec/reexec_program.c \
	stepd/agent/reexec/reexec_save.c \
	stepd/agent/requests_save.c \
	stepd/agent/suspend_save.c \
	stepd/agent/registry.c stepd/agent/registry.h \
	stepd/agent/registry_lock.c stepd/agent/registry_lock.h \
	stepd/agent/limit_signal.c stepd/agent/limit_signal.h \
	stepd/agent/pausable.c stepd/agent/pausable.h \
	stepd/agent/launch/process.c stepd/agent/launch/process.h \
	stepd/agent/report.c stepd/agent/report.h \
	stepd/agent/requests.c stepd/agent/requests.h \
	stepd/agent/requests_work.c \
	stepd/agent/result.c stepd/agent/result.h \
	stepd/agent/launch/rlimits.c stepd/agent/launch/rlimits.h \
	stepd/agent/account/sample.c stepd/agent/account/sample.h \
	stepd/agent/account/sample_text.c stepd/agent/account/sample_text.h \
	stepd/agent/service.c stepd/agent/service.h \
	stepd/agent/site_config.c stepd/agent/site_config.h \
	stepd/agent/stdio/sink.c stepd/agent/stdio/sink.h \
	stepd/agent/spec/spec.c stepd/agent/spec/spec.h \
	stepd/agent/spec/spec_json.c stepd/agent/spec/spec_json.h \
	stepd/agent/spec/rank_bits.h \
	stepd/agent/spec/spec_binding.c \
	stepd/agent/spec/spec_fields.c \
	stepd/agent/spec/spec_layout.c \
	stepd/agent/spec/spec_map.c \
	stepd/agent/spec/spec_limits.c \
	stepd/agent/spec/spec_policy.c \
	stepd/agent/spec/spec_ranks.c \
	stepd/agent/spec/spec_rows.c \
	stepd/agent/spec/spec_text.c \
	stepd/agent/spec/spec_wire.c \
	stepd/agent/status.c stepd/agent/status.h \
	stepd/agent/launch/spawn.c stepd/agent/launch/spawn.h \
	stepd/agent/stdio/stdfd.c stepd/agent/stdio/stdfd.h \
	stepd/agent/stdio/stdio.c stepd/agent/stdio/stdio.h stepd/agent/stdio/stdio_impl.h \
	stepd/agent/stdio/stdio_save.c \
	stepd/agent/stdio/stdio_share.c \
	stepd/agent/stdio/stdio_task.c \
	stepd/agent/stdio/stdio_tools.c \
	stepd/agent/stdio/toolin.c stepd/agent/stdio/toolin.h \
	stepd/agent/stdio/stdio_files.c stepd/agent/stdio/stdio_files.h \
	stepd/agent/suspend.c stepd/agent/suspend.h \
	stepd/agent/tasks.c stepd/agent/tasks.h \
	stepd/agent/binding/topology.c stepd/agent/binding/topology.h \
	stepd/agent/trace.c stepd/agent/trace.h \
	stepd/agent/account/usage.c stepd/agent/account/usage.h \
	stepd/agent/account/usage_table.c stepd/agent/account/usage_table.h \
	stepd/agent/account/usage_values.c stepd/agent/account/usage_values.h \
	stepd/agent/worker.c stepd/agent/worker.h
libagent_la_LIBADD = libcontrol.la libmpilink.la libstepdsystemd.la libstate.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

sbin_PROGRAMS += stepd/cli/stepd
# All but the version, of which tests build another one.
STEPD_PROGRAM_SOURCES = \
	stepd/cli/bootstrap.c stepd/cli/bootstrap.h \
	stepd/cli/check_spec.c \
	stepd/cli/cli.h \
	stepd/cli/continue.c \
	stepd/cli/doctor.c stepd/cli/doctor.h \
	stepd/cli/doctor_dir.c stepd/cli/doctor_dir.h \
	stepd/cli/doctor_keeper.c stepd/cli/doctor_keeper.h \
	stepd/cli/doctor_kernel.c \
	stepd/cli/doctor_mpi.c stepd/cli/doctor_mpi.h \
	stepd/cli/doctor_runtime.c \
	stepd/cli/doctor_trial.c stepd/cli/doctor_trial.h \
	stepd/cli/doctor_user.c \
	stepd/cli/layout.c stepd/cli/layout.h \
	stepd/cli/findings.c stepd/cli/findings.h \
	stepd/cli/main.c \
	stepd/cli/mpi_list.c stepd/cli/mpi_list.h \
	stepd/cli/multi_prog.c stepd/cli/multi_prog.h \
	stepd/cli/plugins.c \
	stepd/cli/relay/address.c stepd/cli/relay/address.h \
	stepd/cli/relay/channel.c stepd/cli/relay/channel.h \
	stepd/cli/relay/keeper.c stepd/cli/relay/keeper.h \
	stepd/cli/relay/options.c stepd/cli/relay/options.h \
	stepd/cli/relay/relay.c \
	stepd/cli/relay/relay_doc.c stepd/cli/relay/relay_doc.h \
	stepd/cli/relay/streams.c stepd/cli/relay/streams.h \
	stepd/cli/relay/talk.c stepd/cli/relay/talk.h \
	stepd/cli/run.c \
	stepd/cli/run_convert.c stepd/cli/run_convert.h \
	stepd/cli/run_doc.c \
	stepd/cli/run_limits.c \
	stepd/cli/run_options.c stepd/cli/run_options.h \
	stepd/cli/run_table.c \
	stepd/cli/serve.c \
	stepd/cli/site.c stepd/cli/site.h \
	stepd/cli/text.c stepd/cli/text.h
stepd_cli_stepd_SOURCES = $(STEPD_PROGRAM_SOURCES) \
	stepd/cli/version.c stepd/cli/version.h
stepd_cli_stepd_LDADD = libclient.la libmpiselftest.la libmpiouter.la libagent.la

# The tasks of the steps by which "stepd doctor --mpi" tries plugins: found beside stepd, or where
# they are installed.
pkglibexec_PROGRAMS += stepd/cli/selftest/mpi-selftest
stepd_cli_selftest_mpi_selftest_SOURCES = stepd/cli/selftest/main.c
stepd_cli_selftest_mpi_selftest_LDADD = libmpiselftest.la libmpiouter.la libbase.la

# The commands that ask steps.
bin_PROGRAMS += stepd/cli/stepctl
stepd_cli_stepctl_SOURCES = \
	stepd/cli/ctl/ask.c stepd/cli/ctl/ask.h \
	stepd/cli/ctl/clean.c \
	stepd/cli/ctl/ctl.h \
	stepd/cli/ctl/events.c \
	stepd/cli/ctl/find.c stepd/cli/ctl/find.h \
	stepd/cli/ctl/find_agents.c \
	stepd/cli/ctl/find_local.c \
	stepd/cli/ctl/list.c \
	stepd/cli/ctl/main.c \
	stepd/cli/ctl/namespace.c stepd/cli/ctl/namespace.h \
	stepd/cli/ctl/options.c stepd/cli/ctl/options.h \
	stepd/cli/ctl/pids.c \
	stepd/cli/ctl/ps.c \
	stepd/cli/ctl/ps_tree.c stepd/cli/ctl/ps_tree.h \
	stepd/cli/ctl/say.c \
	stepd/cli/ctl/set_limits.c \
	stepd/cli/ctl/show.c \
	stepd/cli/ctl/signal.c \
	stepd/cli/ctl/suspend.c \
	stepd/cli/ctl/table.c stepd/cli/ctl/table.h \
	stepd/cli/ctl/target.c stepd/cli/ctl/target.h \
	stepd/cli/ctl/tell.c \
	stepd/cli/ctl/term.c stepd/cli/ctl/term.h \
	stepd/cli/ctl/top.c \
	stepd/cli/ctl/top_data.c stepd/cli/ctl/top_data.h \
	stepd/cli/ctl/top_screen.c stepd/cli/ctl/top_screen.h \
	stepd/cli/ctl/top_view.c stepd/cli/ctl/top_view.h \
	stepd/cli/ctl/tracker.c stepd/cli/ctl/tracker.h \
	stepd/cli/ctl/usage.c \
	stepd/cli/ctl/usage_read.c stepd/cli/ctl/usage_read.h \
	stepd/cli/ctl/wait.c \
	stepd/cli/multi_prog.c stepd/cli/multi_prog.h \
	stepd/cli/run_convert.c stepd/cli/run_convert.h \
	stepd/cli/run_doc.c \
	stepd/cli/run_limits.c \
	stepd/cli/run_options.c stepd/cli/run_options.h \
	stepd/cli/run_table.c \
	stepd/cli/site.c stepd/cli/site.h
stepd_cli_stepctl_LDADD = libclient.la libagent.la

# The command that starts steps, here and on several nodes.
bin_PROGRAMS += stepd/cli/steprun
stepd_cli_steprun_SOURCES = \
	stepd/cli/across/across.c stepd/cli/across/across.h stepd/cli/across/across_impl.h \
	stepd/cli/across/conn.c \
	stepd/cli/across/go.c \
	stepd/cli/across/here.c stepd/cli/across/here.h \
	stepd/cli/across/hooks.c stepd/cli/across/hooks.h \
	stepd/cli/across/input.c stepd/cli/across/input.h \
	stepd/cli/across/launch.c stepd/cli/across/launch.h \
	stepd/cli/across/main.c \
	stepd/cli/across/messages.c \
	stepd/cli/across/nodes.c stepd/cli/across/nodes.h \
	stepd/cli/across/options.c stepd/cli/across/options.h \
	stepd/cli/across/output.c stepd/cli/across/output.h \
	stepd/cli/across/running.c stepd/cli/across/running.h \
	stepd/cli/across/user.c stepd/cli/across/user.h \
	stepd/cli/across/verdict.c \
	stepd/cli/layout.c stepd/cli/layout.h \
	stepd/cli/mpi_list.c stepd/cli/mpi_list.h \
	stepd/cli/multi_prog.c stepd/cli/multi_prog.h \
	stepd/cli/relay/address.c stepd/cli/relay/address.h \
	stepd/cli/relay/channel.c stepd/cli/relay/channel.h \
	stepd/cli/relay/keeper.c stepd/cli/relay/keeper.h \
	stepd/cli/relay/relay_doc.c stepd/cli/relay/relay_doc.h \
	stepd/cli/relay/talk.c stepd/cli/relay/talk.h \
	stepd/cli/run_convert.c stepd/cli/run_convert.h \
	stepd/cli/run_doc.c \
	stepd/cli/run_limits.c \
	stepd/cli/run_options.c stepd/cli/run_options.h \
	stepd/cli/run_table.c \
	stepd/cli/site.c stepd/cli/site.h \
	stepd/cli/text.c stepd/cli/text.h \
	stepd/cli/version.c stepd/cli/version.h
stepd_cli_steprun_CPPFLAGS = $(AM_CPPFLAGS) -DSTEPD_PROGRAM='"$(sbindir)/stepd"'
stepd_cli_steprun_LDADD = libclient.la libagent.la
