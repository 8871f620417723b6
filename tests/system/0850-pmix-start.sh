#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: what tasks find when they start, and what is left when they have ended.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 3 init
is "$out" "init 0: of 3
init 1: of 3
init 2: of 3" "three ranks call PMIx_Init and PMIx_Finalize"
is "$status" 0 "a step of three ranks of PMIx succeeds"

export client
# shellcheck disable=SC2016 # for the task's shell, here and below
out=$(step --mpi pmix -n 2 -- sh -c '"$client" init && "$client" init' 2>&1)
lines 4 '^init [01]: of 2$' "a rank may connect again, as another process, after PMIx_Finalize"
# shellcheck disable=SC2016
out=$(step --mpi pmix -n 2 -- sh -c 'PMIX_RANK=7 exec "$client" init' 2>&1)
isnt $? 0 "a process that claims a missing rank fails"
lines 0 '^init' "a process that claims a missing rank is not connected"
# shellcheck disable=SC2016
out=$(step --mpi pmix -n 2 -- sh -c 'PMIX_NAMESPACE=other exec "$client" init' 2>&1)
isnt $? 0 "a process that claims another job fails"
lines 0 '^init' "a process that claims another job is not connected"

out=$(PMI_FD=7 PMI_RANK=3 PMI_SIZE=9 PMIX_RANK=5 PMIX_NAMESPACE=other step --mpi pmix -- env)
lines 1 '^PMIX_NAMESPACE=stepd\.[0-9]*\.0$' "the namespace is the step's, whatever the caller's was"
lines 1 '^PMIX_RANK=0$' "the rank is the step's, whatever the caller's was"
lines 0 '^PMI_' "a task of PMIx has no variable of PMI-1 or PMI-2"
lines 1 '^SLURM_MPI_TYPE=pmix$' "a task of PMIx has the plugin's name in SLURM_MPI_TYPE"

# ---- keys ----

pmix 2 get pmix.job.size pmix.univ.size pmix.max.size pmix.num.nodes pmix.job.napps pmix.local.size \
	pmix.node.size pmix.lpeers pmix.lldr pmix.spawned pmix.tdir.rmclean pmix.anlmap pmix.nlist \
	pmix.jobid pmix.nspace pmix.app.size pmix.rm.name - pmix.appnum pmix.grank pmix.apprank \
	pmix.lrank pmix.nrank pmix.nodeid pmix.hname pmix.reinc
for want in job.size=2 univ.size=2 max.size=2 num.nodes=1 job.napps=1 local.size=2 node.size=2 \
	lpeers=0,1 lldr=0 spawned=false tdir.rmclean=true 'anlmap=(vector,(0,1,2))' \
	"nlist=$(uname -n)" app.size=2 rm.name=stepd appnum=0 grank=1 apprank=1 lrank=1 nrank=1 \
	nodeid=0 "hname=$(uname -n)" reinc=0; do
	if printf '%s\n' "$out" | grep -qFx "value 1: pmix.$want"; then
		ok "a rank finds ${want%%=*}"
	else
		not_ok "a rank finds ${want%%=*}" "$out"
	fi
done
pmix 2 get pmix.num.anodes pmix.alist pmix.mapby pmix.rankby pmix.bindto pmix.euid pmix.egid \
	pmix.num.slots pmix.offset - pmix.pkgrank pmix.hname \
	node:0 pmix.alias pmix.lprocs pmix.pmem pmix.local.size \
	app:0 pmix.app.size pmix.aldr
for want in num.anodes=1 "alist=$(uname -n)" mapby=BYSLOT rankby=SLOT bindto=NONE "euid=$(id -u)" \
	"egid=$(id -g)" num.slots=2 offset=0 pkgrank=1 \
	"alias=$(uname -n | sed 's/[.].*//')" 'lprocs=[2]' "hname=$(uname -n)" local.size=2 app.size=2 \
	aldr=0; do
	if printf '%s\n' "$out" | grep -qFx "value 1: pmix.$want"; then
		ok "a rank finds ${want%%=*}, also of a node and of a command line"
	else
		not_ok "a rank finds ${want%%=*}, also of a node and of a command line" "$out"
	fi
done
lines 2 'pmix\.pmem=[1-9][0-9]*$' "a rank finds its node's memory"

pmix 2 get pmix.jobid
lines 2 'pmix\.jobid=stepd\.[0-9]+\.0$' "a rank finds its job's id"

cat >"$tmpdir/multi" <<END
0 $client get pmix.job.napps pmix.app.size - pmix.appnum pmix.apprank
1-2 $client get pmix.job.napps - pmix.appnum pmix.apprank
END
out=$(step --mpi pmix -n 3 --multi-prog "$tmpdir/multi" 2>&1)
lines 3 'pmix.job.napps=2$' "each rank finds the number of command lines"
lines 2 'pmix.appnum=1$' "a rank finds the number of its command line"
lines 1 '^value 2: pmix.apprank=1$' "a rank finds its place among those of its command line"
cat >"$tmpdir/multi" <<END
0 $client get app:0 pmix.app.argv pmix.wdir app:1 pmix.app.argv pmix.wdir
1 $client 'get' app:0 pmix.app.argv app:2 pmix.app.argv
END
out=$(step --mpi pmix -n 2 --chdir "$tmpdir" --multi-prog "$tmpdir/multi" 2>&1)
lines 2 "^value [01]: pmix.app.argv=$client get app:0 pmix.app.argv pmix.wdir app:1 pmix.app.argv pmix.wdir\$" \
	"each rank finds the arguments of its command line"
lines 1 "^value 0: pmix.app.argv=$client get app:0 pmix.app.argv app:2 pmix.app.argv\$" "each rank finds the arguments of another command line"
lines 2 "^value 0: pmix.wdir=$tmpdir\$" "each rank finds the directory of a command line"
lines 1 '^value 1: pmix.app.argv: ' "a rank finds nothing of a missing command line"

pmix 2 get - pmix.locstr pmix.cpuset @1 pmix.locstr
lines 4 'pmix.locstr=' "a rank finds its own and its peers' locality"
lines 2 'pmix.cpuset: NOT-FOUND$' "a rank that is not bound finds no cpuset"
cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
options=--cpu-bind=map_cpu:$cpu
pmix 2 get - pmix.locstr pmix.cpuset
lines 2 "pmix.cpuset=hwloc:$cpu\$" "a rank that is bound finds its cpuset"
lines 2 'pmix.locstr=.*HT[0-9]+(:|$)' "a rank that is bound finds its locality"
options=

# ---- directories ----

pmix 2 dirs
lines 6 '^value' "the directories of session, job and rank exist, private to the user"
dir=$(printf '%s\n' "$out" | sed -n 's/^value 0: pmix.tmpdir=//p')
[ -n "$dir" ] && [ ! -e "$dir" ]
is $? 0 "the session directory is removed with the step"

uid=$(id -u)
name=stepd-pmix-$uid-$(uname -n)
is "$(dirname "$dir")" "/tmp/$name" "session directories are below one of the user's on this host"

mkdir "$tmpdir/own"
TMPDIR=$tmpdir/own
export TMPDIR
parent=$tmpdir/own/$name
mkdir -p "$parent/left.by.a.killed.one/deep"
chmod 700 "$parent"
ln -s "$tmpdir" "$parent/left.by.a.killed.one/link"
: >"$tmpdir/precious"
pmix 1 init
is "$out" "init 0: of 1" "a server starts where a killed one left files"
is "$(ls -A "$tmpdir/own")" "" "a server removes the files that a killed one left"
[ -e "$tmpdir/precious" ]
is $? 0 "a server does not follow a link among the files that a killed one left"
unset TMPDIR

# The user's word is taken where it can be.
# shellcheck disable=SC2016 # for the task's shell
where='dirname "$(dirname "$PMIX_SERVER_TMPDIR")"'
ln -s own "$tmpdir/link"
for own in "$tmpdir/own" "$tmpdir/link"; do
	out=$(TMPDIR=$own step --mpi pmix -- sh -c "$where" 2>&1)
	is "$out" "$(realpath "$tmpdir/own")/$name" \
		"the session directory is below the step's TMPDIR, also by a link"
done
is "$(ls -A "$tmpdir/own")" "" "a server leaves nothing in TMPDIR, not even the user's directory"

refused() { # TMPDIR REASON
	out=$(TMPDIR=$1 step --mpi pmix -- sh -c "$where" 2>&1)
	is "$(printf '%s\n' "$out" | grep -cFx "/tmp/$name")" 1 \
		"the session directory is in /tmp where TMPDIR can't be used ($1)"
	lines 1 "warning: mpi/pmix: TMPDIR '$1' can't be used on node 0: .*$2; the session directory is in /tmp\$" \
		"a warning names a TMPDIR that can't be used ($1)"
}
mkdir "$tmpdir/open"
chmod 0777 "$tmpdir/open"
: >"$tmpdir/file"
refused somewhere "is not an absolute path"
refused "$tmpdir/nowhere" "No such file or directory"
refused "$tmpdir/file" "is not a directory"
refused "$tmpdir/open" "everybody can rename what is in it; give it the sticky bit .mode 1777."

# Each ends where others begin: the directory around theirs comes and goes.
for n in 1 2 3 4; do
	for m in 1 2 3; do
		TMPDIR=$tmpdir/own step --step "$((10 * n + m))" --mpi pmix -- \
			"$client" init || echo "step $n.$m failed"
	done >"$tmpdir/steps.$n" 2>&1 &
done
wait
is "$(cat "$tmpdir"/steps.* | sort | uniq -c | sed 's/^ *//')" "12 init 0: of 1" \
	"steps that begin and end together all find their session directories"
is "$(ls -A "$tmpdir/own")" "" "steps that begin and end together leave nothing in TMPDIR"

if [ "$uid" -eq 0 ]; then
	other=$((300000 + $$))
	hostile=/tmp/stepd-pmix-$other-$(uname -n)
	at_exit "rm -rf '$hostile'"
	mkdir -m 777 "$hostile"
	out=$(step --mpi pmix --uid="$other" --gid="$other" -- sh -c "$where" 2>&1)
	is $? 0 "a step starts though somebody else made the user's session directory"
	lines 1 "^${hostile}[.][[:alnum:]]{6}\$" "the session directory has an unpredictable name where somebody else made the user's"
	is "$(ls -A "$hostile"; ls -d "$hostile".* 2>/dev/null)" "" \
		"a session directory with an unpredictable name is removed"
	rmdir "$hostile"
	mkdir "$tmpdir/elsewhere"
	chmod 777 "$tmpdir/elsewhere"
	ln -s "$tmpdir/elsewhere" "$hostile"
	out=$(step --mpi pmix --uid="$other" --gid="$other" -- sh -c "$where" 2>&1)
	lines 1 "^${hostile}[.][[:alnum:]]{6}\$" "the session directory has an unpredictable name where the user's is a link"
	is "$(ls -A "$tmpdir/elsewhere")" "" "a link in place of the user's session directory is not followed"
	rm -f "$hostile"
	# shellcheck disable=SC2016 # for the task's shell
	out=$(step --mpi pmix --uid="$other" --gid="$other" -- sh -c '
		stat -c %u "$PMIX_SERVER_TMPDIR"
		for p in /proc/[0-9]*; do
			[ "$(cat $p/comm 2>/dev/null)" = stepd-mpi ] || continue
			[ "$(awk "/^Uid/ {print \$2 \$3 \$4 \$5}" $p/status)" = '"$other$other$other$other"' ] || continue
			awk "/^PPid/ {print \$2}" $p/status
		done')
	agent=$(printf '%s\n' "$out" | sed -n 2p)
	is "$(printf '%s\n' "$out" | head -n 1)" "$other" "another user's session directory is that user's"
	isnt "$agent" "" "another user's service process runs as that user"
	rm -rf "$hostile"
else
	skip 5 "only root can run steps of others"
fi

# ---- many ----

pmix 128 init
lines 128 '^init [0-9]*: of 128$' "128 ranks of PMIx start and end"
# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -n 1 -- sh -c 'grep -l libpmix /proc/$PPID/maps')
is "$out" "" "libpmix is not loaded into the agent"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
