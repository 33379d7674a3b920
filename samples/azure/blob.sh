#!/usr/bin/env bash
# Makes a storage account and a container for leases, without keys, or removes the account: see lib.sh.
#
#   LEASING_AZURE_SCOPE  container, or account: the identity may make containers, as the conformance test does (container)
set -euo pipefail
# shellcheck source=samples/azure/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

account=(storage account)
role='Storage Blob Data Contributor'
container=leases

up() {
	local there id scope
	identity
	group_up
	if ! ours; then
		say "making the storage account $name"
		quietly storage account create --resource-group "$group" --name "$name" --location "$location" --tags "$tag" \
			--sku Standard_LRS --kind StorageV2 --https-only true --min-tls-version TLS1_2 \
			--allow-blob-public-access false --allow-shared-key-access false
	fi
	there=$(value storage container-rm exists --resource-group "$group" --storage-account "$name" --name "$container" --query exists)
	[ "$there" = true ] || quietly storage container-rm create --resource-group "$group" --storage-account "$name" --name "$container"
	id=$(value storage account show --resource-group "$group" --name "$name" --query id)
	scope=$id/blobServices/default/containers/$container
	[ "${LEASING_AZURE_SCOPE:-container}" = container ] || scope=$id
	there=$(value role assignment list --scope "$scope" --query "[?principalId=='$principal' && roleDefinitionName=='$role'] | [0].id")
	[ -n "$there" ] || quietly role assignment create --scope "$scope" --role "$role" \
		--assignee-object-id "$principal" --assignee-principal-type "$principal_type"
	next "LEASING_URL='azblob://$name/$container?auth=$mode'" "AZURE_STORAGE_ACCOUNT_URL='https://$name.blob.core.windows.net'"
}

begin "$@"
