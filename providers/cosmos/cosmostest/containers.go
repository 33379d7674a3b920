package cosmostest

import (
	"encoding/json"
	"net/http"
)

// container holds items by partition key and ID.
type container struct {
	properties properties
	throughput string // as requested: "400", or a policy
	items      map[string]*item
	created    int64 // the log sequence number of the creation
}

// properties are the properties of a container, in the JSON form of a request.
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

func (a *Account) newContainer(p properties) *container {
	a.lsn++
	return &container{properties: p, items: map[string]*item{}, created: a.lsn}
}

// readAccount returns the account, which azcosmos reads before any other request.
func (c *call) readAccount() *reply {
	region := []map[string]string{{"name": "Region", "databaseAccountEndpoint": "http://" + c.r.Host}}
	return newReply(http.StatusOK, map[string]any{
		"id": "fake", "_rid": "fake", "_self": "",
		"writableLocations": region, "readableLocations": region,
		"enableMultipleWriteLocations": c.account.manyRegions,
		"userConsistencyPolicy":        map[string]string{"defaultConsistencyLevel": "Session"},
	})
}

func (c *call) createDatabase() *reply {
	var body struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(c.body, &body); err != nil || body.ID == "" {
		return refuse(http.StatusBadRequest, 0, "no id")
	}
	if c.account.databases[body.ID] != nil {
		return refuse(http.StatusConflict, 0, "the database exists")
	}
	c.account.databases[body.ID] = map[string]*container{}
	return newReply(http.StatusCreated, body)
}

func (c *call) createContainer() *reply {
	db := c.account.databases[c.op.Database]
	if db == nil {
		return refuse(http.StatusNotFound, 1003, "no such database")
	}
	var p properties
	if err := json.Unmarshal(c.body, &p); err != nil || p.ID == "" || len(p.PartitionKey.Paths) == 0 {
		return refuse(http.StatusBadRequest, 0, "no id or no partition key")
	}
	if db[p.ID] != nil {
		return refuse(http.StatusConflict, 0, "the container exists")
	}
	db[p.ID] = c.account.newContainer(p)
	db[p.ID].throughput = c.r.Header.Get("x-ms-offer-throughput") + c.r.Header.Get("x-ms-cosmos-offer-autopilot-settings")
	return newReply(http.StatusCreated, p)
}

func (c *call) readContainer() *reply { return newReply(http.StatusOK, c.container.properties) }
