# Redis for the tests: a throw-away server on a loopback port of its own.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# Tests that kill servers, or need a cluster or sentinels, start theirs
# themselves (providers/redis/internal/redistest), from the same program.
# shellcheck shell=bash disable=SC2034,SC2154

redis_variable=LEASING_TEST_REDIS
redis_example='redis://:secret@127.0.0.1:6379/0 (many tests start servers of their own beside it: they need the program redis-server on PATH, or its path in REDIS_SERVER)'

# redis_bin prints the path of the server's program.
redis_bin() { command -v "${REDIS_SERVER:-redis-server}"; }

# redis_install leaves Debian's service off: apt_install doesn't let it start
# now, and this keeps it from starting with the machine, on port 6379.
redis_install() {
	if [ -n "${REDIS_SERVER:-}" ]; then
		say "REDIS_SERVER names no program: $REDIS_SERVER"
		return 1
	fi
	apt_install redis-server || return 1
	! have update-rc.d || update-rc.d redis-server disable >/dev/null
}

redis_start() {
	local password
	password=$(redis_password)
	redis_serve "$1" "$password" || return 1
	export LEASING_TEST_REDIS="redis://:$password@127.0.0.1:$redis_port/0"
}

redis_password() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# redis_user prints whom the server runs as: nothing here takes root.
redis_user() {
	if [ "$(id -u)" != 0 ]; then
		id -un
	elif id redis >/dev/null 2>&1; then
		echo redis
	else
		echo nobody
	fi
}

# redis_serve FOLDER PASSWORD starts a server in a folder, on the first port
# that is free, and leaves the port in redis_port.
redis_serve() {
	local folder=$1 password=$2 bin user
	bin=$(redis_bin) || return 1
	user=$(redis_user)
	for redis_port in $(free_ports 56379); do
		redis_configure "$folder" "$password"
		[ "$(id -u)" != 0 ] || chown -R "$user" "$folder"
		if redis_listen "$bin" "$user" "$folder"; then
			say "Redis $("$bin" --version | sed 's/.* v=\([^ ]*\).*/\1/') listens on 127.0.0.1:$redis_port"
			return 0
		fi
		grep -q 'in use' "$folder/log" || break
	done
	cat "$folder/log" >&2
	return 1
}

# redis_configure writes what the server reads: on a command line the password
# would show in the list of processes.
redis_configure() {
	(
		umask 077
		cat >"$1/redis.conf" <<-END
			bind 127.0.0.1
			port $redis_port
			protected-mode yes
			requirepass $2
			daemonize no
			dir "$1"
			save ""
			appendonly no
		END
	)
}

# redis_listen starts the server and waits until it is ready: it says so when it
# has the port.
redis_listen() {
	start_server "$3/log" 'TERM' exec_as "$2" "$1" "$3/redis.conf"
	wait_until 60 "$server_pid" grep -qs 'Ready to accept connections' "$3/log"
}
