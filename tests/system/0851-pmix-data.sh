#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: put and get, fences, and published data, with what fails.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 4 modex collect
lines 4 ': all$' "after a fence that collects each rank has all ranks' data"
pmix 4 modex direct
lines 4 ': all$' "and after one that does not"
pmix 4 modex none
lines 4 ': all$' "and without a fence, as soon as the other has committed"
case $(step --mpi pmix -- printenv PMIX_VERSION) in
4.*) # whose plain store keeps for ever what a client has once read of a rank of its node
	export PMIX_MCA_gds=ds21,hash
	pmix 3 refresh
	lines 2 '^refresh [12]: second$' "what a rank has changed others read anew, in the data store that PMIX_MCA_gds names"
	unset PMIX_MCA_gds
	;;
*) skip 1 "libpmix has other data stores" ;;
esac
out=$(PMIX_MCA_gds="hash" step --mpi pmix -n 40 -- printenv PMIX_GDS_MODULE)
lines 40 '^hash$' "the step's PMIX_MCA_gds holds for its server, too"
pmix 3 fences 200
lines 3 ': done$' "200 fences in a row"
pmix 5 halves
lines 5 ': met$' "fences among some of the ranks, unlike often"

pmix 40 modex collect
lines 40 ': all$' "and with so many ranks that these share memory"
is "$(find "${TMPDIR:-/tmp}/stepd-pmix-$(id -u)" -maxdepth 1 -name "$job.*")" "" "of which nothing is left"

pmix 3 absent 1
case $(step --mpi pmix -- printenv PMIX_VERSION) in
5.0.*) # a fault of that library: it tells all but one that it went well
	lines 2 '^absent [01]: (TIMEOUT|SUCCESS)$' "a fence that a rank does not come to ends"
	lines 1 '^absent [01]: TIMEOUT$' "and one is told that it has failed"
	;;
*)
	lines 2 '^absent [01]: TIMEOUT$' \
		"a fence that a rank does not come to ends at its caller's deadline"
	;;
esac

pmix 2 nokey
lines 2 ': not found$' "a key that nobody puts is not found"
pmix 2 nobody 1
lines 2 '^nobody [01]: get TIMEOUT$' "nor is one of a rank that there is not"
options=-K0
pmix 3 unput 1
lines 2 '^unput [01]: get TIMEOUT$' "and for one that has ended without putting it nobody waits longer than he likes"
options=
pmix 2 publish
lines 2 ': as it ought to be$' "publish, lookup and unpublish: waiting, ranges, persistence, duplicates, owners, deadline"

nothing_left "nothing is left"
done_testing
