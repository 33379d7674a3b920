package sqllease

import (
	"database/sql"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Dialect names a kind of database.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Forever as a retention keeps what it is about.
const Forever = abstractions.Infinite

// The defaults of Options.
const (
	DefaultSchema           = "infra" // on PostgreSQL
	DefaultTable            = "lease"
	DefaultRetention        = 24 * time.Hour
	DefaultHistoryRetention = 30 * 24 * time.Hour
	DefaultTimeout          = 10 * time.Second
)

// Options configure a provider. Exactly one of URL, DSN, DB and Pool says
// where the database is; DSN and DB need Dialect as well.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// or logging them, shows neither URL nor DSN: they may hold a password.
type Options struct {
	// URL is "postgres://user:password@host:port/database?sslmode=...", with
	// pgx's parameters, or "sqlite:///folder/file.db", or "sqlite://file.db"
	// relative to the working directory. Its query may set the fields below
	// that have a tag, from Schema on.
	URL string `json:"url"`
	// DSN is what the driver understands: keywords and values for pgx
	// ("host=db user=app", see pgconn.ParseConfig), or the path of an SQLite file.
	DSN     string  `json:"dsn"`
	Dialect Dialect `json:"dialect"`
	// DB is a database of your own. It stays open when the provider closes.
	// Wake-ups need pgx's driver: see Provider. An SQLite database needs WAL
	// mode and a busy timeout of its own.
	DB *sql.DB `json:"-"`
	// Pool is a pgx pool of your own. It stays open when the provider closes.
	// Renewals get a connection ahead of acquires, but not ahead of the
	// application: a pool that leasing needn't share is better.
	Pool *pgxpool.Pool `json:"-"`

	// Schema is where the tables are on PostgreSQL. Default DefaultSchema.
	Schema string `json:"schema"`
	// Table is the table of leases, and the beginning of the names of the
	// others. Default DefaultTable.
	Table string `json:"table"`
	// Migrate lets Open call Migrate. Otherwise Open makes no request.
	Migrate bool `json:"migrate"`

	// Retention is how long a name is remembered after its last use: see
	// Store.Sweep. A request that was delayed for longer may land after its
	// own clean-up. Default DefaultRetention; Forever never forgets.
	Retention time.Duration `json:"retention"`
	// History records acquired, expired, released and broken leases, each in
	// the transaction of the change; HistoryRenewals renewals too.
	History         bool `json:"history"`
	HistoryRenewals bool `json:"history_renewals"`
	// HistoryRetention is how long. Default DefaultHistoryRetention; or Forever.
	HistoryRetention time.Duration `json:"history_retention"`

	// Timeout bounds a request whose context has no deadline. Default DefaultTimeout.
	Timeout time.Duration `json:"timeout"`
	// NoWakeups sends no notifications on PostgreSQL and listens for none:
	// they need a connection that stays the same, which poolers like PgBouncer
	// don't give, and at thousands of releases a second their queue's lock.
	NoWakeups bool `json:"no_wakeups"`
	// Synchronous is SQLite's PRAGMA of that name for files that Open opens,
	// "full" or "normal". With normal the last changes may be lost when the
	// power fails, and their holders with them; it saves a sync per change.
	// Default "full".
	Synchronous string `json:"synchronous"`
}

// String shows what is no secret.
func (o Options) String() string {
	source, dialect, _ := o.source()
	return fmt.Sprintf("sqllease.Options{%s: %s, Schema: %q, Table: %q, Retention: %v, History: %t}", source, dialect, o.Schema, o.Table, o.Retention, o.History)
}

// GoString is String.
func (o Options) GoString() string { return o.String() }

// LogValue is String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// source returns the field that says where the database is, and what kind.
func (o Options) source() (field string, dialect Dialect, err error) {
	var given []string
	for _, s := range []struct {
		field string
		set   bool
	}{{"URL", o.URL != ""}, {"DSN", o.DSN != ""}, {"DB", o.DB != nil}, {"Pool", o.Pool != nil}} {
		if s.set {
			given = append(given, s.field)
		}
	}
	if len(given) != 1 {
		return "", "", &abstractions.InvalidError{
			Field: "Options", Value: "with " + orNone(strings.Join(given, " and ")),
			Want: "exactly one of URL, DSN, DB and Pool",
		}
	}
	dialect = o.Dialect
	switch {
	case o.Pool != nil && dialect == "":
		dialect = Postgres
	case o.URL != "":
		dialect, err = dialectOf(o.URL)
		if err == nil && o.Dialect != "" && o.Dialect != dialect {
			err = &abstractions.InvalidError{Field: "Options.Dialect", Value: string(o.Dialect), Want: "the URL's, " + string(dialect) + "; or nothing"}
		}
	}
	if err == nil && (dialect != Postgres && dialect != SQLite || o.Pool != nil && dialect != Postgres) {
		err = &abstractions.InvalidError{Field: "Options.Dialect", Value: string(dialect), Want: "postgres or sqlite, the kind of database behind Options." + given[0]}
	}
	return given[0], dialect, err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// complete validates the options and fills in the defaults.
func (o Options) complete(dialect Dialect) (Options, error) {
	if dialect == SQLite && o.Schema != "" {
		return o, &abstractions.InvalidError{Field: "Options.Schema", Value: o.Schema, Want: "nothing: SQLite has no schemas; use Table"}
	}
	defaultTo(&o.Schema, DefaultSchema)
	defaultTo(&o.Table, DefaultTable)
	defaultTo(&o.Retention, DefaultRetention)
	defaultTo(&o.HistoryRetention, DefaultHistoryRetention)
	defaultTo(&o.Timeout, DefaultTimeout)
	defaultTo(&o.Synchronous, "full")
	for _, name := range []struct {
		field, value string
		longest      int
	}{{"Schema", o.Schema, 63}, {"Table", o.Table, 40}} { // PostgreSQL's limit, less "_history_by_name"
		if len(name.value) > name.longest || !identifier.MatchString(name.value) {
			return o, &abstractions.InvalidError{Field: "Options." + name.field, Value: name.value, Want: fmt.Sprintf("a letter or underscore, then letters, digits and underscores, at most %d", name.longest)}
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Retention", o.Retention}, {"HistoryRetention", o.HistoryRetention}, {"Timeout", o.Timeout}} {
		if d.value < time.Millisecond {
			return o, &abstractions.InvalidError{Field: "Options." + d.field, Value: d.value, Want: "at least 1ms; or 0 for the default"}
		}
	}
	if o.Synchronous != "full" && o.Synchronous != "normal" {
		return o, &abstractions.InvalidError{Field: "Options.Synchronous", Value: o.Synchronous, Want: "full or normal"}
	}
	if o.HistoryRenewals && !o.History {
		return o, &abstractions.InvalidError{Field: "Options.HistoryRenewals", Value: true, Want: "History to be set as well"}
	}
	return o, nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
