package cosmostest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// maxItemBytes and maxIDBytes: learn.microsoft.com/azure/cosmos-db/
// concepts-limits, "Per-item limits".
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
)

// item reads an item and holds it against the rules.
func (c *call) item(found *container) (fields map[string]json.RawMessage, id string, bad *reply) {
	text := c.body
	refused := func(status, substatus int, why string) (map[string]json.RawMessage, string, *reply) {
		r := refuse(status, substatus, why)
		return nil, "", &r
	}
	if len(text) > maxItemBytes {
		return refused(http.StatusRequestEntityTooLarge, 0, "more than 2 MB")
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return refused(http.StatusBadRequest, 0, "no JSON object")
	}
	if err := json.Unmarshal(fields["id"], &id); err != nil || id == "" || len(id) > maxIDBytes || strings.ContainsAny(id, `/\?#`) {
		return refused(http.StatusBadRequest, 0, "no id, or a bad one")
	}
	if ttl, ok := fields["ttl"]; ok {
		var seconds int
		if err := json.Unmarshal(ttl, &seconds); err != nil || seconds != -1 && seconds <= 0 {
			return refused(http.StatusBadRequest, 0, "ttl has to be -1 or a positive number")
		}
	}
	if c.partition() != partitionOf(found, fields) {
		return refused(http.StatusBadRequest, 1001, "the partition key in the header is not the item's")
	}
	return fields, id, nil
}

// key is where an item is stored.
func (c *call) key(id string) string { return c.partition() + "\n" + id }

// partition is the partition key in the header.
func (c *call) partition() string { return c.r.Header.Get("x-ms-documentdb-partitionkey") }

// partitionOf is what the header has to say of an item.
func partitionOf(found *container, fields map[string]json.RawMessage) string {
	values := []any{}
	for _, path := range found.properties.PartitionKey.Paths {
		var value any = fields
		for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			value = member(value, part)
		}
		values = append(values, value)
	}
	text, _ := json.Marshal(values)
	return string(text)
}

// member is a field of a JSON object, or an empty object where there is none.
func member(object any, name string) any {
	var raw json.RawMessage
	switch o := object.(type) {
	case map[string]json.RawMessage:
		raw = o[name]
	case map[string]any:
		return o[name]
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return map[string]any{}
	}
	return value
}
