package setup

import (
	"errors"
	"slices"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/open"
)

// Guide has the commands that a user needs to start with one backend. The user replaces the words in capitals.
type Guide struct {
	Schemes []string
	URL     string // of an existing backend
	Begin   string // starts a backend to try out
	SetUp   string // creates what is missing
	Rights  string // shows or grants the permissions
	Reach   string // queries the server without this program
}

// Guides are in the order of the README.
var Guides = []Guide{
	{
		Schemes: []string{"sqlite"}, URL: "sqlite:///FOLDER/leases.db?create=true",
		Begin: "leasing doctor --local", SetUp: "leasing doctor --url 'sqlite:///FOLDER/leases.db?create=true'",
		Rights: "ls -ld FOLDER FOLDER/leases.db", Reach: "sqlite3 FOLDER/leases.db 'SELECT count(*) FROM lease'",
	},
	{
		Schemes: []string{"postgres", "postgresql"}, URL: "postgres://USER@HOST/DATABASE?create=true",
		Begin: "docker run --rm -d -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17",
		SetUp: "leasing sql schema --url URL | psql -h HOST -U ADMIN DATABASE", Rights: `psql -h HOST -U ADMIN DATABASE -c '\dp leasing.*'`, Reach: "pg_isready -h HOST",
	},
	{
		Schemes: []string{"mysql", "mariadb"}, URL: "mysql://USER@HOST/DATABASE?create=true",
		Begin: "docker run --rm -d -p 127.0.0.1:3306:3306 -e MARIADB_ROOT_PASSWORD=secret -e MARIADB_DATABASE=leasing mariadb:10.11",
		SetUp: "leasing sql schema --url URL | mariadb -h HOST -u ADMIN -p DATABASE", Rights: "mariadb -h HOST -u ADMIN -p -e 'SHOW GRANTS FOR USER'",
		Reach: "mariadb-admin -h HOST ping",
	},
	{
		Schemes: []string{"redis", "rediss", "unix"}, URL: "rediss://USER:PASSWORD@HOST:6380/0",
		Begin: "docker run --rm -d -p 127.0.0.1:6379:6379 redis:7; on Azure: samples/azure/redis.sh up",
		SetUp: "redis-cli -u URL INFO server", Rights: "redis-cli -u URL ACL WHOAMI", Reach: "redis-cli -u URL PING",
	},
	{
		Schemes: []string{"azblob", "azblob+http"}, URL: "azblob://ACCOUNT/CONTAINER?auth=Development",
		Begin: "samples/azure/blob.sh up", SetUp: "az storage container-rm create --storage-account ACCOUNT --name CONTAINER",
		Rights: "az role assignment create --assignee PRINCIPAL --role 'Storage Blob Data Contributor' --scope CONTAINER_ID",
		Reach:  "curl -sSI https://ACCOUNT.blob.core.windows.net",
	},
	{
		Schemes: []string{"cosmos", "cosmos+http"}, URL: "cosmos://ACCOUNT.documents.azure.com/DATABASE/CONTAINER?auth=Development",
		Begin:  "samples/azure/cosmos.sh up",
		SetUp:  "az cosmosdb sql container create -g GROUP -a ACCOUNT -d DATABASE -n CONTAINER --partition-key-path /id --partition-key-version 2 --ttl -1",
		Rights: "az cosmosdb sql role assignment create -g GROUP -a ACCOUNT --role-definition-id 00000000-0000-0000-0000-000000000002 --principal-id PRINCIPAL --scope /dbs/DATABASE/colls/CONTAINER",
		Reach:  "curl -sSI https://ACCOUNT.documents.azure.com",
	},
	{
		Schemes: []string{"s3"}, URL: "s3://BUCKET/PREFIX?region=REGION",
		Begin: "aws s3 mb s3://BUCKET", SetUp: "aws s3 mb s3://BUCKET",
		Rights: "aws s3api get-bucket-policy --bucket BUCKET", Reach: "aws s3 ls s3://BUCKET",
	},
	{
		Schemes: []string{"etcd"}, URL: "etcd://HOST:2379",
		Begin: "docker run --rm -d -p 127.0.0.1:2379:2379 gcr.io/etcd-development/etcd:v3.7.3 etcd --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://127.0.0.1:2379",
		SetUp: "etcdctl --endpoints HOST:2379 endpoint status", Rights: "etcdctl --endpoints HOST:2379 role grant-permission ROLE readwrite --prefix=true leases/",
		Reach: "etcdctl --endpoints HOST:2379 endpoint health",
	},
	{
		Schemes: []string{"consul", "consul+https"}, URL: "consul://HOST:8500/PREFIX",
		Begin: "docker run --rm -d -p 127.0.0.1:8500:8500 hashicorp/consul:1.22 agent -dev -client 0.0.0.0",
		SetUp: "consul members -http-addr http://HOST:8500", Rights: "consul acl token read -self", Reach: "consul members -http-addr http://HOST:8500",
	},
	{
		Schemes: []string{"kubernetes"}, URL: "kubernetes://:TOKEN@HOST:6443/NAMESPACE",
		Begin: "kubectl create namespace NAMESPACE", SetUp: "kubectl create namespace NAMESPACE",
		Rights: "kubectl auth can-i create leases.coordination.k8s.io -n NAMESPACE", Reach: "kubectl get --raw /readyz",
	},
	{
		Schemes: []string{"file"}, URL: "file:///FOLDER",
		Begin: "mkdir -p FOLDER", SetUp: "mkdir -p FOLDER", Rights: "ls -ld FOLDER", Reach: "ls -ld FOLDER",
	},
}

// findGuide returns the guide of a URL's scheme; nil for an unknown scheme.
func findGuide(scheme string) *Guide {
	if i := slices.IndexFunc(Guides, func(g Guide) bool { return slices.Contains(g.Schemes, scheme) }); i >= 0 {
		return &Guides[i]
	}
	return nil
}

// addNext adds the command to run now: the first use of a backend that works, or the command for the first error.
// Without a backend it adds a command for each kind of backend.
func (d *doctor) addNext(where, from string, failure error) {
	g := findGuide(open.Scheme(where))
	switch {
	case g == nil && (where != "" || errors.Is(failure, cli.ErrNoURL)):
		for _, g := range Guides {
			d.add(verdictNext, g.Schemes[0], "to try: %s; then: leasing doctor --url '%s'", g.Begin, g.URL)
		}
	case g == nil: // a flag, a variable or the config file is wrong, and the finding says which
	case failure == nil && from == "--url":
		d.add(verdictNext, "run", "export LEASING_URL='URL'; leasing run --wait 1m jobs/first -- COMMAND")
	case failure == nil && d.app.Local:
		d.add(verdictNext, "run", "leasing run --local --wait 1m jobs/first -- COMMAND")
	case failure == nil:
		d.add(verdictNext, "run", "leasing run --wait 1m jobs/first -- COMMAND")
	case errors.Is(failure, disk.ErrNetwork):
		d.add(verdictNext, "url", "leasing doctor --local")
	case errors.Is(failure, leasing.ErrNotSetUp):
		d.add(verdictNext, "set up", "%s", g.SetUp)
	case errors.Is(failure, leasing.ErrDenied):
		d.add(verdictNext, "rights", "%s", g.Rights)
	case errors.Is(failure, leasing.ErrInvalid):
		d.add(verdictNext, "url", "leasing doctor --url '%s'", g.URL)
	case errors.Is(failure, leasing.ErrUnavailable):
		d.add(verdictNext, "reach", "%s", g.Reach)
	}
}
