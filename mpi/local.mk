# The hooks that are the same in all of them.
MPI_CLIENT_HOOKS = mpi/client_hooks.c

stepdplugin_LTLIBRARIES += mpi/none/mpi_none.la
mpi_none_mpi_none_la_SOURCES = mpi/none/none.c $(MPI_CLIENT_HOOKS)
mpi_none_mpi_none_la_LDFLAGS = $(PLUGIN_LDFLAGS)

# The filter of system calls of the service processes, made by libseccomp.
EXTRA_DIST += mpi/confine_filter.c
if LIBSECCOMP
noinst_PROGRAMS += mpi/confine_filter
mpi_confine_filter_SOURCES = mpi/confine_filter.c
mpi_confine_filter_CPPFLAGS = $(AM_CPPFLAGS) $(LIBSECCOMP_CFLAGS)
mpi_confine_filter_LDADD = $(LIBSECCOMP_LIBS)
BUILT_SOURCES += mpi/confine_filter.h
CLEANFILES += mpi/confine_filter.h
mpi/confine_filter.h: mpi/confine_filter$(EXEEXT)
	$(AM_V_GEN)mpi/confine_filter$(EXEEXT) >$@.tmp && mv $@.tmp $@
mpi/confine.lo: mpi/confine_filter.h
endif

# The link of an agent to its MPI service process, for both of them.
noinst_LTLIBRARIES += libmpilink.la
libmpilink_la_SOURCES = mpi/link.c mpi/link.h
libmpilink_la_LIBADD = libbase.la $(JANSSON_LIBS)

# The exchange among the service processes of a step's nodes. Who links it links libbase.la, too, or
# what has it inside (libmpilink.la): twice inside a plugin it would be defined twice.
noinst_LTLIBRARIES += libmpiwire.la
libmpiwire_la_SOURCES = \
	mpi/wire/auth.c mpi/wire/auth.h \
	mpi/wire/conn.c \
	mpi/wire/fence.c \
	mpi/wire/fence_fail.c \
	mpi/wire/frame.c mpi/wire/frame.h \
	mpi/wire/listener.c mpi/wire/listener.h \
	mpi/wire/loss.c \
	mpi/wire/net.c mpi/wire/net.h mpi/wire/net_impl.h \
	mpi/wire/tree.c mpi/wire/tree.h \
	mpi/wire/wire.c mpi/wire/wire.h mpi/wire/wire_impl.h mpi/wire/wire_link.h
libmpiwire_la_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
libmpiwire_la_LIBADD = libmungeclient.la $(EV_LIBS)

# The common part of the service processes of all plugins.
noinst_LTLIBRARIES += libmpiserve.la
libmpiserve_la_SOURCES = \
	mpi/serve/serve.c mpi/serve/serve.h mpi/serve/serve_impl.h \
	mpi/serve/spawning.c mpi/serve/spawning.h mpi/serve/spawning_impl.h \
	mpi/serve/spawning_part.c \
	mpi/serve/spawning_root.c \
	mpi/serve/streams.c
libmpiserve_la_LIBADD = libpeer.la libmpiwire.la libmpilink.la $(JANSSON_LIBS) $(EV_LIBS)

# The messages of PMI-1 and PMI-2, and the client of an engine's own PMI.
noinst_LTLIBRARIES += libpmi.la libpmiclient.la
libpmi_la_SOURCES = \
	mpi/pmi/bytes.c mpi/pmi/bytes.h \
	mpi/pmi/codec.c mpi/pmi/codec.h \
	mpi/pmi/manager.c mpi/pmi/manager.h
libpmiclient_la_SOURCES = mpi/pmi/client.c mpi/pmi/client.h
libpmiclient_la_LIBADD = libpmi.la

# PMI-1 and PMI-2: the server, which needs no agent, and the plugin around it.
noinst_LTLIBRARIES += libpmiserver.la
libpmiserver_la_SOURCES = \
	mpi/pmi2/attrs.c \
	mpi/pmi2/commands.c \
	mpi/pmi2/conn.c \
	mpi/pmi2/fence.c \
	mpi/pmi2/gather.c mpi/pmi2/gather.h \
	mpi/pmi2/kvs.c mpi/pmi2/kvs.h \
	mpi/pmi2/managed.c \
	mpi/pmi2/names.c \
	mpi/pmi2/pmi.c mpi/pmi2/pmi.h mpi/pmi2/pmi_impl.h \
	mpi/pmi2/spawn.c
libpmiserver_la_LIBADD = libpmi.la

stepdplugin_LTLIBRARIES += mpi/pmi2/mpi_pmi2.la
mpi_pmi2_mpi_pmi2_la_SOURCES = \
	mpi/pmi/manager_link.c mpi/pmi/manager_link.h \
	mpi/pmi2/pmi2.c $(MPI_CLIENT_HOOKS)
mpi_pmi2_mpi_pmi2_la_LIBADD = libpmiserver.la libmpiserve.la
mpi_pmi2_mpi_pmi2_la_LDFLAGS = $(PLUGIN_LDFLAGS)

# PMIx: the plugin, which the agent loads, and the server that its service process loads.
if PMIX
stepdplugin_LTLIBRARIES += mpi/pmix/mpi_pmix.la mpi/pmix/pmix_server.la
mpi_pmix_mpi_pmix_la_SOURCES = \
	mpi/pmix/pmix.c mpi/pmix/pmix.h $(MPI_CLIENT_HOOKS) \
	mpi/pmix/version.c mpi/pmix/version.h
mpi_pmix_mpi_pmix_la_LDFLAGS = $(PLUGIN_LDFLAGS)
mpi_pmix_mpi_pmix_la_LIBADD = libmpilink.la $(JANSSON_LIBS)
mpi_pmix_pmix_server_la_SOURCES = \
	mpi/pmix/admit.c mpi/pmix/admit.h \
	mpi/pmix/call.c mpi/pmix/call.h \
	mpi/pmix/claim.c mpi/pmix/claim.h \
	mpi/pmix/compat.c \
	mpi/pmix/control.c \
	mpi/pmix/events.c \
	mpi/pmix/fence.c \
	mpi/pmix/group.c \
	mpi/pmix/interpose.c mpi/pmix/interpose.h \
	mpi/pmix/iof.c mpi/pmix/iof.h \
	mpi/pmix/iof_ranks.c \
	mpi/pmix/keys.c mpi/pmix/keys.h \
	mpi/pmi/manager_link.c mpi/pmi/manager_link.h \
	mpi/pmix/log.c \
	mpi/pmix/managed.c \
	mpi/pmix/modex.c \
	mpi/pmix/module.c \
	mpi/pmix/names.c mpi/pmix/names.h \
	mpi/pmix/publish.c \
	mpi/pmix/px.h \
	mpi/pmix/query.c \
	mpi/pmix/ranks.c \
	mpi/pmix/register.c \
	mpi/pmix/rpc.c mpi/pmix/rpc.h \
	mpi/pmix/server.c \
	mpi/pmix/spawn.c \
	mpi/pmix/tmpdir.c mpi/pmix/tmpdir.h \
	mpi/pmix/topology.c mpi/pmix/topology.h \
	mpi/pmix/trace.c mpi/pmix/trace.h \
	mpi/pmix/version.c mpi/pmix/version.h
mpi_pmix_pmix_server_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
mpi_pmix_pmix_server_la_LDFLAGS = $(PLUGIN_LDFLAGS)
mpi_pmix_pmix_server_la_LIBADD = libmpiserve.la libpmi.la $(PMIX_LIBS) $(PMIX_HWLOC_LIBS) -lpthread

pkglibexec_PROGRAMS += stepd/cli/selftest/mpi-selftest-pmix
stepd_cli_selftest_mpi_selftest_pmix_SOURCES = \
	mpi/pmix/selftest.c \
	mpi/pmix/version.c mpi/pmix/version.h
stepd_cli_selftest_mpi_selftest_pmix_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
stepd_cli_selftest_mpi_selftest_pmix_LDADD = libmpiselftest.la libbase.la $(PMIX_LIBS)
endif

# The reports of the plugins' self-tests.
noinst_LTLIBRARIES += libmpiselftest.la
libmpiselftest_la_SOURCES = mpi/selftest.c mpi/selftest.h
