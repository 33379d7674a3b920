# One member of etcd, built from source, at the version that integration/tools/etcd pins.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

etcd_variable=LEASING_TEST_ETCD
etcd_example='etcd://127.0.0.1:2379'

etcd_bin() { have go; }

etcd_install() {
	say "the go command is missing"
	return 1
}

etcd_start() {
	local program port peer
	program=$(cd "$root" && tool server etcd) || return 1
	mkdir -p "$1/data" && chmod 700 "$1/data" || return 1
	for port in $(free_ports 52379); do
		peer=$(free_ports $((port + 1000)) | head -1)
		start_server "$1/log" 'TERM' exec_as "$(id -un)" "$program" --data-dir "$1/data" --unsafe-no-fsync --log-level error \
			--listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
			--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
			--initial-cluster "default=http://127.0.0.1:$peer"
		if wait_until 60 "$server_pid" answers "$port"; then
			export LEASING_TEST_ETCD="etcd://127.0.0.1:$port"
			say "etcd listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q 'address already in use' "$1/log" || break
	done
	cat "$1/log" >&2
	return 1
}
