dist_pkgdata_DATA = doc/jobd-simulation.schema.json doc/stepctl.schema.json doc/stepd-doctor.schema.json \
	doc/stepd-spec.schema.json
examplesdir = $(docdir)/examples
dist_examples_DATA = doc/examples/batch.json doc/examples/extern.json doc/examples/mpmd.json \
	doc/examples/normal.json doc/examples/stepd.conf
simulationdir = $(examplesdir)/simulation
dist_simulation_DATA = doc/examples/simulation/jobs doc/examples/simulation/requeue.conf \
	doc/examples/simulation/slurm.conf

dist_man_MANS += doc/stepctl.1 doc/steprun.1 doc/stepd.8 doc/stepd-spec.5 doc/stepd.conf.5 doc/mpi.7 doc/mpi_pmi2.7 doc/mpi_pmix.7 doc/proctrack.7 \
	doc/stepd-binding.7 \
	doc/stepd-control.7 \
	doc/stepd-limits.7 doc/stepd-stdio.7 doc/stepd-systemd.7

# The schema, and in two manual pages what stands between marks, are made from the tables of the
# program, and checked in; tests/system/0031-generated-docs.sh fails where they differ.
check_PROGRAMS += doc/generate/generate
doc_generate_generate_SOURCES = \
	doc/generate/fields.c \
	doc/generate/generate.h \
	doc/generate/main.c \
	doc/generate/markup.c \
	doc/generate/options.c \
	$(RUN_OPTIONS_SOURCES)
doc_generate_generate_LDADD = libnode.la
EXTRA_DIST += doc/generate/spec.json

regenerate-docs: doc/generate/generate
	$(AM_V_GEN)frame=$(srcdir)/doc/generate/spec.json && \
	doc/generate/generate schema $$frame >doc/generated.tmp && \
	cp doc/generated.tmp $(srcdir)/doc/stepd-spec.schema.json && \
	for page in stepd.8 stepd-spec.5; do \
		doc/generate/generate manual $$frame $(srcdir)/doc/$$page >doc/generated.tmp && \
		cp doc/generated.tmp $(srcdir)/doc/$$page || exit 1; \
	done && rm doc/generated.tmp
.PHONY: regenerate-docs

dist_doc_DATA = doc/decisions.md doc/jobd-simulation.svg doc/security.md

# libstepd: a page for each group of functions, and for each name one that leads there.
dist_man_MANS += doc/libstepd.3 \
	doc/stepd_call.3 doc/stepd_get_fd.3 doc/stepd_next.3 doc/stepd_start_call.3 \
	doc/stepd_wants_write.3 \
	doc/stepd_connect.3 doc/stepd_connect_directory.3 doc/stepd_disconnect.3 \
	doc/stepd_set_timeout.3 \
	doc/stepd_each_step.3 doc/stepd_find_step.3 doc/stepd_read_result.3 \
	doc/stepd_follow.3 doc/stepd_next_event.3 doc/stepd_wait.3 \
	doc/stepd_list_pids.3 doc/stepd_find_pids.3 \
	doc/stepd_signal.3 doc/stepd_add_pid.3 doc/stepd_notify.3 doc/stepd_reexec.3 \
	doc/stepd_resume.3 doc/stepd_suspend.3 doc/stepd_terminate.3
