# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of upgrades, on top of step.sh: a program that may be replaced, $stepd, in a directory of
# its own, $bin.
#	put PROGRAM      moves a copy of it to the place of $stepd, as a package manager does
#	start_step ARG...  starts "$stepd run ARG..." of this build; returns once its tasks run. $agent is
#	                 its pid, its words go to $tmpdir/err, what tasks write to $tmpdir/out
#	request_upgrade  sends SIGUSR2
#	upgrade          puts $next there, requests it, and waits until the new program goes on
#	upgrade_in_time  the same, of a step that may end before
#	upgrade_often MOST  does so while the agent runs, MOST times at most; $n is how often
#	upgrades         how often one has
#	refuses PROGRAM REGEX NAME  puts it there, requests it, and looks for the refusal in the log
#	$until_gone      of a task's sh: waits until the test removes $tmpdir/stay
#	fds              how many descriptors the agent has open; least_fds is the least of five looks
#	fds_at_most N    whether these are so many

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

this=$stepd
next=${top_builddir:?}/tests/lib/stepd-next
bin=$tmpdir/bin
mkdir "$bin"
ln -s "${top_builddir:?}/stepd/cli/plugins" "$bin/plugins"
stepd=$bin/stepd

# shellcheck disable=SC2034 # the tests use it
until_gone="while [ -e '$tmpdir/stay' ]; do sleep 0.05; done"

put() {
	cp "$1" "$bin/new" && mv -f "$bin/new" "$stepd"
}
put "$this"

start_step() {
	put "$this"
	: >"$tmpdir/stay"
	: >"$tmpdir/err"
	"$stepd" run --job "$job" "$@" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually running 0
}

upgrades() {
	grep -c 'continues as version' "$tmpdir/err"
}

request_upgrade() {
	end_child USR2 "$agent"
}

upgraded_more_than() {
	[ "$(upgrades)" -gt "$1" ]
}

upgrade() {
	before=$(upgrades)
	put "$next"
	request_upgrade
	eventually upgraded_more_than "$before"
}

agent_ended() {
	! grep -q '^State:.[^Z]' "/proc/$agent/status" 2>/dev/null
}

upgraded_or_ended() { # BEFORE
	upgraded_more_than "$1" || agent_ended
}

# Of a step that ends in a second or some: on a loaded machine that may come first.
upgrade_in_time() {
	before=$(upgrades)
	put "$next"
	request_upgrade
	eventually upgraded_or_ended "$before"
}

upgrade_often() { # MOST
	n=0
	while [ $n -lt "$1" ] && ! agent_ended; do
		before=$(upgrades)
		put "$next"
		request_upgrade 2>/dev/null
		eventually upgraded_or_ended "$before"
		n=$((n + 1))
	done
}

refusals() {
	grep -c 'no upgrade, the agent goes on as it was' "$tmpdir/err"
}

refused_more_than() {
	[ "$(refusals)" -gt "$1" ]
}

# Of what stands at $stepd now.
refuses_it() { # REGEX NAME
	before=$(refusals)
	request_upgrade
	eventually refused_more_than "$before"
	like "$(tail -n 1 "$tmpdir/err")" "no upgrade, the agent goes on as it was: .*$1" "$2"
}

refuses() {
	put "$1"
	refuses_it "$2" "$3"
}

fds() {
	find "/proc/$agent/fd" -mindepth 1 | wc -l
}

# Files of /proc or cgroups that the agent reads in this moment are open for that long.
least_fds() {
	{
		fds && sleep 0.02 && fds && sleep 0.02 && fds && sleep 0.02 && fds && sleep 0.02 && fds
	} | sort -n | head -n 1
}
fds_at_most() {
	[ "$(fds)" -le "$1" ]
}
