# gofakes3, an imitation of S3 in memory: a second opinion on conditional writes, of
# independent make. It checks no signatures. Built from source, at the version that
# integration/tools/s3 pins.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

gofakes3_variable=LEASING_TEST_GOFAKES3
gofakes3_example='s3://access:secret@bucket?endpoint=http://127.0.0.1:9000&path_style=true'

gofakes3_bin() { have go; }

gofakes3_install() {
	say "the go command is missing"
	return 1
}

gofakes3_start() {
	local program port
	program=$(cd "$root" && tool gofakes3 s3) || return 1
	for port in $(free_ports 59000); do
		start_server "$1/log" 'TERM' exec_as "$(id -un)" "$program" -backend memory -host "127.0.0.1:$port" -initialbucket leasing -quiet
		if wait_until 60 "$server_pid" answers "$port"; then
			export LEASING_TEST_GOFAKES3="s3://any:any@leasing?endpoint=http://127.0.0.1:$port&path_style=true"
			say "gofakes3 listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q 'address already in use' "$1/log" || break
	done
	cat "$1/log" >&2
	return 1
}
