/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "stepd/base/strv.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/cli/run/run_options.h"
#include "stepd/spec/spec_json.h"
#include "tests/lib/scratch.h"

static char *environment[] = {(char *)"A=1", (char *)"B=x,y", (char *)"=odd", (char *)"noequals",
	(char *)"A=2", (char *)"L=\xe4", NULL};

/* Runs the options in line, separated by blanks ('~' in a word is a blank). */
static int parse(const char *line, struct run_options *o, struct err *err)
{
	static struct strv argv; /* which the options point into, until the next call */
	_cleanup_free_ char *copy = strdup(line);
	char *word, *save = NULL, *p;

	strv_clear(&argv);
	assert_int_equal(strv_add(&argv, "run"), 0);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		for (p = word; (p = strchr(p, '~')); p++)
			*p = ' ';
		assert_int_equal(strv_add(&argv, strcmp(word, "EMPTY") == 0 ? "" : word), 0);
	}
	return run_options_parse((int)argv.n, argv.v, environment, o, err);
}

/* The document without env, ' for ", compared as a whole. */
static void doc_is(const char *line, const char *wanted)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	_cleanup_free_ char *got = NULL;
	struct err err = ERR_INIT;
	json_t *copy;
	char *p;

	if (parse(line, &o, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	copy = json_copy(o.doc);
	(void)json_object_del(copy, "env"); /* -1: an extern step has none */
	got = json_dumps(copy, JSON_COMPACT);
	json_decref(copy);
	assert_non_null(got);
	for (p = got; (p = strchr(p, '"')); p++)
		*p = '\'';
	if (strcmp(got, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", line, got, wanted);
}

/* What the options make of "x" beside {'argv': ['x'], 'stdin': 'all'}. */
static void adds(const char *options, const char *fields)
{
	char line[512], wanted[1024];

	(void)snprintf(line, sizeof(line), "%s x", options);
	(void)snprintf(wanted, sizeof(wanted), "{%s%s'argv':['x'],'stdin':'all'}", fields,
		*fields ? "," : "");
	doc_is(line, wanted);
}

static void bad(const char *line, const char *wanted)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	struct err err = ERR_INIT;

	if (parse(line, &o, &err) >= 0)
		fail_msg("%s: was taken", line);
	if (strcmp(err.text, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", line, err.text, wanted);
	assert_null(o.doc);
	assert_null(o.spec);
}

/* ---- good options ------------------------------------------------------------------------- */

static void test_plain_options(void **state)
{
	(void)state;
	adds("", "");
	adds("-n 4", "'ntasks':4");
	adds("--ntasks=4 --", "'ntasks':4");
	adds("-J a~b --job 7 --step 3", "'name':'a b','job':7,'step':3");
	adds("--node-name n --node-id 1 --node-count 2 --node-list n[1-2] --tasks-per-node 2(x2)",
		"'node':{'name':'n','id':1,'count':2,'list':'n[1-2]','tasks_per_node':[2,2]}");
	adds("--node-count=3 --tasks-per-node=1(x2),4",
		"'node':{'count':3,'tasks_per_node':[1,1,4]}");
	adds("-n 8 --local-ntasks 2 --first-rank 4", "'ntasks':8,'local_ntasks':2,'first_rank':4");
	adds("-n9 --ranks 0-3,8", "'ntasks':9,'ranks':'0-3,8'");
	adds("--node-count=3 --node-ranks=0-1,4::3,2 --node-list n[1-3]",
		"'node':{'count':3,'ranks':['0-1,4','','3,2'],'list':'n[1-3]'}");
	adds("--pmi-timeout=2m --pmi-tcp", "'pmi':{'timeout_ms':120000,'tcp':true}");
	adds("--pmi-memory=4G", "'pmi':{'memory_bytes':4294967296}");
	adds("--node-count=2 --tasks-per-node=1,1 --wire-addresses=a:1,[::1]:2 --wire-listen-fd 7",
		"'node':{'count':2,'tasks_per_node':[1,1]},"
		"'wire':{'addresses':['a:1','[::1]:2'],'listen_fd':7}");
	adds("--wire-auth secret --wire-secret-fd 5 --wire-fanout 4 --wire-ifname eth0 --wire-timeout 1",
		"'wire':{'auth':'secret','secret_fd':5,'fanout':4,'ifname':'eth0',"
		"'connect_timeout_ms':1000}");
	adds("-D /tmp", "'cwd':'/tmp'");
	adds("--uid nobody --gid 5 --groups a,7", "'uid':'nobody','gid':'5','groups':['a','7']");
	adds("--groups=", "'groups':[]");
	adds("--umask 022 --oom-score-adj=-5 --no-new-privs",
		"'umask':'022','oom_score_adj':-5,'no_new_privs':true");
	adds("--mount-namespace /proc/1/ns/mnt", "'mount_namespace':'/proc/1/ns/mnt'");
	adds("--nice", "'nice':10");
	adds("-c 4 --cpu-bind verbose,map_cpu:0,1 --mem-bind=local -m cyclic --topology /m.xml",
		"'cpus_per_task':4,'cpu_bind':'verbose,map_cpu:0,1','mem_bind':'local',"
		"'distribution':'cyclic','topology':'/m.xml'");
	adds("--nice=-3", "'nice':-3");
	adds("--limits best-effort", "'limits_mode':'best-effort'");
	adds("--mem 2G --mem-high 512 --mem-swap 0 --task-mem 0",
		"'limits':{'memory_max_bytes':'2G','memory_high_bytes':536870912,"
		"'memory_swap_max_bytes':0},'task_limits':{'memory_max_bytes':'max'}");
	adds("--oom-group --task-oom-group=no --pids 512 --cpus 1.5 --task-cpus 2 --cpu-weight max",
		"'limits':{'memory_oom_group':true,'pids_max':512,'cpu_max':'1.5','cpu_weight':'max'},"
		"'task_limits':{'memory_oom_group':false,'cpu_max':2}");
	adds("--cpuset 3 --cpuset-mems 0 --task-cpuset max",
		"'limits':{'cpuset_cpus':'3','cpuset_mems':'0'},"
		"'task_limits':{'cpuset_cpus':'max'}");
	adds("--io-max /dev/sda,rbps=10M,wiops=100 --io-max 8:16,wbps=4096,riops=max",
		"'limits':{'io_max':[{'device':'/dev/sda','read_bytes_per_sec':'10M',"
		"'writes_per_sec':100},{'device':'8:16','write_bytes_per_sec':4096,"
		"'reads_per_sec':'max'}]}");
	adds("--device /dev/nvidia0 --device c~195:*:rw --task-device /dev/fuse:r",
		"'limits':{'devices':[{'device':'/dev/nvidia0'},{'device':'c 195:*','access':'rw'}]},"
		"'task_limits':{'devices':[{'device':'/dev/fuse','access':'r'}]}");
	adds("--io-max 8:0,rbps=1 --io-max max", "'limits':{'io_max':'max'}");
	adds("--device default", "'limits':{'devices':[]}");
	adds("--device max", "'limits':{'devices':'max'}");
	adds("--device max --device /dev/fuse", "'limits':{'devices':[{'device':'/dev/fuse'}]}");
	adds("--rlimit nofile=10:20 --rlimit core=unlimited --rlimit cpu=3:unlimited",
		"'rlimits':{'nofile':{'soft':10,'hard':20},'core':'unlimited',"
		"'cpu':{'soft':3,'hard':'unlimited'}}");
	adds("-l --mpi none --proctrack pgid --cgroup-root /sys --scope=no --session=task --no-hold",
		"'label':true,'mpi':'none','proctrack':'pgid','cgroup_root':'/sys','scope':'no',"
		"'session':'task','hold':false");
}

static void test_times(void **state)
{
	(void)state;
	adds("-t 5", "'time_limit_ms':300000");
	adds("--time=1-0:0:1", "'time_limit_ms':86401000");
	adds("-t UNLIMITED", "'time_limit_ms':0");
	adds("-t 5 --time-limit 1.5s", "'time_limit_ms':1500");
	adds("-W 3", "'wait_ms':3000");
	adds("-W 3 -W 0", "");
	adds("-K", "'kill_on_bad_exit':true");
	adds("-K1", "'kill_on_bad_exit':true");
	adds("-K0", "'kill_on_bad_exit':false");
	adds("--no-kill", "'kill_on_bad_exit':false");
	adds("-t 5 --signal=B:9@1 --signal=R:USR1",
		"'time_limit_ms':300000,'time_limit_signal':'USR1'");
	adds("-t 5 --signal=b:15@90",
		"'time_limit_ms':300000,'time_limit_signal_ms':90000,'time_limit_signal_to':'tasks','time_limit_signal':'15'");
	adds("--kill-on-bad-exit=5s", "'kill_on_bad_exit_grace_ms':5000,'kill_on_bad_exit':true");
	adds("--kill-sequence=INT:1s,KILL",
		"'kill_sequence':[{'signal':'INT','wait_ms':1000},{'signal':'KILL'}]");
	adds("--suspend-timeout=5s", "'suspend_timeout_ms':5000");
	adds("--unkillable-timeout=2m --wait-background",
		"'unkillable_timeout_ms':120000,'background':'wait'");
}

static void test_streams(void **state)
{
	(void)state;
	doc_is("-i none x", "{'stdin':'none','argv':['x']}");
	doc_is("-i 0 x", "{'stdin':{'mode':'rank','rank':0},'argv':['x']}");
	doc_is("-i in.%t x", "{'stdin':{'mode':'file','path':'in.%t'},'argv':['x']}");
	doc_is("-o all x", "{'stdout':'inherit','argv':['x'],'stdin':'all'}");
	doc_is("-o out x",
		"{'stdout':{'mode':'file','path':'out'},'argv':['x'],'stdin':'all',"
		"'stderr':'stdout'}");
	doc_is("-o none x", "{'stdout':'none','argv':['x'],'stdin':'all','stderr':'stdout'}");
	doc_is("-o out -e all x",
		"{'stdout':{'mode':'file','path':'out'},'stderr':'inherit',"
		"'argv':['x'],'stdin':'all'}");
	doc_is("-o out -e err --open-mode=append x",
		"{'stdout':{'mode':'file','path':'out','append':true},"
		"'stderr':{'mode':'file','path':'err','append':true},'argv':['x'],'stdin':'all'}");
	doc_is("-e err --open-mode=truncate x",
		"{'stderr':{'mode':'file','path':'err','append':false},'argv':['x'],'stdin':'all'}");
	adds("--pty", "'pty':'0'");
	adds("-n 4 --pty --pty=1-2", "'ntasks':4,'pty':'1-2'");
	adds("-u", "'unbuffered':true");
	adds("--input-overflow=drop --input-spill-max=4G",
		"'input_overflow':'drop','input_spill_max':4294967296");
}

static void test_arguments_of_the_program(void **state)
{
	(void)state;
	doc_is("-n 2 x -n 3 --help", "{'ntasks':2,'argv':['x','-n','3','--help'],'stdin':'all'}");
	doc_is("-- x -- EMPTY", "{'argv':['x','--',''],'stdin':'all'}");
	doc_is("--extern --job 4", "{'kind':'extern','job':4}");
}

static void test_relative_directory(void **state)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	_cleanup_free_ char *here = getcwd(NULL, 0), *wanted = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(parse("-D a/b x", &o, &err), 0);
	assert_true(asprintf(&wanted, "%s/a/b", here) > 0);
	assert_string_equal(o.spec->cwd, wanted);
}

static void env_is(const char *options, const char *wanted)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	struct err err = ERR_INIT;
	char line[256], got[256] = "";
	size_t i, at = 0;

	(void)snprintf(line, sizeof(line), "%s x", options);
	if (parse(line, &o, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	for (i = 0; i < o.spec->env.n; i++) {
		at += (size_t)snprintf(got + at, sizeof(got) - at, "%s;", o.spec->env.v[i]);
		assert_true(at < sizeof(got));
	}
	if (strcmp(got, wanted) != 0)
		fail_msg("%s: %s, not %s", options, got, wanted);
}

static void test_environment(void **state)
{
	(void)state;
	env_is("", "A=1;B=x,y;L=\xe4;");
	env_is("--export=ALL", "A=1;B=x,y;L=\xe4;");
	env_is("--export=NONE", "");
	env_is("--export=B,C=3,MISSING", "B=x,y;C=3;");
	env_is("--export=C='1,2',A,D=", "C=1,2;A=1;D=;");
	env_is("--export=ALL,A=9", "A=9;B=x,y;L=\xe4;");
}

static void test_own_options(void **state)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	_cleanup_run_options_ struct run_options p = RUN_OPTIONS_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(
		parse("--trace a --trace t --result r --plugin-dir p --runtime-dir d -vv -v "
		      "-q --print-spec x",
			&o, &err),
		0);
	assert_string_equal(o.trace, "t");
	assert_string_equal(o.result, "r");
	assert_string_equal(o.plugin_dir, "p");
	assert_string_equal(o.runtime_dir, "d");
	assert_int_equal(o.verbosity, 2);
	assert_true(o.print_spec);
	assert_false(o.help);
	assert_non_null(o.spec);
	assert_int_equal(parse("-n x -h", &p, &err), -EINVAL);
	assert_int_equal(parse("-h", &p, &err), 0);
	assert_true(p.help);
	assert_null(p.spec);
}

/* ---- files -------------------------------------------------------------------------------- */

static char scratch[] = "/tmp/test_run_options.XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(scratch) && chdir(scratch) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink("file") == 0 && chdir("/") == 0 && rmdir(scratch) == 0 ? 0 : -1;
}

static void put_file(const char *bytes, size_t size)
{
	assert_int_equal(fs_write_atomic(AT_FDCWD, "file", bytes, size, 0600, false), 0);
}

static void put_text(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	char *p;

	for (p = copy; (p = strchr(p, '`')); p++)
		*p = '"';
	put_file(copy, strlen(copy));
}

static void test_spec_file(void **state)
{
	(void)state;
	put_text("{`argv`: [`y`, `z`], `env`: {`E`: `1`}, `node`: {`name`: `n`, `count`: 2},"
		 " `local_ntasks`: 1, `ntasks`: 2, `rlimits`: {`core`: 0}, `wait_ms`: 1,"
		 " `stdin`: `none`, `stderr`: `none`}");
	doc_is("--spec file",
		"{'argv':['y','z'],'node':{'name':'n','count':2},'local_ntasks':1,'ntasks':2,"
		"'rlimits':{'core':0},'wait_ms':1,'stdin':'none','stderr':'none'}");
	doc_is("--node-name m -n 3 --spec file --rlimit nofile=1 -W0 -o out x",
		"{'argv':['x'],'node':{'name':'m','count':2},'local_ntasks':1,'ntasks':3,"
		"'rlimits':{'core':0,'nofile':1},'stdin':'none','stderr':'none',"
		"'stdout':{'mode':'file','path':'out'}}");
	env_is("--spec file", "E=1;");
	env_is("--spec file --export=A", "A=1;");
	bad("--spec file --label --ranks 0-1",
		"file: local_ntasks: 1, but ranks lists 2"); /* what the file said */
	put_text("{`argv`: [`y`], `umask`: `9`}");
	bad("--spec file -n 2", "file: umask: '9' is not an octal number such as \"0022\"");
	bad("--spec file --umask 8", "--umask: '8' is not an octal number such as \"0022\"");
	put_text("{`argv`:\n[}");
	bad("--spec file", "file: line 2, column 2: unexpected token near '}'");
	put_text("[]");
	bad("--spec file", "file: the document: must be an object, not an array");
	bad("--spec nofile", "nofile: open: No such file or directory");
	bad("--spec .", ".: read the step spec: Is a directory");
}

static void test_batch_file(void **state)
{
	static const char bytes[] = "#!/x\n\0\xff";

	(void)state;
	put_text("#!/bin/sh\necho\n");
	doc_is("--batch file a b",
		"{'name':'file','kind':'batch','script':'#!/bin/sh\\necho\\n','argv':['a','b']}");
	doc_is("--batch ./file -J n", "{'name':'n','kind':'batch','script':'#!/bin/sh\\necho\\n'}");
	put_file(bytes, 7);
	doc_is("--batch file", "{'name':'file','kind':'batch','script_base64':'IyEveAoA/w=='}");
	put_file(bytes, 6);
	doc_is("--batch file", "{'name':'file','kind':'batch','script_base64':'IyEveAoA'}");
	put_file("", 0);
	bad("--batch file", "--batch: is empty");
	bad("--batch file --extern", "--batch and --extern conflict; give one of them");
	bad("--batch nofile", "--batch: read 'nofile': No such file or directory");
	bad("--batch /dev/zero", "--batch: read '/dev/zero': File too large");
}

static void test_multi_prog_file(void **state)
{
	(void)state;
	put_text("0 a\n* b %t");
	doc_is("-n 3 --multi-prog file",
		"{'ntasks':3,'tasks':[{'ranks':'0','argv':['a']},{'rank':1,'argv':['b','1']},"
		"{'rank':2,'argv':['b','2']}],'stdin':'all'}");
	doc_is("--multi-prog file c", "{'tasks':[{'ranks':'0','argv':['a','c']}],'stdin':'all'}");
	bad("-n 0 --multi-prog file", "--ntasks: 0 is not in the range 1 to 16777216");
	bad("--ranks 0-2 --multi-prog file", "--multi-prog: give --ntasks too");
	bad("--multi-prog", "--multi-prog: no file given");
	bad("--multi-prog nofile", "--multi-prog: read 'nofile': No such file or directory");
	put_text("0 a\n0 b");
	bad("--multi-prog file", "file: line 2: rank 0 has a program already");
	put_file("0 a\0b", 5);
	bad("--multi-prog file", "file: holds a NUL byte");
	put_text("0 ''");
	bad("--multi-prog file", "--multi-prog: tasks[0].argv[0]: is empty");
}

/* ---- errors ------------------------------------------------------------------------------- */

static void test_errors_name_the_option(void **state)
{
	(void)state;
	bad("--umask 9x x", "--umask: '9x' is not an octal number such as \"0022\"");
	bad("-n 0 x", "--ntasks: 0 is not in the range 1 to 16777216");
	bad("-n many x", "--ntasks: 'many' is not a whole number");
	bad("-n 1.5 x", "--ntasks: '1.5' is not a whole number");
	bad("-n EMPTY x", "--ntasks: '' is not a whole number");
	bad("-n 99999999999999999999 x", "--ntasks: '99999999999999999999' is not a whole number");
	bad("--node-id 1 x", "--node-id: 1 is not below node.count (1)");
	bad("--node-count 2 x",
		"--local-ntasks: is missing: node.count is 2, so give the number of this node's tasks "
		"(local_ntasks, ranks or node.tasks_per_node)");
	bad("--tasks-per-node 2(x x",
		"--tasks-per-node: '2(x' is not a list of counts such as \"4,4\" or "
		"\"4(x2)\"");
	bad("--tasks-per-node 1(x65537) x",
		"--tasks-per-node: '1(x65537)' is not a list of counts such as "
		"\"4,4\" or \"4(x2)\"");
	bad("--tasks-per-node 1(x65536),1,1,1 x",
		"--tasks-per-node: has 65537 entries, more than 65536");
	bad("-o a%q x",
		"--output: stdout.path: 'a%q' is not a pattern of a file name: '%q' is not known; "
		"use %j %J %s %t %n %N %u %x, or %% for a percent sign");
	bad("-i 4 x", "--input: stdin.rank: 4 is not below ntasks (1)");
	bad("--open-mode=new x", "--open-mode: 'new' is neither append nor truncate");
	bad("--chdir EMPTY x", "--chdir: is empty");
	bad("--groups a,,b x", "--groups: groups[1]: is empty");
	bad("--rlimit nofile x", "--rlimit: 'nofile' is not of the form NAME=SOFT[:HARD]");
	bad("--rlimit =1 x", "--rlimit: '=1' is not of the form NAME=SOFT[:HARD]");
	bad("--rlimit a.b=1 x", "--rlimit: 'a.b' is not a limit's name");
	bad("--rlimit nofile=2:1 x", "--rlimit: rlimits.nofile.soft: is above the hard limit");
	bad("--rlimit nofile=: x",
		"--rlimit: rlimits.nofile.soft: '' is neither a number nor "
		"'unlimited'");
	bad("-t soon x", "--time: 'soon' is not a time such as 5 (minutes), 5:30, 1:00:00 or 2-12");
	bad("--time-limit 5x x",
		"--time-limit: '5x' is not a duration such as 90, 30s, 250ms, 5m or 2h");
	bad("-W x x", "--wait: 'x' is not a number of seconds");
	bad("-Ksoon x", "--kill-on-bad-exit: 'soon' is neither 0 nor 1 nor a duration such as 5s");
	bad("--kill-sequence TERM x",
		"--kill-sequence: kill_sequence[0].signal: the last one must be "
		"KILL");
	bad("--kill-sequence FOO x", "--kill-sequence: 'FOO' is not a signal");
	bad("--export== x", "--export: holds a variable without a name");
	bad("--export=A,,B x", "--export: holds a variable without a name");
	bad("--trace EMPTY x", "--trace: is empty");
	bad("--mem 2X x",
		"--mem: '2X' is neither a number, nor a size with its unit such as \"512M\" or "
		"\"2G\", nor \"max\"");
	bad("--task-mem 1K x",
		"--task-mem: '1K' is not in the range 1048576 to 1152921504606846976 bytes");
	bad("--mem 99999999999999 x", "--mem: '99999999999999' is too large");
	bad("--pids 0 x", "--pids: 0 is not in the range 1 to 4194304");
	bad("--cpus=-1 x", "--cpus: '-1' is neither a number of CPUs such as 1.5 nor \"max\"");
	bad("--oom-group=maybe x", "--oom-group: 'maybe' is neither yes nor no");
	bad("--cpuset 1-0 x", "--cpuset: '1-0' is neither a list such as \"0-3,8\" nor \"max\"");
	bad("--io-max /dev/sda x",
		"--io-max: limits.io_max[0]: limits nothing; give read_bytes_per_sec or another");
	bad("--io-max 8:0,bps=1 x",
		"--io-max: 'bps' is not one of rbps=N, wbps=N, riops=N, wiops=N");
	bad("--io-max 8:0,rbps x",
		"--io-max: 'rbps' is not one of rbps=N, wbps=N, riops=N, wiops=N");
	bad("--device none x",
		"--device: 'none' could mean either: give default for the default devices alone, max "
		"for all there are");
	bad("--task-device /dev/null:rx x",
		"--task-device: task_limits.devices[0].access: 'rx' is neither one or more of the "
		"letters rwm nor \"none\"");
	bad("--device sda x",
		"--device: limits.devices[0].device: 'sda' is neither a path below /dev nor numbers "
		"such as \"c 195:*\"");
	bad("--limits=lax x", "--limits: 'lax' is not one of strict, best-effort");
	bad("--wire-auth=secret x", "--wire-auth: 'secret' needs secret_fd");
	bad("--wire-addresses=a x",
		"--wire-addresses: wire.addresses[0]: 'a' has no port from 1 to 65535 behind its last ':'");
	bad("--mpi a/b x",
		"--mpi: 'a/b' is not the name of an mpi plugin (\"none\" or \"mpi/none\")");
	bad("--extern --label", "--label: is not for a step of kind 'extern'");
	bad("--extern x", "PROGRAM: is not for a step of kind 'extern'");
	bad("EMPTY", "PROGRAM: argv[0]: is empty");
	bad("-n 2", "no program given: stepd run [OPTION...] [--] PROGRAM [ARG...]");
}

static void test_wrong_options(void **state)
{
	(void)state;
	bad("--umsk 1 x", "there is no option --umsk; did you mean --umask?");
	bad("--frobnicate=1 x", "there is no option --frobnicate (see stepd run --help)");
	bad("--no x", "--no is ambiguous; write the option out (see stepd run --help)");
	bad("-Z x", "there is no option -Z (see stepd run --help)");
	bad("-lZ x", "there is no option -Z (see stepd run --help)");
	bad("--label=1 x", "--label takes no value");
	bad("-n", "--ntasks needs a value: N");
	bad("--output", "--output needs a value: all|none|RANK|FILE");
}

/* ---- output ------------------------------------------------------------------------------- */

static void test_printed_spec_makes_the_same_step(void **state)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	_cleanup_run_options_ struct run_options again = RUN_OPTIONS_INIT;
	struct err err = ERR_INIT;
	FILE *out;

	(void)state;
	assert_int_equal(
		parse("-n 3 -o out.%t -t 5 --export=A --nice --rlimit core=0:1 x~y z", &o, &err),
		0);
	out = fopen("file", "we");
	assert_non_null(out);
	assert_int_equal(run_options_print_spec(&o, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(parse("--spec file", &again, &err), 0);
	assert_true(json_equal(o.doc, again.doc));
}

static void test_bytes_that_json_cannot_hold(void **state)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	_cleanup_fclose_ FILE *out = fopen("/dev/null", "we"), *full = fopen("/dev/full", "we");
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(parse("--export=NONE x \xe4~b", &o, &err), 0);
	assert_string_equal(o.spec->argv.v[1], "\xe4 b"); /* a step takes them */
	assert_int_equal(run_options_print_spec(&o, out, &err), -EILSEQ);
	run_options_clear(&o);
	assert_int_equal(parse("--export=NONE x", &o, &err), 0);
	assert_int_equal(run_options_print_spec(&o, full, &err), -ENOSPC);
}

static void test_help_has_every_option(void **state)
{
	_cleanup_free_ char *text = NULL;
	const struct cli_option *table;
	size_t size, n, i;
	char name[64];
	char *line, *save = NULL;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	run_options_print_help(out);
	assert_int_equal(fclose(out), 0);
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "--%s", table[i].name);
		assert_non_null(strstr(text, name));
	}
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strlen(line) > 80 && strncmp(line, "Runs PROGRAM", 12) != 0)
			fail_msg("longer than a terminal's line: %s", line);
	}
}

/* The rows that the member of an object stands in. */
static enum spec_table table_of(const char *path)
{
	if (!strchr(path, '.'))
		return SPEC_TABLE_STEP;
	if (strncmp(path, "pmi.", 4) == 0)
		return SPEC_TABLE_PMI;
	if (strncmp(path, "wire.", 5) == 0)
		return SPEC_TABLE_WIRE;
	return strncmp(path, "node.", 5) == 0 ? SPEC_TABLE_NODE : SPEC_TABLE_LIMITS;
}

/* An option of a path that no row of the spec has would never work. */
static void test_every_option_sets_a_field(void **state)
{
	const struct cli_option *table;
	const struct spec_field *fields;
	size_t n, count, i, k, len;
	const char *path, *dot;
	bool found;

	(void)state;
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		path = table[i].path;
		if (!path)
			continue;
		dot = strchr(path, '.');
		len = dot ? strlen(dot + 1) : strlen(path);
		fields = spec_table_get(table_of(path), &count);
		for (found = false, k = 0; k < count; k++)
			found |= strlen(fields[k].name) == len &&
				strcmp(fields[k].name, dot ? dot + 1 : path) == 0;
		if (!found)
			fail_msg("--%s sets %s, which is no field", table[i].name, path);
	}
}

/* What only a document can say. */
static void test_every_field_has_an_option(void **state)
{
	static const char *const without[] = {"version", "node", "argv", "env_complete",
		"script_base64", "script_file", "kill_on_bad_exit_grace_ms", "time_limit_signal_ms",
		"time_limit_signal_to", "limits", "task_limits", "pmi", "wire"};
	const struct cli_option *table;
	const struct spec_field *fields;
	size_t n, count, i, k;
	bool found;

	(void)state;
	table = run_option_table(&n);
	fields = spec_table_get(SPEC_TABLE_STEP, &count);
	for (k = 0; k < count; k++) {
		for (found = false, i = 0; i < n; i++)
			found |= table[i].path && strcmp(table[i].path, fields[k].name) == 0;
		for (i = 0; i < ARRAY_SIZE(without); i++)
			found |= strcmp(without[i], fields[k].name) == 0;
		if (!found)
			fail_msg("no option sets '%s'", fields[k].name);
	}
}

/* Each limit has an option, and with "task-" before its name one for each task. */
static void test_every_limit_has_its_options(void **state)
{
	const struct cli_option *table;
	const struct spec_field *fields;
	size_t n, count, i, k;
	char step_path[64], task_path[64];
	const char *of_step, *of_task;

	(void)state;
	table = run_option_table(&n);
	fields = spec_table_get(SPEC_TABLE_LIMITS, &count);
	for (k = 0; k < count; k++) {
		(void)snprintf(step_path, sizeof(step_path), "limits.%s", fields[k].name);
		(void)snprintf(task_path, sizeof(task_path), "task_limits.%s", fields[k].name);
		of_step = of_task = "";
		for (i = 0; i < n; i++) {
			if (table[i].path && strcmp(table[i].path, step_path) == 0)
				of_step = table[i].name;
			if (table[i].path && strcmp(table[i].path, task_path) == 0)
				of_task = table[i].name;
		}
		if (!*of_step || strncmp(of_task, "task-", 5) != 0 ||
			strcmp(of_task + 5, of_step) != 0)
			fail_msg("%s: --%s and --%s", fields[k].name, of_step, of_task);
	}
}

static void test_limits_of_a_file(void **state)
{
	(void)state;
	put_text("{`argv`: [`y`], `limits`: {`pids_max`: 5, `cpu_max`: 1}}");
	doc_is("--spec file --pids 7 --task-pids 2",
		"{'argv':['y'],'limits':{'pids_max':7,'cpu_max':1},'task_limits':{'pids_max':2},"
		"'stdin':'all'}");
}

static void test_no_descriptor_stays_open(void **state)
{
	_cleanup_run_options_ struct run_options o = RUN_OPTIONS_INIT;
	int before = scratch_count_fds();
	struct err err = ERR_INIT;

	(void)state;
	put_text("{`argv`: [`y`], `umask`: `9`}");
	bad("--spec file", "file: umask: '9' is not an octal number such as \"0022\"");
	bad("--spec file --batch file", "file: umask: '9' is not an octal number such as \"0022\"");
	assert_int_equal(parse("--spec file --umask 0", &o, &err), 0);
	assert_int_equal(scratch_count_fds(), before);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_options),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_arguments_of_the_program),
		cmocka_unit_test(test_relative_directory),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_own_options),
		cmocka_unit_test(test_spec_file),
		cmocka_unit_test(test_batch_file),
		cmocka_unit_test(test_multi_prog_file),
		cmocka_unit_test(test_errors_name_the_option),
		cmocka_unit_test(test_wrong_options),
		cmocka_unit_test(test_printed_spec_makes_the_same_step),
		cmocka_unit_test(test_bytes_that_json_cannot_hold),
		cmocka_unit_test(test_help_has_every_option),
		cmocka_unit_test(test_every_option_sets_a_field),
		cmocka_unit_test(test_every_field_has_an_option),
		cmocka_unit_test(test_every_limit_has_its_options),
		cmocka_unit_test(test_limits_of_a_file),
		cmocka_unit_test(test_no_descriptor_stays_open),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
