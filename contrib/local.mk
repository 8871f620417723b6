EXTRA_DIST += contrib/example-plugin/Makefile contrib/example-plugin/README.md \
	contrib/example-plugin/proctrack_children.c
include contrib/slurm-socket/local.mk
