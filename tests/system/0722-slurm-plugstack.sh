#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Which SPANK plugins of a site are loaded in served steps, and which keep steps from being served: by "stepd doctor --slurm", with small plugins
# that are compiled here, and that nothing loads.
# shellcheck source=tests/lib/doctor.sh
. "${top_srcdir:?}/tests/lib/doctor.sh"

command -v "${CC:-cc}" >/dev/null || skip_all "needs a compiler"
SLURM_CONF=$tmpdir/slurm.conf
STEPD_CONFIG=$tmpdir/stepd.conf
export SLURM_CONF STEPD_CONFIG
printf 'slurm_stepd_path = /bin/true\n' >"$STEPD_CONFIG"
chmod 644 "$STEPD_CONFIG"
plugins=$tmpdir/plugins
mkdir "$plugins"
printf 'ClusterName=c\nSlurmctldHost=here\nPluginDir=/nowhere:%s\n' "$plugins" >"$SLURM_CONF"

plugin() { # NAME C-TEXT [COMPILER-OPTION...]
	plugin_name=$1
	printf '#include "spank_plugin.h"\nSPANK_PLUGIN("%s");\n#define HOOK(name) int slurm_spank_##name(spank_t s, int n, char **v); \\\nint slurm_spank_##name(spank_t s, int n, char **v) { (void)s; (void)n; (void)v; return 0; }\n%s\n' \
		"$1" "$2" >"$tmpdir/$1.c"
	shift 2
	"${CC:-cc}" -shared -fPIC -I"$top_srcdir/tests/lib" -o "$plugins/$plugin_name.so" "$tmpdir/$plugin_name.c" "$@" ||
		bail "can't compile a plugin"
}
plugstack() { # LINE...
	printf '%s\n' "$@" >"$tmpdir/plugstack.conf"
	doctor --slurm
}
# "LEVEL VALUE" of each plugin's finding, of which "/DIR/" is left out.
findings() {
	printf '%s\n' "$report" | awk '
		/^      "level": / { split($0, at, "\""); level = at[4] }
		/^      "id": / { on = $0 == "      \"id\": \"slurm.spank\"," }
		on && /^      "value": / { split($0, at, "\""); sub(/.*\//, "", at[4]); printf "%s %s|", level, at[4] }'
}

plugin prolog 'HOOK(job_prolog) HOOK(local_user_init)'
plugin init 'HOOK(init) HOOK(exit)'
plugin exits 'HOOK(exit)'
plugin task 'HOOK(task_init_privileged)'
plugin nothing 'int unrelated;'
plugin calls 'int slurm_load_jobs(void); int slurm_spank_init(spank_t s, int n, char **v); int slurm_spank_init(spank_t s, int n, char **v) { (void)s; (void)n; (void)v; return slurm_load_jobs(); }'
plugin other_calls 'int unheard_of(void); int slurm_spank_init(spank_t s, int n, char **v); int slurm_spank_init(spank_t s, int n, char **v) { (void)s; (void)n; (void)v; return unheard_of(); }'
plugin weak '__attribute__((weak)) int unheard_of(void); int slurm_spank_init(spank_t s, int n, char **v); int slurm_spank_init(spank_t s, int n, char **v) { (void)s; (void)n; (void)v; return unheard_of ? unheard_of() : 0; }'
plugin allowed 'int slurm_spank_exit(spank_t s, int n, char **v); int slurm_spank_exit(spank_t s, int n, char **v) { (void)n; (void)v; slurm_error("%d", spank_remote(s)); return 0; }'
"${CC:-cc}" -shared -fPIC -o "$tmpdir/libslurm_like.so" -Wl,-soname,libslurm.so.38 -x c /dev/null || bail "can't compile a library"
plugin linked 'HOOK(init)' -Wl,--no-as-needed "$tmpdir/libslurm_like.so"
plugin constructed 'HOOK(job_epilog) int loaded; __attribute__((constructor)) static void on_load(void) { loaded = 1; }'
plugin other 'HOOK(init)' -DSPANK_VERSION=0x180b00
echo text >"$plugins/text.so"
printf 'int slurm_spank_init(void);\nint slurm_spank_init(void) { return 0; }\n' >"$tmpdir/plain.c"
"${CC:-cc}" -shared -fPIC -o "$plugins/plain.so" "$tmpdir/plain.c" || bail "can't compile a library"

# A library whose file has no table of sections, which is loaded all the same: of 64 bits.
cp "$plugins/init.so" "$plugins/headless.so"
dd if=/dev/zero of="$plugins/headless.so" bs=1 seek=40 count=8 conv=notrunc 2>/dev/null
dd if=/dev/zero of="$plugins/headless.so" bs=1 seek=60 count=4 conv=notrunc 2>/dev/null

doctor --slurm
is "$(findings)" "" "without a plugstack.conf there are no plugins"
plugstack '# nothing' '' '   '
is "$(findings)" "" "comments and empty lines are no plugins"
plugstack 'required prolog.so'
is "$(findings)" "ok prolog.so|" "a plugin that only has hooks of other contexts has nothing to do in a step"
plugstack 'optional init.so min=3 # a comment' "optional $plugins/exits.so" 'required task.so'
is "$(findings)" "ok init.so|ok exits.so|ok task.so|" "a plugin with a hook of slurmstepd is loaded in steps"
like "$(of slurm.spank text)" "served steps load it: .*'$plugins/init.so' \($tmpdir/plugstack.conf:1\): slurm_spank_init" \
	"the finding names the plugin, its line and a hook"
plugstack 'optional calls.so' 'optional other_calls.so' 'optional linked.so' 'optional weak.so' 'optional allowed.so'
is "$(findings)" "note calls.so|note other_calls.so|note linked.so|ok weak.so|ok allowed.so|" \
	"a plugin that needs a function of Slurm's that is not here keeps steps from being served"
like "$(of slurm.spank text)" "it needs slurm_load_jobs of Slurm, which is not here" "the finding names the function"
plugstack 'required constructed.so'
is "$(findings)" "ok constructed.so|" "a plugin with code that runs when it is loaded is loaded in steps"
plugstack 'optional missing.so' 'optional nothing.so' 'optional text.so' 'optional plain.so' 'optional other.so'
is "$(findings)" "warning missing.so|warning nothing.so|warning text.so|warning plain.so|warning other.so|" \
	"an optional plugin that Slurm can't load is ignored, as Slurm ignores it"
plugstack 'optional headless.so'
is "$(findings)" "note headless.so|" "a plugin that can be loaded, and not be read, keeps steps from being served"
plugstack 'optional other.so'
like "$(of slurm.spank text)" "it was made for Slurm 24.11" "the finding has the release for which a plugin was made"
plugstack 'required missing.so' 'required nothing.so' 'required text.so' 'required plain.so' 'required other.so'
is "$(findings)" "note missing.so|note nothing.so|note text.so|note plain.so|note other.so|" \
	"a required plugin that Slurm can't load is left to Slurm, which fails the step"
plugin auth_munge '' -DSPANK_VERSION=0x180b05 # of the node's Slurm
plugstack 'optional init.so' 'optional other.so'
is "$(findings)" "warning init.so|ok other.so|" "plugins that were made for the release of the node's Slurm are loaded"
plugin auth_munge '' -DSPANK_VERSION=0x1a0505
plugin later 'HOOK(init)' -DSPANK_VERSION=0x1a0500
plugstack 'optional other.so' 'optional later.so'
is "$(findings)" "warning other.so|ok later.so|" "plugins of the node's Slurm are loaded in 26.05, too"
rm "$plugins/auth_munge.so"

mkdir "$tmpdir/more"
echo 'optional exits.so' >"$tmpdir/more/2.conf"
printf 'required prolog.so\ninclude 3.part\n' >"$tmpdir/more/1.conf"
echo 'optional init.so' >"$tmpdir/more/3.part"
plugstack 'include more/*.conf' "include $tmpdir/none/*" 'optional task.so'
is "$(findings)" "ok prolog.so|ok init.so|ok exits.so|ok task.so|" "include lines are read in the order of their names, each relative to its file"
plugstack 'sometimes prolog.so' 'required' 'optional prolog.so'
is "$(findings)" "warning plugstack.conf:1|ok prolog.so|" "a line that Slurm ignores is ignored, and reported"
plugstack 'include plugstack.conf'
like "$(of slurm.spank level) $(of slurm.spank text)" "^warning .*included by more than 16 files" "a file that includes itself ends"
echo "PlugStackConfig=$tmpdir/more/2.conf" >>"$SLURM_CONF"
doctor --slurm
is "$(findings)" "ok exits.so|" "PlugStackConfig names the file"

if [ "$(id -u)" = 0 ]; then
	chown 65534 "$plugins/exits.so"
	doctor --slurm
	is "$(findings)" "note exits.so|" "a plugin that others than root could change keeps steps from being served"
	chown 65534 "$tmpdir/more/2.conf"
	doctor --slurm
	like "$(of slurm.spank level) $(of slurm.spank text)" "^warning for this file every step is handed over" \
		"a plugstack.conf that others than root could change is refused"
else
	skip 2 "needs root: these files are root's"
fi
done_testing
