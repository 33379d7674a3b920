package cosmostest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions"
)

// route is the verb and the handler of the requests that match one pattern.
type route struct {
	verb   Verb
	handle func(*call) *reply
}

// routes are the paths of
// learn.microsoft.com/rest/api/cosmos-db/cosmosdb-resource-uri-syntax-for-rest.
var routes = map[string]route{
	"GET /{$}":                        {ReadAccount, (*call).readAccount},
	"POST /dbs":                       {CreateDatabase, (*call).createDatabase},
	"POST /dbs/{db}/colls":            {CreateContainer, (*call).createContainer},
	"GET /dbs/{db}/colls/{container}": {ReadContainer, (*call).readContainer},
	"POST " + itemsPath:               {CreateItem, (*call).createItem},
	"GET " + itemsPath + "/{id}":      {ReadItem, (*call).readItem},
	"PUT " + itemsPath + "/{id}":      {ReplaceItem, (*call).replaceItem},
	"DELETE " + itemsPath + "/{id}":   {DeleteItem, (*call).deleteItem},
}

const itemsPath = "/dbs/{db}/colls/{container}/docs"

// call is a request in flight.
type call struct {
	account   *Account
	r         *http.Request
	op        Operation
	handle    func(*call) *reply
	body      []byte
	container *container // nil for a request without a container
}

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   any // encoded as JSON; nil for no body
}

func newReply(status int, body any) *reply {
	return &reply{status: status, header: http.Header{}, body: body}
}

func refuse(status, substatus int, why string) *reply {
	r := newReply(status, map[string]string{"code": http.StatusText(status), "message": why})
	if substatus != 0 {
		r.header.Set("x-ms-substatus", strconv.Itoa(substatus))
	}
	return r
}

// ServeHTTP answers a request.
func (a *Account) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.routes.ServeHTTP(w, r) }

func (a *Account) serve(w http.ResponseWriter, r *http.Request, to route) {
	if to.verb == CreateItem && r.Header.Get("Content-Type") == "application/query+json" {
		to = route{QueryItems, (*call).queryItems}
	}
	op := Operation{Verb: to.verb, Database: r.PathValue("db"), Container: r.PathValue("container"), ID: r.PathValue("id")}
	c := &call{account: a, r: r, op: op, handle: to.handle}
	answer := c.authorize()
	if answer == nil {
		answer = c.run()
	}
	if op.Write() && answer.status < 300 && r.Header.Get("Prefer") == "return=minimal" { // azcosmos requests this by default
		answer.body = nil
	}
	a.answer(w, answer)
}

// apply applies the operation atomically.
func (c *call) apply(fault Fault) *reply {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()
	if c.op.Container == "" {
		return c.handle(c)
	}
	c.container = c.account.databases[c.op.Database][c.op.Container]
	switch {
	case c.container == nil && c.op.Verb == ReadContainer:
		return refuse(http.StatusNotFound, 0, "no such container")
	case c.container == nil:
		return refuse(http.StatusNotFound, 1003, "the owner resource does not exist")
	}
	var answer *reply
	if fault.Stale && c.op.Verb == ReadItem {
		answer = c.read(func(i *item) version { return i.staleVersion(max(1, fault.Lag), c.sessionLSN()) })
	} else {
		answer = c.handle(c)
	}
	c.inSession(answer)
	return answer
}

// answer writes a reply with the headers that every reply has
// (learn.microsoft.com/rest/api/cosmos-db/common-cosmosdb-rest-response-headers).
// Its Date is the service's time, in whole seconds.
func (a *Account) answer(w http.ResponseWriter, r *reply) {
	header := w.Header()
	for name, values := range r.header {
		header[name] = values
	}
	header.Set("Date", a.options.Now().UTC().Format(http.TimeFormat))
	header.Set("x-ms-activity-id", abstractions.NewID())
	header.Set("x-ms-request-charge", "1")
	header.Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	if r.body == nil {
		return
	}
	if err := json.NewEncoder(w).Encode(r.body); err != nil {
		panic(fmt.Sprintf("fake: %v", err))
	}
}
