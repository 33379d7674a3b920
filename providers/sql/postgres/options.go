package postgreslease

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultSchema is the default of Options.Schema. The library has its own schema for two reasons:
//
//   - Statements name their schema. If the search path of a session selected the table, two roles could use
//     different tables "lease", and hold one name at the same time.
//   - Since PostgreSQL 15 an ordinary role may not create tables in the schema "public"
//     (https://www.postgresql.org/docs/release/15.0/).
const DefaultSchema = "leasing"

// Options configure a provider. Exactly one of URL, DSN, DB and Pool names the database.
//
// In JSON, and in the query of a URL, fields are named by their tags, and durations are written as
// in Go ("90m") or "forever". Printing options, logging them or marshalling them to JSON shows
// neither URL nor DSN, which may hold a password.
type Options struct {
	// URL is "postgres://user:password@host:port/database?sslmode=...", with pgx's parameters
	// (including pool_max_conns, pool_max_conn_lifetime and pool_max_conn_idle_time) and a password
	// whose special characters are escaped. The query may set the fields below that have a tag, from
	// Schema on. New connections use the newest valid contents of sslrootcert, sslcert, sslkey and
	// passfile. The passfile must have one password for all hosts of the URL: pgx sends the first
	// host's password to all hosts.
	URL string `json:"url" option:"secret"`
	// DSN is pgx's data source name in keywords and values, "host=db user=app": see pgconn.ParseConfig.
	DSN string `json:"dsn" option:"secret"`
	// DB is your own database handle. It stays open when the provider closes. Wake-ups need pgx's
	// driver; with another driver waiters poll.
	DB *sql.DB `json:"-"`
	// Pool is your own pgx pool. It stays open when the provider closes.
	// Renewals get a connection before acquires, but not before the
	// application's queries: prefer a separate pool.
	Pool *pgxpool.Pool `json:"-"`

	// Schema is the schema of the tables. Default DefaultSchema.
	Schema string `json:"schema" option:"default=leasing,maxlen=63"`
	// Table is the table of leases, and the prefix of the other tables'
	// names. Default "lease".
	Table string `json:"table" option:"default=lease,maxlen=40"`
	// Create makes Open call Provider.Migrate, which creates the schema and the tables. Otherwise
	// Open sends no request.
	Create bool `json:"create"`

	// Retention is the time for which a name is remembered after its last use, 1 ms to 10 years:
	// see Provider.Sweep. A request that is delayed for longer may take effect although its claim
	// was released. Default 1 h; with leasing.Infinite, "forever", no name is forgotten.
	Retention time.Duration `json:"retention" option:"retention"`
	// History records acquired, expired, released and broken leases, each in
	// the transaction of the change. HistoryRenewals also records renewals.
	History         bool `json:"history"`
	HistoryRenewals bool `json:"history_renewals"`
	// HistoryRetention is the time for which entries are kept. Default 30 days; leasing.Infinite
	// keeps all entries.
	HistoryRetention time.Duration `json:"history_retention" option:"default=720h,min=1ms,max=87600h,forever"`

	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
	// NoWakeups turns off LISTEN, which needs a session of its own and so does not work through
	// poolers such as PgBouncer in transaction mode. While there are waiters the provider then polls
	// for all of them with one query, at intervals of up to 80 ms. A provider also polls if it finds
	// that its connections lose their sessions.
	NoWakeups bool `json:"no_wakeups"`
}

// Format prints the fields that are not secret, for all verbs.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON writes only the fields that Format prints, so do not use it to store options.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options. Unknown fields are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// common returns the options of all dialects.
func (o *Options) common() dialect.Options {
	return dialect.Options{
		Table: o.Table, Create: o.Create, Retention: o.Retention, History: o.History, HistoryRenewals: o.HistoryRenewals,
		HistoryRetention: o.HistoryRetention, Timeout: o.Timeout,
	}
}

// complete validates the options, and fills in the defaults. It returns the field
// that names the database, and its value for pgx.
func (o *Options) complete() (field, where string, err error) {
	if field, err = providerkit.ExactlyOne(o, "URL", "DSN", "DB", "Pool"); err != nil {
		return field, "", err
	}
	switch field {
	case "URL":
		where, err = o.readURL()
	case "DSN":
		where = o.DSN
	}
	if err == nil {
		err = providerkit.Complete(o)
	}
	if err == nil {
		err = dialect.CheckIdentifier("Schema", o.Schema)
	}
	if err == nil {
		err = o.common().Validate()
	}
	return field, where, err
}

var urlSchemes = []string{"postgres", "postgresql"}

// readURL sets the fields that the URL's query names. The rest of the URL is for pgx.
func (o *Options) readURL() (where string, err error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return "", err
	}
	rest, err := providerkit.SetQuery(o, u.Query)
	if err != nil {
		return "", err
	}
	return u.With(rest).Reveal(), nil
}
