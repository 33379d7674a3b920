#!/usr/bin/env bash
# Makes a serverless account of Cosmos DB with a container for leases, without keys, or removes the account: see lib.sh.
set -euo pipefail
# shellcheck source=samples/azure/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

account=(cosmosdb)
database=app
container=leases
role=leasing

# definition is the role that cosmoslease.RoleDefinition describes.
definition() {
	cat <<-'END'
		{
		  "RoleName": "leasing",
		  "Type": "CustomRole",
		  "AssignableScopes": ["/"],
		  "Permissions": [{"DataActions": [
		    "Microsoft.DocumentDB/databaseAccounts/readMetadata",
		    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read",
		    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create",
		    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace",
		    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete",
		    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery"
		  ]}]
		}
	END
}

up() {
	local at there id
	identity
	group_up
	if ! ours; then
		say "making the account $name, which takes some minutes"
		quietly cosmosdb create --resource-group "$group" --name "$name" --locations regionName="$location" --capabilities EnableServerless \
			--tags "$tag"
	fi
	there=$(value cosmosdb show --resource-group "$group" --name "$name" --query disableLocalAuth)
	[ "$there" = true ] || quietly resource update --resource-group "$group" --name "$name" \
		--resource-type Microsoft.DocumentDB/databaseAccounts --set properties.disableLocalAuth=true
	at=(--resource-group "$group" --account-name "$name")
	there=$(value cosmosdb sql database exists "${at[@]}" --name "$database")
	[ "$there" = true ] || quietly cosmosdb sql database create "${at[@]}" --name "$database"
	there=$(value cosmosdb sql container exists "${at[@]}" --database-name "$database" --name "$container")
	[ "$there" = true ] || quietly cosmosdb sql container create "${at[@]}" --database-name "$database" --name "$container" \
		--partition-key-path /id --partition-key-version 2 --ttl -1
	id=$(value cosmosdb sql role definition list "${at[@]}" --query "[?roleName=='$role'] | [0].name")
	[ -n "$id" ] || id=$(value cosmosdb sql role definition create "${at[@]}" --body "$(definition)" --query name)
	there=$(value cosmosdb sql role assignment list "${at[@]}" --query "[?principalId=='$principal' && ends_with(roleDefinitionId, '$id')] | [0].id")
	[ -n "$there" ] || quietly cosmosdb sql role assignment create "${at[@]}" --role-definition-id "$id" --principal-id "$principal" \
		--scope "/dbs/$database/colls/$container"
	next "LEASING_URL='cosmos://$name.documents.azure.com/$database/$container?auth=$mode'" \
		"COSMOS_ENDPOINT='https://$name.documents.azure.com' COSMOS_DATABASE=$database COSMOS_CONTAINER=$container"
}

begin "$@"
