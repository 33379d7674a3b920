# PostgreSQL for the tests: a throw-away server on a loopback port of its own, and PgBouncer
# before it, in transaction mode: LEASING_TEST_PGBOUNCER.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

postgres_variable=LEASING_TEST_POSTGRES
postgres_example='postgres://postgres:secret@127.0.0.1:5432/postgres (a superuser; the tests create schemas and roles)'

# postgres_bin prints the folder of the server's programs, newest version first. Where PgBouncer can be
# installed it must be there, too.
postgres_bin() {
	local initdb
	have_pgbouncer || ! can_install || return 1
	for initdb in "$(command -v initdb || true)" $(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -rV); do
		if [ -x "$initdb" ] && [ -x "${initdb%/*}/postgres" ]; then
			printf '%s\n' "${initdb%/*}"
			return 0
		fi
	done
	return 1
}

# postgres_install leaves Debian's default cluster uncreated: it would take port
# 5432 and outlive the tests.
postgres_install() (
	conf=/etc/postgresql-common/createcluster.d/leasing-tests.conf
	trap 'rm -f "$conf"' EXIT
	mkdir -p "${conf%/*}"
	printf 'create_main_cluster = false\n' >"$conf"
	apt_install postgresql pgbouncer
)

# postgres_user prints whom the server runs as: it refuses to run as root.
postgres_user() {
	if [ "$(id -u)" != 0 ]; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

postgres_start() {
	local folder=$1 bin user port password
	bin=$(postgres_bin) || return 1
	user=$(postgres_user)
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	printf '%s\n' "$password" >"$folder/password"
	[ "$(id -u)" != 0 ] || chown -R "$user" "$folder"
	postgres_init "$bin" "$user" "$folder" || return 1
	for port in $(free_ports 55432); do
		if postgres_listen "$bin" "$user" "$folder" "$port"; then
			export LEASING_TEST_POSTGRES="postgres://postgres:$password@127.0.0.1:$port/postgres?sslmode=disable"
			say "PostgreSQL $("$bin/postgres" --version | awk '{ print $3 }') listens on 127.0.0.1:$port"
			pgbouncer_start "$user" "$folder" "$port" "$password"
			return
		fi
		grep -q 'in use' "$folder/log" || break
	done
	cat "$folder/log" >&2
	return 1
}

# postgres_init makes the cluster. A natural-language collation by default shows
# a query that forgot to ask for byte order.
postgres_init() {
	local bin=$1 user=$2 folder=$3 locale=(--locale=C --encoding=UTF8)
	if "$bin/initdb" --help | grep -q icu-locale; then
		locale+=(--locale-provider=icu --icu-locale=en-US)
	fi
	(exec_as "$user" "$bin/initdb" --no-sync --auth=scram-sha-256 --username=postgres \
		--pwfile="$folder/password" "${locale[@]}" --pgdata="$folder/data") \
		>"$folder/log" 2>&1 </dev/null || {
		cat "$folder/log" >&2
		return 1
	}
}

# postgres_listen starts the server on a port and waits until it is ready. No
# fsync, unless POSTGRES_FSYNC is on: a crash of the whole machine ends the tests too.
# INT is its fast shutdown, QUIT the immediate one.
postgres_listen() {
	local bin=$1 user=$2 folder=$3 port=$4
	start_server "$folder/log" 'INT QUIT' exec_as "$user" "$bin/postgres" -D "$folder/data" -p "$port" \
		-c listen_addresses=127.0.0.1 -c unix_socket_directories= \
		-c fsync="${POSTGRES_FSYNC:-off}" -c max_connections=400 -c lc_messages=C
	# Line 8 of postmaster.pid is where pg_ctl looks, too.
	wait_until 60 "$server_pid" postgres_ready "$folder/data/postmaster.pid"
}

postgres_ready() { [ "$(sed -n 8p "$1" 2>/dev/null | tr -d ' ')" = ready ]; }

have_pgbouncer() { PATH=$PATH:/usr/sbin have pgbouncer; }

# pgbouncer_start starts the pooler, if there is one. Whoever may connect to it is the superuser, as with the
# URL of the server.
pgbouncer_start() {
	local user=$1 folder=$2 server=$3 password=$4 port
	have_pgbouncer || return 0
	for port in $(free_ports 56432); do
		cat >"$folder/pgbouncer.ini" <<-EOF
			[databases]
			postgres = host=127.0.0.1 port=$server dbname=postgres user=postgres password=$password
			[pgbouncer]
			listen_addr = 127.0.0.1
			listen_port = $port
			unix_socket_dir =
			auth_type = any
			pool_mode = transaction
			default_pool_size = 40
			max_client_conn = 1000
		EOF
		start_server "$folder/pgbouncer.log" 'INT TERM' exec_as "$user" env "PATH=$PATH:/usr/sbin" pgbouncer "$folder/pgbouncer.ini"
		if wait_until 20 "$server_pid" pgbouncer_ready "$port"; then
			export LEASING_TEST_PGBOUNCER="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
			return 0
		fi
	done
	cat "$folder/pgbouncer.log" >&2
	return 1
}

pgbouncer_ready() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
