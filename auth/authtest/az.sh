#!/bin/sh
# az account get-access-token -o json --resource RESOURCE
# (learn.microsoft.com/cli/azure/account, "az account get-access-token")
here=${0%/*}
resource=
while [ $# -gt 0 ]; do
	case $1 in
	--resource) resource=$2 && shift ;;
	esac
	shift
done

echo "$resource" >>"$here/requests"
if [ -s "$here/failure" ]; then
	cat "$here/failure" >&2
	exit 1
fi

encode() { base64 | tr -d '=\n' | tr '/+' '_-'; }
now=$(date +%s)
expires=$((now + $(cat "$here/lifetime")))
number=$(wc -l <"$here/requests" | tr -d ' ')
claims='{"aud":"'$resource'","iss":"https://sts.windows.net/@TENANT@/","iat":'$now',"nbf":'$now',"exp":'$expires
claims=$claims',"appid":"@CLIENT@","oid":"@OBJECT@","sub":"@OBJECT@","tid":"@TENANT@","uti":"az-'$number'","ver":"1.0"}'
token=$(printf '{"alg":"none","typ":"JWT"}' | encode).$(printf '%s' "$claims" | encode).

echo "$token" >>"$here/issued"
printf '{"accessToken":"%s","expires_on":%s,"tenant":"@TENANT@","tokenType":"Bearer"}\n' "$token" "$expires"
