package cosmostest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// maxItemBytes and maxIDBytes are limits of the service: learn.microsoft.com/azure/
// cosmos-db/concepts-limits, "Per-item limits".
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
)

func (c *call) createItem() *reply {
	fields, id, bad := c.item()
	if bad != nil {
		return bad
	}
	if stored := c.container.items[c.key(id)]; stored != nil {
		v := stored.latest()
		if c.isAlive(v) || v.fields != nil && c.account.options.ExpiredBlocks {
			return refuse(http.StatusConflict, 0, "an item with this id exists")
		}
	}
	return c.write(http.StatusCreated, id, fields)
}

func (c *call) replaceItem() *reply {
	fields, id, bad := c.item()
	if bad != nil {
		return bad
	}
	if id != c.op.ID {
		return refuse(http.StatusBadRequest, 0, "the id of an item can't be changed")
	}
	if refused := c.precondition(); refused != nil {
		return refused
	}
	return c.write(http.StatusOK, id, fields)
}

func (c *call) deleteItem() *reply {
	if refused := c.precondition(); refused != nil {
		return refused
	}
	return c.write(http.StatusNoContent, c.op.ID, nil)
}

// precondition checks that the item of a change exists and matches If-Match.
func (c *call) precondition() *reply {
	stored := c.container.items[c.key(c.op.ID)]
	if stored == nil || !c.isAlive(stored.latest()) {
		return refuse(http.StatusNotFound, 0, "no such item")
	}
	if etag := c.r.Header.Get("If-Match"); etag != "" && etag != "*" && etag != stored.latest().etag {
		return refuse(http.StatusPreconditionFailed, 0, "the item has another etag")
	}
	return nil
}

func (c *call) readItem() *reply { return c.read((*item).latest) }

func (c *call) read(which func(*item) version) *reply {
	if seen := c.sessionLSN(); seen > c.account.lsn || seen > 0 && seen < c.container.created {
		return refuse(http.StatusNotFound, 1002, "the read session is not available for the input session token")
	}
	var v version
	if stored := c.container.items[c.key(c.op.ID)]; stored != nil {
		v = which(stored)
	}
	if !c.isAlive(v) {
		return refuse(http.StatusNotFound, 0, "no such item")
	}
	r := newReply(http.StatusOK, v.fields)
	r.header.Set("etag", v.etag)
	return r
}

// item parses an item and checks it against the rules of the service.
func (c *call) item() (fields map[string]any, id string, bad *reply) {
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.UseNumber()
	switch err := decoder.Decode(&fields); {
	case len(c.body) > maxItemBytes:
		return nil, "", refuse(http.StatusRequestEntityTooLarge, 0, "more than 2 MB")
	case err != nil || decoder.More():
		return nil, "", refuse(http.StatusBadRequest, 0, "not a JSON object")
	}
	id, _ = fields["id"].(string)
	if id == "" || len(id) > maxIDBytes || strings.ContainsAny(id, `/\?#`) {
		return nil, "", refuse(http.StatusBadRequest, 0, "no id, or an invalid id")
	}
	if ttl, ok := fields["ttl"]; ok {
		if seconds, ok := integerOf(ttl); !ok || seconds != -1 && seconds <= 0 {
			return nil, "", refuse(http.StatusBadRequest, 0, "ttl has to be -1 or a positive number")
		}
	}
	if c.partition() != c.container.partitionOf(fields) {
		return nil, "", refuse(http.StatusBadRequest, 1001, "the partition key in the header is not the item's")
	}
	return fields, id, nil
}

// integerOf returns the value of a field if it is a whole number.
func integerOf(field any) (n int64, ok bool) {
	number, ok := field.(json.Number)
	n, err := number.Int64()
	return n, ok && err == nil
}

// key returns the key of an item in the container.
func (c *call) key(id string) string { return c.partition() + "\n" + id }

// partition returns the partition key in the header.
func (c *call) partition() string { return c.r.Header.Get("x-ms-documentdb-partitionkey") }

// partitionOf returns the partition key that the header must have for an item. A missing value is {}.
func (c *container) partitionOf(fields map[string]any) string {
	values := []any{}
	for _, path := range c.properties.PartitionKey.Paths {
		var value any = fields
		for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			object, _ := value.(map[string]any)
			found, ok := object[part]
			if value = found; !ok {
				value = struct{}{}
			}
		}
		values = append(values, value)
	}
	text, _ := json.Marshal(values)
	return string(text)
}
