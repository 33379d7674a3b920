# Consul, one server in memory: built from source, at the version that integration/tools/consul
# pins, which takes minutes the first time.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# Tests that stop servers start theirs themselves, from the same program: CONSUL.
# shellcheck shell=bash disable=SC2034,SC2154

consul_variable=LEASING_TEST_CONSUL
consul_example='consul://127.0.0.1:8500/leases (some tests start servers of their own beside it: they need the path of the program in CONSUL)'

consul_bin() { have go; }

consul_install() {
	say "the go command is missing"
	return 1
}

consul_start() {
	local program port
	program=${CONSUL:-$(cd "$root" && tool consul consul)} || return 1
	for port in $(free_ports 58500); do
		start_server "$1/log" 'TERM' exec_as "$(id -un)" "$program" agent -dev -bind 127.0.0.1 -client 127.0.0.1 \
			-http-port "$port" -server-port $((port + 1000)) -serf-lan-port $((port + 2000)) -serf-wan-port -1 \
			-dns-port -1 -grpc-port -1 -grpc-tls-port -1 -hcl 'disable_update_check = true'
		if wait_until 60 "$server_pid" grep -qs 'New leader elected' "$1/log"; then
			export CONSUL=$program LEASING_TEST_CONSUL="consul://127.0.0.1:$port/leases"
			say "Consul listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q 'address already in use' "$1/log" || break
	done
	cat "$1/log" >&2
	return 1
}
