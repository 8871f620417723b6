# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# On top of local_slurm.sh: a Slurm with a slurmdbd, whose database is a MariaDB server of the test's own,
# below $tmpdir, of the user nobody, and reached by its socket alone.
#	needs_database   skips the test where that can't be had
#	begin_database   starts the server, and has each Slurm use it (with-slurm); it ends with the test

needs_database() {
	for program in mariadb-install-db mariadbd my_print_defaults sacct sacctmgr slurmdbd; do
		command -v "$program" >/dev/null || skip_all "needs slurmdbd and mariadb-server-core: there is no $program"
	done
}

database_pid=
end_database() {
	[ -n "$database_pid" ] || return 0
	end_child TERM "$database_pid"
	wait "$database_pid"
	database_pid=
}

database_fails() {
	# shellcheck disable=SC2154 # of tap.sh
	skip_all "no database came up: $(tail -n 1 "$tmpdir/database.log")"
}

# What it writes is gone after the test, so it waits for no disk.
begin_database() {
	database=$tmpdir/database
	chmod 755 "$tmpdir"
	mkdir "$database"
	chown nobody "$database"
	set -- --no-defaults --user=nobody "--datadir=$database/data" --innodb-flush-log-at-trx-commit=0 \
		--innodb-doublewrite=0 --innodb-log-file-size=16M --innodb-buffer-pool-size=32M
	mariadb-install-db "$@" --skip-name-resolve --skip-test-db --auth-root-authentication-method=socket \
		--auth-root-socket-user=root >"$tmpdir/database.log" 2>&1 || database_fails
	mariadbd "$@" --skip-networking "--socket=$database/socket" "--pid-file=$database/pid" \
		>>"$tmpdir/database.log" 2>&1 &
	database_pid=$!
	at_exit end_database
	eventually database_is_up || database_fails
	MYSQL_UNIX_PORT=$database/socket # of the library that slurmdbd uses
	BENCH_SLURM_DATABASE=yes # a name for each Slurm: in_slurm
	export MYSQL_UNIX_PORT BENCH_SLURM_DATABASE
}

database_is_up() {
	[ -S "$database/socket" ]
}
