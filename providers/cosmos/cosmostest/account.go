package cosmostest

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure an Account. The zero value lets nobody in.
type Options struct {
	// Key is the account's key, in base64; empty if there is none.
	Key string
	// Token says what is wrong with a bearer token; nil lets none in.
	Token func(token string) error
	// Endpoint is where the account says that its regions are. Default: where
	// the request came to.
	Endpoint string
	// Now is the service's clock. Default time.Now.
	Now func() time.Time
	// ReplicaSkew is how far the clock behind _ts is ahead of the one behind
	// the Date of replies, which is another machine's.
	ReplicaSkew time.Duration
	// ExpiredBlocks lets an item whose time to live is over block the creation
	// of another with its ID, as long as nothing has swept it.
	ExpiredBlocks bool
}

// Account is a Cosmos DB account. It is safe for concurrent use.
type Account struct {
	options Options

	mu           sync.Mutex
	databases    map[string]*database
	before       Hook
	manyRegions  bool
	lsn          int64 // the latest log sequence number
	served       []Operation
	keepRequests bool
}

// New makes an account without databases.
func New(o Options) *Account {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Account{options: o, databases: map[string]*database{}}
}

// WriteRegions sets whether the account has several regions that take writes.
func (a *Account) WriteRegions(several bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.manyRegions = several
}

// Record begins to keep a list of the operations served, or forgets it.
func (a *Account) Record() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keepRequests, a.served = true, nil
}

// Served returns the operations since Record.
func (a *Account) Served() []Operation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Operation(nil), a.served...)
}

// ServeHTTP answers a request.
func (a *Account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{account: a, w: w, r: r}
	if !c.route() {
		c.answer(refuse(http.StatusBadRequest, 0, "no such resource"))
		return
	}
	if refused := c.authorize(); refused != nil {
		c.answer(*refused)
		return
	}
	c.run()
}

// call is a request under way.
type call struct {
	account *Account
	w       http.ResponseWriter
	r       *http.Request
	op      Operation
	body    []byte
	link    string // of the resource that the signature names
	kind    string // of that resource: "docs"
	handle  func() reply
}

// route finds out what is asked for. The paths are those of
// learn.microsoft.com/rest/api/cosmos-db/cosmosdb-resource-uri-syntax-for-rest.
func (c *call) route() bool {
	path := strings.Trim(c.r.URL.Path, "/")
	var parts []string
	if path != "" {
		parts = strings.Split(path, "/")
	}
	if len(parts) > 1 {
		c.op.Database = parts[1]
	}
	if len(parts) > 3 {
		c.op.Container = parts[3]
	}
	if len(parts) > 5 {
		c.op.ID = parts[5]
	}
	for i, want := range []string{"dbs", "colls"} {
		if len(parts) > 2*i && parts[2*i] != want {
			return false
		}
	}
	// The signature is for the resource, or for its parent if it is a feed.
	c.link = strings.Join(parts[:len(parts)/2*2], "/")
	if len(parts) > 0 {
		c.kind = parts[(len(parts)-1)/2*2]
	}
	return c.choose(c.r.Method, len(parts))
}

func (c *call) choose(method string, depth int) bool {
	query := c.r.Header.Get("Content-Type") == "application/query+json"
	switch {
	case method == http.MethodGet && depth == 0:
		c.op.Verb, c.handle = ReadAccount, c.readAccount
	case method == http.MethodPost && depth == 1:
		c.op.Verb, c.handle = CreateDatabase, c.createDatabase
	case method == http.MethodGet && depth == 2:
		c.op.Verb, c.handle = ReadDatabase, c.readDatabase
	case method == http.MethodPost && depth == 3:
		c.op.Verb, c.handle = CreateContainer, c.createContainer
	case method == http.MethodGet && depth == 4:
		c.op.Verb, c.handle = ReadContainer, c.readContainer
	case method == http.MethodDelete && depth == 4:
		c.op.Verb, c.handle = DeleteContainer, c.deleteContainer
	case method == http.MethodGet && depth == 5 && c.kind == "pkranges":
		c.op.Verb, c.handle = ReadRanges, c.readRanges
	case depth < 5 || c.kind != "docs":
		return false
	case method == http.MethodPost && depth == 5 && query:
		c.op.Verb, c.handle = QueryItems, c.queryItems
	case method == http.MethodPost && depth == 5:
		c.op.Verb, c.handle = CreateItem, c.createItem
	case method == http.MethodGet && depth == 6:
		c.op.Verb, c.handle = ReadItem, c.readItem
	case method == http.MethodPut && depth == 6:
		c.op.Verb, c.handle = ReplaceItem, c.replaceItem
	case method == http.MethodDelete && depth == 6:
		c.op.Verb, c.handle = DeleteItem, c.deleteItem
	default:
		return false
	}
	return true
}
