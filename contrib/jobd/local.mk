# jobd: a queue over agents. All of it but main() is in a library, for the daemon and its tests.
JOBD_CFLAGS = $(AM_CFLAGS) $(JOBD_OPTIMIZE)
if JOBD
noinst_LTLIBRARIES += libjobd.la
endif
libjobd_la_SOURCES = \
	contrib/jobd/abi/bits.h contrib/jobd/abi/bitstring.c contrib/jobd/abi/list.c contrib/jobd/abi/pack.c \
	contrib/jobd/conf/conf.c contrib/jobd/conf/conf.h \
	contrib/jobd/conf/lines.c contrib/jobd/conf/lines.h \
	contrib/jobd/engine/backfill.c contrib/jobd/engine/bookings.c \
	contrib/jobd/engine/bookings.h contrib/jobd/engine/documents.c \
	contrib/jobd/engine/engine.c contrib/jobd/engine/engine.h contrib/jobd/engine/engine_impl.h \
	contrib/jobd/engine/gang.c contrib/jobd/engine/groups.c contrib/jobd/engine/grow.h \
	contrib/jobd/engine/het.c \
	contrib/jobd/engine/jobs.c \
	contrib/jobd/engine/nodes.c contrib/jobd/engine/pass.c \
	contrib/jobd/engine/plan.c contrib/jobd/engine/plan.h contrib/jobd/engine/preempt.c \
	contrib/jobd/engine/queue.c contrib/jobd/engine/request.c contrib/jobd/engine/request.h contrib/jobd/engine/job_array.c contrib/jobd/engine/job_array.h \
	contrib/jobd/engine/releases.c contrib/jobd/engine/releases.h \
	contrib/jobd/engine/reservations.c contrib/jobd/engine/submit.c contrib/jobd/engine/update.c \
	contrib/jobd/preempt/host.c contrib/jobd/preempt/host.h \
	contrib/jobd/run/agent.c contrib/jobd/run/call.c contrib/jobd/run/recover.c \
	contrib/jobd/run/run.c contrib/jobd/run/run.h contrib/jobd/run/run_impl.h \
	contrib/jobd/run/machine.c contrib/jobd/run/machine.h \
	contrib/jobd/run/spec.c \
	contrib/jobd/select/holdings.c contrib/jobd/select/holdings.h \
	contrib/jobd/select/host.c contrib/jobd/select/host.h contrib/jobd/select/resources.c \
	contrib/jobd/sim/sim.c contrib/jobd/sim/sim.h \
	contrib/jobd/store/engine_store.c contrib/jobd/store/engine_store.h \
	contrib/jobd/store/private_file.c contrib/jobd/store/private_file.h \
	contrib/jobd/store/store.c contrib/jobd/store/store.h
libjobd_la_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS) \
	-DSTEPD_PROGRAM='"$(sbindir)/stepd"' -DSTEPCTL_PROGRAM='"$(bindir)/stepctl"'
libjobd_la_CFLAGS = $(JOBD_CFLAGS)
libjobd_la_LIBADD = libclient.la $(JANSSON_LIBS) $(SQLITE_LIBS) $(EV_LIBS)

# What select plugins of the project have in common is compiled into each. They find bitmaps, lists
# and the tables of nodes and jobs in the program that loads them.
JOBD_USE_SOURCES = contrib/jobd/select/resources.c contrib/jobd/select/use.c contrib/jobd/select/use.h contrib/jobd/select/use_abi.c
if JOBD
stepdplugin_LTLIBRARIES += contrib/jobd/select/linear/select_linear.la \
	contrib/jobd/select/cons_res/select_cons_res.la contrib/jobd/select/cons_res/select_cons_tres.la \
	contrib/jobd/select/cray_aries/select_cray_aries.la
endif
contrib_jobd_select_linear_select_linear_la_SOURCES = contrib/jobd/select/linear/linear.c \
	contrib/jobd/select/plain_jobs.c $(JOBD_USE_SOURCES)
contrib_jobd_select_linear_select_linear_la_CFLAGS = $(JOBD_CFLAGS)
contrib_jobd_select_linear_select_linear_la_LDFLAGS = $(PLUGIN_LDFLAGS)
contrib_jobd_select_cons_res_select_cons_res_la_SOURCES = contrib/jobd/select/cons_res/cons_res.c \
	contrib/jobd/select/plain_jobs.c $(JOBD_USE_SOURCES)
contrib_jobd_select_cons_res_select_cons_res_la_CFLAGS = $(JOBD_CFLAGS)
contrib_jobd_select_cons_res_select_cons_res_la_LDFLAGS = $(PLUGIN_LDFLAGS)
contrib_jobd_select_cons_res_select_cons_tres_la_SOURCES = $(contrib_jobd_select_cons_res_select_cons_res_la_SOURCES)
contrib_jobd_select_cons_res_select_cons_tres_la_CPPFLAGS = $(AM_CPPFLAGS) -DJOBD_CONS_TRES
contrib_jobd_select_cons_res_select_cons_tres_la_CFLAGS = $(JOBD_CFLAGS)
contrib_jobd_select_cons_res_select_cons_tres_la_LDFLAGS = $(PLUGIN_LDFLAGS)
contrib_jobd_select_cray_aries_select_cray_aries_la_SOURCES = contrib/jobd/select/cray_aries/cray_aries.c \
	contrib/jobd/select/cray_aries/programs.c contrib/jobd/select/cray_aries/programs.h \
	contrib/jobd/select/linear/linear.c contrib/jobd/conf/lines.c $(JOBD_USE_SOURCES)
contrib_jobd_select_cray_aries_select_cray_aries_la_CPPFLAGS = $(AM_CPPFLAGS) -DJOBD_CRAY_ARIES
contrib_jobd_select_cray_aries_select_cray_aries_la_LIBADD = libbase.la
contrib_jobd_select_cray_aries_select_cray_aries_la_CFLAGS = $(JOBD_CFLAGS)
contrib_jobd_select_cray_aries_select_cray_aries_la_LDFLAGS = $(PLUGIN_LDFLAGS)
EXTRA_DIST += contrib/jobd/README.md

if JOBD
stepdplugin_LTLIBRARIES += contrib/jobd/preempt/preempt_none.la \
	contrib/jobd/preempt/preempt_partition_prio.la contrib/jobd/preempt/preempt_qos.la
endif
contrib_jobd_preempt_preempt_none_la_SOURCES = contrib/jobd/preempt/none.c
contrib_jobd_preempt_preempt_none_la_LDFLAGS = $(PLUGIN_LDFLAGS)
contrib_jobd_preempt_preempt_partition_prio_la_SOURCES = contrib/jobd/preempt/partition_prio.c
contrib_jobd_preempt_preempt_partition_prio_la_LDFLAGS = $(PLUGIN_LDFLAGS)
contrib_jobd_preempt_preempt_qos_la_SOURCES = contrib/jobd/preempt/qos.c
contrib_jobd_preempt_preempt_qos_la_LDFLAGS = $(PLUGIN_LDFLAGS)

if JOBD
if CMOCKA
JOBD_STORE_TESTS = tests/unit/test_jobd_job_array tests/unit/test_jobd_spec tests/unit/test_jobd_store
check_PROGRAMS += $(JOBD_STORE_TESTS)
TESTS += $(JOBD_STORE_TESTS)
endif
EXTRA_PROGRAMS += tests/bench/storetime
endif
tests_unit_test_jobd_job_array_SOURCES = tests/unit/test_jobd_job_array.c
tests_unit_test_jobd_job_array_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_job_array_LDADD = libjobd.la $(CMOCKA_LIBS)
tests_unit_test_jobd_spec_SOURCES = tests/unit/test_jobd_spec.c tests/lib/scratch.h
tests_unit_test_jobd_spec_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_spec_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_spec_LDADD = libjobd.la libagent.la $(CMOCKA_LIBS)
tests_unit_test_jobd_store_SOURCES = tests/unit/test_jobd_store.c tests/lib/scratch.h
tests_unit_test_jobd_store_CPPFLAGS = $(UNIT_CPPFLAGS) $(SQLITE_CFLAGS)
tests_unit_test_jobd_store_LDADD = libjobd.la $(CMOCKA_LIBS) $(SQLITE_LIBS)
tests_bench_storetime_SOURCES = tests/bench/storetime.c
tests_bench_storetime_LDADD = libjobd.la

if JOBD
if CMOCKA
JOBD_UNIT_TESTS = tests/unit/test_jobd_abi tests/unit/test_jobd_breaches \
	tests/unit/test_jobd_conf tests/unit/test_jobd_cray tests/unit/test_jobd_select
check_PROGRAMS += $(JOBD_UNIT_TESTS)
TESTS += $(JOBD_UNIT_TESTS)
endif
endif
JOBD_UNIT_LDADD = libjobd.la $(CMOCKA_LIBS)
tests_unit_test_jobd_abi_SOURCES = tests/unit/test_jobd_abi.c
tests_unit_test_jobd_abi_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_abi_LDADD = $(JOBD_UNIT_LDADD)
tests_unit_test_jobd_conf_SOURCES = tests/unit/test_jobd_conf.c tests/lib/scratch.h
tests_unit_test_jobd_conf_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_conf_LDADD = $(JOBD_UNIT_LDADD)

# It has the functions that its plugins need.
JOBD_CLUSTER = tests/lib/jobd_cluster.c tests/lib/jobd_cluster.h
JOBD_HOST_LDADD = libjobd.la libagent.la
tests_unit_test_jobd_select_SOURCES = tests/unit/test_jobd_select.c $(JOBD_CLUSTER) tests/lib/scratch.h
tests_unit_test_jobd_select_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_select_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_select_LDADD = $(JOBD_HOST_LDADD) $(CMOCKA_LIBS)
EXTRA_DIST += tests/data/jobd/E1-line-linear.json tests/data/jobd/E2-line-constres-cpu.json \
	tests/data/jobd/E10-cores-constres-CR_Core.json tests/data/jobd/E14-cores-constres-LLN.json \
	tests/data/jobd/E18-cores-constres-Socket.json

# Plugins of a site: a good one, and one that breaks its contract.
if JOBD
check_PROGRAMS += tests/lib/selectprobe
SELECT_TRIALS = tests/lib/plugins/select_rotate.so tests/lib/plugins/select_broken.so \
	tests/lib/plugins/select_traced.so
check_DATA += $(SELECT_TRIALS)
TESTS += tests/system/0921-select-example.sh tests/system/0945-jobd-select.sh
endif
CLEANFILES += tests/lib/plugins/select_rotate.so tests/lib/plugins/select_broken.so \
	tests/lib/plugins/select_traced.so
EXTRA_DIST += tests/system/0921-select-example.sh tests/system/0945-jobd-select.sh \
	tests/lib/broken_select.c tests/lib/traced_select.c \
	contrib/example-select/Makefile contrib/example-select/README.md \
	contrib/example-select/select_rotate.c
SELECT_TRIAL_NEEDS = stepd/api/bitstring.h stepd/api/list.h stepd/api/pack.h stepd/api/plugin.h stepd/api/select.h
# <stepd/select.h> of the source tree: as if it were installed.
SELECT_TRIAL_COMPILE = $(MKDIR_P) $@.include && rm -f $@.include/stepd && \
	ln -s $(abs_top_srcdir)/stepd/api $@.include/stepd && $(TRIAL_COMPILE) -I$@.include -o $@ $< && \
	rm -r $@.include
tests/lib/plugins/select_rotate.so: contrib/example-select/select_rotate.c $(SELECT_TRIAL_NEEDS)
	$(AM_V_CCLD)$(SELECT_TRIAL_COMPILE)
tests/lib/plugins/select_broken.so: tests/lib/broken_select.c contrib/example-select/select_rotate.c \
	$(SELECT_TRIAL_NEEDS)
	$(AM_V_CCLD)$(SELECT_TRIAL_COMPILE)
tests/lib/plugins/select_traced.so: tests/lib/traced_select.c $(SELECT_TRIAL_NEEDS)
	$(AM_V_CCLD)$(SELECT_TRIAL_COMPILE)
tests_lib_selectprobe_SOURCES = tests/lib/selectprobe.c $(JOBD_CLUSTER) tests/lib/scratch.h
tests_lib_selectprobe_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_lib_selectprobe_LDADD = $(JOBD_HOST_LDADD)
tests_unit_test_jobd_breaches_SOURCES = tests/unit/test_jobd_breaches.c $(JOBD_CLUSTER) tests/lib/scratch.h
tests_unit_test_jobd_breaches_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_breaches_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_breaches_LDADD = $(JOBD_HOST_LDADD) $(CMOCKA_LIBS)

tests_unit_test_jobd_cray_SOURCES = tests/unit/test_jobd_cray.c $(JOBD_CLUSTER) tests/lib/scratch.h
tests_unit_test_jobd_cray_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_cray_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_cray_LDADD = $(JOBD_HOST_LDADD) $(CMOCKA_LIBS)

# tests/bench/jobtest: what a job_test takes.
if JOBD
EXTRA_PROGRAMS += tests/bench/jobtest
endif
tests_bench_jobtest_SOURCES = tests/bench/jobtest.c $(JOBD_CLUSTER) tests/lib/scratch.h
tests_bench_jobtest_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_bench_jobtest_LDADD = $(JOBD_HOST_LDADD)

# tests/fuzz/fuzz_jobdconf -max_len=4096 -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_jobdconf
tests_fuzz_fuzz_jobdconf_SOURCES = tests/fuzz/fuzz_jobdconf.c contrib/jobd/abi/bitstring.c \
	contrib/jobd/conf/conf.c contrib/jobd/conf/conf.h \
	contrib/jobd/conf/lines.c contrib/jobd/conf/lines.h $(FUZZER_MAIN)
tests_fuzz_fuzz_jobdconf_CPPFLAGS = $(AM_CPPFLAGS)
tests_fuzz_fuzz_jobdconf_LDADD = libbase.la
tests_fuzz_fuzz_jobdconf_LDFLAGS = $(FUZZER_LINK)

# tests/fuzz/fuzz_jobdtrace -max_len=4096 -max_total_time=300 CORPUS
FUZZERS += tests/fuzz/fuzz_jobdtrace
tests_fuzz_fuzz_jobdtrace_SOURCES = tests/fuzz/fuzz_jobdtrace.c \
	contrib/jobd/cli/options.c contrib/jobd/cli/options.h \
	contrib/jobd/cli/values.c contrib/jobd/cli/values.h \
	contrib/jobd/engine/request.c contrib/jobd/engine/request.h \
	contrib/jobd/engine/job_array.c contrib/jobd/engine/job_array.h \
	contrib/jobd/sim/trace.c contrib/jobd/sim/trace.h \
	stepd/cli/options.c stepd/cli/options.h $(FUZZER_MAIN)
tests_fuzz_fuzz_jobdtrace_CPPFLAGS = $(AM_CPPFLAGS)
tests_fuzz_fuzz_jobdtrace_LDADD = libnode.la libbase.la $(JANSSON_LIBS) -lm
tests_fuzz_fuzz_jobdtrace_LDFLAGS = $(FUZZER_LINK)

if JOBD
dist_man_MANS += doc/jobctl.1 doc/jobd.8 doc/jobd.conf.5 doc/preempt.7 doc/select.7
endif

EXTRA_DIST += contrib/jobd/server/org.stepd.jobs.varlink

# Options and tables: for jobctl, for replays of recorded commands, and for tests.
if JOBD
noinst_LTLIBRARIES += libjobdcli.la
endif
libjobdcli_la_SOURCES = \
	contrib/jobd/cli/columns.c contrib/jobd/cli/columns.h \
	contrib/jobd/cli/node_table.c contrib/jobd/cli/node_table.h \
	contrib/jobd/cli/options.c contrib/jobd/cli/options.h \
	contrib/jobd/cli/queue_table.c contrib/jobd/cli/queue_table.h \
	contrib/jobd/cli/values.c contrib/jobd/cli/values.h \
	stepd/cli/options.c stepd/cli/options.h
libjobdcli_la_CPPFLAGS = $(AM_CPPFLAGS)
JOBD_CLI_LDADD = libjobdcli.la libjobd.la libclient.la libnode.la libbase.la $(JANSSON_LIBS)

if JOBD
bin_PROGRAMS += contrib/jobd/cli/jobctl
endif
contrib_jobd_cli_jobctl_SOURCES = \
	contrib/jobd/cli/act.c \
	contrib/jobd/cli/client.c contrib/jobd/cli/client.h \
	contrib/jobd/cli/jobctl.c contrib/jobd/cli/jobctl.h \
	contrib/jobd/cli/lists.c \
	contrib/jobd/cli/show.c \
	contrib/jobd/cli/submit.c \
	contrib/jobd/cli/top.c \
	stepd/cli/ctl/top_screen.c stepd/cli/ctl/top_screen.h
contrib_jobd_cli_jobctl_CPPFLAGS = $(AM_CPPFLAGS)
contrib_jobd_cli_jobctl_LDADD = $(JOBD_CLI_LDADD)

if JOBD
if CMOCKA
JOBD_CLI_TESTS = tests/unit/test_jobd_columns tests/unit/test_jobd_options tests/unit/test_jobd_request
check_PROGRAMS += $(JOBD_CLI_TESTS)
TESTS += $(JOBD_CLI_TESTS)
endif
endif
if JOBD
TESTS += tests/system/0930-jobctl.sh tests/system/0935-jobd-manuals.sh
endif
EXTRA_DIST += tests/system/0930-jobctl.sh tests/system/0935-jobd-manuals.sh tests/lib/jobd_service.py
tests_unit_test_jobd_columns_SOURCES = tests/unit/test_jobd_columns.c
tests_unit_test_jobd_columns_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_columns_LDADD = $(JOBD_CLI_LDADD) $(CMOCKA_LIBS)
tests_unit_test_jobd_options_SOURCES = tests/unit/test_jobd_options.c
tests_unit_test_jobd_options_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_options_LDADD = $(JOBD_CLI_LDADD) $(CMOCKA_LIBS)
tests_unit_test_jobd_request_SOURCES = tests/unit/test_jobd_request.c
tests_unit_test_jobd_request_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_request_LDADD = $(JOBD_CLI_LDADD) $(CMOCKA_LIBS)
# The engine with a virtual clock. Programs that load plugins have the functions that these need.
if JOBD
if CMOCKA
JOBD_SIM_TESTS = tests/unit/test_jobd_backfill tests/unit/test_jobd_engine \
	tests/unit/test_jobd_metrics tests/unit/test_jobd_preempt tests/unit/test_jobd_replay \
	tests/unit/test_jobd_trace tests/unit/test_jobd_workloads
check_PROGRAMS += $(JOBD_SIM_TESTS)
TESTS += $(JOBD_SIM_TESTS)
endif
endif
JOBD_RIG = tests/lib/jobd_rig.c tests/lib/jobd_rig.h
tests_unit_test_jobd_engine_SOURCES = tests/unit/test_jobd_engine.c $(JOBD_RIG)
tests_unit_test_jobd_engine_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_engine_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_engine_LDADD = libjobd.la libagent.la $(CMOCKA_LIBS)
tests_unit_test_jobd_backfill_SOURCES = tests/unit/test_jobd_backfill.c $(JOBD_RIG)
tests_unit_test_jobd_backfill_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_backfill_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_backfill_LDADD = libjobd.la libagent.la $(CMOCKA_LIBS)
tests_unit_test_jobd_preempt_SOURCES = tests/unit/test_jobd_preempt.c $(JOBD_RIG)
tests_unit_test_jobd_preempt_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_preempt_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_preempt_LDADD = libjobd.la libagent.la $(CMOCKA_LIBS)
tests_unit_test_jobd_workloads_SOURCES = tests/unit/test_jobd_workloads.c $(JOBD_RIG)
tests_unit_test_jobd_workloads_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_workloads_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_workloads_LDADD = libjobd.la libagent.la $(CMOCKA_LIBS)

# Replays of recorded cases, and simulations of traces: jobd --replay, jobd --simulate.
if JOBD
noinst_LTLIBRARIES += libjobdreplay.la
endif
libjobdreplay_la_SOURCES = contrib/jobd/sim/replay.c contrib/jobd/sim/replay.h \
	contrib/jobd/sim/gantt.c contrib/jobd/sim/gantt.h \
	contrib/jobd/sim/history.c contrib/jobd/sim/history.h \
	contrib/jobd/sim/metrics.c contrib/jobd/sim/metrics.h \
	contrib/jobd/sim/report.c contrib/jobd/sim/report.h \
	contrib/jobd/sim/simulate.c contrib/jobd/sim/simulate.h \
	contrib/jobd/sim/trace.c contrib/jobd/sim/trace.h
libjobdreplay_la_CPPFLAGS = $(AM_CPPFLAGS)
libjobdreplay_la_CFLAGS = $(JOBD_CFLAGS)
libjobdreplay_la_LIBADD = -lm
JOBD_REPLAY_LDADD = libjobdreplay.la $(JOBD_CLI_LDADD)
tests_unit_test_jobd_replay_SOURCES = tests/unit/test_jobd_replay.c tests/lib/scratch.h
tests_unit_test_jobd_replay_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_replay_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_jobd_replay_LDADD = $(JOBD_REPLAY_LDADD) libagent.la $(CMOCKA_LIBS)
tests_unit_test_jobd_metrics_SOURCES = tests/unit/test_jobd_metrics.c
tests_unit_test_jobd_metrics_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_metrics_LDADD = $(JOBD_REPLAY_LDADD) $(CMOCKA_LIBS)
tests_unit_test_jobd_trace_SOURCES = tests/unit/test_jobd_trace.c
tests_unit_test_jobd_trace_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_trace_LDADD = $(JOBD_REPLAY_LDADD) $(CMOCKA_LIBS)
EXTRA_DIST += tests/data/jobd/A1-guide-simple-constres-core.json \
	tests/data/jobd/A1-guide-simple-linear.json tests/data/jobd/A2-guide-lowmedhi-linear.json \
	tests/data/jobd/A3-guide-qos-force1.json tests/data/jobd/A4-future-constres-core.json \
	tests/data/jobd/A4-future-linear.json tests/data/jobd/B1-cancel-grace10-exits-on-term.json \
	tests/data/jobd/B1-cancel-grace10-ignores-term.json tests/data/jobd/B2-requeue-flags.json \
	tests/data/jobd/B4-exempt20.json tests/data/jobd/B6-three-tiers.json \
	tests/data/jobd/C-constres-default.json tests/data/jobd/C-constres-strict.json \
	tests/data/jobd/C-linear-default.json tests/data/jobd/C-linear-suspend.json \
	tests/data/jobd/D1-core-force2-three-full.json tests/data/jobd/D2-core-force4-four-full.json \
	tests/data/jobd/D4-core-force2-mixed.json tests/data/jobd/D6-corememory-fit.json \
	tests/data/jobd/D7-suspend-memory.json tests/data/jobd/F1-het-cancel.json \
	tests/data/jobd/F4-het-mixed-requeue-cancel.json tests/data/jobd/G1-reservations.json \
	tests/data/jobd/G2-backfill.json tests/data/jobd/guide-future-ideas.json \
	tests/data/jobd/guide-future-least.json tests/data/jobd/guide-qos.json \
	tests/data/jobd/guide-simple.json tests/data/jobd/guide-three-modes.json

if JOBD
TESTS += tests/system/0940-jobd-simulate.sh tests/system/0941-jobd-replay.sh
endif
EXTRA_DIST += tests/system/0940-jobd-simulate.sh tests/system/0941-jobd-replay.sh

# tests/bench/jobpass: what a scheduling pass takes, and a simulated month.
if JOBD
EXTRA_PROGRAMS += tests/bench/jobpass
endif
tests_bench_jobpass_SOURCES = tests/bench/jobpass.c $(JOBD_RIG)
tests_bench_jobpass_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_bench_jobpass_LDADD = libjobd.la libagent.la

EXTRA_DIST += tests/bench/run-simulate
bench-simulate: all tests/bench/jobtest
	top_builddir='$(abs_top_builddir)' tests/bench/jobtest $(abs_top_builddir)/stepd/cli/plugins
	top_builddir='$(abs_top_builddir)' $(SHELL) $(top_srcdir)/tests/bench/run-simulate
.PHONY: bench-simulate

# tests/bench/preempttime and slicetime: what preemption and a time slice take, in the engine and over real
# processes.
if JOBD
EXTRA_PROGRAMS += tests/bench/preempttime tests/bench/slicetime
endif
tests_bench_preempttime_SOURCES = tests/bench/preempttime.c $(JOBD_RIG)
tests_bench_preempttime_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_bench_preempttime_LDADD = libjobd.la libagent.la
tests_bench_slicetime_SOURCES = tests/bench/slicetime.c
EXTRA_DIST += tests/bench/run-slice
bench-slice: all tests/bench/pause tests/bench/preempttime tests/bench/slicetime
	top_builddir='$(abs_top_builddir)' tests/bench/preempttime
	top_builddir='$(abs_top_builddir)' top_srcdir='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/tests/bench/run-slice
.PHONY: bench-slice

# Real jobs, by the daemon and jobctl.
SYSTEM_JOBD_RUN_TESTS = tests/system/0931-jobd-run.sh tests/system/0937-jobd-killed.sh \
	tests/system/0938-jobd-preempt.sh tests/system/0939-jobd-lab.sh \
	tests/system/0942-jobd-components.sh tests/system/0943-jobd-guide.sh \
	tests/system/0944-jobd-cray.sh tests/system/0946-jobd-hostile.sh tests/system/0948-jobd-placement.sh
if JOBD
TESTS += $(SYSTEM_JOBD_RUN_TESTS)
check_DATA += tests/lib/preloaded.so tests/lib/jumping_clock.so
endif
CLEANFILES += tests/lib/preloaded.so tests/lib/jumping_clock.so
tests/lib/preloaded.so: tests/lib/preloaded.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -D_GNU_SOURCE -o $@ $<
tests/lib/jumping_clock.so: tests/lib/jumping_clock.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(TRIAL_COMPILE) -D_GNU_SOURCE -o $@ $<
EXTRA_DIST += $(SYSTEM_JOBD_RUN_TESTS) tests/lib/jobd.sh tests/lib/jobd_lab.py tests/lib/preloaded.c \
	tests/lib/jumping_clock.c


# The daemon. What its select plugins need of the ABI is in the program itself, whether it uses that
# or not.
if JOBD
sbin_PROGRAMS += contrib/jobd/server/jobd
endif
JOBD_SERVER_SOURCES = \
	contrib/jobd/abi/bits.h contrib/jobd/abi/bitstring.c contrib/jobd/abi/list.c contrib/jobd/abi/pack.c \
	contrib/jobd/server/act.c \
	contrib/jobd/server/admin.c \
	contrib/jobd/server/daemon.c contrib/jobd/server/daemon.h \
	contrib/jobd/server/here.c contrib/jobd/server/here.h \
	contrib/jobd/server/lists.c \
	contrib/jobd/server/main.c \
	contrib/jobd/server/server.c contrib/jobd/server/server.h contrib/jobd/server/server_impl.h \
	contrib/jobd/server/target.c contrib/jobd/server/target.h \
	contrib/jobd/server/users.c contrib/jobd/server/users.h \
	contrib/jobd/server/waits.c contrib/jobd/server/waits.h
JOBD_SERVER_LDADD = $(JOBD_REPLAY_LDADD) libcontrol.la libstepdsystemd.la libbase.la \
	$(JANSSON_LIBS) $(EV_LIBS)
contrib_jobd_server_jobd_SOURCES = $(JOBD_SERVER_SOURCES)
nodist_contrib_jobd_server_jobd_SOURCES = contrib/jobd/server/interface.c
contrib_jobd_server_jobd_CPPFLAGS = $(AM_CPPFLAGS)
contrib_jobd_server_jobd_CFLAGS = $(JOBD_CFLAGS)
contrib_jobd_server_jobd_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
contrib_jobd_server_jobd_LDADD = $(JOBD_SERVER_LDADD)

EXTRA_DIST += contrib/jobd/server/jobd.service.in
if JOBD
varlink_DATA = contrib/jobd/server/org.stepd.jobs.varlink
if SYSTEMD_UNITS
systemdsystemunit_DATA += contrib/jobd/server/jobd.service
endif
endif
CLEANFILES += contrib/jobd/server/interface.c contrib/jobd/server/jobd.service
contrib/jobd/server/interface.c: contrib/jobd/server/org.stepd.jobs.varlink
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		echo '#include "contrib/jobd/server/server.h"'; \
		echo 'const char server_interface_text[] ='; \
		sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $(top_srcdir)/contrib/jobd/server/org.stepd.jobs.varlink; \
		echo ';'; } >$@.tmp && mv $@.tmp $@
contrib/jobd/server/jobd.service: $(srcdir)/contrib/jobd/server/jobd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/jobd/server && \
		sed -e 's|@sbindir[@]|$(sbindir)|' -e 's|@sysconfdir[@]|$(sysconfdir)|' \
			'$(srcdir)/contrib/jobd/server/jobd.service.in' >'$@.new' && \
		mv '$@.new' '$@'

# The same with a runner that has no processes.
if JOBD
check_PROGRAMS += tests/lib/jobd-without-agents
TESTS += tests/system/0934-jobd-server.sh
endif
EXTRA_DIST += tests/system/0934-jobd-server.sh tests/lib/jobd_call.py
tests_lib_jobd_without_agents_SOURCES = $(JOBD_SERVER_SOURCES) tests/lib/jobd_without_agents.c
nodist_tests_lib_jobd_without_agents_SOURCES = contrib/jobd/server/interface.c
tests_lib_jobd_without_agents_CPPFLAGS = $(AM_CPPFLAGS)
tests_lib_jobd_without_agents_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_lib_jobd_without_agents_LDADD = $(JOBD_SERVER_LDADD)

if JOBD
if CMOCKA
check_PROGRAMS += tests/unit/test_jobd_server
TESTS += tests/unit/test_jobd_server
endif
endif
tests_unit_test_jobd_server_SOURCES = tests/unit/test_jobd_server.c \
	contrib/jobd/server/target.c contrib/jobd/server/users.c
tests_unit_test_jobd_server_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_jobd_server_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_test_jobd_server_LDADD = libjobd.la $(CMOCKA_LIBS)
