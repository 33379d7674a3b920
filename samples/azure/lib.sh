# Shared by the scripts of this folder, which source it. They make an account of Azure for leases, and remove it.
#
#     samples/azure/blob.sh up      prints what to export, and the command to run next
#     samples/azure/blob.sh down    removes the account, and the resource group if that is empty
#
# Both may be repeated. down removes nothing that these scripts did not make: they tag it.
#
#   LEASING_AZURE_GROUP           the resource group (leasing-samples)
#   LEASING_AZURE_LOCATION        where it is (northeurope)
#   LEASING_AZURE_NAME            the account's name, unique in Azure (made of the subscription and the group)
#   LEASING_AZURE_PRINCIPAL       object ID of the identity that gets the rights (the signed-in user's)
#   LEASING_AZURE_PRINCIPAL_TYPE  User, ServicePrincipal or Group (User)
#   LEASING_AZURE_AUTH            the mode of package auth in the URL (Development: az login)
#
# shellcheck shell=bash disable=SC2034,SC2154

tag=leasing=samples

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# quietly runs az for what it changes.
quietly() { az "$@" --output none --only-show-errors; }

# value runs az for one value; an empty one says that there is none.
value() { az "$@" --output tsv --only-show-errors; }

# begin reads the environment, and then calls up or down.
begin() {
	local verb=${1:-}
	[[ $# == 1 && $verb =~ ^(up|down)$ ]] || die "usage: ${0##*/} up|down"
	command -v az >/dev/null || die "no az: https://learn.microsoft.com/cli/azure/install-azure-cli"
	group=${LEASING_AZURE_GROUP:-leasing-samples}
	location=${LEASING_AZURE_LOCATION:-northeurope}
	mode=${LEASING_AZURE_AUTH:-Development}
	subscription=$(value account show --query id) || die "sign in with az login"
	local sum
	sum=$(printf '%s/%s' "$subscription" "$group" | cksum)
	name=${LEASING_AZURE_NAME:-leasing${sum%% *}}
	"$verb"
}

# identity finds who gets the rights.
identity() {
	principal=${LEASING_AZURE_PRINCIPAL:-}
	principal_type=${LEASING_AZURE_PRINCIPAL_TYPE:-User}
	[ -n "$principal" ] || principal=$(value ad signed-in-user show --query id) ||
		die "no user is signed in: set LEASING_AZURE_PRINCIPAL and LEASING_AZURE_PRINCIPAL_TYPE"
}

# has_group succeeds if there is the group, and ends the script if az does not tell.
has_group() {
	local there
	there=$(value group exists --name "$group") || die "az does not say whether there is a group $group"
	[ "$there" = true ]
}

group_up() {
	! has_group || return 0
	say "making the resource group $group"
	quietly group create --name "$group" --location "$location" --tags "$tag"
}

# ours succeeds if there is the account, and ends the script if another program has made it. The script names the service:
# account=(storage account).
ours() {
	local made
	made=$(value "${account[@]}" list --resource-group "$group" --query "[?name=='$name'].[tags.leasing || 'none'] | [0]") ||
		die "az does not say whether there is an account $name"
	case $made in
	samples) return 0 ;;
	'') return 1 ;;
	*) die "$name has no tag $tag, so these scripts did not make it: set LEASING_AZURE_NAME" ;;
	esac
}

# group_down removes the group, if these scripts made it and nothing is left in it.
group_down() {
	local made left
	made=$(value group show --name "$group" --query tags.leasing)
	[ "$made" = samples ] || return 0
	left=$(value resource list --resource-group "$group" --query 'length(@)')
	if [ "$left" != 0 ]; then
		say "the group $group stays: it has $left more resources"
		return
	fi
	say "removing the resource group $group"
	quietly group delete --name "$group" --yes
}

# down removes the account.
down() {
	has_group || return 0
	if ours; then
		say "removing $name"
		quietly "${account[@]}" delete --resource-group "$group" --name "$name" --yes
	fi
	group_down
}

# next prints what to do now. Rights take some minutes to arrive.
next() {
	printf 'export %s\n' "$@"
	printf 'leasing doctor # repeat it for ten minutes if access is denied: rights arrive late\n'
}
