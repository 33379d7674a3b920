package cosmostest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

type database struct {
	containers map[string]*container
}

// container holds items by partition key and ID.
type container struct {
	properties properties
	throughput string // as it was asked for: "400", or a policy
	items      map[string]*item
	created    int64 // the log sequence number
}

// properties are a container's, as they go over the wire.
type properties struct {
	ID           string          `json:"id"`
	PartitionKey partitionKey    `json:"partitionKey"`
	DefaultTTL   *int            `json:"defaultTtl,omitempty"`
	Indexing     json.RawMessage `json:"indexingPolicy,omitempty"`
}

type partitionKey struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version,omitempty"`
}

// AddContainer creates a database, unless there is one, and a container.
func (a *Account) AddContainer(db, name, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.databases[db] == nil {
		a.databases[db] = &database{containers: map[string]*container{}}
	}
	p := properties{ID: name, PartitionKey: partitionKey{Paths: strings.Split(path, ","), Kind: "Hash", Version: 2}}
	a.databases[db].containers[name] = a.newContainer(p)
}

// DropContainer deletes a container with all that is in it.
func (a *Account) DropContainer(db, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.databases[db].containers, name)
}

// SetTTL sets a container's default time to live, in seconds: -1 turns it on for
// items that have one of their own.
func (a *Account) SetTTL(db, name string, seconds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.databases[db].containers[name].properties.DefaultTTL = &seconds
}

// SetPartitionKeyVersion makes a container one of those that were created with
// another version of partition keys; 0 leaves it out.
func (a *Account) SetPartitionKeyVersion(db, name string, version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.databases[db].containers[name].properties.PartitionKey.Version = version
}

// Container returns the properties and throughput of a container as JSON.
func (a *Account) Container(db, name string) (body, throughput string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.databases[db].containers[name]
	text, _ := json.Marshal(c.properties)
	return string(text), c.throughput
}

func (a *Account) newContainer(p properties) *container {
	a.lsn++
	return &container{properties: p, items: map[string]*item{}, created: a.lsn}
}

// readAccount tells what azcosmos asks before anything else.
func (c *call) readAccount() reply {
	endpoint := c.account.options.Endpoint
	if endpoint == "" {
		endpoint = "http://" + c.r.Host
	}
	region := []map[string]string{{"name": "Region", "databaseAccountEndpoint": endpoint}}
	return answered(http.StatusOK, map[string]any{
		"id": "fake", "_rid": "fake", "_self": "",
		"writableLocations": region, "readableLocations": region,
		"enableMultipleWriteLocations": c.account.manyRegions,
		"userConsistencyPolicy":        map[string]string{"defaultConsistencyLevel": "Session"},
	})
}

func (c *call) createDatabase() reply {
	var body struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(c.body, &body); err != nil || body.ID == "" {
		return refuse(http.StatusBadRequest, 0, "no id")
	}
	if c.account.databases[body.ID] != nil {
		return refuse(http.StatusConflict, 0, "the database exists")
	}
	c.account.databases[body.ID] = &database{containers: map[string]*container{}}
	return answered(http.StatusCreated, body)
}

func (c *call) readDatabase() reply {
	if c.account.databases[c.op.Database] == nil {
		return refuse(http.StatusNotFound, 0, "no such database")
	}
	return answered(http.StatusOK, map[string]string{"id": c.op.Database})
}

func (c *call) createContainer() reply {
	db := c.account.databases[c.op.Database]
	if db == nil {
		return refuse(http.StatusNotFound, 1003, "no such database")
	}
	var p properties
	if err := json.Unmarshal(c.body, &p); err != nil || p.ID == "" || len(p.PartitionKey.Paths) == 0 {
		return refuse(http.StatusBadRequest, 0, "no id or no partition key")
	}
	if db.containers[p.ID] != nil {
		return refuse(http.StatusConflict, 0, "the container exists")
	}
	made := c.account.newContainer(p)
	made.throughput = c.r.Header.Get("x-ms-offer-throughput") + c.r.Header.Get("x-ms-cosmos-offer-autopilot-settings")
	db.containers[p.ID] = made
	return answered(http.StatusCreated, made.properties)
}

func (c *call) readContainer() reply {
	found, missing := c.container()
	if found == nil {
		missing.header.Del("x-ms-substatus")
		return missing
	}
	return answered(http.StatusOK, found.properties)
}

func (c *call) deleteContainer() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	delete(c.account.databases[c.op.Database].containers, c.op.Container)
	return answered(http.StatusNoContent, nil)
}

func (c *call) readRanges() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	return answered(http.StatusOK, map[string]any{
		"PartitionKeyRanges": []map[string]string{{"id": rangeID, "minInclusive": "", "maxExclusive": "FF"}}, "_count": 1,
	})
}

// container finds the one that the request is about, or says that there is none.
func (c *call) container() (*container, reply) {
	if db := c.account.databases[c.op.Database]; db != nil {
		if found := db.containers[c.op.Container]; found != nil {
			return found, reply{}
		}
	}
	return nil, refuse(http.StatusNotFound, 1003, "the owner resource does not exist")
}

func readAll(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return body
}
