package cosmostest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// supportedQuery matches the supported queries.
var supportedQuery = regexp.MustCompile(`^SELECT \* FROM c WHERE STARTSWITH\(c\.id, (@[a-z]+)\)(?: AND c\.([a-z_]+) < (@[a-z]+))?$`)

// condition is the condition of a query: an item's ID begins with prefix and, if field is
// set, the value of that field is less than below.
type condition struct {
	prefix, field string
	below         float64
}

// queryItems answers with a page of a query over all partitions. Like the service, it may
// send a page that is short or empty and has a continuation.
func (c *call) queryItems() *reply {
	wanted, ok := parseQuery(c.body)
	if !ok {
		return refuse(http.StatusBadRequest, 0, "unknown query")
	}
	limit, _ := strconv.Atoi(c.r.Header.Get("x-ms-max-item-count"))
	if limit <= 0 {
		limit = 100
	}
	after, err := base64.StdEncoding.DecodeString(c.r.Header.Get("x-ms-continuation"))
	if err != nil {
		return refuse(http.StatusBadRequest, 0, "a bad continuation")
	}
	documents, next := c.page(wanted, string(after), limit)
	r := newReply(http.StatusOK, map[string]any{"_rid": "rid", "Documents": documents, "_count": len(documents)})
	if next != "" {
		r.header.Set("x-ms-continuation", base64.StdEncoding.EncodeToString([]byte(next)))
	}
	return r
}

// page checks a bounded number of items. It returns those that match, and the key after which
// the next page begins.
func (c *call) page(wanted condition, after string, limit int) (documents []any, next string) {
	keys := slices.Sorted(maps.Keys(c.container.items))
	from, found := slices.BinarySearch(keys, after)
	if found {
		from++
	}
	keys = keys[from:]
	documents = []any{}
	for n, key := range keys {
		if len(documents) == limit || n == 4*limit+100 {
			return documents, keys[n-1]
		}
		if v := c.container.items[key].latest(); c.isAlive(v) && wanted.matches(v.fields) {
			documents = append(documents, v.fields)
		}
	}
	return documents, ""
}

func parseQuery(body []byte) (wanted condition, ok bool) {
	var q struct {
		Text       string `json:"query"`
		Parameters []struct {
			Name  string `json:"name"`
			Value any    `json:"value"`
		} `json:"parameters"`
	}
	err := json.Unmarshal(body, &q)
	parts := supportedQuery.FindStringSubmatch(q.Text)
	if err != nil || parts == nil {
		return condition{}, false
	}
	values := map[string]any{}
	for _, p := range q.Parameters {
		values[p.Name] = p.Value
	}
	wanted.field = parts[2]
	if wanted.prefix, ok = values[parts[1]].(string); ok && wanted.field != "" {
		wanted.below, ok = values[parts[3]].(float64)
	}
	return wanted, ok
}

func (c condition) matches(fields map[string]any) bool {
	if !strings.HasPrefix(fields["id"].(string), c.prefix) {
		return false
	}
	if c.field == "" {
		return true
	}
	number, _ := fields[c.field].(json.Number)
	value, err := number.Float64()
	return err == nil && value < c.below
}
