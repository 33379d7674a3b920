package main

import (
	"errors"
	"slices"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/open"
)

// guide has the commands that lead to leases on one backend. Words in capitals are to be filled in.
type guide struct {
	schemes []string
	url     string // for a backend that there is
	begin   string // makes a backend to try
	setUp   string // creates what is missing
	rights  string // shows or grants the rights
	reach   string // asks the server without this program
}

// guides are in the order of the README.
var guides = []guide{
	{
		schemes: []string{"sqlite"}, url: "sqlite:///FOLDER/leases.db?create=true",
		begin: "leasing doctor --local", setUp: "leasing doctor --url 'sqlite:///FOLDER/leases.db?create=true'",
		rights: "ls -ld FOLDER FOLDER/leases.db", reach: "sqlite3 FOLDER/leases.db 'SELECT count(*) FROM lease'",
	},
	{
		schemes: []string{"postgres", "postgresql"}, url: "postgres://USER@HOST/DATABASE?create=true",
		begin: "docker run --rm -d -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17",
		setUp: "leasing sql schema --url URL | psql -h HOST -U ADMIN DATABASE", rights: `psql -h HOST -U ADMIN DATABASE -c '\dp leasing.*'`, reach: "pg_isready -h HOST",
	},
	{
		schemes: []string{"mysql", "mariadb"}, url: "mysql://USER@HOST/DATABASE?create=true",
		begin: "docker run --rm -d -p 127.0.0.1:3306:3306 -e MARIADB_ROOT_PASSWORD=secret -e MARIADB_DATABASE=leasing mariadb:10.11",
		setUp: "leasing sql schema --url URL | mariadb -h HOST -u ADMIN -p DATABASE", rights: "mariadb -h HOST -u ADMIN -p -e 'SHOW GRANTS FOR USER'",
		reach: "mariadb-admin -h HOST ping",
	},
	{
		schemes: []string{"redis", "rediss", "unix"}, url: "rediss://USER:PASSWORD@HOST:6380/0",
		begin: "docker run --rm -d -p 127.0.0.1:6379:6379 redis:7; on Azure: samples/azure/redis.sh up",
		setUp: "redis-cli -u URL INFO server", rights: "redis-cli -u URL ACL WHOAMI", reach: "redis-cli -u URL PING",
	},
	{
		schemes: []string{"azblob", "azblob+http"}, url: "azblob://ACCOUNT/CONTAINER?auth=Development",
		begin: "samples/azure/blob.sh up", setUp: "az storage container-rm create --storage-account ACCOUNT --name CONTAINER",
		rights: "az role assignment create --assignee PRINCIPAL --role 'Storage Blob Data Contributor' --scope CONTAINER_ID",
		reach:  "curl -sSI https://ACCOUNT.blob.core.windows.net",
	},
	{
		schemes: []string{"cosmos", "cosmos+http"}, url: "cosmos://ACCOUNT.documents.azure.com/DATABASE/CONTAINER?auth=Development",
		begin:  "samples/azure/cosmos.sh up",
		setUp:  "az cosmosdb sql container create -g GROUP -a ACCOUNT -d DATABASE -n CONTAINER --partition-key-path /id --partition-key-version 2 --ttl -1",
		rights: "az cosmosdb sql role assignment create -g GROUP -a ACCOUNT --role-definition-id 00000000-0000-0000-0000-000000000002 --principal-id PRINCIPAL --scope /dbs/DATABASE/colls/CONTAINER",
		reach:  "curl -sSI https://ACCOUNT.documents.azure.com",
	},
	{
		schemes: []string{"s3"}, url: "s3://BUCKET/PREFIX?region=REGION",
		begin: "aws s3 mb s3://BUCKET", setUp: "aws s3 mb s3://BUCKET",
		rights: "aws s3api get-bucket-policy --bucket BUCKET", reach: "aws s3 ls s3://BUCKET",
	},
	{
		schemes: []string{"etcd"}, url: "etcd://HOST:2379",
		begin: "docker run --rm -d -p 127.0.0.1:2379:2379 gcr.io/etcd-development/etcd:v3.7.3 etcd --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://127.0.0.1:2379",
		setUp: "etcdctl --endpoints HOST:2379 endpoint status", rights: "etcdctl --endpoints HOST:2379 role grant-permission ROLE readwrite --prefix=true leases/",
		reach: "etcdctl --endpoints HOST:2379 endpoint health",
	},
	{
		schemes: []string{"consul", "consul+https"}, url: "consul://HOST:8500/PREFIX",
		begin: "docker run --rm -d -p 127.0.0.1:8500:8500 hashicorp/consul:1.22 agent -dev -client 0.0.0.0",
		setUp: "consul members -http-addr http://HOST:8500", rights: "consul acl token read -self", reach: "consul members -http-addr http://HOST:8500",
	},
	{
		schemes: []string{"kubernetes"}, url: "kubernetes://:TOKEN@HOST:6443/NAMESPACE",
		begin: "kubectl create namespace NAMESPACE", setUp: "kubectl create namespace NAMESPACE",
		rights: "kubectl auth can-i create leases.coordination.k8s.io -n NAMESPACE", reach: "kubectl get --raw /readyz",
	},
	{
		schemes: []string{"file"}, url: "file:///FOLDER",
		begin: "mkdir -p FOLDER", setUp: "mkdir -p FOLDER", rights: "ls -ld FOLDER", reach: "ls -ld FOLDER",
	},
}

// guideOf returns the guide of a URL's scheme; nil for an unknown scheme.
func guideOf(scheme string) *guide {
	if i := slices.IndexFunc(guides, func(g guide) bool { return slices.Contains(g.schemes, scheme) }); i >= 0 {
		return &guides[i]
	}
	return nil
}

// next adds the command to run now: a first use of a backend that works, or what the first error asks for. Without a
// backend it has a command to begin with for each.
func (d *doctor) next(where, from string, failure error) {
	g := guideOf(open.Scheme(where))
	switch {
	case g == nil && (where != "" || errors.Is(failure, errNowhere)):
		for _, g := range guides {
			d.add(next, g.schemes[0], "to try: %s; then: leasing doctor --url '%s'", g.begin, g.url)
		}
	case g == nil: // a flag, a variable or the config file is wrong, and the finding says which
	case failure == nil && from == "--url":
		d.add(next, "run", "export LEASING_URL='URL'; leasing run --wait 1m jobs/first -- COMMAND")
	case failure == nil && d.app.local:
		d.add(next, "run", "leasing run --local --wait 1m jobs/first -- COMMAND")
	case failure == nil:
		d.add(next, "run", "leasing run --wait 1m jobs/first -- COMMAND")
	case errors.Is(failure, providerkit.ErrNetworkDisk):
		d.add(next, "url", "leasing doctor --local")
	case errors.Is(failure, leasing.ErrNotSetUp):
		d.add(next, "set up", "%s", g.setUp)
	case errors.Is(failure, leasing.ErrDenied):
		d.add(next, "rights", "%s", g.rights)
	case errors.Is(failure, leasing.ErrInvalid):
		d.add(next, "url", "leasing doctor --url '%s'", g.url)
	case errors.Is(failure, leasing.ErrUnavailable):
		d.add(next, "reach", "%s", g.reach)
	}
}
