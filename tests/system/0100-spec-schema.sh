#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# doc/stepd-spec.schema.json and "stepd check-spec" agree on the examples and of documents
# with one fault each, as far as a schema can see it.
. "${top_srcdir:?}/tests/lib/tap.sh"

stepd=${top_builddir:?}/stepd/cli/stepd
schema=$top_srcdir/doc/stepd-spec.schema.json
find_schema_python
python=$tap_python
[ -n "$python" ] || skip_all "python3-jsonschema is not installed"
tmpdir

# What the schema makes of each file: "FILE good" or "FILE bad".
cat >"$tmpdir/validity.py" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for path in sys.argv[2:]:
    print(path, "good" if validator.is_valid(json.load(open(path))) else "bad")
PYTHON

validity_of() { # FILE
	"$python" "$tmpdir/validity.py" "$schema" "$1" | sed 's/.* //'
}

ok "the schema is a valid schema" "$python" "$tmpdir/validity.py" "$schema"
for example in "$top_srcdir"/doc/examples/*.json; do
	name=${example##*/}
	is "$(validity_of "$example")" good "the schema accepts $name"
	ok "stepd check-spec accepts $name" "$stepd" check-spec "$example"
done
like "$("$stepd" check-spec "$top_srcdir/doc/examples/normal.json")" 'normal.json: ok \(4711\.0, 4 tasks\)$' \
	"check-spec names the step and its tasks on this node"
like "$("$stepd" check-spec - <"$top_srcdir/doc/examples/extern.json")" '^-: ok \(4711\.extern, 0 tasks\)$' \
	"check-spec reads stdin"

# One document a line, good ones before the empty line.
cat >"$tmpdir/documents" <<'EOT'
{"argv": ["x"]}
{"argv": ["x", ""], "ranks": "0-1,3", "ntasks": 4, "version": 1}
{"argv": ["x"], "ranks": [2, 0], "ntasks": 3, "uid": "a", "gid": 0, "groups": ["b", 7]}
{"argv": ["x"], "rlimits": {"core": 0, "cpu": "unlimited", "as": {"soft": 1}, "nofile": {"soft": 1, "hard": "unlimited"}}}
{"argv": ["x"], "stdin": "all", "stdout": {"mode": "rank", "rank": 0}, "stderr": {"mode": "file", "path": "e", "append": true}}
{"argv": ["x"], "stdin": {"mode": "file", "path": "%t"}, "stdout": {"mode": "inherit"}, "stderr": {"mode": "stdout"}}
{"argv": ["x"], "kill_on_bad_exit": true, "kill_on_bad_exit_grace_ms": 5, "umask": "77"}
{"argv": ["x"], "kill_sequence": [{"signal": "RTMIN+1"}, {"signal": 15, "wait_ms": 1}, {"signal": "KILL"}]}
{"tasks": [{"rank": 0, "argv": ["x"], "cwd": "/", "env": {"A": ""}}]}
{"argv": ["x"], "cpu_bind": "verbose,cores", "mem_bind": "prefer,local", "distribution": "plane=4", "cpus_per_task": 2, "topology": "/m.xml"}
{"argv": ["x"], "cpu_bind": "map_cpu:0,0x1F*4,3", "mem_bind": "verbose,mask_mem:0x1,f*2", "distribution": "block:cyclic"}
{"argv": ["x"], "cpu_bind": "verbose", "mem_bind": "quiet,none", "distribution": "*:block"}
{"argv": ["x"], "limits": {"memory_max_bytes": 1048576, "memory_high_bytes": "1.5G", "memory_swap_max_bytes": 0, "memory_oom_group": true}}
{"argv": ["x"], "limits": {"pids_max": "max", "cpu_max": 1.5, "cpu_weight": 10000, "cpuset_cpus": "0-3,8", "cpuset_mems": "none"}, "limits_mode": "strict"}
{"argv": ["x"], "task_limits": {"cpu_max": "0.5", "devices": "max", "io_max": [{"device": "/dev/sda", "read_bytes_per_sec": "10M"}, {"device": "8:16", "writes_per_sec": 5}]}, "limits_mode": "best-effort"}
{"argv": ["x"], "limits": {"devices": [{"device": "/dev/nvidia0"}, {"device": "c 195:*", "access": "mw"}], "io_max": "max"}}
{"argv": ["x"], "limits": {"devices": []}, "task_limits": {}}
{"argv": ["x"], "tasks": [{"rank": 0, "limits": {"pids_max": 7, "devices": [{"device": "c 195:0"}]}}]}
{"kind": "extern", "limits": {"pids_max": 5}}
{"kind": "batch", "script": "x", "cpu_bind": "rank", "cpus_per_task": 1}
{"kind": "batch", "script_base64": "QQ==", "mpi": "none", "ntasks": 1}
{"kind": "extern", "node": {"name": "n", "id": 1, "count": 2, "list": "n[1-2]"}}
{"argv": ["x"], "node": {"count": 3, "list": "a[01-02]-b[3],c.d", "ranks": ["0-1,4", "", "3,2"]}}
{"argv": ["x"], "mpi": "pmi2", "pmi": {"timeout_ms": 0, "tcp": true}, "wire": {}}
{"argv": ["x"], "wire": {"addresses": ["[fe80::1%eth0]:65535"], "listen_fd": 5, "secret_fd": 6, "auth": "secret", "fanout": 1024, "ifname": "ib0", "connect_timeout_ms": 1}}

[]
{}
{"argv": []}
{"argv": [""]}
{"argv": "x"}
{"argv": ["x", 1]}
{"argv": ["x"], "nope": 1}
{"argv": ["x"], "version": 2}
{"argv": ["x"], "kind": "other"}
{"argv": ["x"], "kind": "extern"}
{"argv": ["x"], "job": 0}
{"argv": ["x"], "step": -1}
{"argv": ["x"], "name": ""}
{"argv": ["x"], "node": {"name": "a/b"}}
{"argv": ["x"], "node": {"name": "-a"}}
{"argv": ["x"], "node": {"list": "a b"}}
{"argv": ["x"], "node": {"nope": 1}}
{"argv": ["x"], "node": {"list": "n[1-"}}
{"argv": ["x"], "node": {"list": "n]"}}
{"argv": ["x"], "node": {"list": "n[]"}}
{"argv": ["x"], "node": {"ranks": []}}
{"argv": ["x"], "node": {"ranks": ["0-"]}}
{"argv": ["x"], "node": {"ranks": [0]}}
{"kind": "batch", "script": "x", "node": {"ranks": ["0"]}}
{"argv": ["x"], "pmi": {"timeout": 1}}
{"argv": ["x"], "pmi": {"tcp": "yes"}}
{"kind": "extern", "pmi": {}}
{"kind": "batch", "script": "x", "wire": {}}
{"argv": ["x"], "wire": {"addresses": ["a"]}}
{"argv": ["x"], "wire": {"addresses": ["a:0"]}}
{"argv": ["x"], "wire": {"addresses": ["::1:5"]}}
{"argv": ["x"], "wire": {"addresses": ["[]:5"]}}
{"argv": ["x"], "wire": {"listen_fd": 2}}
{"argv": ["x"], "wire": {"auth": "secret"}}
{"argv": ["x"], "wire": {"auth": "none", "secret_fd": 7}}
{"argv": ["x"], "wire": {"auth": "ssh"}}
{"argv": ["x"], "wire": {"fanout": 1}}
{"argv": ["x"], "wire": {"ifname": "a/b"}}
{"argv": ["x"], "wire": {"connect_timeout_ms": 0}}
{"argv": ["x"], "ntasks": 0}
{"argv": ["x"], "ranks": []}
{"argv": ["x"], "ranks": "0-"}
{"argv": ["x"], "ranks": "0", "first_rank": 0}
{"argv": ["x"], "env": {"A=B": "c"}}
{"argv": ["x"], "env": {"": "c"}}
{"argv": ["x"], "env": {"A": 1}}
{"argv": ["x"], "cwd": "tmp"}
{"argv": ["x"], "script": "#!/bin/sh"}
{"argv": ["x"], "tasks": [{}]}
{"argv": ["x"], "tasks": [{"rank": 0, "ranks": "0"}]}
{"argv": ["x"], "tasks": [{"rank": 0, "argv": []}]}
{"argv": ["x"], "tasks": [{"rank": 0, "cwd": "x"}]}
{"argv": ["x"], "tasks": [{"rank": 0, "limits": {"pids": 7}}]}
{"argv": ["x"], "uid": ""}
{"argv": ["x"], "uid": "a:b"}
{"argv": ["x"], "gid": -1}
{"argv": ["x"], "groups": "a"}
{"argv": ["x"], "umask": "8"}
{"argv": ["x"], "umask": "1000"}
{"argv": ["x"], "umask": 18}
{"argv": ["x"], "rlimits": {"nope": 1}}
{"argv": ["x"], "rlimits": {"core": -1}}
{"argv": ["x"], "rlimits": {"core": {"hard": 1}}}
{"argv": ["x"], "rlimits": {"core": "much"}}
{"argv": ["x"], "nice": 20}
{"argv": ["x"], "oom_score_adj": 1001}
{"argv": ["x"], "no_new_privs": 1}
{"argv": ["x"], "limits": []}
{"argv": ["x"], "limits": {"memory": 1}}
{"argv": ["x"], "limits": {"memory_max_bytes": 1048575}}
{"argv": ["x"], "limits": {"memory_max_bytes": "2"}}
{"argv": ["x"], "limits": {"memory_max_bytes": "2GB"}}
{"argv": ["x"], "limits": {"memory_high_bytes": 1.5}}
{"argv": ["x"], "limits": {"memory_oom_group": 1}}
{"argv": ["x"], "limits": {"pids_max": 0}}
{"argv": ["x"], "limits": {"pids_max": "5"}}
{"argv": ["x"], "limits": {"cpu_max": 0}}
{"argv": ["x"], "limits": {"cpu_max": "1,5"}}
{"argv": ["x"], "limits": {"cpu_weight": 10001}}
{"argv": ["x"], "limits": {"cpuset_cpus": ""}}
{"argv": ["x"], "limits": {"cpuset_cpus": "0-"}}
{"argv": ["x"], "limits": {"cpuset_mems": 0}}
{"argv": ["x"], "limits": {"io_max": []}}
{"argv": ["x"], "limits": {"io_max": [{"device": "8:0"}]}}
{"argv": ["x"], "limits": {"io_max": [{"device": "sda", "reads_per_sec": 1}]}}
{"argv": ["x"], "limits": {"io_max": [{"reads_per_sec": 1, "writes_per_sec": 1}]}}
{"argv": ["x"], "limits": {"io_max": [{"device": "8:0", "reads_per_sec": "1K"}]}}
{"argv": ["x"], "limits": {"devices": "none"}}
{"argv": ["x"], "limits": {"devices": [{"device": "/tmp/x"}]}}
{"argv": ["x"], "limits": {"devices": [{"device": "c 195"}]}}
{"argv": ["x"], "limits": {"devices": [{"device": "/dev/null", "access": "rr"}]}}
{"argv": ["x"], "limits": {"devices": [{"access": "r"}]}}
{"argv": ["x"], "task_limits": {"pids_max": null}}
{"argv": ["x"], "limits_mode": "lax"}
{"kind": "extern", "task_limits": {}}
{"argv": ["x"], "cpu_bind": ""}
{"argv": ["x"], "cpu_bind": 3}
{"argv": ["x"], "cpu_bind": "nope"}
{"argv": ["x"], "cpu_bind": "cores,verbose"}
{"argv": ["x"], "cpu_bind": "cores:1"}
{"argv": ["x"], "cpu_bind": "prefer,cores"}
{"argv": ["x"], "cpu_bind": "map_cpu"}
{"argv": ["x"], "cpu_bind": "map_cpu:"}
{"argv": ["x"], "cpu_bind": "map_cpu:1,,2"}
{"argv": ["x"], "cpu_bind": "map_cpu:f"}
{"argv": ["x"], "cpu_bind": "map_cpu:1*0"}
{"argv": ["x"], "cpu_bind": "mask_cpu:0x00"}
{"argv": ["x"], "cpu_bind": "mask_cpu:0xg"}
{"argv": ["x"], "mem_bind": "cores"}
{"argv": ["x"], "mem_bind": "prefer"}
{"argv": ["x"], "mem_bind": "prefer,none"}
{"argv": ["x"], "distribution": "fcyclic"}
{"argv": ["x"], "distribution": "plane=0"}
{"argv": ["x"], "distribution": "block:cyclic:block"}
{"argv": ["x"], "cpus_per_task": 0}
{"argv": ["x"], "cpus_per_task": 65537}
{"argv": ["x"], "topology": "m.xml"}
{"argv": ["x"], "stdin": "stdout"}
{"argv": ["x"], "stdin": {"mode": "stdout"}}
{"argv": ["x"], "stdin": {"mode": "file", "path": "x", "append": true}}
{"argv": ["x"], "stdout": "all"}
{"argv": ["x"], "stdout": {"mode": "all"}}
{"argv": ["x"], "stdout": {"mode": "rank"}}
{"argv": ["x"], "stdout": {"mode": "file"}}
{"argv": ["x"], "stdout": {"mode": "none", "path": "x"}}
{"argv": ["x"], "stdout": {"mode": "none", "rank": 0}}
{"argv": ["x"], "stdout": {"path": "x"}}
{"argv": ["x"], "stderr": "all"}
{"argv": ["x"], "proctrack": "../x"}
{"argv": ["x"], "mpi": "a/b"}
{"argv": ["x"], "cgroup_root": "sys"}
{"argv": ["x"], "scope": true}
{"argv": ["x"], "time_limit_ms": -1}
{"argv": ["x"], "kill_on_bad_exit_grace_ms": 1}
{"argv": ["x"], "kill_on_bad_exit": false, "kill_on_bad_exit_grace_ms": 1}
{"argv": ["x"], "kill_sequence": []}
{"argv": ["x"], "kill_sequence": [{"wait_ms": 1}]}
{"argv": ["x"], "kill_sequence": [{"signal": 0}]}
{"argv": ["x"], "background": "keep"}
{"kind": "batch"}
{"kind": "batch", "script": "x", "script_base64": "QQ=="}
{"kind": "batch", "script_base64": "QQ="}
{"kind": "batch", "script": "x", "ntasks": 2}
{"kind": "batch", "script": "x", "step": 1}
{"kind": "batch", "script": "x", "mpi": "pmix"}
{"kind": "batch", "script": "x", "node": {"tasks_per_node": [1]}}
{"kind": "extern", "stdin": "none"}
{"kind": "extern", "cpu_bind": "none"}
{"kind": "extern", "topology": "/m.xml"}
{"kind": "extern", "mpi": "pmix"}
EOT
number=1000 kind=good
while read -r document; do
	[ -n "$document" ] || { kind=bad; continue; }
	number=$((number + 1))
	printf '%s\n' "$document" >"$tmpdir/$number.$kind.json"
done <"$tmpdir/documents"

"$python" "$tmpdir/validity.py" "$schema" "$tmpdir"/1*.json >"$tmpdir/validity"
while read -r file schema_says; do
	status=0
	"$stepd" check-spec "$file" >/dev/null 2>"$tmpdir/error" || status=$?
	case $file in
	*.good.json) wanted="good 0" ;;
	*) wanted="bad 1" ;;
	esac
	is "$schema_says $status" "$wanted" "the schema and check-spec agree that this is ${wanted% *}: $(cat "$file")"
done <"$tmpdir/validity"

# The command itself.
out=$("$stepd" check-spec "$tmpdir/none.json" 2>&1)
is "$? $out" "125 $tmpdir/none.json: open: No such file or directory" \
	"check-spec of a missing file names it and exits with 125"
out=$("$stepd" check-spec "$top_srcdir/doc/examples/mpmd.json" "$tmpdir/none.json" 2>/dev/null)
is "$? ${out##*/}" "125 mpmd.json: ok (4711.1, 8 tasks)" \
	"check-spec checks the other file where one of two can't be read"
echo '{' >"$tmpdir/cut.json"
out=$("$stepd" check-spec "$top_srcdir/doc/examples/mpmd.json" "$tmpdir/cut.json" 2>/dev/null)
is "$? ${out##*/}" "1 mpmd.json: ok (4711.1, 8 tasks)" "check-spec exits with 1 where one of two files is wrong"
cat >"$tmpdir/many.json" <<'END'
{"argv": ["x", 1], "umask": "9", "nodes": 2, "ntasks": 2, "node": {"id": "first", "colour": 1}, "labels": true,
 "kill_sequence": [{"signal": "FOO"}, {"signal": "TERM"}], "time_limit_ms": -1,
 "tasks": [{"rank": 0, "cwd": "x"}, {"rank": 7}, {"cwd": "/"}], "stdin": "some"}
END
out=$("$stepd" check-spec "$tmpdir/many.json" 2>&1)
is "$?
$(printf '%s\n' "$out" | sed "s|^$tmpdir/many.json: ||; s/: .*//" | sort)" "1
argv[1]
kill_sequence[0].signal
kill_sequence[1].signal
labels
node.colour
node.id
nodes
time_limit_ms
umask" "check-spec reports all faults of a document, a line each with its path"
out=$(sed 's/"node": {[^}]*}, //' "$tmpdir/many.json" | "$stepd" check-spec - 2>&1)
is "$(printf '%s\n' "$out" | sed -n 's/^-: \(\(tasks\|stdin\)[^:]*\): .*/\1/p' | tr '\n' ' ')" \
	"tasks[0].cwd tasks[1].rank tasks[2] stdin " "check-spec reports faults of ranks where the layout can be made"
{
	echo '{"argv": ["x"]'
	seq -f ', "no-such-field-%.0f": 1' 120
	echo '}'
} >"$tmpdir/bound.json"
out=$("$stepd" check-spec "$tmpdir/bound.json" 2>&1)
is "$? $(printf '%s\n' "$out" | wc -l) $(printf '%s\n' "$out" | tail -n 1)" "1 51 $tmpdir/bound.json: and 70 more" \
	"check-spec reports at most 50 faults and the number of the others"
"$stepd" check-spec >/dev/null 2>&1
is $? 125 "check-spec without a file exits with 125"
"$stepd" check-spec --nope >/dev/null 2>&1
is $? 125 "check-spec with an unknown option exits with 125"
"$stepd" check-spec "$top_srcdir/doc/examples/batch.json" >/dev/full 2>"$tmpdir/error"
is $? 125 "check-spec exits with 125 where stdout is on a full disk"
done_testing
