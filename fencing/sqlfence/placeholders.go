package sqlfence

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/distributedleasing/leasing"
)

// Placeholders is the style of a database for the parameters of a statement.
type Placeholders int

// The styles.
const (
	Question Placeholders = iota + 1 // ?, as in SQLite
	Dollar                           // $1, as in PostgreSQL; a Table then calls PostgreSQL functions
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

// identifier admits only names that need no quotes anywhere, so that a name from a
// configuration file can't carry SQL. 63 bytes is PostgreSQL's limit: it truncates
// longer names without an error.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func validateIdentifier(field, name string) error {
	if !identifier.MatchString(name) {
		return &leasing.InvalidError{Field: field, Value: name, Want: "a letter or _, then letters, digits and _, at most 63 in all"}
	}
	return nil
}

// quoteTable validates a table's name, which may be preceded by a schema and a
// dot, and returns it quoted.
func quoteTable(name string) (string, error) {
	schema, table, qualified := strings.Cut(name, ".")
	if !qualified {
		return `"` + name + `"`, validateIdentifier("table name", name)
	}
	if err := validateIdentifier("table name", table); err != nil {
		return "", err
	}
	return `"` + schema + `"."` + table + `"`, validateIdentifier("schema name", schema)
}
