stepdinclude_HEADERS = \
	stepd/api/client.h stepd/api/env.h stepd/api/limits.h stepd/api/mpi.h stepd/api/plugin.h stepd/api/proctrack.h stepd/api/step.h \
	stepd/api/step_hooks.h \
	stepd/api/usage.h
if JOBD
stepdinclude_HEADERS += stepd/api/bitstring.h stepd/api/list.h stepd/api/pack.h stepd/api/preempt.h stepd/api/select.h
endif

# What knows nothing of steps; plugins link it too.
noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
	stepd/base/base64.c stepd/base/base64.h \
	stepd/base/bitset.c stepd/base/bitset.h \
	stepd/base/buffer.c stepd/base/buffer.h \
	stepd/base/cleanup.h \
	stepd/base/clock.h \
	stepd/base/dynlib.c stepd/base/dynlib.h \
	stepd/base/err.c stepd/base/err.h \
	stepd/base/failpoint.h \
	stepd/base/fs.c stepd/base/fs.h \
	stepd/base/hostlist.c stepd/base/hostlist.h \
	stepd/base/json.h \
	stepd/base/netaddr.c stepd/base/netaddr.h \
	stepd/base/parse.c stepd/base/parse.h \
	stepd/base/rawcall.h \
	stepd/base/proc.c stepd/base/proc.h \
	stepd/base/strv.c stepd/base/strv.h

# For those whose clients connect by TCP within the node.
noinst_LTLIBRARIES += libpeer.la
libpeer_la_SOURCES = stepd/base/peer.c stepd/base/peer.h

# For those whose peers authenticate by munge.
noinst_LTLIBRARIES += libmungeclient.la
libmungeclient_la_SOURCES = stepd/base/munge_client.c stepd/base/munge_client.h
libmungeclient_la_CPPFLAGS = $(AM_CPPFLAGS) $(MUNGE_CFLAGS)

# The steps of the node, for all who read of them.
noinst_LTLIBRARIES += libstate.la
libstate_la_SOURCES = \
	stepd/state/steps.c stepd/state/steps.h
libstate_la_LIBADD = libbase.la $(JANSSON_LIBS)

# The client library. The commands of the tree have it built in, so that they run where they were
# built and beside an installed library of another version.
noinst_LTLIBRARIES += libclient.la
libclient_la_SOURCES = \
	stepd/client/client.c stepd/client/client.h stepd/client/client_impl.h \
	stepd/client/methods.c
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
	stepd/control/call.c \
	stepd/control/conn.c \
	stepd/control/control.h stepd/control/control_impl.h \
	stepd/control/save.c \
	stepd/control/server.c
nodist_libcontrol_la_SOURCES = stepd/control/interface.c
libcontrol_la_LIBADD = libbase.la $(JANSSON_LIBS) $(EV_LIBS)
varlinkdir = $(datadir)/varlink
dist_varlink_DATA = stepd/control/io.stepd.Step.varlink
CLEANFILES += stepd/control/interface.c
stepd/control/interface.c: stepd/control/io.stepd.Step.varlink stepd/local.mk
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		echo '#include "stepd/control/control.h"'; \
		echo 'const char control_interface_text[] ='; \
		sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $(top_srcdir)/stepd/control/io.stepd.Step.varlink; \
		echo ';'; } >$@.tmp && mv $@.tmp $@

# Plugins, trackers, specs and what steps keep on disk: for the agent, and for commands beside it.
noinst_LTLIBRARIES += libnode.la
libnode_la_SOURCES = \
	proctrack/generic.c proctrack/generic.h \
	proctrack/members.c proctrack/members.h \
	proctrack/procs.c proctrack/procs.h \
	proctrack/proctrack.c proctrack/proctrack.h \
	proctrack/procusage.c proctrack/procusage.h \
	proctrack/reporter.c proctrack/reporter.h \
	stepd/account/apply_limits.c stepd/account/apply_limits.h \
	stepd/account/usage.c stepd/account/usage.h \
	stepd/plugin/plugin.c stepd/plugin/plugin.h \
	stepd/record/clean.c stepd/record/clean.h \
	stepd/record/events.c stepd/record/events.h \
	stepd/record/registry.c stepd/record/registry.h \
	stepd/record/report.c stepd/record/report.h \
	stepd/record/state_doc.c stepd/record/state_doc.h \
	stepd/snapshot/handover.c stepd/snapshot/handover.h \
	stepd/spec/bind_text.c stepd/spec/bind_text.h \
	stepd/spec/fname.c stepd/spec/fname.h \
	stepd/spec/limits.h \
	stepd/spec/spec.c stepd/spec/spec.h \
	stepd/spec/spec_fields.c \
	stepd/spec/spec_json.h \
	stepd/spec/spec_layout.c \
	stepd/spec/spec_limits.c \
	stepd/spec/spec_rows.c
libnode_la_LIBADD = libstate.la libbase.la $(JANSSON_LIBS)

# The agent without its command line: tests link it.
noinst_LTLIBRARIES += libagent.la
libagent_la_SOURCES = \
	mpi/confine.c mpi/confine.h \
	mpi/mpi.c mpi/mpi.h \
	mpi/service.c mpi/service.h \
	stepd/account/account.c stepd/account/account.h \
	stepd/account/tasks.c stepd/account/tasks.h \
	stepd/binding/binding.c stepd/binding/binding.h \
	stepd/binding/placement.c stepd/binding/placement.h \
	stepd/binding/topology.c stepd/binding/topology.h \
	stepd/frontend/frontends.c stepd/frontend/frontends.h \
	stepd/frontend/mpi_requests.c \
	stepd/launch/child.c stepd/launch/child.h \
	stepd/launch/environ.c stepd/launch/environ.h \
	stepd/launch/hooks.c stepd/launch/hooks.h \
	stepd/launch/launch.c stepd/launch/launch.h \
	stepd/launch/plan.c stepd/launch/plan.h \
	stepd/loop/loop.c stepd/loop/loop.h \
	stepd/loop/trim.c stepd/loop/trim.h \
	stepd/operations/attach.c \
	stepd/operations/follow.c \
	stepd/operations/query.c \
	stepd/operations/operations.c stepd/operations/operations.h \
	stepd/operations/operations_impl.h \
	stepd/operations/act.c \
	stepd/process/identity.c stepd/process/identity.h \
	stepd/process/mount_namespace.c stepd/process/mount_namespace.h \
	stepd/process/process.c stepd/process/process.h \
	stepd/stdio/attach.c stepd/stdio/attach.h \
	stepd/stdio/attach_impl.h stepd/stdio/attach_input.c \
	stepd/stdio/attach_wire.h \
	stepd/stdio/ring.c stepd/stdio/ring.h \
	stepd/stdio/pump.c stepd/stdio/pump.h \
	stepd/stdio/pump_impl.h stepd/stdio/pump_copies.c stepd/stdio/pump_counts.c \
	stepd/stdio/output.c stepd/stdio/output.h \
	stepd/stdio/backlog.c stepd/stdio/backlog.h \
	stepd/stdio/input.c stepd/stdio/input.h \
	stepd/stdio/pty.c stepd/stdio/pty.h \
	stepd/stdio/stdio.c stepd/stdio/stdio.h \
	stepd/stdio/stdio_impl.h \
	stepd/stdio/streams.c \
	stepd/stdio/transfer.c \
	stepd/stdio/hold.c stepd/stdio/hold.h \
	stepd/stdio/hold_impl.h stepd/stdio/holder.c \
	stepd/stdio/tally.c stepd/stdio/tally.h \
	stepd/step/adopt.c \
	stepd/step/agent.c stepd/step/agent.h \
	stepd/step/agent_impl.h \
	stepd/step/ending.c stepd/step/ending.h \
	stepd/step/join.c stepd/step/join.h \
	stepd/step/join_request.c stepd/step/join_request.h \
	stepd/step/mpi_link.c stepd/step/mpi_link.h \
	stepd/step/reaping.c stepd/step/reaping.h \
	stepd/step/reexec.c stepd/step/reexec.h \
	stepd/step/requests.c stepd/step/requests.h \
	stepd/step/result.c stepd/step/result.h \
	stepd/step/suspend.c stepd/step/suspend.h
libagent_la_LIBADD = libcontrol.la libmpilink.la libstepdsystemd.la libnode.la $(JANSSON_LIBS) $(EV_LIBS)

# The options of "stepd run" and what they make, for the commands that have some of them.
RUN_OPTIONS_SOURCES = \
	stepd/cli/options.c stepd/cli/options.h \
	stepd/cli/run/multi_prog.c stepd/cli/run/multi_prog.h \
	stepd/cli/run/run_convert.c stepd/cli/run/run_convert.h \
	stepd/cli/run/run_options.c stepd/cli/run/run_options.h \
	stepd/cli/site_config.c stepd/cli/site_config.h

sbin_PROGRAMS += stepd/cli/stepd
# All but the version, of which tests build another one.
STEPD_PROGRAM_SOURCES = \
	stepd/cli/bootstrap.c stepd/cli/bootstrap.h \
	stepd/cli/cli.h \
	stepd/cli/doctor/checks.c \
	stepd/cli/doctor/doctor.c stepd/cli/doctor/doctor.h \
	stepd/cli/doctor/findings.c stepd/cli/doctor/findings.h \
	stepd/cli/doctor/mpi.c \
	stepd/cli/doctor/program.c \
	stepd/cli/doctor/trial.c \
	stepd/cli/layout.c stepd/cli/layout.h \
	stepd/cli/main.c \
	stepd/cli/plugins.c \
	stepd/cli/relay/address.c stepd/cli/relay/address.h \
	stepd/cli/relay/attachment.c stepd/cli/relay/attachment.h \
	stepd/cli/relay/channel.c stepd/cli/relay/channel.h \
	stepd/cli/relay/supervisor.c stepd/cli/relay/supervisor.h \
	stepd/cli/relay/relay.c \
	stepd/cli/relay/relay_doc.c stepd/cli/relay/relay_doc.h \
	stepd/cli/relay/streams.c stepd/cli/relay/streams.h \
	stepd/cli/run/run.c \
	stepd/cli/serve.c \
	$(RUN_OPTIONS_SOURCES)
stepd_cli_stepd_SOURCES = $(STEPD_PROGRAM_SOURCES) \
	stepd/cli/version.c
stepd_cli_stepd_LDFLAGS = $(COMMAND_LDFLAGS)
stepd_cli_stepd_LDADD = libclient.la libmpiselftest.la libpmiclient.la libagent.la

# The tasks of the steps by which "stepd doctor --mpi" tries plugins: found beside stepd, or where
# they are installed.
pkglibexec_PROGRAMS += stepd/cli/selftest/mpi-selftest
stepd_cli_selftest_mpi_selftest_SOURCES = stepd/cli/selftest/main.c
stepd_cli_selftest_mpi_selftest_LDADD = libmpiselftest.la libpmiclient.la libbase.la

# The command for the steps of a node.
bin_PROGRAMS += stepd/cli/stepctl
stepd_cli_stepctl_SOURCES = \
	stepd/cli/ctl/act.c \
	stepd/cli/ctl/attach.c \
	stepd/cli/ctl/ctl.h \
	stepd/cli/ctl/find.c \
	stepd/cli/ctl/main.c \
	stepd/cli/ctl/ps.c \
	stepd/cli/ctl/show.c \
	stepd/cli/ctl/target.c stepd/cli/ctl/target.h \
	stepd/cli/ctl/term.c stepd/cli/ctl/term.h \
	stepd/cli/ctl/top.c \
	stepd/cli/ctl/top_screen.c stepd/cli/ctl/top_screen.h \
	stepd/cli/ctl/usage.c stepd/cli/ctl/usage.h \
	stepd/cli/viewer.c stepd/cli/viewer.h \
	$(RUN_OPTIONS_SOURCES)
stepd_cli_stepctl_CPPFLAGS = $(AM_CPPFLAGS) -DSTEPD_PROGRAM='"$(sbindir)/stepd"'
stepd_cli_stepctl_LDFLAGS = $(COMMAND_LDFLAGS)
stepd_cli_stepctl_LDADD = libclient.la libnode.la

# The command that starts steps, here and on several nodes.
bin_PROGRAMS += stepd/cli/steprun
stepd_cli_steprun_SOURCES = \
	stepd/cli/across/assign.c \
	stepd/cli/across/attach.c \
	stepd/cli/across/conns.c stepd/cli/across/conns.h \
	stepd/cli/across/launch.c stepd/cli/across/launch.h \
	stepd/cli/across/main.c \
	stepd/cli/across/options.c stepd/cli/across/options.h \
	stepd/cli/across/reports.c \
	stepd/cli/across/session.c stepd/cli/across/session.h \
	stepd/cli/across/typing.c \
	stepd/cli/across/user.c stepd/cli/across/user.h \
	stepd/cli/layout.c stepd/cli/layout.h \
	stepd/cli/plugins.c \
	stepd/cli/relay/address.c stepd/cli/relay/address.h \
	stepd/cli/relay/channel.c stepd/cli/relay/channel.h \
	stepd/cli/relay/supervisor.c stepd/cli/relay/supervisor.h \
	stepd/cli/relay/relay_doc.c stepd/cli/relay/relay_doc.h \
	stepd/cli/relay/streams.c stepd/cli/relay/streams.h \
	stepd/cli/viewer.c stepd/cli/viewer.h \
	$(RUN_OPTIONS_SOURCES) \
	stepd/cli/version.c
stepd_cli_steprun_CPPFLAGS = $(AM_CPPFLAGS) -DSTEPD_PROGRAM='"$(sbindir)/stepd"'
stepd_cli_steprun_LDFLAGS = $(COMMAND_LDFLAGS)
stepd_cli_steprun_LDADD = libclient.la libagent.la
