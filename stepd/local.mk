stepdinclude_HEADERS = \
	stepd/api/env.h stepd/api/limits.h stepd/api/mpi.h stepd/api/plugin.h stepd/api/proctrack.h stepd/api/step.h \
	stepd/api/usage.h

# What knows nothing of steps; plugins link it too.
noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
	stepd/base/bitset.c stepd/base/bitset.h \
	stepd/base/cleanup.h \
	stepd/base/err.c stepd/base/err.h \
	stepd/base/fs.c stepd/base/fs.h \
	stepd/base/log.c stepd/base/log.h \
	stepd/base/parse.c stepd/base/parse.h \
	stepd/base/pidref.c stepd/base/pidref.h \
	stepd/base/rawcall.h \
	stepd/base/procstat.c stepd/base/procstat.h \
	stepd/base/signals.c stepd/base/signals.h \
	stepd/base/strv.c stepd/base/strv.h

# The agent without its command line: tests link it.
noinst_LTLIBRARIES += libagent.la
libagent_la_SOURCES = \
	stepd/plugin/plugin.c stepd/plugin/plugin.h \
	proctrack/generic.c proctrack/generic.h \
	proctrack/procs.c proctrack/procs.h \
	proctrack/procusage.c proctrack/procusage.h \
	proctrack/proctrack.c proctrack/proctrack.h \
	proctrack/tell.c proctrack/tell.h \
	mpi/mpi.c mpi/mpi.h \
	stepd/agent/account.c stepd/agent/account.h \
	stepd/agent/agent.c stepd/agent/agent.h stepd/agent/agent_impl.h \
	stepd/agent/batch.c stepd/agent/batch.h \
	stepd/agent/bind_text.c stepd/agent/bind_text.h \
	stepd/agent/binding.c stepd/agent/binding.h \
	stepd/agent/binding_bounds.c \
	stepd/agent/binding_child.c \
	stepd/agent/binding_env.c \
	stepd/agent/child.c stepd/agent/child.h \
	stepd/agent/ending.c stepd/agent/ending.h \
	stepd/agent/environ.c stepd/agent/environ.h \
	stepd/agent/feed.c stepd/agent/feed.h \
	stepd/agent/fname.c stepd/agent/fname.h \
	stepd/agent/identity.c stepd/agent/identity.h \
	stepd/agent/killseq.c stepd/agent/killseq.h \
	stepd/agent/launch.c stepd/agent/launch.h \
	stepd/agent/launcher.c stepd/agent/launcher.h \
	stepd/agent/limits.c stepd/agent/limits.h \
	stepd/agent/limits_devices.c \
	stepd/agent/oom.c stepd/agent/oom.h \
	stepd/agent/leftover.c stepd/agent/leftover.h \
	stepd/agent/placement.c stepd/agent/placement.h \
	stepd/agent/plan.c stepd/agent/plan.h \
	stepd/agent/pri_watch.c stepd/agent/pri_watch.h \
	stepd/agent/pump.c stepd/agent/pump.h \
	stepd/agent/registry.c stepd/agent/registry.h \
	stepd/agent/pausable.c stepd/agent/pausable.h \
	stepd/agent/process.c stepd/agent/process.h \
	stepd/agent/report.c stepd/agent/report.h \
	stepd/agent/requests.c stepd/agent/requests.h \
	stepd/agent/result.c stepd/agent/result.h \
	stepd/agent/rlimits.c stepd/agent/rlimits.h \
	stepd/agent/sample.c stepd/agent/sample.h \
	stepd/agent/sample_text.c stepd/agent/sample_text.h \
	stepd/agent/service.c stepd/agent/service.h \
	stepd/agent/sink.c stepd/agent/sink.h \
	stepd/agent/spec.c stepd/agent/spec.h \
	stepd/agent/spec_json.c stepd/agent/spec_json.h \
	stepd/agent/rank_bits.h \
	stepd/agent/spec_binding.c \
	stepd/agent/spec_fields.c \
	stepd/agent/spec_layout.c \
	stepd/agent/spec_limits.c \
	stepd/agent/spec_policy.c \
	stepd/agent/spec_ranks.c \
	stepd/agent/spec_rows.c \
	stepd/agent/status.c stepd/agent/status.h \
	stepd/agent/spawn.c stepd/agent/spawn.h \
	stepd/agent/stdfd.c stepd/agent/stdfd.h \
	stepd/agent/stdio.c stepd/agent/stdio.h \
	stepd/agent/stdio_files.c stepd/agent/stdio_files.h \
	stepd/agent/suspend.c stepd/agent/suspend.h \
	stepd/agent/tasks.c stepd/agent/tasks.h \
	stepd/agent/topology.c stepd/agent/topology.h \
	stepd/agent/trace.c stepd/agent/trace.h \
	stepd/agent/usage.c stepd/agent/usage.h \
	stepd/agent/usage_table.c stepd/agent/usage_table.h \
	stepd/agent/usage_values.c stepd/agent/usage_values.h \
	stepd/agent/worker.c stepd/agent/worker.h
libagent_la_LIBADD = libstepdsystemd.la libbase.la $(JANSSON_LIBS) $(EV_LIBS)

sbin_PROGRAMS += stepd/cli/stepd
stepd_cli_stepd_SOURCES = \
	stepd/cli/check_spec.c \
	stepd/cli/cli.h \
	stepd/cli/doctor.c stepd/cli/doctor.h \
	stepd/cli/doctor_kernel.c \
	stepd/cli/doctor_runtime.c \
	stepd/cli/doctor_user.c \
	stepd/cli/findings.c stepd/cli/findings.h \
	stepd/cli/main.c \
	stepd/cli/multi_prog.c stepd/cli/multi_prog.h \
	stepd/cli/plugins.c \
	stepd/cli/query.c stepd/cli/query.h \
	stepd/cli/run.c \
	stepd/cli/run_convert.c stepd/cli/run_convert.h \
	stepd/cli/run_doc.c \
	stepd/cli/run_limits.c \
	stepd/cli/run_options.c stepd/cli/run_options.h \
	stepd/cli/run_table.c \
	stepd/cli/serve.c \
	stepd/cli/set_limits.c \
	stepd/cli/suspend.c \
	stepd/cli/text.c stepd/cli/text.h \
	stepd/cli/usage.c
stepd_cli_stepd_LDADD = libagent.la
