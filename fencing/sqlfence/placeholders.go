package sqlfence

import (
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
)

// Placeholders is how a database writes the parameters of a statement.
type Placeholders int

// The styles.
const (
	Question Placeholders = iota + 1 // ?, as in SQLite
	Dollar                           // $1, as in PostgreSQL
)

func (p Placeholders) validate() error {
	if p != Question && p != Dollar {
		return &leasing.InvalidError{Field: "style", Value: int(p), Want: "Question (?) or Dollar ($1)"}
	}
	return nil
}

// at returns the placeholder of parameter n, counted from 1.
func (p Placeholders) at(n int) string {
	if p == Dollar {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// validateIdentifier admits only what needs no quotes anywhere, so that a name
// from a configuration file can't carry SQL. 63 bytes is PostgreSQL's limit,
// beyond which it cuts names off without an error.
func validateIdentifier(field, name string) error {
	valid := name != "" && len(name) <= 63
	for i := range len(name) {
		ch := name[i] | 0x20
		letter := ch >= 'a' && ch <= 'z' || name[i] == '_'
		digit := name[i] >= '0' && name[i] <= '9'
		valid = valid && (letter || digit && i > 0)
	}
	if !valid {
		return &leasing.InvalidError{Field: field, Value: name, Want: "a letter or _, then letters, digits and _, at most 63 in all"}
	}
	return nil
}

// quoteTable validates a table's name, which may be preceded by a schema and a
// dot, and returns it quoted.
func quoteTable(name string) (string, error) {
	schema, table, qualified := strings.Cut(name, ".")
	if !qualified {
		schema, table = "", name
	}
	if err := validateIdentifier("table name", table); err != nil {
		return "", err
	}
	if !qualified {
		return `"` + table + `"`, nil
	}
	if err := validateIdentifier("schema name", schema); err != nil {
		return "", err
	}
	return `"` + schema + `"."` + table + `"`, nil
}
