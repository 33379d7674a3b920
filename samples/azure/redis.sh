#!/usr/bin/env bash
# Makes the smallest Azure Managed Redis, with Entra ID instead of keys, or removes it: see lib.sh.
set -euo pipefail
# shellcheck source=samples/azure/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

account=(redisenterprise)
database=default
port=10000

up() {
	local of there assignment host
	identity
	group_up
	if ! ours; then
		say "making the Redis $name, which takes ten minutes"
		quietly redisenterprise create --resource-group "$group" --name "$name" --location "$location" --tags "$tag" \
			--sku Balanced_B0 --minimum-tls-version 1.2 --public-network-access Enabled --no-database
	fi
	of=(--resource-group "$group" --cluster-name "$name")
	there=$(value redisenterprise database list "${of[@]}" --query "[?ends_with(id, '/$database')] | [0].id")
	[ -n "$there" ] || quietly redisenterprise database create "${of[@]}" --client-protocol Encrypted --port "$port" \
		--clustering-policy NoCluster --eviction-policy NoEviction --access-keys-auth Disabled
	# The policy "default" allows everything: the service has no narrower one but in a preview.
	assignment=leasing${principal//-/}
	there=$(value redisenterprise database access-policy-assignment list "${of[@]}" --database-name "$database" \
		--query "[?ends_with(id, '/$assignment')] | [0].id")
	[ -n "$there" ] || quietly redisenterprise database access-policy-assignment create "${of[@]}" --database-name "$database" \
		--access-policy-assignment-name "$assignment" --access-policy-name default --object-id "$principal"
	host=$(value redisenterprise show "${of[@]}" --query hostName)
	# A token is the password of a URL for an hour. A program has tokens replaced: see auth/redisauth.
	next "LEASING_URL=\"rediss://$principal:\$(az account get-access-token --resource https://redis.azure.com --query accessToken --output tsv)@$host:$port/0\"" \
		"REDIS_ENTRA_ADDRESS='$host:$port'"
}

begin "$@"
