#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A folder is a layer, and includes run down only. The table "down" below names for each folder those
# that it may include; the table itself has no cycle, which is checked first. A backend's folder is a
# layer of its own, so that one never leans on another. Foreign libraries have their folders, too. And
# what follows of it: stepctl has no agent in it.
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

cat >"$tmpdir/arrows.awk" <<'END'
# Lines are FILE:#include ..., relative to the tree.
BEGIN {
	down["api"] = ""
	down["base"] = ""
	down["snapshot"] = "base"
	down["loop"] = "snapshot api base"
	down["systemd"] = "api base"
	down["state"] = "base"
	down["plugin"] = "api base"
	down["control"] = "snapshot base"

	down["proctrack"] = "plugin api base"
	down["proctrack/*"] = "proctrack api base"
	down["proctrack/cgroup"] = "proctrack systemd api base"
	down["mpi"] = "plugin api base"
	down["mpi/*"] = "mpi mpi/serve mpi/wire mpi/pmi api base"
	down["mpi/serve"] = "mpi mpi/wire api base"
	down["mpi/wire"] = "api base"
	down["mpi/pmi"] = "api base"

	down["spec"] = "api base"
	down["process"] = "spec base"
	down["record"] = "proctrack plugin state snapshot api base"
	down["stdio"] = "process mpi spec snapshot base"
	down["binding"] = "process spec api base"
	down["account"] = "record proctrack spec loop snapshot api base"
	down["launch"] = "stdio binding record process proctrack mpi spec snapshot api base"
	down["step"] = "launch account " down["launch"] " loop state systemd plugin"
	down["operations"] = "step " down["step"]
	down["frontend"] = "operations control " down["operations"]

	down["client"] = "state api base"
	down["cli"] = "frontend " down["frontend"] " client mpi/pmi"
	down["cli/*"] = "cli/run cli/relay cli " down["cli"]
	down["cli/ctl"] = "cli/run cli client account record spec proctrack plugin state api base"

	j = "contrib/jobd/"
	down[j "abi"] = "api base"
	down[j "conf"] = "api base"
	down[j "select"] = "plugin api base"
	down[j "select/*"] = j "select " j "conf api base"
	down[j "preempt"] = "plugin api base"
	down[j "engine"] = j "preempt " j "select " j "conf " j "abi api base"
	down[j "store"] = j "engine base"
	down[j "run"] = j "engine " j "store client state spec api base"
	down[j "cli"] = j "engine " j "conf client cli cli/ctl api base"
	down[j "sim"] = j "cli " j "engine " j "preempt " j "select " j "conf api base"
	down[j "server"] = j "sim " j "run " j "store " j "engine " j "preempt " j "select " j "conf control " \
		"plugin systemd cli api base"
	down["contrib/slurm"] = j "conf client state systemd cli cli/doctor cli/relay cli/run process spec loop mpi/pmi mpi/wire api base"
	check_down()
}

# Takes away what includes nothing that is left, until nothing is; what then stands is a circle.
function check_down(a, b, left, n, went, part, i, clear)
{
	for (a in down)
		left[a] = 1
	do {
		went = 0
		for (a in left) {
			clear = 1
			n = split(down[a], part, " ")
			for (i = 1; i <= n; i++)
				if (part[i] in left && part[i] != a)
					clear = 0
			if (clear) {
				delete left[a]
				went = 1
			}
		}
	} while (went)
	for (a in left)
		print "the table of layers has a circle at " a
}

# Its folder, without the "stepd/" that most begin with.
function folder(path)
{
	sub(/\/[^\/]*$/, "", path)
	sub(/^stepd\//, "", path)
	return path
}

function may(from, to, kind)
{
	kind = from
	if (!(kind in down))
		sub(/\/[^\/]*$/, "/*", kind)
	return from == to || index(" " down[kind] " ", " " to " ") > 0
}

function is_known(r, kind)
{
	kind = r
	sub(/\/[^\/]*$/, "/*", kind)
	return r in down || (kind != r && kind in down)
}

function own_header(file, name, to)
{
	if (name == "config.h")
		return ""
	if (name !~ /\//) { # beside the file
		to = file
		sub(/[^\/]*$/, name, to)
		name = to
	}
	to = folder(name)
	if (!is_known(to))
		return "includes \"" name "\", which is in no layer"
	if (!may(folder(file), to))
		return "of " folder(file) " includes \"" name "\" of " to
	return ""
}

function library_header(file, name)
{
	if (name ~ /^libcgroup/ && file !~ /^proctrack\/cgroup\//)
		return "includes <" name ">, which belongs in proctrack/cgroup/"
	if (name ~ /^hwloc/ && file != "stepd/binding/topology.c" &&
		file != "mpi/pmix/topology.c")
		return "includes <" name ">, which belongs in stepd/binding/topology.c"
	if (name == "seccomp.h" && file != "mpi/confine_filter.c")
		return "includes <" name ">, which belongs in mpi/confine_filter.c"
	if (name == "ini.h" && file != "stepd/cli/site_config.c")
		return "includes <" name ">, which belongs in stepd/cli/site_config.c"
	if (name ~ /^pmix/ && file !~ /^mpi\/pmix\//)
		return "includes <" name ">, which belongs in mpi/pmix/"
	if (name ~ /^systemd\// && file != "systemd/systemd.c")
		return "includes <" name ">, which belongs in systemd/systemd.c"
	if (name == "sqlite3.h" && file !~ /^contrib\/jobd\/store\//)
		return "includes <" name ">, which belongs in contrib/jobd/store/"
	if (name == "ev.h" && folder(file) ~ /^(api|base|plugin|client|proctrack.*|contrib\/jobd\/(abi|conf|select.*|engine|store|cli|sim))$/)
		return "includes <ev.h>: " folder(file) " knows of no event loop"
	if (name ~ /^stepd\//)
		return "includes <" name ">: in the tree it is \"stepd/api/...\""
	return ""
}

{
	file = $0
	sub(/:.*/, "", file)
	name = $0
	sub(/^[^"<]*["<]/, "", name)
	sub(/[">].*/, "", name)
	if (!is_known(folder(file)))
		why = "is in no layer"
	else if ($0 ~ /include[ \t]*"/)
		why = own_header(file, name)
	else
		why = library_header(file, name)
	if (why != "")
		print file " " why
}
END

# Prints what is wrong in the tree at $1, a line each.
check_arrows() {
	(cd "$1" && find stepd proctrack mpi systemd contrib/jobd contrib/slurm -name '*.[ch]' -exec \
		grep -HE '^[[:space:]]*#[[:space:]]*include' {} + 2>/dev/null) |
		awk -f "$tmpdir/arrows.awk" | sort
}

# ---- the check itself: a wrong arrow is caught, a right one is not -----------------------------
try() { # FILE INCLUDE: the result of the check for a tree with this line alone
	rm -rf "$tmpdir/tree"
	mkdir -p "$tmpdir/tree/$(dirname "$1")"
	printf '#include %s\n' "$2" >"$tmpdir/tree/$1"
	check_arrows "$tmpdir/tree"
}

while read -r file include; do
	like "$(try "$file" "$include")" "^$file " "an include of $include in $file is found"
done <<'END'
stepd/base/fs.c "stepd/plugin/plugin.h"
stepd/base/fs.c "stepd/api/step.h"
stepd/base/fs.c <ev.h>
stepd/plugin/plugin.c "stepd/step/agent.h"
stepd/plugin/plugin.c "proctrack/proctrack.h"
stepd/plugin/plugin.c <ev.h>
stepd/spec/spec.c "stepd/account/apply_limits.h"
stepd/spec/spec.c "stepd/binding/binding.h"
stepd/process/identity.c "stepd/stdio/stdio.h"
stepd/record/clean.c "stepd/step/agent.h"
stepd/stdio/stdio.c "stepd/launch/launch.h"
stepd/account/account.c "stepd/step/ending.h"
stepd/launch/launch.c "stepd/step/agent.h"
stepd/launch/launch.c "stepd/account/account.h"
stepd/step/agent.c "stepd/cli/cli.h"
stepd/step/agent.c "stepd/frontend/frontends.h"
stepd/step/agent.c "stepd/operations/operations.h"
stepd/operations/act.c "stepd/frontend/frontends.h"
stepd/operations/act.c "stepd/control/control.h"
stepd/step/agent.c "stepd/control/control.h"
stepd/step/agent.c "proctrack/cgroup/group.h"
stepd/step/agent.c <libcgroup.h>
stepd/step/agent.c <ini.h>
stepd/binding/binding.c <hwloc.h>
stepd/client/client.c "stepd/record/registry.h"
stepd/client/client.c "stepd/control/control.h"
stepd/control/server.c "stepd/step/agent.h"
stepd/state/steps.c "stepd/record/registry.h"
stepd/cli/ctl/act.c "stepd/step/agent.h"
stepd/cli/run/run.c "stepd/cli/ctl/ctl.h"
proctrack/proctrack.c "stepd/spec/spec.h"
proctrack/proctrack.c "mpi/mpi.h"
proctrack/proctrack.c "proctrack/cgroup/group.h"
proctrack/proctrack.c <libcgroup.h>
proctrack/pgid/pgid.c "stepd/spec/spec.h"
proctrack/pgid/pgid.c "proctrack/linuxproc/tree.h"
proctrack/pgid/pgid.c "stepd/plugin/plugin.h"
proctrack/pgid/pgid.c <ev.h>
mpi/mpi.c "stepd/spec/spec.h"
mpi/none/none.c "stepd/spec/spec.h"
mpi/pmi2/pmi2.c "proctrack/proctrack.h"
mpi/pmi2/pmi2.c <pmix_server.h>
mpi/pmi2/pmi2.c "mpi/pmix/server.h"
mpi/wire/wire.c "mpi/serve/serve.h"
mpi/pmi/client.c "mpi/pmi2/pmi.h"
stepd/step/agent.c "stepd/other/thing.h"
stepd/other/thing.c "stepd/base/err.h"
systemd/other.c <systemd/sd-daemon.h>
systemd/systemd.c "proctrack/proctrack.h"
proctrack/pgid/pgid.c "systemd/systemd.h"
stepd/step/agent.c <stepd/mpi.h>
contrib/jobd/engine/engine.c "contrib/jobd/store/store.h"
contrib/jobd/engine/engine.c "contrib/jobd/run/run.h"
contrib/jobd/engine/engine.c <sqlite3.h>
contrib/jobd/engine/engine.c <ev.h>
contrib/jobd/sim/sim.c <ev.h>
contrib/jobd/select/linear/linear.c "contrib/jobd/engine/engine.h"
contrib/jobd/select/linear/linear.c "contrib/jobd/select/cons_res/cons_res.h"
contrib/jobd/conf/conf.c "contrib/jobd/select/host.h"
contrib/jobd/store/store.c "contrib/jobd/server/server.h"
contrib/jobd/run/run.c "contrib/jobd/server/server.h"
contrib/jobd/cli/jobctl.c "contrib/jobd/server/server.h"
contrib/jobd/server/server.c "stepd/step/agent.h"
contrib/jobd/other/thing.c "stepd/base/err.h"
stepd/step/agent.c "contrib/jobd/engine/engine.h"
stepd/cli/doctor/doctor.c "contrib/slurm/init.h"
contrib/slurm/init.c "stepd/step/agent.h"
END

while read -r file include; do
	is "$(try "$file" "$include")" "" "an include of $include in $file is allowed"
done <<'END'
stepd/cli/serve.c "stepd/step/agent.h"
stepd/cli/serve.c "stepd/frontend/frontends.h"
stepd/cli/ctl/show.c "stepd/client/client.h"
stepd/client/client.c "stepd/state/steps.h"
stepd/record/registry.c "stepd/state/steps.h"
stepd/frontend/frontends.c "stepd/control/control.h"
stepd/frontend/frontends.c "stepd/operations/operations.h"
stepd/operations/act.c "stepd/step/agent.h"
stepd/step/agent.c "stepd/launch/launch.h"
stepd/step/agent.c "stepd/account/account.h"
stepd/step/agent.c "proctrack/proctrack.h"
stepd/step/agent.c "stepd/base/err.h"
stepd/step/loop.c <ev.h>
stepd/stdio/stdio.c "stepd/process/identity.h"
stepd/binding/topology.c <hwloc.h>
stepd/api/mpi.h "step.h"
proctrack/proctrack.c "stepd/plugin/plugin.h"
proctrack/cgroup/root.c <libcgroup.h>
proctrack/cgroup/root.c "proctrack/cgroup/group.h"
mpi/pmix/server.c <pmix_server.h>
mpi/pmi2/pmi2.c "mpi/wire/wire.h"
mpi/pmi2/pmi2.c "mpi/serve/serve.h"
mpi/pmi2/pmi2.c "mpi/pmi/codec.h"
mpi/serve/serve.c "mpi/wire/wire.h"
mpi/serve/serve.c "mpi/link.h"
stepd/cli/boot.c "mpi/pmi/client.h"
stepd/base/err.c "config.h"
systemd/systemd.c <systemd/sd-bus.h>
proctrack/cgroup/root.c "systemd/systemd.h"
stepd/step/result.c "systemd/systemd.h"
contrib/jobd/store/store.c <sqlite3.h>
contrib/jobd/server/daemon.c <ev.h>
contrib/jobd/server/server.c "stepd/control/control.h"
contrib/jobd/server/daemon.c "contrib/jobd/run/run.h"
contrib/jobd/engine/engine.c "contrib/jobd/select/host.h"
contrib/jobd/select/linear/linear.c "contrib/jobd/select/use.h"
contrib/jobd/cli/options.c "contrib/jobd/engine/request.h"
contrib/jobd/sim/replay.c "contrib/jobd/cli/options.h"
END

# ---- the tree ----------------------------------------------------------------------------------
files=$(cd "$top_srcdir" && find stepd proctrack mpi systemd contrib/jobd contrib/slurm -name '*.[ch]' | wc -l)
ok "the tree has sources to check" test "$files" -gt 20
is "$(check_arrows "$top_srcdir")" "" "all arrows of the tree run down"

# ---- structs ------------------------------------------------------------------------------------
# Each has one subject and one owner. The spec's is the document itself.
cat >"$tmpdir/members.py" <<'END'
import os, re, sys

def count(body):
    """The members of a struct's body; what is in a nested struct is one."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    n = braces = others = 0
    for c in body:
        others += (c in "([") - (c in ")]")
        braces += (c == "{") - (c == "}")
        n += c in ";," and others == 0 and braces == 0
    return n

for folder in "stepd", "proctrack", "mpi", "systemd":
    for root, _, names in os.walk(os.path.join(sys.argv[1], folder)):
        for path in (os.path.join(root, name) for name in names if name[-2:] in (".c", ".h")):
            text = open(path).read()
            for m in re.finditer(r"^struct (\w+) \{\n(.*?)^\}", text, re.S | re.M):
                if count(m.group(2)) > 30 and m.group(1) != "spec":
                    print(os.path.relpath(path, sys.argv[1]), "struct", m.group(1), count(m.group(2)))
END
if command -v python3 >/dev/null; then
	mkdir -p "$tmpdir/large/stepd"
	{
		echo "struct large {"
		i=0
		while [ $i -lt 15 ]; do
			echo "	int a$i, b$i; /* one; two; */"
			i=$((i + 1))
		done
		echo "	int (*fn)(int a, int b);"
		echo "};"
	} >"$tmpdir/large/stepd/large.h"
	is "$(python3 "$tmpdir/members.py" "$tmpdir/large")" "stepd/large.h struct large 31" \
		"a struct with 31 members is found"
	is "$(python3 "$tmpdir/members.py" "$top_srcdir")" "" "no struct but the spec has more than 30 members"
else
	skip 2 "python3 is missing"
fi

# ---- the programs ------------------------------------------------------------------------------
agents() { # PROGRAM: what of the agent is in it
	nm "${top_builddir:?}/stepd/cli/$1" 2>/dev/null | grep -E ' [Tt] (agent_run|ending_begin|operations_new)$' | head -n 3
}
if command -v nm >/dev/null; then
	isnt "$(agents stepd)" "" "stepd has the agent in it"
	is "$(agents stepctl)" "" "stepctl has nothing of the agent in it"
else
	skip 2 "nm is missing"
fi
done_testing
