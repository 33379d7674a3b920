package cosmostest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure an Account. The zero value refuses every request.
type Options struct {
	// Key is the account's key, in base64; empty for an account without a key.
	Key string
	// Token returns the error of a bad bearer token; nil refuses all tokens.
	Token func(token string) error
	// Now is the service's clock. Default time.Now.
	Now func() time.Time
	// ReplicaSkew is the time by which the clock of _ts is ahead of the clock of Date. The
	// two clocks belong to different machines.
	ReplicaSkew time.Duration
	// ExpiredBlocks makes an expired item block the creation of another item with its
	// ID, until the expired item is deleted.
	ExpiredBlocks bool
}

// Account is a Cosmos DB account. It is safe for concurrent use.
type Account struct {
	options Options
	routes  *http.ServeMux

	mu          sync.Mutex
	databases   map[string]map[string]*container
	before      Hook
	manyRegions bool
	lsn         int64       // the latest log sequence number
	served      []Operation // nil until Record
}

// New makes an account without databases.
func New(o Options) *Account {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Account{options: o, routes: http.NewServeMux(), databases: map[string]map[string]*container{}}
	for pattern, route := range routes {
		a.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, route) })
	}
	a.routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.answer(w, refuse(http.StatusBadRequest, 0, "no such resource"))
	})
	return a
}

// WriteRegions sets whether the account has several write regions.
func (a *Account) WriteRegions(several bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.manyRegions = several
}

// Record starts a list of the served operations, or clears the list.
func (a *Account) Record() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served = []Operation{}
}

// Served returns the operations since Record.
func (a *Account) Served() []Operation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Operation(nil), a.served...)
}

// AddContainer creates a database, unless it exists, and a container.
func (a *Account) AddContainer(db, name, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.databases[db] == nil {
		a.databases[db] = map[string]*container{}
	}
	p := properties{ID: name, PartitionKey: partitionKey{Paths: strings.Split(path, ","), Kind: "Hash", Version: 2}}
	a.databases[db][name] = a.newContainer(p)
}

// DropContainer deletes a container with its items.
func (a *Account) DropContainer(db, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.databases[db], name)
}

// SetTTL sets a container's default time to live, in seconds: -1 enables only the
// items' own times to live.
func (a *Account) SetTTL(db, name string, seconds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.databases[db][name].properties.DefaultTTL = &seconds
}

// SetPartitionKeyVersion sets the version of a container's partition keys, which is
// 1 in older containers; 0 omits the version.
func (a *Account) SetPartitionKeyVersion(db, name string, version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.databases[db][name].properties.PartitionKey.Version = version
}

// Container returns the properties and throughput of a container as JSON.
func (a *Account) Container(db, name string) (body, throughput string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.databases[db][name]
	text, _ := json.Marshal(c.properties)
	return string(text), c.throughput
}
