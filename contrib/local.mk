EXTRA_DIST += contrib/example-noded/Makefile contrib/example-noded/README.md \
	contrib/example-noded/noded.c
EXTRA_DIST += contrib/example-plugin/Makefile contrib/example-plugin/README.md \
	contrib/example-plugin/proctrack_children.c
include contrib/jobd/local.mk
include contrib/slurm/local.mk

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = contrib/completion/stepctl contrib/completion/stepd \
	contrib/completion/steprun
