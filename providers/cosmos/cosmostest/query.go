package cosmostest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// query is a query as it is sent.
type query struct {
	Text       string      `json:"query"`
	Parameters []parameter `json:"parameters"`
}

type parameter struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// condition is one of those that an item has to meet.
type condition func(fields map[string]json.RawMessage) bool

var (
	selection  = regexp.MustCompile(`^SELECT \* FROM c WHERE (.+)$`)
	startsWith = regexp.MustCompile(`^STARTSWITH\(c\.([a-z_]+), (@[a-z]+)\)$`)
	comparison = regexp.MustCompile(`^c\.([a-z_]+) (=|<|>) (@[a-z]+)$`)
)

// queryItems answers a page of a query over all partitions. The service may send
// pages that are short or empty and still have a continuation; so does this.
func (c *call) queryItems() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	var q query
	if err := json.Unmarshal(c.body, &q); err != nil {
		return refuse(http.StatusBadRequest, 0, "no query")
	}
	conditions, err := q.conditions()
	if err != nil {
		return refuse(http.StatusBadRequest, 0, err.Error())
	}
	limit, _ := strconv.Atoi(c.r.Header.Get("x-ms-max-item-count"))
	if limit <= 0 {
		limit = 100
	}
	after, err := base64.StdEncoding.DecodeString(c.r.Header.Get("x-ms-continuation"))
	if err != nil {
		return refuse(http.StatusBadRequest, 0, "a bad continuation")
	}
	documents, next := c.page(found, conditions, string(after), limit)
	r := answered(http.StatusOK, map[string]any{"_rid": "rid", "Documents": documents, "_count": len(documents)})
	if next != "" {
		r.header.Set("x-ms-continuation", base64.StdEncoding.EncodeToString([]byte(next)))
	}
	return c.inSession(r)
}

// page looks at a bounded number of items.
func (c *call) page(found *container, conditions []condition, after string, limit int) (documents []any, next string) {
	keys := make([]string, 0, len(found.items))
	for key := range found.items {
		if key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	documents = []any{}
	for n, key := range keys {
		if len(documents) == limit || n == 4*limit+100 {
			return documents, keys[n-1]
		}
		v := found.items[key].latest()
		if c.alive(found, v) && !slices.ContainsFunc(conditions, func(meets condition) bool { return !meets(v.fields) }) {
			documents = append(documents, v.fields)
		}
	}
	return documents, ""
}

func (q query) conditions() ([]condition, error) {
	parts := selection.FindStringSubmatch(q.Text)
	if parts == nil {
		return nil, fmt.Errorf("no query that is known here: %s", q.Text)
	}
	values := map[string]any{}
	for _, p := range q.Parameters {
		values[p.Name] = p.Value
	}
	var all []condition
	for text := range strings.SplitSeq(parts[1], " AND ") {
		one, err := parseCondition(text, values)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func parseCondition(text string, values map[string]any) (condition, error) {
	if m := startsWith.FindStringSubmatch(text); m != nil {
		prefix, ok := values[m[2]].(string)
		if !ok {
			return nil, fmt.Errorf("%s is no text", m[2])
		}
		return func(fields map[string]json.RawMessage) bool {
			value, ok := member(fields, m[1]).(string)
			return ok && strings.HasPrefix(value, prefix)
		}, nil
	}
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("no condition that is known here: %s", text)
	}
	want, ok := values[m[3]].(float64)
	if !ok {
		return nil, fmt.Errorf("%s is no number", m[3])
	}
	return func(fields map[string]json.RawMessage) bool {
		value, ok := member(fields, m[1]).(float64)
		return ok && (m[2] == "<" && value < want || m[2] == ">" && value > want || m[2] == "=" && value == want)
	}, nil
}
