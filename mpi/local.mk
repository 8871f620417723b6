stepdplugin_LTLIBRARIES += mpi/none/mpi_none.la
mpi_none_mpi_none_la_SOURCES = mpi/none/none.c
mpi_none_mpi_none_la_LDFLAGS = $(PLUGIN_LDFLAGS)
