dist_pkgdata_DATA = doc/stepd-spec.schema.json
examplesdir = $(docdir)/examples
dist_examples_DATA = doc/examples/batch.json doc/examples/extern.json doc/examples/mpmd.json \
	doc/examples/normal.json
