dist_pkgdata_DATA = doc/stepd-doctor.schema.json doc/stepd-spec.schema.json
examplesdir = $(docdir)/examples
dist_examples_DATA = doc/examples/batch.json doc/examples/extern.json doc/examples/mpmd.json \
	doc/examples/normal.json doc/examples/stepd.conf

dist_man_MANS += doc/stepd.8 doc/stepd-spec.5 doc/stepd.conf.5 doc/proctrack.7 doc/stepd-binding.7 \
	doc/stepd-limits.7 doc/stepd-systemd.7
dist_doc_DATA = doc/decisions.md
