# Azurite, the emulator of Azure Blob Storage, for the tests: a throw-away server
# on a loopback port of its own, which keeps everything in memory.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# Tests that kill servers, or need https and tokens, start theirs themselves
# (providers/blob/azurite_test.go), from the same program.
# shellcheck shell=bash disable=SC2034,SC2154

azurite_variable=LEASING_TEST_AZURITE
azurite_example='DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=...;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1 (some tests start servers of their own beside it: they need Node 20 and the npm package azurite, or the path of its dist/src/blob/main.js in AZURITE)'

# The version that providers/blob/azurite_test.go names too.
azurite_version=3.35.0

# azurite_main prints the path of the program.
azurite_main() { printf '%s\n' "${AZURITE:-$(npm_folder azurite $azurite_version)/node_modules/azurite/dist/src/blob/main.js}"; }

# azurite_bin succeeds where the program is, or npm can bring it without root.
azurite_bin() { have node && { [ -f "$(azurite_main)" ] || [ -z "${AZURITE:-}" ] && have npm; }; }

azurite_install() { apt_install nodejs npm; }

azurite_start() {
	local folder=$1 port key
	[ -f "$(azurite_main)" ] || npm_fetch azurite "$azurite_version" || return 1
	key=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n' | base64 -w0)
	for port in $(free_ports 51000); do
		if azurite_listen "$folder" "$port" "$key"; then
			export LEASING_TEST_AZURITE="DefaultEndpointsProtocol=http;AccountName=leasingtest;AccountKey=$key;BlobEndpoint=http://127.0.0.1:$port/leasingtest"
			say "Azurite $azurite_version listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q EADDRINUSE "$folder/log" || break
	done
	cat "$folder/log" >&2
	return 1
}

# azurite_listen starts the server and waits until it is ready. It runs as who we
# are: the cache is ours. An idle connection is kept for longer than clients keep
# it, so that none is closed under a request.
azurite_listen() {
	AZURITE_ACCOUNTS="leasingtest:$3" start_server "$1/log" 'TERM' exec_as "$(id -un)" node "$(azurite_main)" \
		--blobHost 127.0.0.1 --blobPort "$2" --blobKeepAliveTimeout 600 \
		--inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent
	wait_until 60 "$server_pid" grep -qs 'successfully listens' "$1/log"
}
