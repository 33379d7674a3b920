# @vercel/cosmosdb-server, somebody else's emulator of Cosmos DB: a second opinion
# on conditional writes. It has no authentication, no time to live and no session
# tokens.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

cosmosnpm_variable=LEASING_TEST_COSMOS_NPM
cosmosnpm_example='cosmos+http://:a2V5@127.0.0.1:3000/app/leases?create=true'

cosmosnpm_version=1.0.1

cosmosnpm_bin() { have node && have npm; }

cosmosnpm_install() { apt_install nodejs npm; }

cosmosnpm_start() {
	local port
	npm_fetch @vercel/cosmosdb-server "$cosmosnpm_version" || return 1
	for port in $(free_ports 58081); do
		start_server "$1/log" 'TERM' exec_as "$(id -un)" \
			node "$(npm_folder @vercel/cosmosdb-server "$cosmosnpm_version")/node_modules/@vercel/cosmosdb-server/lib/cli.js" --no-ssl --host 127.0.0.1 -p "$port"
		if wait_until 60 "$server_pid" grep -qs 'Ready to accept' "$1/log"; then
			# The key is made up: none is asked for.
			export LEASING_TEST_COSMOS_NPM="cosmos+http://:a2V5@127.0.0.1:$port/app/leases?create=true"
			say "@vercel/cosmosdb-server $cosmosnpm_version listens on 127.0.0.1:$port"
			return 0
		fi
		grep -q EADDRINUSE "$1/log" || break
	done
	cat "$1/log" >&2
	return 1
}
