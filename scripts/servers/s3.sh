# versitygw, a gateway that keeps the objects of S3 in files: built from source, at the
# version that integration/tools/s3 pins.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

s3_variable=LEASING_TEST_S3
s3_example='s3://access:secret@bucket?endpoint=http://127.0.0.1:7070&path_style=true'

s3_bin() { have go; }

s3_install() {
	say "the go command is missing"
	return 1
}

s3_start() {
	local program port
	program=$(cd "$root" && tool versitygw s3) || return 1
	mkdir -p "$1/data/leasing" || return 1 # the bucket
	for port in $(free_ports 57070); do
		ROOT_ACCESS_KEY=leasing ROOT_SECRET_KEY=test-secret start_server "$1/log" 'TERM' exec_as "$(id -un)" \
			"$program" --quiet --keep-alive --port "127.0.0.1:$port" posix "$1/data"
		if wait_until 60 "$server_pid" answers "$port"; then
			export LEASING_TEST_S3="s3://leasing:test-secret@leasing?endpoint=http://127.0.0.1:$port&path_style=true"
			say "versitygw listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q 'address already in use' "$1/log" || break
	done
	cat "$1/log" >&2
	return 1
}
