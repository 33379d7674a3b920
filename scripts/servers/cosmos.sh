# The fake of an Azure Cosmos DB account, for tests of other modules and for
# samples: it is this project's own, and built from source. The provider's tests
# start theirs themselves.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

cosmos_variable=LEASING_TEST_COSMOS
cosmos_example='cosmos+http://:KEY@127.0.0.1:8081/app/leases (a key with / written as %2F, + as %2B, = as %3D)'

cosmos_bin() { have go; }

cosmos_install() {
	say "the go command is missing"
	return 1
}

cosmos_start() {
	(cd "$root/providers/cosmos" && go build -o "$1/cosmosfake" ./cosmostest/cosmosfake) || return 1
	start_server "$1/log" 'TERM' exec_as "$(id -un)" "$1/cosmosfake"
	if ! wait_until 60 "$server_pid" grep -qs '^cosmos' "$1/log"; then
		cat "$1/log" >&2
		return 1
	fi
	LEASING_TEST_COSMOS=$(grep '^cosmos' "$1/log")
	export LEASING_TEST_COSMOS
	say "the Cosmos fake listens on ${LEASING_TEST_COSMOS##*@}"
}
