# Each test speaks TAP; "make check TESTS=tests/unit/test_procstat" runs one.
TEST_EXTENSIONS = .sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh --comments
SH_LOG_DRIVER = $(LOG_DRIVER)
# TEST_LIMIT, if given, is a command that runs a test, and may end it if it hangs: 'timeout -k 10 1500'.
LOG_COMPILER = $(TEST_LIMIT) $(SHELL) $(top_srcdir)/tests/lib/run-unit
SH_LOG_COMPILER = $(TEST_LIMIT)
# make -j gives all but one a pipe that has no writer.
AM_TESTS_FD_REDIRECT = </dev/null
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	PATH='$(abs_top_builddir)/tests/bin':"$$PATH"; export PATH; \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/lib/lsan.supp:print_suppressions=0'; \
	export LSAN_OPTIONS;

# TESTS is what runs in ten minutes. What takes long by nature is in TESTS_LONG, or has more rounds,
# ranks and nodes with STEPD_TEST_ALL=1 in the environment ("rounds" of tests/lib/tap.sh).
# What is in TESTS_LONG runs last: it needs the processors for minutes.
TESTS_LONG =
# These begin first, as they take longest: else the last one would have the machine for itself.
TESTS_FIRST = \
	tests/system/0011-tidy-tree.sh tests/system/0931-jobd-run.sh \
	tests/system/0938-jobd-preempt.sh tests/system/0910-in-systemd-container.sh \
	tests/system/0014-static-analysis.sh tests/system/0793-service-hostile.sh \
	tests/system/0694-reexec-adopted.sh tests/system/0700-slurm-protocol.sh \
	tests/system/0801-wire-losses.sh tests/system/0325-limit-signal.sh \
	tests/system/0943-jobd-guide.sh tests/system/0670-stepctl.sh \
	tests/system/0600-control-hostile.sh tests/unit/test_jobd_workloads \
	tests/system/0945-jobd-select.sh tests/system/0890-doctor-mpi.sh \
	tests/system/0320-ending.sh tests/unit/test_proctrack_contract \
	tests/system/0690-reexec.sh tests/system/0797-service-left.sh tests/system/0615-busy.sh \
	tests/system/0646-frozen-by-hand.sh tests/system/0645-adopt.sh \
	tests/system/0875-pmix-monitors.sh tests/system/0937-jobd-killed.sh \
	tests/system/0530-suspend.sh tests/system/0833-steprun-frames.sh \
	tests/system/0675-stepctl-clean.sh tests/system/0520-samples.sh \
	tests/system/0617-flood-strangers.sh tests/system/0704-slurmstepd-handover.sh \
	tests/system/0650-kill-9.sh tests/system/0796-service-stopped.sh \
	tests/system/0740-pmi-mpich.sh tests/system/0745-pmi-nodes.sh \
	tests/system/0742-pmi-raw.sh tests/unit/test_jobd_store tests/system/0450-early-ends.sh \
	tests/system/0824-steprun-ssh.sh
TESTS_ORDERED = $(filter $(TESTS),$(TESTS_FIRST)) $(filter-out $(TESTS_FIRST),$(TESTS))
check-suite:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(TESTS_ORDERED)'
check-all:
	STEPD_TEST_ALL=1 $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(TESTS_ORDERED) $(TESTS_LONG)'
.PHONY: check-suite check-all

UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
UNIT_LDADD = libagent.la $(CMOCKA_LIBS)

TESTS += tests/system/0010-arrows.sh
EXTRA_DIST += tests/system/0010-arrows.sh
TESTS += tests/system/0011-tidy-tree.sh
EXTRA_DIST += tests/system/0011-tidy-tree.sh
TESTS += tests/system/0013-hardened.sh
EXTRA_DIST += tests/system/0013-hardened.sh
TESTS += tests/system/0016-needed-libraries.sh
EXTRA_DIST += tests/system/0016-needed-libraries.sh
TESTS += tests/system/0014-static-analysis.sh
EXTRA_DIST += tests/system/0014-static-analysis.sh tests/lib/analyze tests/lib/analyze.h
analyze: $(BUILT_SOURCES)
	top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' $(top_srcdir)/tests/lib/analyze
.PHONY: analyze
TESTS += tests/system/0020-example-plugin.sh
EXTRA_DIST += tests/system/0020-example-plugin.sh

# The program that agents are upgraded to: of another version, else the same.
check_PROGRAMS += tests/lib/stepd-next
tests_lib_stepd_next_SOURCES = $(STEPD_PROGRAM_SOURCES) tests/lib/version_next.c
tests_lib_stepd_next_LDADD = $(stepd_cli_stepd_LDADD)

EXTRA_DIST += tests/lib/reexec.sh tests/lib/reexec_clients.py tests/lib/upheaval.py
EXTRA_DIST += tests/lib/lsan.supp tests/lib/run-unit tests/lib/timed tests/lib/tap.sh tests/lib/rounds.h tests/lib/scratch.h tests/lib/trial_plugin.c tests/lib/trial_mpi.c

# Plugins for the loader's tests: a good one, and others with one fault each.
TRIAL_VARIANTS = good bare initfails initmute longerkind misnamed nofini noinit noname nosymbol \
	notype noversion otherversion unresolved unusable wrongkind
TRIAL_PLUGINS = $(TRIAL_VARIANTS:%=tests/lib/plugins/trial_%.so) \
	tests/lib/plugins/mpi_trial.so tests/lib/plugins/mpi_misspelt.so \
	tests/lib/plugins/mpi_environ.so
TRIAL_COMPILE = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) \
	-fPIC -shared $(STEPD_LDFLAGS) $(LDFLAGS) -DVARIANT=$* -DVARIANT_$*
tests/lib/plugins/trial_%.so: tests/lib/trial_plugin.c stepd/api/plugin.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
tests/lib/plugins/mpi_%.so: tests/lib/trial_mpi.c stepd/api/mpi.h stepd/api/plugin.h stepd/api/step.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
CLEANFILES += $(TRIAL_PLUGINS)

if CMOCKA
check_DATA += $(TRIAL_PLUGINS)
check_PROGRAMS += tests/unit/test_plugin
TESTS += tests/unit/test_plugin
tests_unit_test_plugin_SOURCES = tests/unit/test_plugin.c
tests_unit_test_plugin_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_plugin_LDADD = $(UNIT_LDADD)

check_PROGRAMS += tests/unit/test_mpi
TESTS += tests/unit/test_mpi
tests_unit_test_mpi_SOURCES = tests/unit/test_mpi.c
tests_unit_test_mpi_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_mpi_LDADD = $(UNIT_LDADD)

check_PROGRAMS += tests/unit/test_mpi_service
TESTS += tests/unit/test_mpi_service
tests_unit_test_mpi_service_SOURCES = tests/unit/test_mpi_service.c tests/lib/service_rig.h
tests_unit_test_mpi_service_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_mpi_service_LDADD = $(UNIT_LDADD)
endif

if CMOCKA
check_PROGRAMS += tests/unit/test_clone tests/unit/test_tasks tests/unit/test_killseq tests/unit/test_environ \
	tests/unit/test_registry
TESTS += tests/unit/test_clone tests/unit/test_tasks tests/unit/test_killseq tests/unit/test_environ \
	tests/unit/test_registry
check_PROGRAMS += tests/unit/test_buffer tests/unit/test_json
TESTS += tests/unit/test_buffer tests/unit/test_json
tests_unit_test_buffer_SOURCES = tests/unit/test_buffer.c
tests_unit_test_buffer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_buffer_LDADD = $(UNIT_LDADD)
tests_unit_test_json_SOURCES = tests/unit/test_json.c
tests_unit_test_json_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_json_LDADD = $(UNIT_LDADD)
check_PROGRAMS += tests/unit/test_handover
TESTS += tests/unit/test_handover
tests_unit_test_handover_SOURCES = tests/unit/test_handover.c
tests_unit_test_handover_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_handover_LDADD = $(UNIT_LDADD)
check_PROGRAMS += tests/unit/test_pausable tests/unit/test_requests tests/unit/test_trim
TESTS += tests/unit/test_pausable tests/unit/test_requests tests/unit/test_trim
tests_unit_test_pausable_SOURCES = tests/unit/test_pausable.c
tests_unit_test_pausable_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pausable_LDADD = $(UNIT_LDADD)
tests_unit_test_trim_SOURCES = tests/unit/test_trim.c
tests_unit_test_trim_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_trim_LDADD = $(UNIT_LDADD)
tests_unit_test_requests_SOURCES = tests/unit/test_requests.c tests/lib/child.h tests/lib/scratch.h
tests_unit_test_requests_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_requests_LDADD = $(UNIT_LDADD)
check_PROGRAMS += tests/unit/test_events tests/unit/test_operations
TESTS += tests/unit/test_events tests/unit/test_operations
tests_unit_test_operations_SOURCES = tests/unit/test_operations.c
tests_unit_test_operations_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_operations_LDADD = $(UNIT_LDADD)
tests_unit_test_events_SOURCES = tests/unit/test_events.c tests/lib/scratch.h
tests_unit_test_events_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_events_LDADD = $(UNIT_LDADD)
check_PROGRAMS += tests/unit/test_identity tests/unit/test_log
TESTS += tests/unit/test_identity tests/unit/test_log
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_log_LDADD = $(UNIT_LDADD)
tests_unit_test_identity_SOURCES = tests/unit/test_identity.c
tests_unit_test_identity_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_identity_LDADD = $(UNIT_LDADD)
tests_unit_test_clone_SOURCES = tests/unit/test_clone.c
tests_unit_test_clone_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_clone_LDADD = $(UNIT_LDADD)
tests_unit_test_tasks_SOURCES = tests/unit/test_tasks.c
tests_unit_test_tasks_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_tasks_LDADD = $(UNIT_LDADD)
tests_unit_test_killseq_SOURCES = tests/unit/test_killseq.c
tests_unit_test_killseq_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_killseq_LDADD = $(UNIT_LDADD)
tests_unit_test_environ_SOURCES = tests/unit/test_environ.c
tests_unit_test_environ_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_environ_LDADD = $(UNIT_LDADD)
tests_unit_test_registry_SOURCES = tests/unit/test_registry.c
tests_unit_test_registry_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_registry_LDADD = $(UNIT_LDADD)
endif

SYSTEM_USAGE_TESTS = tests/system/0510-usage.sh tests/system/0520-samples.sh
TESTS += $(SYSTEM_USAGE_TESTS)
EXTRA_DIST += $(SYSTEM_USAGE_TESTS) tests/testbed/guest-usage.sh

if CMOCKA
USAGE_UNIT_TESTS = tests/unit/test_procusage tests/unit/test_sample_text \
	tests/unit/test_usage_table tests/unit/test_usage_values
check_PROGRAMS += $(USAGE_UNIT_TESTS)
TESTS += $(USAGE_UNIT_TESTS)
tests_unit_test_procusage_SOURCES = tests/unit/test_procusage.c tests/lib/child.h
tests_unit_test_procusage_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_procusage_LDADD = $(UNIT_LDADD)
tests_unit_test_sample_text_SOURCES = tests/unit/test_sample_text.c
tests_unit_test_sample_text_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_sample_text_LDADD = $(UNIT_LDADD)
tests_unit_test_usage_table_SOURCES = tests/unit/test_usage_table.c
tests_unit_test_usage_table_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_usage_table_LDADD = $(UNIT_LDADD)
tests_unit_test_usage_values_SOURCES = tests/unit/test_usage_values.c
tests_unit_test_usage_values_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_usage_values_LDADD = $(UNIT_LDADD)
endif

# make bench: what a launch costs, in ratios of one run; see tests/bench/README.md.
EXTRA_PROGRAMS = tests/bench/asktime tests/bench/barestep tests/bench/execdelay tests/bench/noop tests/bench/pairtime \
	tests/bench/pause tests/bench/ptyloop tests/bench/spawnloop tests/bench/stamp
tests_bench_asktime_SOURCES = tests/bench/asktime.c tests/bench/slurmask.c tests/bench/slurmask.h
# What it does is stepd's, and its libraries are, whether it calls them or not.
tests_bench_barestep_SOURCES = tests/bench/barestep.c
tests_bench_barestep_LDADD = libbase.la $(JANSSON_LIBS) $(EV_LIBS)
tests_bench_barestep_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
tests_bench_pause_SOURCES = tests/bench/pause.c
tests_bench_pause_LDFLAGS = $(STEPD_LDFLAGS) -all-static
tests_bench_execdelay_SOURCES = tests/bench/execdelay.c tests/bench/stamp.h
tests_bench_noop_SOURCES = tests/bench/noop.c
tests_bench_noop_LDFLAGS = $(STEPD_LDFLAGS) -all-static
tests_bench_pairtime_SOURCES = tests/bench/pairtime.c
tests_bench_ptyloop_SOURCES = tests/bench/ptyloop.c
tests_bench_spawnloop_SOURCES = tests/bench/spawnloop.c
tests_bench_spawnloop_LDADD = libbase.la
tests_bench_spawnloop_CPPFLAGS = $(AM_CPPFLAGS)
tests_bench_spawnloop_LDFLAGS = $(STEPD_LDFLAGS) -all-static
tests_bench_stamp_SOURCES = tests/bench/stamp.c tests/bench/stamp.h
tests_bench_stamp_LDFLAGS = $(STEPD_LDFLAGS) -all-static
EXTRA_DIST += tests/bench/run tests/bench/run-socket tests/bench/with-slurm tests/bench/README.md
CLEANFILES += $(EXTRA_PROGRAMS)
bench: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run
# The socket alone, beside a Slurm that is started for it.
bench-slurm: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/with-slurm \
		$(SHELL) $(top_srcdir)/tests/bench/run-socket
# PMI alone.
bench-pmi: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run-pmi
EXTRA_PROGRAMS += tests/bench/pmitask
tests_bench_pmitask_SOURCES = tests/bench/pmitask.c
tests_bench_pmitask_LDFLAGS = $(STEPD_LDFLAGS) -all-static
EXTRA_DIST += tests/bench/run-pmi
bench-compare: all $(EXTRA_PROGRAMS) tests/lib/pmixclient
	top_builddir='$(abs_top_builddir)' BASE='$(BASE)' $(SHELL) $(top_srcdir)/tests/bench/run-compare
EXTRA_DIST += tests/bench/run-compare
bench-jobs: all
	top_builddir='$(abs_top_builddir)' top_srcdir='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/tests/bench/run-jobs
EXTRA_DIST += tests/bench/run-jobs
bench-bytes: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run-bytes
EXTRA_PROGRAMS += tests/bench/rankbytes
tests_bench_rankbytes_SOURCES = tests/bench/rankbytes.c
EXTRA_DIST += tests/bench/run-bytes
bench-fence: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run-fence
EXTRA_PROGRAMS += tests/bench/fencetask
tests_bench_fencetask_SOURCES = tests/bench/fencetask.c
EXTRA_DIST += tests/bench/run-fence
bench-streams: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run-streams
EXTRA_DIST += tests/bench/run-streams
# Steps of one job under a real slurmd, beside slurmstepd's.
bench-steps: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' top_srcdir='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/tests/bench/run-steps
EXTRA_DIST += tests/bench/run-steps tests/bench/two-slurms
# What one step costs there, in many rows.
bench-slurmd: all $(EXTRA_PROGRAMS)
	top_builddir='$(abs_top_builddir)' top_srcdir='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/tests/bench/run-slurmd
EXTRA_PROGRAMS += tests/bench/execmark tests/bench/restless tests/bench/slurmlist
tests_bench_execmark_SOURCES = tests/bench/execmark.c tests/bench/stamp.h
tests_bench_execmark_LDFLAGS = $(STEPD_LDFLAGS) -all-static
tests_bench_restless_SOURCES = tests/bench/restless.c tests/bench/stamp.h
tests_bench_slurmlist_SOURCES = tests/bench/slurmlist.c tests/bench/slurmask.c tests/bench/slurmask.h
EXTRA_DIST += tests/bench/run-slurmd tests/bench/slurmd_rows.py
.PHONY: bench bench-bytes bench-compare bench-fence bench-jobs bench-pmi bench-slurm bench-slurmd bench-steps bench-streams

SYSTEM_EDGE_TESTS = \
	tests/system/0400-signals-at-the-edges.sh \
	tests/system/0410-callers-limits.sh \
	tests/system/0420-reports.sh \
	tests/system/0430-runtime-directory.sh \
	tests/system/0440-keyring.sh \
	tests/system/0450-early-ends.sh \
	tests/system/0460-launcher.sh
TESTS += $(SYSTEM_EDGE_TESTS)
EXTRA_DIST += $(SYSTEM_EDGE_TESTS) tests/lib/halfway_plugin.c tests/lib/untimely_plugin.c
check_PROGRAMS += tests/lib/keyring
tests_lib_keyring_SOURCES = tests/lib/keyring.c
check_DATA += tests/lib/plugins/proctrack_untimely.so
CLEANFILES += tests/lib/plugins/proctrack_untimely.so
tests/lib/plugins/proctrack_untimely.so: tests/lib/untimely_plugin.c stepd/api/proctrack.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
check_DATA += tests/lib/plugins/proctrack_lastgasp.so
EXTRA_DIST += tests/lib/lastgasp_plugin.c
CLEANFILES += tests/lib/plugins/proctrack_lastgasp.so
tests/lib/plugins/proctrack_lastgasp.so: tests/lib/lastgasp_plugin.c stepd/api/proctrack.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
check_DATA += tests/lib/hooks/traced.so tests/lib/hooks/other.so
EXTRA_DIST += tests/lib/traced_hooks.c
CLEANFILES += tests/lib/hooks/traced.so tests/lib/hooks/other.so
tests/lib/hooks/traced.so: tests/lib/traced_hooks.c stepd/api/step_hooks.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
tests/lib/hooks/other.so: tests/lib/traced_hooks.c stepd/api/step_hooks.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -DOTHER_VERSION -o $@ $<
check_DATA += tests/lib/plugins/proctrack_halfway.so
CLEANFILES += tests/lib/plugins/proctrack_halfway.so
tests/lib/plugins/proctrack_halfway.so: tests/lib/halfway_plugin.c stepd/api/proctrack.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<

check_DATA += tests/lib/loaded.so
EXTRA_DIST += tests/lib/loaded.c
CLEANFILES += tests/lib/loaded.so
tests/lib/loaded.so: tests/lib/loaded.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<

check_DATA += tests/lib/plugins/mpi_attendant.so
EXTRA_DIST += tests/lib/attendant_plugin.c
CLEANFILES += tests/lib/plugins/mpi_attendant.so
tests/lib/plugins/mpi_attendant.so: tests/lib/attendant_plugin.c mpi/client_hooks.c mpi/link.c mpi/link.h stepd/api/mpi.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $< \
		$(srcdir)/mpi/client_hooks.c $(srcdir)/mpi/link.c \
		$(srcdir)/stepd/base/err.c $(srcdir)/stepd/base/fs.c $(JANSSON_LIBS)

check_DATA += tests/lib/plugins/mpi_hostile.so
EXTRA_DIST += tests/lib/hostile_plugin.c
CLEANFILES += tests/lib/plugins/mpi_hostile.so
tests/lib/plugins/mpi_hostile.so: tests/lib/hostile_plugin.c mpi/client_hooks.c mpi/link.c mpi/link.h stepd/api/mpi.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $< \
		$(srcdir)/mpi/client_hooks.c $(srcdir)/mpi/link.c \
		$(srcdir)/stepd/base/err.c $(srcdir)/stepd/base/fs.c $(JANSSON_LIBS)

MPI_SYSTEM_TESTS = tests/system/0790-service-process.sh tests/system/0791-service-fails.sh \
	tests/system/0792-service-reexec.sh tests/system/0793-service-hostile.sh tests/system/0794-service-confined.sh \
	tests/system/0795-listener-shortage.sh tests/system/0796-service-stopped.sh \
	tests/system/0797-service-left.sh \
	tests/system/0840-mpich-nodes.sh
TESTS += $(MPI_SYSTEM_TESTS)
EXTRA_DIST += $(MPI_SYSTEM_TESTS) tests/lib/attendant.sh tests/lib/mpi.sh tests/lib/nodes.sh

# Over hosts that tests/testbed/nodes makes.
ACROSS_SYSTEM_TESTS = tests/system/0800-wire-nodes.sh tests/system/0801-wire-losses.sh \
	tests/system/0802-wire-missing.sh tests/system/0841-pmi-hosts.sh \
	tests/system/0842-spawn-hosts.sh tests/system/0861-openmpi-hosts.sh tests/system/0862-openmpi-many.sh
TESTS += $(ACROSS_SYSTEM_TESTS)
EXTRA_DIST += $(ACROSS_SYSTEM_TESTS) tests/lib/across.sh tests/lib/pmi_across.py

SUSPEND_SYSTEM_TESTS = tests/system/0530-suspend.sh tests/system/0540-suspend-hard.sh
TESTS += $(SUSPEND_SYSTEM_TESTS)
EXTRA_DIST += $(SUSPEND_SYSTEM_TESTS)
check_PROGRAMS += tests/lib/ptyjob
tests_lib_ptyjob_SOURCES = tests/lib/ptyjob.c

SYSTEM_STEP_TESTS = \
	tests/system/0300-exit-status.sh \
	tests/system/0310-exec-failure.sh \
	tests/system/0320-ending.sh \
	tests/system/0325-limit-signal.sh \
	tests/system/0330-identity.sh \
	tests/system/0331-mount-namespace.sh \
	tests/system/0340-kinds.sh \
	tests/system/0341-terminal.sh \
	tests/system/0342-sigcont.sh \
	tests/system/0343-sessions.sh \
	tests/system/0344-batch-script.sh \
	tests/system/0345-opens.sh \
	tests/system/0346-many-variables.sh \
	tests/system/0347-capabilities.sh \
	tests/system/0348-topology-user.sh \
	tests/system/0349-few-descriptors.sh \
	tests/system/0353-lock-memory.sh \
	tests/system/0351-held-tasks.sh \
	tests/system/0352-step-hooks.sh \
	tests/system/0350-registry.sh \
	tests/system/0360-failures-leave-nothing.sh \
	tests/system/0370-many-tasks.sh \
	tests/system/0380-fallbacks.sh \
	tests/system/0390-binding.sh
TESTS += $(SYSTEM_STEP_TESTS)
EXTRA_DIST += $(SYSTEM_STEP_TESTS) tests/lib/child.h tests/lib/step.sh tests/lib/stubborn_plugin.c
check_PROGRAMS += tests/lib/without
tests_lib_without_SOURCES = tests/lib/without.c
check_DATA += tests/lib/plugins/proctrack_stubborn.so
CLEANFILES += tests/lib/plugins/proctrack_stubborn.so
tests/lib/plugins/proctrack_stubborn.so: tests/lib/stubborn_plugin.c stepd/api/proctrack.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<

if CMOCKA
check_PROGRAMS += tests/unit/test_spec tests/unit/test_multi_prog tests/unit/test_run_options
TESTS += tests/unit/test_spec tests/unit/test_multi_prog tests/unit/test_run_options
check_PROGRAMS += tests/unit/test_linked
TESTS += tests/unit/test_linked
tests_unit_test_linked_SOURCES = tests/unit/test_linked.c
tests_unit_test_linked_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_linked_LDADD = $(UNIT_LDADD)
tests_unit_test_spec_SOURCES = tests/unit/test_spec.c tests/lib/scratch.h
tests_unit_test_spec_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_spec_LDADD = $(UNIT_LDADD)
tests_unit_test_multi_prog_SOURCES = tests/unit/test_multi_prog.c stepd/cli/run/multi_prog.c
tests_unit_test_multi_prog_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_multi_prog_LDADD = $(UNIT_LDADD)
tests_unit_test_run_options_SOURCES = tests/unit/test_run_options.c tests/lib/scratch.h $(RUN_OPTIONS_SOURCES)
tests_unit_test_run_options_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_run_options_LDADD = $(UNIT_LDADD)
endif

TESTS += tests/system/0031-generated-docs.sh tests/system/0100-spec-schema.sh
EXTRA_DIST += tests/system/0031-generated-docs.sh tests/system/0100-spec-schema.sh

TESTS += tests/system/0610-queries.sh tests/system/0611-acting.sh tests/system/0612-following.sh \
	tests/system/0613-access.sh tests/system/0614-notify.sh tests/system/0615-busy.sh tests/system/0616-flood.sh \
	tests/system/0617-flood-strangers.sh tests/system/0618-flood-followers.sh
EXTRA_DIST += tests/system/0610-queries.sh tests/system/0611-acting.sh tests/system/0612-following.sh \
	tests/system/0613-access.sh tests/system/0614-notify.sh tests/system/0615-busy.sh tests/system/0616-flood.sh \
	tests/system/0617-flood-strangers.sh tests/system/0618-flood-followers.sh tests/lib/control.sh

# Fuzz targets, each with what it takes in tests/fuzz/corpus/. With --enable-fuzzing they are those of
# libFuzzer; else programs that run the inputs that they are given.
FUZZERS =
if FUZZING
FUZZER_MAIN =
FUZZER_LINK = $(AM_LDFLAGS) -fsanitize=fuzzer
noinst_PROGRAMS += $(FUZZERS)
else
FUZZER_MAIN = tests/fuzz/replay.c
FUZZER_LINK = $(AM_LDFLAGS)
check_PROGRAMS += $(FUZZERS)
endif
TESTS += tests/system/0012-fuzz-corpus.sh
EXTRA_DIST += tests/system/0012-fuzz-corpus.sh tests/fuzz/replay.c tests/fuzz/corpus
TESTS_LONG += tests/system/0015-fuzz.sh
EXTRA_DIST += tests/system/0015-fuzz.sh

# tests/fuzz/fuzz_spec -max_total_time=60 CORPUS doc/examples
FUZZERS += tests/fuzz/fuzz_spec
tests_fuzz_fuzz_spec_SOURCES = tests/fuzz/fuzz_spec.c $(FUZZER_MAIN)
tests_fuzz_fuzz_spec_LDADD = libagent.la
tests_fuzz_fuzz_spec_LDFLAGS = $(FUZZER_LINK)
FUZZERS += tests/fuzz/fuzz_methods
tests_fuzz_fuzz_methods_SOURCES = tests/fuzz/fuzz_methods.c $(FUZZER_MAIN)
tests_fuzz_fuzz_methods_LDADD = libagent.la
tests_fuzz_fuzz_methods_LDFLAGS = $(FUZZER_LINK)
# tests/fuzz/fuzz_link -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_link
tests_fuzz_fuzz_link_SOURCES = tests/fuzz/fuzz_link.c $(FUZZER_MAIN)
tests_fuzz_fuzz_link_LDADD = libagent.la
tests_fuzz_fuzz_link_LDFLAGS = $(FUZZER_LINK)

if CMOCKA
PROCTRACK_UNIT_TESTS = tests/unit/test_dynlib tests/unit/test_err tests/unit/test_fs tests/unit/test_generic \
	tests/unit/test_members \
	tests/unit/test_parse tests/unit/test_pidref tests/unit/test_procs tests/unit/test_procstat \
	tests/unit/test_signals tests/unit/test_strv
check_PROGRAMS += $(PROCTRACK_UNIT_TESTS)
TESTS += $(PROCTRACK_UNIT_TESTS)
tests_unit_test_dynlib_SOURCES = tests/unit/test_dynlib.c
tests_unit_test_dynlib_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_dynlib_LDADD = $(UNIT_LDADD)
tests_unit_test_err_SOURCES = tests/unit/test_err.c
tests_unit_test_err_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_err_LDADD = $(UNIT_LDADD)
tests_unit_test_fs_SOURCES = tests/unit/test_fs.c tests/lib/scratch.h
tests_unit_test_fs_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_fs_LDADD = $(UNIT_LDADD)
tests_unit_test_generic_SOURCES = tests/unit/test_generic.c tests/lib/child.h tests/lib/scratch.h
tests_unit_test_generic_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_generic_LDADD = $(UNIT_LDADD)
tests_unit_test_members_SOURCES = tests/unit/test_members.c tests/lib/child.h tests/lib/scratch.h
tests_unit_test_members_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_members_LDADD = $(UNIT_LDADD)
tests_unit_test_parse_SOURCES = tests/unit/test_parse.c
tests_unit_test_parse_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_parse_LDADD = $(UNIT_LDADD)
tests_unit_test_pidref_SOURCES = tests/unit/test_pidref.c tests/lib/child.h tests/lib/scratch.h
tests_unit_test_pidref_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pidref_LDADD = $(UNIT_LDADD) -lpthread
tests_unit_test_procs_SOURCES = tests/unit/test_procs.c tests/lib/child.h tests/lib/scratch.h
tests_unit_test_procs_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_procs_LDADD = $(UNIT_LDADD)
tests_unit_test_procstat_SOURCES = tests/unit/test_procstat.c tests/lib/scratch.h
tests_unit_test_procstat_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_procstat_LDADD = $(UNIT_LDADD)
tests_unit_test_signals_SOURCES = tests/unit/test_signals.c
tests_unit_test_signals_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_signals_LDADD = $(UNIT_LDADD)
tests_unit_test_strv_SOURCES = tests/unit/test_strv.c
tests_unit_test_strv_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_strv_LDADD = $(UNIT_LDADD)

# The vendor's job library, as proctrack/cray_aries loads it; and one that lacks a function.
LIBJOB_VARIANTS = tests/lib/libjob/libjob.so.0 tests/lib/libjob/old/libjob.so.0
LIBJOB_COMPILE = $(TRIAL_COMPILE) -Wl,-soname,libjob.so.0
check_DATA += $(LIBJOB_VARIANTS)
EXTRA_DIST += tests/lib/libjob.c
CLEANFILES += $(LIBJOB_VARIANTS)
tests/lib/libjob/libjob.so.0: tests/lib/libjob.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(LIBJOB_COMPILE) -o $@ $<
tests/lib/libjob/old/libjob.so.0: tests/lib/libjob.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(LIBJOB_COMPILE) -DWITHOUT_ATTACH -o $@ $<
SYSTEM_CRAY_TESTS = tests/system/0936-proctrack-cray.sh
TESTS += $(SYSTEM_CRAY_TESTS)
EXTRA_DIST += $(SYSTEM_CRAY_TESTS)

# One suite for every proctrack plugin, with a program that acts as hostile tasks.
check_PROGRAMS += tests/unit/test_proctrack_contract tests/lib/hostile
TESTS += tests/unit/test_proctrack_contract
tests_unit_test_proctrack_contract_SOURCES = tests/unit/test_proctrack_contract.c \
	tests/lib/contract.c tests/lib/contract.h tests/lib/contract_agents.c tests/lib/contract_basic.c \
	tests/lib/contract_hostile.c tests/lib/contract_members.c tests/lib/scratch.h
tests_unit_test_proctrack_contract_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_proctrack_contract_LDADD = $(UNIT_LDADD)
tests_lib_hostile_SOURCES = tests/lib/hostile.c
tests_lib_hostile_LDADD = -lpthread
endif

FUZZERS += tests/fuzz/fuzz_pmi_client
tests_fuzz_fuzz_pmi_client_SOURCES = tests/fuzz/fuzz_pmi_client.c $(FUZZER_MAIN)
tests_fuzz_fuzz_pmi_client_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_pmi_client_LDADD = libpmi.la libbase.la
FUZZERS += tests/fuzz/fuzz_procstat
tests_fuzz_fuzz_procstat_SOURCES = tests/fuzz/fuzz_procstat.c $(FUZZER_MAIN)
tests_fuzz_fuzz_procstat_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_procstat_LDADD = libbase.la

# libstepd: as it is installed, and against agents that do what no agent should.
CLIENT_SYSTEM_TESTS = tests/system/0660-go-client.sh tests/system/0661-libstepd.sh \
	tests/system/0662-example-noded.sh tests/system/0663-client-calls.sh
check_PROGRAMS += tests/lib/clientprobe
tests_lib_clientprobe_SOURCES = tests/lib/clientprobe.c
tests_lib_clientprobe_LDADD = libclient.la
TESTS += $(CLIENT_SYSTEM_TESTS)
EXTRA_DIST += $(CLIENT_SYSTEM_TESTS) tests/lib/goclient/main.go
if CMOCKA
CLIENT_UNIT_TESTS = tests/unit/test_client tests/unit/test_client_methods tests/unit/test_client_steps
CLIENT_RIG = tests/lib/client_rig.h tests/lib/fake_agent.c tests/lib/fake_agent.h \
	tests/lib/scratch.h
CLIENT_LDADD = libclient.la $(CMOCKA_LIBS)
check_PROGRAMS += $(CLIENT_UNIT_TESTS)
TESTS += $(CLIENT_UNIT_TESTS)
tests_unit_test_client_SOURCES = tests/unit/test_client.c $(CLIENT_RIG)
tests_unit_test_client_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_client_LDADD = $(CLIENT_LDADD)
tests_unit_test_client_methods_SOURCES = tests/unit/test_client_methods.c $(CLIENT_RIG)
tests_unit_test_client_methods_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_client_methods_LDADD = $(CLIENT_LDADD)
tests_unit_test_client_steps_SOURCES = tests/unit/test_client_steps.c $(CLIENT_RIG)
tests_unit_test_client_steps_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_client_steps_LDADD = $(CLIENT_LDADD)
endif
FUZZERS += tests/fuzz/fuzz_reply
tests_fuzz_fuzz_reply_SOURCES = tests/fuzz/fuzz_reply.c $(FUZZER_MAIN)
tests_fuzz_fuzz_reply_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_reply_LDADD = libclient.la

# tests/fuzz/fuzz_slurm -max_total_time=300 -max_len=16384 CORPUS
FUZZERS += tests/fuzz/fuzz_slurm
tests_fuzz_fuzz_slurm_SOURCES = tests/fuzz/fuzz_slurm.c $(FUZZER_MAIN)
tests_fuzz_fuzz_slurm_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_slurm_LDADD = libslurmwire.la

# tests/fuzz/fuzz_slurm_init -max_total_time=300 -max_len=16384 CORPUS
FUZZERS += tests/fuzz/fuzz_slurm_init
tests_fuzz_fuzz_slurm_init_SOURCES = tests/fuzz/fuzz_slurm_init.c $(FUZZER_MAIN)
tests_fuzz_fuzz_slurm_init_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_slurm_init_LDADD = libslurminit.la

# tests/fuzz/fuzz_slurm_pmi -max_total_time=300 -max_len=4096 CORPUS
FUZZERS += tests/fuzz/fuzz_slurm_pmi
tests_fuzz_fuzz_slurm_pmi_SOURCES = tests/fuzz/fuzz_slurm_pmi.c $(FUZZER_MAIN)
tests_fuzz_fuzz_slurm_pmi_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_slurm_pmi_LDADD = libslurmserve.la

# tests/fuzz/fuzz_slurm_pmix -max_total_time=300 -max_len=4096 CORPUS
FUZZERS += tests/fuzz/fuzz_slurm_pmix
tests_fuzz_fuzz_slurm_pmix_SOURCES = tests/fuzz/fuzz_slurm_pmix.c $(FUZZER_MAIN)
tests_fuzz_fuzz_slurm_pmix_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_slurm_pmix_LDADD = libslurmserve.la

if CMOCKA
STDIO_UNIT_TESTS = tests/unit/test_fname tests/unit/test_stdio tests/unit/test_pump tests/unit/test_stdin_writer \
	tests/unit/test_copy tests/unit/test_toolin tests/unit/test_pty tests/unit/test_transfer \
	tests/unit/test_backlog tests/unit/test_sink tests/unit/test_hold \
	tests/unit/test_attach tests/unit/test_viewer
STDIO_RIG = tests/lib/stdio_rig.c tests/lib/stdio_rig.h tests/lib/scratch.h
check_PROGRAMS += $(STDIO_UNIT_TESTS)
TESTS += $(STDIO_UNIT_TESTS)
tests_unit_test_fname_SOURCES = tests/unit/test_fname.c
tests_unit_test_fname_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_fname_LDADD = $(UNIT_LDADD)
tests_unit_test_hold_SOURCES = tests/unit/test_hold.c tests/lib/scratch.h
tests_unit_test_hold_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_hold_LDADD = $(UNIT_LDADD)
tests_unit_test_stdio_SOURCES = tests/unit/test_stdio.c $(STDIO_RIG)
tests_unit_test_stdio_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_stdio_LDADD = $(UNIT_LDADD)
tests_unit_test_pump_SOURCES = tests/unit/test_pump.c $(STDIO_RIG)
tests_unit_test_pump_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pump_LDADD = $(UNIT_LDADD)
tests_unit_test_stdin_writer_SOURCES = tests/unit/test_stdin_writer.c $(STDIO_RIG)
tests_unit_test_stdin_writer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_stdin_writer_LDADD = $(UNIT_LDADD)
tests_unit_test_pty_SOURCES = tests/unit/test_pty.c $(STDIO_RIG)
tests_unit_test_pty_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pty_LDADD = $(UNIT_LDADD)
tests_unit_test_copy_SOURCES = tests/unit/test_copy.c $(STDIO_RIG)
tests_unit_test_copy_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_copy_LDADD = $(UNIT_LDADD)
tests_unit_test_attach_SOURCES = tests/unit/test_attach.c $(STDIO_RIG)
tests_unit_test_attach_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_attach_LDADD = $(UNIT_LDADD)
tests_unit_test_viewer_SOURCES = tests/unit/test_viewer.c stepd/cli/viewer.c
tests_unit_test_viewer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_viewer_LDADD = $(UNIT_LDADD)
tests_unit_test_toolin_SOURCES = tests/unit/test_toolin.c $(STDIO_RIG)
tests_unit_test_toolin_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_toolin_LDADD = $(UNIT_LDADD)
tests_unit_test_transfer_SOURCES = tests/unit/test_transfer.c $(STDIO_RIG)
tests_unit_test_transfer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_transfer_LDADD = $(UNIT_LDADD)
tests_unit_test_transfer_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sendmsg
tests_unit_test_backlog_SOURCES = tests/unit/test_backlog.c
tests_unit_test_backlog_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_backlog_LDADD = $(UNIT_LDADD)
tests_unit_test_backlog_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite
tests_unit_test_sink_SOURCES = tests/unit/test_sink.c
tests_unit_test_sink_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_sink_LDADD = $(UNIT_LDADD)
tests_unit_test_sink_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=write
endif

if CMOCKA
if LIBCGROUP
CGROUP_UNIT_TESTS = tests/unit/test_cgroup_group tests/unit/test_cgroup_limits \
	tests/unit/test_cgroup_root tests/unit/test_cgroup_step tests/unit/test_cgroup_trial \
	tests/unit/test_proctrack_limits tests/unit/test_service_birth
CGROUP_UNIT_SOURCES = tests/lib/cgroup_rig.h tests/lib/scratch.h
CGROUP_UNIT_CPPFLAGS = $(UNIT_CPPFLAGS) $(LIBCGROUP_CFLAGS)
CGROUP_UNIT_LDADD = libcgroups.la $(CMOCKA_LIBS)
check_PROGRAMS += $(CGROUP_UNIT_TESTS)
TESTS += $(CGROUP_UNIT_TESTS)
tests_unit_test_cgroup_group_SOURCES = tests/unit/test_cgroup_group.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_cgroup_group_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_cgroup_group_LDADD = $(CGROUP_UNIT_LDADD)
tests_unit_test_cgroup_limits_SOURCES = tests/unit/test_cgroup_limits.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_cgroup_limits_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_cgroup_limits_LDADD = $(CGROUP_UNIT_LDADD)
tests_unit_test_cgroup_limits_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=syscall
tests_unit_test_cgroup_root_SOURCES = tests/unit/test_cgroup_root.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_cgroup_root_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_cgroup_root_LDADD = $(CGROUP_UNIT_LDADD)
tests_unit_test_cgroup_step_SOURCES = tests/unit/test_cgroup_step.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_cgroup_step_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_cgroup_step_LDADD = $(CGROUP_UNIT_LDADD)
tests_unit_test_cgroup_trial_SOURCES = tests/unit/test_cgroup_trial.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_cgroup_trial_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_cgroup_trial_LDADD = $(CGROUP_UNIT_LDADD)
tests_unit_test_proctrack_limits_SOURCES = tests/unit/test_proctrack_limits.c $(CGROUP_UNIT_SOURCES)
tests_unit_test_proctrack_limits_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_proctrack_limits_LDADD = libcgroups.la $(UNIT_LDADD)
tests_unit_test_service_birth_SOURCES = tests/unit/test_service_birth.c tests/lib/service_rig.h $(CGROUP_UNIT_SOURCES)
tests_unit_test_service_birth_CPPFLAGS = $(CGROUP_UNIT_CPPFLAGS)
tests_unit_test_service_birth_LDADD = libcgroups.la $(UNIT_LDADD)
tests_unit_test_service_birth_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=prctl
endif
endif

STDIO_SYSTEM_TESTS = tests/system/0200-stdio-files.sh tests/system/0210-stdio-label.sh \
	tests/system/0211-full-disk.sh tests/system/0212-stream-memory.sh tests/system/0213-byte-exact.sh \
	tests/system/0214-byte-exact-many.sh \
	tests/system/0220-stdio-input.sh tests/system/0221-stdin-spill.sh tests/system/0230-stdio-user.sh
TESTS += $(STDIO_SYSTEM_TESTS)
EXTRA_DIST += $(STDIO_SYSTEM_TESTS) tests/lib/stream_sums.py

TESTS += tests/system/0030-man-pages.sh
EXTRA_DIST += tests/system/0030-man-pages.sh
if CMOCKA
check_PROGRAMS += tests/unit/test_hostlist tests/unit/test_layout
TESTS += tests/unit/test_hostlist tests/unit/test_layout
tests_unit_test_hostlist_SOURCES = tests/unit/test_hostlist.c
tests_unit_test_hostlist_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_hostlist_LDADD = $(UNIT_LDADD)
tests_unit_test_layout_SOURCES = tests/unit/test_layout.c stepd/cli/layout.c stepd/cli/layout.h
tests_unit_test_layout_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_layout_LDADD = $(UNIT_LDADD)
check_PROGRAMS += tests/unit/test_pmi_client
TESTS += tests/unit/test_pmi_client
tests_unit_test_pmi_client_SOURCES = tests/unit/test_pmi_client.c stepd/cli/bootstrap.c stepd/cli/bootstrap.h \
	stepd/cli/layout.c stepd/cli/layout.h
tests_unit_test_pmi_client_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pmi_client_LDADD = libpmiclient.la $(UNIT_LDADD)
endif

# In test beds: another kernel, and systemd; see tests/testbed/.
TESTS_LONG += tests/system/0900-in-vm.sh
BED_TESTS = tests/system/0910-in-systemd-container.sh tests/system/0920-delegated-user.sh
TESTS += $(BED_TESTS)
EXTRA_DIST += $(BED_TESTS) tests/system/0900-in-vm.sh tests/lib/bed.sh tests/testbed/bed.sh tests/testbed/container \
	tests/testbed/guest-container.sh tests/testbed/guest-crun.sh tests/testbed/guest-host.sh tests/testbed/guest-units.sh \
	tests/testbed/guest-vm.sh tests/testbed/guest.sh tests/testbed/image tests/testbed/nodes tests/testbed/vm

# Binding of tasks, against machines that are described in files.
BINDING_TEST_FILES = tests/data/binding.golden tests/data/binding-golden.py tests/data/topology/make \
	tests/data/topology/cores1.xml tests/data/topology/cores12llc.xml \
	tests/data/topology/cores4smt.xml tests/data/topology/cores16.xml \
	tests/data/topology/cores64smt.xml tests/data/topology/cores256smt.xml
EXTRA_DIST += $(BINDING_TEST_FILES)
if CMOCKA
BINDING_UNIT_TESTS = tests/unit/test_bind_text tests/unit/test_binding tests/unit/test_bitset \
	tests/unit/test_topology
check_PROGRAMS += $(BINDING_UNIT_TESTS)
TESTS += $(BINDING_UNIT_TESTS)
tests_unit_test_bind_text_SOURCES = tests/unit/test_bind_text.c
tests_unit_test_bind_text_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_bind_text_LDADD = $(UNIT_LDADD)
tests_unit_test_binding_SOURCES = tests/unit/test_binding.c tests/lib/scratch.h
tests_unit_test_binding_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_binding_LDADD = $(UNIT_LDADD)
tests_unit_test_bitset_SOURCES = tests/unit/test_bitset.c
tests_unit_test_bitset_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_bitset_LDADD = $(UNIT_LDADD)
tests_unit_test_topology_SOURCES = tests/unit/test_topology.c tests/lib/scratch.h
tests_unit_test_topology_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_topology_LDADD = $(UNIT_LDADD)
endif

# Limits of steps and tasks.
EXTRA_DIST += tests/lib/limiter_plugin.c
check_DATA += tests/lib/plugins/proctrack_limiter.so
CLEANFILES += tests/lib/plugins/proctrack_limiter.so
tests/lib/plugins/proctrack_limiter.so: tests/lib/limiter_plugin.c stepd/api/proctrack.h stepd/api/limits.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
if CMOCKA
check_PROGRAMS += tests/unit/test_limits
TESTS += tests/unit/test_limits
tests_unit_test_limits_SOURCES = tests/unit/test_limits.c tests/lib/scratch.h
tests_unit_test_limits_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_limits_LDADD = $(UNIT_LDADD)
endif
TESTS += tests/system/0500-limits.sh
EXTRA_DIST += tests/system/0500-limits.sh tests/testbed/guest-limits.sh tests/testbed/guest-split.sh \
	tests/testbed/guest-rootless.sh tests/testbed/guest-thousand.sh
# Site configuration, results, adoption.
OUTER_TESTS = tests/system/0780-mpi-selection.sh tests/system/0781-bootstrap-hydra.sh \
	tests/system/0783-bootstrap-hostile.sh tests/system/0784-wire-descriptors.sh \
	tests/system/0785-mpich-bootstrap.sh
TESTS += $(OUTER_TESTS)
TESTS_LONG += tests/system/0782-bootstrap-slurm.sh
EXTRA_DIST += $(OUTER_TESTS) tests/system/0782-bootstrap-slurm.sh tests/lib/bootstrap.sh tests/lib/pmi_server.py
STATE_TESTS = tests/system/0640-configuration.sh tests/system/0645-adopt.sh \
	tests/system/0646-frozen-by-hand.sh tests/system/0648-clean.sh \
	tests/system/0650-kill-9.sh \
	tests/system/0655-dead-agent-streams.sh \
	tests/system/0651-last-member.sh \
	tests/system/0652-upheaval.sh tests/system/0653-added.sh \
	tests/system/0654-added-children.sh
TESTS += $(STATE_TESTS)
EXTRA_DIST += $(STATE_TESTS)
# The files with failpoints come before those of the library, which has them without.
check_PROGRAMS += tests/lib/stepd-failpoints
tests_lib_stepd_failpoints_SOURCES = tests/lib/failpoints.c stepd/cli/options.c stepd/cli/serve.c stepd/cli/site_config.c \
	stepd/cli/version.c stepd/step/agent.c stepd/step/ending.c stepd/step/reaping.c \
	stepd/step/suspend.c stepd/step/adopt.c stepd/step/reexec.c \
	stepd/control/save.c
tests_lib_stepd_failpoints_CPPFLAGS = $(AM_CPPFLAGS) -DSTEPD_FAILPOINTS
tests_lib_stepd_failpoints_LDADD = libagent.la
# stepd doctor.
TESTS += tests/system/0480-doctor.sh
TERMINAL_TESTS = tests/system/0482-pty.sh tests/system/0483-pty-places.sh tests/system/0484-unbuffered.sh \
	tests/system/0485-attach.sh tests/system/0486-attach-terminal.sh
TESTS += $(TERMINAL_TESTS)
EXTRA_DIST += $(TERMINAL_TESTS) tests/lib/talk.py tests/lib/terminal.sh
EXTRA_DIST += tests/system/0480-doctor.sh tests/lib/doctor.sh tests/testbed/guest-doctor.sh
TESTS += tests/system/0890-doctor-mpi.sh
EXTRA_DIST += tests/system/0890-doctor-mpi.sh tests/lib/ailing_plugin.c
check_DATA += tests/lib/plugins/mpi_ailing.so
CLEANFILES += tests/lib/plugins/mpi_ailing.so
tests/lib/plugins/mpi_ailing.so: tests/lib/ailing_plugin.c mpi/client_hooks.c libmpilink.la stepd/api/mpi.h \
	stepd/api/step.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $< \
		$(srcdir)/mpi/client_hooks.c .libs/libmpilink.a $(JANSSON_LIBS)
if CMOCKA
check_PROGRAMS += tests/unit/test_findings
TESTS += tests/unit/test_findings
tests_unit_test_findings_SOURCES = tests/unit/test_findings.c \
	stepd/cli/doctor/findings.c stepd/cli/doctor/findings.h stepd/cli/options.c stepd/cli/options.h
tests_unit_test_findings_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_findings_LDADD = $(UNIT_LDADD)
endif

# Slurm's step sockets (contrib/slurm).
SLURM_SYSTEM_TESTS = tests/system/0700-slurm-protocol.sh \
	tests/system/0701-slurm-scontrol.sh tests/system/0702-slurm-spool.sh \
	tests/system/0703-slurm-actions.sh tests/system/0704-slurmstepd-handover.sh \
	tests/system/0705-slurmstepd-doctor.sh tests/system/0706-slurmstepd-alone.sh \
	tests/system/0713-slurm-task.sh tests/system/0722-slurm-plugstack.sh tests/system/0720-slurm-spank-host.sh
TESTS += $(SLURM_SYSTEM_TESTS)
# Two Slurms each.
TESTS_LONG += tests/system/0708-slurm-served.sh tests/system/0709-slurm-batch.sh tests/system/0711-slurm-terminal.sh
EXTRA_DIST += $(SLURM_SYSTEM_TESTS) tests/system/0708-slurm-served.sh tests/system/0709-slurm-batch.sh tests/system/0711-slurm-terminal.sh \
	tests/lib/in_slurm.sh tests/lib/local_slurm.sh tests/lib/slurm.sh tests/lib/slurm_agent.py \
	tests/lib/slurm_checks.py tests/lib/slurm_client.py tests/lib/slurm_init.py tests/lib/slurm_step.py \
	tests/lib/slurm_waiting.py
# Two Slurms of nine nodes each, and agents that wait a minute for those below them.
TESTS_LONG += tests/system/0710-slurm-nodes.sh
EXTRA_DIST += tests/system/0710-slurm-nodes.sh
TESTS_LONG += tests/system/0717-slurm-limits.sh
TESTS_LONG += tests/system/0732-slurm-devices.sh
EXTRA_DIST += tests/system/0732-slurm-devices.sh
SLURM_SITES = tests/system/0707-slurm-x11.sh tests/system/0736-slurm-namespace.sh tests/system/0737-slurm-backup.sh tests/system/0738-slurm-pam.sh \
	tests/system/0733-slurm-launch-parameters.sh tests/system/0739-slurm-energy.sh tests/system/0739-slurm-gather.sh
TESTS_LONG += $(SLURM_SITES)
EXTRA_DIST += $(SLURM_SITES) tests/lib/slurm_x11.py
TESTS_LONG += tests/system/0901-slurm-in-vm.sh
EXTRA_DIST += tests/system/0717-slurm-limits.sh tests/system/0901-slurm-in-vm.sh tests/lib/slurm_pair.sh \
	tests/testbed/guest-slurm.sh tests/testbed/guest-slurm-limits.sh
TESTS_LONG += tests/system/0721-slurm-mpi-nodes.sh
EXTRA_DIST += tests/system/0721-slurm-mpi-nodes.sh
TESTS_LONG += tests/system/0725-slurm-het.sh
EXTRA_DIST += tests/system/0725-slurm-het.sh
TESTS_LONG += tests/system/0724-slurm-pmix-nodes.sh
EXTRA_DIST += tests/system/0724-slurm-pmix-nodes.sh
TESTS_LONG += tests/system/0723-slurm-spank.sh
EXTRA_DIST += tests/lib/spank_plugin.h tests/lib/spank_traced.c tests/lib/spank_host.py tests/system/0723-slurm-spank.sh
TESTS_LONG += tests/system/0718-slurm-early.sh
EXTRA_DIST += tests/lib/spank_waiting.c tests/system/0718-slurm-early.sh
TESTS_LONG += tests/system/0719-slurm-extern.sh
EXTRA_DIST += tests/system/0719-slurm-extern.sh tests/lib/slurm_adopt.py tests/lib/slurm_extern.sh
TESTS_LONG += tests/system/0731-slurm-accounting.sh
EXTRA_DIST += tests/system/0731-slurm-accounting.sh tests/lib/slurm_database.sh
TESTS_LONG += tests/system/0712-slurm-tasks.sh
EXTRA_DIST += tests/system/0712-slurm-tasks.sh tests/lib/slurm_usage.py
SLURM_UPHEAVALS = tests/system/0714-slurm-upheaval.sh tests/system/0715-slurm-gang.sh \
	tests/system/0716-slurm-thousand.sh
TESTS_LONG += $(SLURM_UPHEAVALS)
EXTRA_DIST += $(SLURM_UPHEAVALS)
# The Slurms of newer Debians, in trees of their own, which are made once.
SLURM_RELEASES = tests/system/0726-slurm-26.05.sh tests/system/0727-slurm-versions.sh \
	tests/system/0728-slurm-24.11.sh
TESTS_LONG += $(SLURM_RELEASES)
EXTRA_DIST += $(SLURM_RELEASES) tests/lib/slurm_release.sh tests/lib/slurm_root.sh tests/testbed/in-root tests/testbed/own-network \
	tests/testbed/slurm-root
# The tests above of 22.05 with the Slurm of 24.11.
SLURM_24_11_TESTS = tests/system/0729-slurm-24.11-pam.sh tests/system/0729-slurm-24.11-backup.sh tests/system/0729-slurm-24.11-devices.sh tests/system/0729-slurm-24.11-extern.sh tests/system/0729-slurm-24.11-limits.sh \
	tests/system/0729-slurm-24.11-energy.sh tests/system/0729-slurm-24.11-gather.sh tests/system/0729-slurm-24.11-launch-parameters.sh \
	tests/system/0729-slurm-24.11-mpi-nodes.sh tests/system/0729-slurm-24.11-namespace.sh tests/system/0729-slurm-24.11-spank.sh \
	tests/system/0729-slurm-24.11-tasks.sh tests/system/0729-slurm-24.11-terminal.sh \
	tests/system/0729-slurm-24.11-in-vm.sh tests/system/0734-slurm-24.11-het.sh \
	tests/system/0735-slurm-24.11-pmix-nodes.sh tests/system/0729-slurm-24.11-x11.sh \
	tests/system/0729-slurm-24.11-auth.sh tests/system/0735-slurm-24.11-auth-pmix.sh
TESTS_LONG += $(SLURM_24_11_TESTS)
EXTRA_DIST += $(SLURM_24_11_TESTS) tests/testbed/guest-slurm-release.sh
# And with that of 26.05.
SLURM_26_05_TESTS = tests/system/0730-slurm-26.05-pam.sh tests/system/0730-slurm-26.05-backup.sh tests/system/0730-slurm-26.05-extern.sh tests/system/0730-slurm-26.05-mpi-nodes.sh \
	tests/system/0730-slurm-26.05-energy.sh tests/system/0730-slurm-26.05-gather.sh tests/system/0730-slurm-26.05-launch-parameters.sh \
	tests/system/0730-slurm-26.05-nodes.sh tests/system/0730-slurm-26.05-tasks.sh \
	tests/system/0730-slurm-26.05-terminal.sh tests/system/0730-slurm-26.05-spank.sh \
	tests/system/0730-slurm-26.05-limits.sh tests/system/0730-slurm-26.05-het.sh \
	tests/system/0730-slurm-26.05-in-vm.sh tests/system/0730-slurm-26.05-namespace.sh tests/system/0730-slurm-26.05-devices.sh \
	tests/system/0730-slurm-26.05-x11.sh tests/system/0730-slurm-26.05-auth.sh
TESTS_LONG += $(SLURM_26_05_TESTS)
EXTRA_DIST += $(SLURM_26_05_TESTS)
check_PROGRAMS += tests/lib/slurm_adopted
tests_lib_slurm_adopted_SOURCES = tests/lib/slurm_adopted.c
check_PROGRAMS += tests/lib/slurm_decode
tests_lib_slurm_decode_SOURCES = tests/lib/slurm_decode.c
tests_lib_slurm_decode_LDADD = libslurminit.la libbase.la $(JANSSON_LIBS)
if CMOCKA
SLURM_UNIT_TESTS = tests/unit/test_slurm_batch tests/unit/test_slurm_delivery tests/unit/test_slurm_energy \
	tests/unit/test_slurm_gres \
	tests/unit/test_slurm_init tests/unit/test_slurm_io \
	tests/unit/test_slurm_k12 tests/unit/test_slurm_limits tests/unit/test_slurm_names \
	tests/unit/test_slurm_namespace \
	tests/unit/test_slurm_pmi tests/unit/test_slurm_pmi_tree tests/unit/test_slurm_pmix \
	tests/unit/test_slurm_pmix_nodes tests/unit/test_slurm_pmix_peers \
	tests/unit/test_slurm_probe tests/unit/test_slurm_requests tests/unit/test_slurm_rules \
	tests/unit/test_slurm_served tests/unit/test_slurm_server tests/unit/test_slurm_tasks \
	tests/unit/test_slurm_tmpfs \
	tests/unit/test_slurm_token tests/unit/test_slurm_tree \
	tests/unit/test_slurm_usage tests/unit/test_slurm_versions tests/unit/test_slurm_wire \
	tests/unit/test_slurm_x11 tests/unit/test_slurm_xauthority
check_PROGRAMS += $(SLURM_UNIT_TESTS)
TESTS += $(SLURM_UNIT_TESTS)
tests_unit_test_slurm_batch_SOURCES = tests/unit/test_slurm_batch.c
tests_unit_test_slurm_batch_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_batch_LDADD = libslurminit.la $(UNIT_LDADD)
tests_unit_test_slurm_delivery_SOURCES = tests/unit/test_slurm_delivery.c tests/lib/fake_auth.h
tests_unit_test_slurm_delivery_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_delivery_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_energy_SOURCES = tests/unit/test_slurm_energy.c tests/lib/scratch.h
tests_unit_test_slurm_energy_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_energy_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_gres_SOURCES = tests/unit/test_slurm_gres.c
tests_unit_test_slurm_gres_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_gres_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_init_SOURCES = tests/unit/test_slurm_init.c
tests_unit_test_slurm_init_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_init_LDADD = libslurminit.la $(CMOCKA_LIBS)
tests_unit_test_slurm_io_SOURCES = tests/unit/test_slurm_io.c
tests_unit_test_slurm_io_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_io_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_k12_SOURCES = tests/unit/test_slurm_k12.c
tests_unit_test_slurm_k12_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_k12_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_limits_SOURCES = tests/unit/test_slurm_limits.c tests/lib/scratch.h
tests_unit_test_slurm_limits_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_limits_LDADD = libslurminit.la $(CMOCKA_LIBS)
tests_unit_test_slurm_names_SOURCES = tests/unit/test_slurm_names.c
tests_unit_test_slurm_names_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_names_LDADD = libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_pmi_SOURCES = tests/unit/test_slurm_pmi.c
tests_unit_test_slurm_pmi_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_pmi_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_pmi_tree_SOURCES = tests/unit/test_slurm_pmi_tree.c tests/lib/scratch.h \
	contrib/slurm/manager_socket.c contrib/slurm/pmi_tree.c contrib/slurm/spool.c mpi/wire/listener.c
tests_unit_test_slurm_pmi_tree_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_pmi_tree_LDADD = libslurmserve.la libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_namespace_SOURCES = tests/unit/test_slurm_namespace.c tests/lib/scratch.h
tests_unit_test_slurm_namespace_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_namespace_LDADD = libslurminit.la $(CMOCKA_LIBS)
tests_unit_test_slurm_tmpfs_SOURCES = tests/unit/test_slurm_tmpfs.c tests/lib/scratch.h \
	contrib/slurm/job_tmpfs.c contrib/slurm/site_script.c
tests_unit_test_slurm_tmpfs_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_tmpfs_LDADD = libslurminit.la $(UNIT_LDADD)
tests_unit_test_slurm_probe_SOURCES = tests/unit/test_slurm_probe.c tests/lib/scratch.h \
	contrib/slurm/user_child.c contrib/slurm/user_probe.c
tests_unit_test_slurm_probe_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_probe_LDADD = $(UNIT_LDADD)
tests_unit_test_slurm_pmix_SOURCES = tests/unit/test_slurm_pmix.c tests/lib/scratch.h
tests_unit_test_slurm_pmix_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_pmix_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_pmix_nodes_SOURCES = tests/unit/test_slurm_pmix_nodes.c tests/lib/scratch.h \
	contrib/slurm/manager_socket.c contrib/slurm/pmix_nodes.c contrib/slurm/pmix_peers.c contrib/slurm/spool.c \
	contrib/slurm/srun_abort.c mpi/wire/listener.c
tests_unit_test_slurm_pmix_nodes_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_pmix_nodes_LDADD = libslurmserve.la libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_pmix_peers_SOURCES = tests/unit/test_slurm_pmix_peers.c tests/lib/scratch.h \
	contrib/slurm/pmix_peers.c contrib/slurm/spool.c mpi/wire/listener.c
tests_unit_test_slurm_pmix_peers_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_pmix_peers_LDADD = libslurmserve.la libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_requests_SOURCES = tests/unit/test_slurm_requests.c
tests_unit_test_slurm_requests_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_requests_LDADD = libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_rules_SOURCES = tests/unit/test_slurm_rules.c
tests_unit_test_slurm_rules_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_rules_LDADD = libslurminit.la $(CMOCKA_LIBS)
tests_unit_test_slurm_tree_SOURCES = tests/unit/test_slurm_tree.c
tests_unit_test_slurm_tree_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_tree_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_served_SOURCES = tests/unit/test_slurm_served.c
tests_unit_test_slurm_served_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_served_LDADD = libslurmstep.la $(CMOCKA_LIBS)
tests_unit_test_slurm_server_SOURCES = tests/unit/test_slurm_server.c tests/lib/scratch.h
tests_unit_test_slurm_server_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_server_LDADD = libslurmstep.la $(CMOCKA_LIBS)
tests_unit_test_slurm_tasks_SOURCES = tests/unit/test_slurm_tasks.c tests/lib/scratch.h
tests_unit_test_slurm_tasks_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_tasks_LDADD = libslurminit.la $(CMOCKA_LIBS)
tests_unit_test_slurm_token_SOURCES = tests/unit/test_slurm_token.c tests/lib/scratch.h
tests_unit_test_slurm_token_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_token_LDADD = libslurmserve.la libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_usage_SOURCES = tests/unit/test_slurm_usage.c
tests_unit_test_slurm_usage_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_usage_LDADD = libslurmserve.la $(CMOCKA_LIBS)
tests_unit_test_slurm_versions_SOURCES = tests/unit/test_slurm_versions.c
tests_unit_test_slurm_versions_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_versions_LDADD = libslurmserve.la libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_wire_SOURCES = tests/unit/test_slurm_wire.c
tests_unit_test_slurm_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_wire_LDADD = libslurmwire.la $(CMOCKA_LIBS)
tests_unit_test_slurm_x11_SOURCES = tests/unit/test_slurm_x11.c tests/lib/fake_auth.h tests/lib/scratch.h \
	contrib/slurm/x11.c
tests_unit_test_slurm_x11_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_x11_LDADD = libslurmserve.la libpeer.la $(CMOCKA_LIBS)
tests_unit_test_slurm_xauthority_SOURCES = tests/unit/test_slurm_xauthority.c tests/lib/scratch.h \
	contrib/slurm/user_child.c contrib/slurm/xauthority.c
tests_unit_test_slurm_xauthority_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slurm_xauthority_LDADD = $(UNIT_LDADD)
endif

# systemd/: scopes, notifications, units.
SYSTEMD_TESTS = tests/system/0470-scope.sh
TESTS += $(SYSTEMD_TESTS)
EXTRA_DIST += $(SYSTEMD_TESTS) tests/testbed/guest-scopes.sh tests/testbed/guest-service.sh \
	tests/testbed/guest-upkeep.sh
if CMOCKA
check_PROGRAMS += tests/unit/test_notify tests/unit/test_scope
TESTS += tests/unit/test_notify tests/unit/test_scope
tests_unit_test_notify_SOURCES = tests/unit/test_notify.c tests/lib/scratch.h
tests_unit_test_notify_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_notify_LDADD = $(UNIT_LDADD)
tests_unit_test_scope_SOURCES = tests/unit/test_scope.c tests/lib/scratch.h
tests_unit_test_scope_CPPFLAGS = $(UNIT_CPPFLAGS) $(SYSTEMD_CFLAGS)
tests_unit_test_scope_LDADD = $(UNIT_LDADD) $(SYSTEMD_LIBS)
endif

# The control socket's server.
CONTROL_SYSTEM_TESTS = tests/system/0600-control-hostile.sh tests/system/0601-control-manual.sh
TESTS += $(CONTROL_SYSTEM_TESTS)
EXTRA_DIST += $(CONTROL_SYSTEM_TESTS) tests/lib/varlink.py tests/lib/hostile_clients.py
if CMOCKA
CONTROL_UNIT_TESTS = tests/unit/test_control_access \
	tests/unit/test_control_call \
	tests/unit/test_control_frame \
	tests/unit/test_control_hostile \
	tests/unit/test_control_listen \
	tests/unit/test_control_save
CONTROL_RIG = tests/lib/control_rig.c tests/lib/control_rig.h tests/lib/scratch.h
CONTROL_UNIT_LDADD = libcontrol.la $(CMOCKA_LIBS)
check_PROGRAMS += $(CONTROL_UNIT_TESTS)
TESTS += $(CONTROL_UNIT_TESTS)
tests_unit_test_control_access_SOURCES = tests/unit/test_control_access.c $(CONTROL_RIG)
tests_unit_test_control_access_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_access_LDADD = $(CONTROL_UNIT_LDADD)
tests_unit_test_control_call_SOURCES = tests/unit/test_control_call.c $(CONTROL_RIG)
tests_unit_test_control_call_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_call_LDADD = $(CONTROL_UNIT_LDADD)
tests_unit_test_control_frame_SOURCES = tests/unit/test_control_frame.c
tests_unit_test_control_frame_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_frame_LDADD = $(CONTROL_UNIT_LDADD)
tests_unit_test_control_hostile_SOURCES = tests/unit/test_control_hostile.c $(CONTROL_RIG)
tests_unit_test_control_hostile_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_hostile_LDADD = $(CONTROL_UNIT_LDADD)
tests_unit_test_control_listen_SOURCES = tests/unit/test_control_listen.c $(CONTROL_RIG)
tests_unit_test_control_listen_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_listen_LDADD = $(CONTROL_UNIT_LDADD)
tests_unit_test_control_save_SOURCES = tests/unit/test_control_save.c $(CONTROL_RIG)
tests_unit_test_control_save_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_control_save_LDADD = libnode.la $(CONTROL_UNIT_LDADD)
endif

# tests/fuzz/fuzz_frame -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_frame
tests_fuzz_fuzz_frame_SOURCES = tests/fuzz/fuzz_frame.c $(FUZZER_MAIN)
tests_fuzz_fuzz_frame_LDADD = libcontrol.la
tests_fuzz_fuzz_frame_LDFLAGS = $(FUZZER_LINK)

EXTRA_PROGRAMS += tests/bench/calltime
tests_bench_calltime_SOURCES = tests/bench/calltime.c
tests_bench_calltime_LDADD = libcontrol.la
TESTS += tests/system/0690-reexec.sh
EXTRA_DIST += tests/system/0690-reexec.sh
TESTS += tests/system/0691-reexec-streams.sh
EXTRA_DIST += tests/system/0691-reexec-streams.sh
TESTS += tests/system/0692-reexec-refused.sh
EXTRA_DIST += tests/system/0692-reexec-refused.sh
TESTS += tests/system/0693-reexec-clients.sh
EXTRA_DIST += tests/system/0693-reexec-clients.sh
TESTS += tests/system/0694-reexec-adopted.sh
EXTRA_DIST += tests/system/0694-reexec-adopted.sh


# The tracker against a model, through the control socket.
TESTS += tests/system/0630-model.sh
EXTRA_DIST += tests/system/0630-model.sh tests/lib/model.py
check_PROGRAMS += tests/lib/modelproc
tests_lib_modelproc_SOURCES = tests/lib/modelproc.c
tests_lib_modelproc_LDADD = -lpthread

STEPCTL_SYSTEM_TESTS = \
	tests/system/0670-stepctl.sh \
	tests/system/0671-stepctl-no-agent.sh \
	tests/system/0672-stepctl-screen.sh \
	tests/system/0673-stepctl-completion.sh \
	tests/system/0674-stepctl-many.sh \
	tests/system/0675-stepctl-clean.sh \
	tests/system/0676-stepctl-hostile.sh
TESTS += $(STEPCTL_SYSTEM_TESTS)
EXTRA_DIST += $(STEPCTL_SYSTEM_TESTS)

# PMI-1 and PMI-2: the server in one process, and with the clients that there are.
PMI_RIG = tests/lib/pmi_rig.c tests/lib/pmi_rig.h
PMI_SCENE = $(PMI_RIG) tests/lib/pmi_scene.c tests/lib/pmi_scene.h
PMI_CPPFLAGS = -I$(top_srcdir)/tests/lib
PMI_LIBS = libpmiserver.la libbase.la
if CMOCKA
PMI_UNIT_TESTS = tests/unit/test_pmi_codec tests/unit/test_pmi1 tests/unit/test_pmi2 tests/unit/test_pmi_parts \
	tests/unit/test_pmi_managed \
	tests/unit/test_pmix_version tests/unit/test_pmix_claim tests/unit/test_pmix_trace
check_PROGRAMS += $(PMI_UNIT_TESTS)
TESTS += $(PMI_UNIT_TESTS)
tests_unit_test_pmi_codec_SOURCES = tests/unit/test_pmi_codec.c
tests_unit_test_pmi_codec_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pmi_codec_LDADD = libpmi.la libbase.la $(CMOCKA_LIBS)
tests_unit_test_pmi1_SOURCES = tests/unit/test_pmi1.c $(PMI_SCENE)
tests_unit_test_pmi1_CPPFLAGS = $(UNIT_CPPFLAGS) $(PMI_CPPFLAGS)
tests_unit_test_pmi1_LDADD = $(PMI_LIBS) $(CMOCKA_LIBS)
tests_unit_test_pmi2_SOURCES = tests/unit/test_pmi2.c $(PMI_SCENE)
tests_unit_test_pmi2_CPPFLAGS = $(UNIT_CPPFLAGS) $(PMI_CPPFLAGS)
tests_unit_test_pmi2_LDADD = $(PMI_LIBS) $(CMOCKA_LIBS)
tests_unit_test_pmi_managed_SOURCES = tests/unit/test_pmi_managed.c $(PMI_SCENE)
tests_unit_test_pmi_managed_CPPFLAGS = $(UNIT_CPPFLAGS) $(PMI_CPPFLAGS)
tests_unit_test_pmi_managed_LDADD = $(PMI_LIBS) $(CMOCKA_LIBS)
tests_unit_test_pmi_parts_SOURCES = tests/unit/test_pmi_parts.c $(PMI_RIG)
tests_unit_test_pmi_parts_CPPFLAGS = $(UNIT_CPPFLAGS) $(PMI_CPPFLAGS)
tests_unit_test_pmi_parts_LDADD = $(PMI_LIBS) $(CMOCKA_LIBS)
tests_unit_test_pmix_version_SOURCES = tests/unit/test_pmix_version.c mpi/pmix/version.c mpi/pmix/version.h
tests_unit_test_pmix_version_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pmix_version_LDADD = $(CMOCKA_LIBS)
tests_unit_test_pmix_claim_SOURCES = tests/unit/test_pmix_claim.c mpi/pmix/claim.c mpi/pmix/claim.h
tests_unit_test_pmix_claim_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pmix_claim_LDADD = libbase.la $(CMOCKA_LIBS)
tests_unit_test_pmix_trace_SOURCES = tests/unit/test_pmix_trace.c mpi/pmix/trace.c mpi/pmix/trace.h
tests_unit_test_pmix_trace_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pmix_trace_LDADD = libbase.la $(CMOCKA_LIBS) -lpthread
endif

PMI_SYSTEM_TESTS = \
	tests/system/0740-pmi-mpich.sh \
	tests/system/0741-pmi-slurm-client.sh \
	tests/system/0742-pmi-raw.sh \
	tests/system/0743-pmi-spawn.sh \
	tests/system/0744-pmi-hydra.sh \
	tests/system/0745-pmi-nodes.sh \
	tests/system/0746-pmi-tcp-strangers.sh \
	tests/system/0747-singletons.sh \
	tests/system/0748-rank-death.sh
TESTS += $(PMI_SYSTEM_TESTS)
EXTRA_DIST += $(PMI_SYSTEM_TESTS) tests/lib/pmi_nodes.py tests/lib/pmi_stranger.py tests/lib/pmi_talk.py \
	tests/lib/mpi_sum.c \
	tests/lib/pmi2_client.c tests/lib/pmi.sh

# tests/fuzz/fuzz_pmi1 -max_total_time=300 -max_len=8192 CORPUS
FUZZERS += tests/fuzz/fuzz_pmi1 tests/fuzz/fuzz_pmi2
tests_fuzz_fuzz_pmi1_SOURCES = tests/fuzz/fuzz_pmi1.c $(PMI_RIG) $(FUZZER_MAIN)
tests_fuzz_fuzz_pmi1_CPPFLAGS = $(AM_CPPFLAGS) $(PMI_CPPFLAGS)
tests_fuzz_fuzz_pmi1_LDADD = $(PMI_LIBS)
tests_fuzz_fuzz_pmi1_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_pmi2_SOURCES = tests/fuzz/fuzz_pmi2.c $(PMI_RIG) $(FUZZER_MAIN)
tests_fuzz_fuzz_pmi2_CPPFLAGS = $(AM_CPPFLAGS) $(PMI_CPPFLAGS)
tests_fuzz_fuzz_pmi2_LDADD = $(PMI_LIBS)
tests_fuzz_fuzz_pmi2_LDFLAGS = $(FUZZER_LINK)

# mpi/pmix, with clients of libpmix and of Open MPI.
PMIX_SYSTEM_TESTS = \
	tests/system/0850-pmix-start.sh \
	tests/system/0851-pmix-data.sh \
	tests/system/0852-pmix-together.sh \
	tests/system/0853-pmix-queries.sh \
	tests/system/0854-pmix-spawn.sh \
	tests/system/0855-pmix-old.sh \
	tests/system/0856-pmix-deadline.sh \
	tests/system/0857-pmix-streams.sh \
	tests/system/0858-pmix-streams-lives.sh \
	tests/system/0860-openmpi.sh \
	tests/system/0870-pmix-nodes.sh \
	tests/system/0871-pmix-nodes-failures.sh \
	tests/system/0872-pmix-streams-nodes.sh \
	tests/system/0873-pmix-invites.sh \
	tests/system/0874-pmix-log.sh \
	tests/system/0875-pmix-monitors.sh \
	tests/system/0876-pmix-streams-bounds.sh \
	tests/system/0877-pmix-sets-nodes.sh \
	tests/system/0878-pmix-strangers.sh \
	tests/system/0879-pmix-orphans.sh
EXTRA_DIST += $(PMIX_SYSTEM_TESTS) tests/lib/pmix.sh tests/lib/pmixtool.sh tests/lib/pmix_old.py \
	tests/lib/pmix_raw.py tests/lib/claimed_uid.c tests/lib/mpiprogram.c \
	tests/bench/run-pmix tests/bench/pmi2exchange.c
bench-pmix: all $(EXTRA_PROGRAMS) tests/lib/pmixclient
	top_builddir='$(abs_top_builddir)' top_srcdir='$(abs_top_srcdir)' \
		$(SHELL) $(top_srcdir)/tests/bench/run-pmix
.PHONY: bench-pmix
if PMIX
TESTS += $(PMIX_SYSTEM_TESTS)
check_PROGRAMS += tests/lib/pmixclient tests/lib/pmixtool
tests_lib_pmixtool_SOURCES = tests/lib/pmixtool.c
tests_lib_pmixtool_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
tests_lib_pmixtool_LDADD = $(PMIX_LIBS) -lpthread
if CMOCKA
check_PROGRAMS += tests/unit/test_pmix_admit
TESTS += tests/unit/test_pmix_admit
tests_unit_test_pmix_admit_SOURCES = tests/unit/test_pmix_admit.c mpi/pmix/admit.c mpi/pmix/claim.c \
	mpi/pmix/interpose.c stepd/base/peer.c mpi/wire/listener.c
tests_unit_test_pmix_admit_CPPFLAGS = $(UNIT_CPPFLAGS) $(PMIX_CFLAGS)
tests_unit_test_pmix_admit_LDADD = libbase.la $(CMOCKA_LIBS) $(EV_LIBS) -lpthread
endif
check_DATA += tests/lib/claimed_uid.so
CLEANFILES += tests/lib/claimed_uid.so
tests/lib/claimed_uid.so: tests/lib/claimed_uid.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $<
tests_lib_pmixclient_SOURCES = tests/lib/pmixclient.c tests/lib/pmixclient.h tests/lib/pmixfailures.c \
	tests/lib/pmixinvites.c tests/lib/pmixwatch.c
tests_lib_pmixclient_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
tests_lib_pmixclient_LDADD = $(PMIX_LIBS) -lpthread
endif

# Tasks that join a running step.
SPAWN_SYSTEM_TESTS = \
	tests/system/0810-spawn.sh \
	tests/system/0811-spawn-fails.sh \
	tests/system/0812-spawn-streams.sh \
	tests/system/0813-spawn-many.sh \
	tests/system/0814-spawn-reexec.sh \
	tests/system/0815-spawn-places.sh
TESTS += $(SPAWN_SYSTEM_TESTS)
EXTRA_DIST += $(SPAWN_SYSTEM_TESTS) tests/lib/spawner_plugin.c tests/lib/spawn.sh
check_DATA += tests/lib/plugins/mpi_spawner.so
CLEANFILES += tests/lib/plugins/mpi_spawner.so
tests/lib/plugins/mpi_spawner.so: tests/lib/spawner_plugin.c mpi/client_hooks.c libmpilink.la stepd/api/mpi.h \
	stepd/api/step.h
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -o $@ $< \
		$(srcdir)/mpi/client_hooks.c .libs/libmpilink.a $(JANSSON_LIBS)

if CMOCKA
check_PROGRAMS += tests/unit/test_spawning
TESTS += tests/unit/test_spawning
tests_unit_test_spawning_SOURCES = tests/unit/test_spawning.c \
	mpi/serve/spawning.c mpi/serve/spawning_part.c mpi/serve/spawning_root.c mpi/wire/tree.c
tests_unit_test_spawning_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_spawning_LDADD = $(UNIT_LDADD)

# Whose a connection is.
check_PROGRAMS += tests/unit/test_peer
TESTS += tests/unit/test_peer
tests_unit_test_peer_SOURCES = tests/unit/test_peer.c tests/lib/scratch.h stepd/base/peer.c
tests_unit_test_peer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_peer_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sendto
tests_unit_test_peer_LDADD = $(UNIT_LDADD)
endif

# The exchange among nodes: in one process, and over sockets.
if CMOCKA
WIRE_UNIT_TESTS = tests/unit/test_wire tests/unit/test_wire_listener tests/unit/test_wire_loss \
	tests/unit/test_wire_net
WIRE_SIM = tests/lib/wire_sim.c tests/lib/wire_sim.h
WIRE_UNIT_LDADD = libmpiwire.la libbase.la $(CMOCKA_LIBS)
check_PROGRAMS += $(WIRE_UNIT_TESTS)
TESTS += $(WIRE_UNIT_TESTS)
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c $(WIRE_SIM)
tests_unit_test_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_LDADD = $(WIRE_UNIT_LDADD)
tests_unit_test_wire_loss_SOURCES = tests/unit/test_wire_loss.c $(WIRE_SIM)
tests_unit_test_wire_loss_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_loss_LDADD = $(WIRE_UNIT_LDADD)
tests_unit_test_wire_listener_SOURCES = tests/unit/test_wire_listener.c
tests_unit_test_wire_listener_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_listener_LDADD = $(WIRE_UNIT_LDADD) $(EV_LIBS)
tests_unit_test_wire_net_SOURCES = tests/unit/test_wire_net.c tests/lib/scratch.h \
	tests/lib/wire_rig.c tests/lib/wire_rig.h
tests_unit_test_wire_net_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_net_LDADD = $(WIRE_UNIT_LDADD)
endif

# tests/fuzz/fuzz_wire -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_wire
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c $(FUZZER_MAIN)
tests_fuzz_fuzz_wire_LDFLAGS = $(FUZZER_LINK)
tests_fuzz_fuzz_wire_LDADD = libmpiwire.la libbase.la

EXTRA_PROGRAMS += tests/bench/wiretime
tests_bench_wiretime_SOURCES = tests/bench/wiretime.c
tests_bench_wiretime_LDADD = libmpiwire.la libbase.la

# steprun
STEPRUN_UNIT_TESTS = tests/unit/test_base64 tests/unit/test_channel tests/unit/test_address \
	tests/unit/test_relay_streams tests/unit/test_steprun_output tests/unit/test_steprun_launch \
	tests/unit/test_supervisor
STEPRUN_CHANNEL = stepd/cli/relay/channel.c stepd/cli/relay/channel.h \
	stepd/cli/relay/address.c stepd/cli/relay/address.h
check_PROGRAMS += $(STEPRUN_UNIT_TESTS)
TESTS += $(STEPRUN_UNIT_TESTS)
tests_unit_test_base64_SOURCES = tests/unit/test_base64.c
tests_unit_test_base64_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_base64_LDADD = $(UNIT_LDADD)
tests_unit_test_channel_SOURCES = tests/unit/test_channel.c $(STEPRUN_CHANNEL)
tests_unit_test_channel_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_channel_LDADD = $(UNIT_LDADD)
tests_unit_test_address_SOURCES = tests/unit/test_address.c $(STEPRUN_CHANNEL)
tests_unit_test_address_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_address_LDADD = $(UNIT_LDADD)
tests_unit_test_relay_streams_SOURCES = tests/unit/test_relay_streams.c stepd/cli/relay/streams.c \
	stepd/cli/relay/streams.h $(STEPRUN_CHANNEL)
tests_unit_test_relay_streams_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_relay_streams_LDADD = $(UNIT_LDADD)
tests_unit_test_supervisor_SOURCES = tests/unit/test_supervisor.c stepd/cli/relay/supervisor.c \
	stepd/cli/relay/supervisor.h tests/lib/fake_agent.c tests/lib/fake_agent.h tests/lib/scratch.h
tests_unit_test_supervisor_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_supervisor_LDADD = libclient.la $(UNIT_LDADD)
tests_unit_test_steprun_output_SOURCES = tests/unit/test_steprun_output.c \
	stepd/cli/across/user.c stepd/cli/across/user.h
tests_unit_test_steprun_output_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_steprun_output_LDADD = $(UNIT_LDADD)
tests_unit_test_steprun_launch_SOURCES = tests/unit/test_steprun_launch.c \
	stepd/cli/across/launch.c stepd/cli/across/launch.h
tests_unit_test_steprun_launch_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_steprun_launch_LDADD = $(UNIT_LDADD)
# tests/fuzz/fuzz_channel -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_channel
tests_fuzz_fuzz_channel_SOURCES = tests/fuzz/fuzz_channel.c $(STEPRUN_CHANNEL) $(FUZZER_MAIN)
tests_fuzz_fuzz_channel_LDADD = libagent.la
tests_fuzz_fuzz_channel_LDFLAGS = $(FUZZER_LINK)
STEPRUN_TESTS = tests/system/0820-steprun-here.sh tests/system/0821-steprun-layout.sh \
	tests/system/0822-steprun-streams.sh tests/system/0823-steprun-killing.sh \
	tests/system/0824-steprun-ssh.sh tests/system/0825-steprun-slurm.sh \
	tests/system/0826-steprun-user.sh tests/system/0827-steprun-hostile.sh \
	tests/system/0828-steprun-supervisors.sh tests/system/0829-steprun-terminal.sh \
	tests/system/0830-steprun-signals.sh tests/system/0831-steprun-relays.sh \
	tests/system/0833-steprun-frames.sh tests/system/0834-steprun-labels.sh \
	tests/system/0835-steprun-pty.sh tests/system/0836-steprun-attach.sh tests/system/0837-steprun-pacing.sh \
	tests/system/0838-steprun-hydra.sh
TESTS_LONG += tests/system/0832-steprun-slurm-nodes.sh
TESTS += $(STEPRUN_TESTS)
EXTRA_DIST += $(STEPRUN_TESTS) tests/system/0832-steprun-slurm-nodes.sh tests/lib/steprun.sh tests/lib/start_all.py \
	tests/data/steprun-node.json
