# MariaDB for the tests: a throw-away server on a loopback port of its own.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

mariadb_variable=LEASING_TEST_MARIADB
mariadb_example='mysql://root:secret@127.0.0.1:3306/leasing?create=true (who may create databases and users: the tests do)'

# mariadb_program prints the path of the server. Debian has it outside of some users' PATH.
mariadb_program() { PATH=$PATH:/usr/sbin command -v mariadbd; }

mariadb_bin() { mariadb_program >/dev/null && have mariadb-install-db; }

# mariadb_install starts no server: it would take port 3306 and outlive the tests.
mariadb_install() { apt_install mariadb-server; }

mariadb_start() {
	local folder=$1 user=mysql port password
	[ "$(id -u)" = 0 ] || user=$(id -un)
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	printf "ALTER USER root@localhost IDENTIFIED BY '%s';\nCREATE DATABASE leasing;\n" "$password" >"$folder/begin.sql"
	[ "$(id -u)" != 0 ] || chown -R "$user" "$folder"
	(exec_as "$user" "$(command -v mariadb-install-db)" --no-defaults --auth-root-authentication-method=normal --skip-test-db \
		--skip-name-resolve --datadir="$folder/data" --tmpdir="$folder") >"$folder/log" 2>&1 </dev/null || {
		cat "$folder/log" >&2
		return 1
	}
	for port in $(free_ports 53306); do
		# No sync, unless MARIADB_SYNC is 1: a crash of the whole machine ends the tests too.
		start_server "$folder/log" 'TERM' exec_as "$user" "$(mariadb_program)" --no-defaults --datadir="$folder/data" --tmpdir="$folder" \
			--bind-address=127.0.0.1 --port="$port" --socket="$folder/socket" --pid-file="$folder/pid" --init-file="$folder/begin.sql" \
			--innodb-flush-log-at-trx-commit="${MARIADB_SYNC:-2}" --max-connections=400 --skip-log-bin
		if wait_until 60 "$server_pid" mariadb_ready "$folder/log"; then
			export LEASING_TEST_MARIADB="mysql://root:$password@127.0.0.1:$port/leasing?create=true"
			say "MariaDB $("$(mariadb_program)" --version | sed 's/.*Ver \([0-9.]*\).*/\1/') listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q 'already in use' "$folder/log" || break
	done
	cat "$folder/log" >&2
	return 1
}

mariadb_ready() { grep -q 'ready for connections' "$1"; }
