package sqllease

import (
	"database/sql"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Dialect names a kind of database.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
	MySQL    Dialect = "mysql" // and MariaDB: see module providers/sql/mysql
)

// DefaultSchema is the default of Options.Schema.
const DefaultSchema = "infra"

// Options configure a provider. Exactly one of URL, DSN, DB, Pool and MySQL says
// where the database is; DSN and DB need Dialect as well.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options, logging them
// or marshalling them to JSON shows neither URL nor DSN, which may hold a password.
type Options struct {
	// URL is "postgres://user:password@host:port/database?sslmode=...", with pgx's
	// parameters (also pool_max_conns, pool_max_conn_lifetime and
	// pool_max_conn_idle_time) and a password whose special characters are escaped;
	// or "sqlite:///folder/file.db", or "sqlite://file.db" relative to the working
	// directory. Its query may set the fields below that have a tag, from Schema on. New connections to
	// PostgreSQL use the newest contents of sslrootcert, sslcert, sslkey and passfile that can be used.
	// passfile must have one password for all hosts of the URL: pgx shows the first host's to all.
	URL string `json:"url" option:"secret"`
	// DSN is the data source name of the driver: keywords and values for pgx
	// ("host=db user=app", see pgconn.ParseConfig), or the path of an SQLite file.
	DSN     string  `json:"dsn" option:"secret"`
	Dialect Dialect `json:"dialect" option:"oneof=postgres|sqlite|mysql"`
	// DB is your own database handle. It stays open when the provider closes.
	// On PostgreSQL wake-ups need pgx's driver; with another one waiters
	// poll. An SQLite database must have WAL mode and a busy timeout set.
	DB *sql.DB `json:"-"`
	// Pool is your own pgx pool. It stays open when the provider closes.
	// Renewals get a connection before acquires, but not before the
	// application's queries: prefer a separate pool.
	Pool *pgxpool.Pool `json:"-"`
	// MySQL is a client of MySQL or MariaDB. mysqllease.Open of module
	// providers/sql/mysql makes one from a URL. Its connections belong to the
	// provider.
	MySQL *MySQLClient `json:"-"`

	// Schema is the schema of the tables on PostgreSQL. Default DefaultSchema.
	Schema string `json:"schema" option:"maxlen=63"`
	// Table is the table of leases, and the prefix of the other tables'
	// names. Default "lease".
	Table string `json:"table" option:"default=lease,maxlen=40"`
	// Create makes Open call Provider.Migrate, which creates the tables. Otherwise
	// Open sends no request.
	Create bool `json:"create"`

	// Retention is how long a name is remembered after its last use, 1 ms to
	// 10 years: see Provider.Sweep. A request that is delayed for longer may
	// take effect although its claim was released. Default 1 h;
	// leasing.Infinite, "forever", never forgets.
	Retention time.Duration `json:"retention" option:"retention"`
	// History records acquired, expired, released and broken leases, each in
	// the transaction of the change. HistoryRenewals also records renewals.
	History         bool `json:"history"`
	HistoryRenewals bool `json:"history_renewals"`
	// HistoryRetention is how long entries are kept. Default 30 days; leasing.Infinite
	// keeps them for ever.
	HistoryRetention time.Duration `json:"history_retention" option:"default=720h,min=1ms,max=87600h,forever"`

	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
	// NoWakeups turns off LISTEN on PostgreSQL, which needs a session of its own and so does
	// not work through poolers such as PgBouncer in transaction mode. While there are waiters
	// the provider then polls for all of them with one query, at intervals of up to 80 ms. A provider
	// whose connections are seen to lose their sessions does so by itself.
	NoWakeups bool `json:"no_wakeups"`
	// Synchronous is SQLite's PRAGMA of that name for files that Open opens,
	// "full" or "normal". "normal" saves a sync per change, but a power
	// failure may lose the last changes. Default "full".
	Synchronous string `json:"synchronous" option:"default=full,oneof=full|normal"`
	// OneHost says that this host alone uses the SQLite file. Without it a file on a network file system,
	// or on one that a program serves (FUSE), is refused with leasing.ErrNotSetUp: SQLite's locks may not
	// work there (https://www.sqlite.org/howtocorrupt.html, 2.1).
	OneHost bool `json:"one_host"`
}

// Format shows what is no secret, for all verbs.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON shows what Format does: options that hold secrets are not for writing down.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options. Fields it doesn't know are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// complete validates the options, and fills in the defaults. It returns the field
// that says where the database is, and that as the driver understands it.
func (o *Options) complete() (field, where string, err error) {
	if field, err = providerkit.ExactlyOne(o, "URL", "DSN", "DB", "Pool", "MySQL"); err != nil {
		return field, "", err
	}
	dialect := o.Dialect
	switch field {
	case "URL":
		dialect, where, err = o.readURL()
	case "Pool":
		dialect = Postgres
	case "MySQL":
		dialect = MySQL
	default:
		where = o.DSN
	}
	if err != nil {
		return field, "", err
	}
	if o.Dialect == "" {
		o.Dialect = dialect
	}
	if o.Dialect == "" || o.Dialect != dialect {
		return field, "", providerkit.BadOption("Dialect", o.Dialect, "that of the database behind Options."+field+", postgres or sqlite")
	}
	if err := providerkit.Complete(o); err != nil {
		return field, "", err
	}
	return field, where, o.validate()
}

// readURL sets the fields that the URL's query names. What is left of the URL is for
// the driver: a postgres URL, or the path of an SQLite file.
func (o *Options) readURL() (dialect Dialect, where string, err error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return "", "", err
	}
	rest, err := providerkit.SetQuery(o, u.Query)
	if err != nil {
		return "", "", err
	}
	if u.Scheme != "sqlite" {
		return Postgres, u.With(rest).Reveal(), nil
	}
	if where, err = url.PathUnescape(u.Host + u.Path); err != nil {
		return SQLite, "", providerkit.BadURL("a path with % written as %25")
	}
	return SQLite, where, providerkit.UnknownParameter(o, rest)
}

// validate is about what no tag says.
func (o *Options) validate() error {
	if o.Dialect != Postgres && o.Schema != "" {
		return providerkit.BadOption("Schema", o.Schema, "nothing: SQLite and MySQL have none in a database; use Table")
	}
	if o.Dialect == MySQL && o.MySQL == nil {
		return providerkit.BadOption("Dialect", o.Dialect, "postgres or sqlite: MySQL's sessions need settings of their own, so open it by its URL with mysqllease.Open")
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	for field, value := range map[string]string{"Schema": o.Schema, "Table": o.Table} {
		if !identifier.MatchString(value) {
			return providerkit.BadOption(field, value, "a letter or underscore, then letters, digits and underscores")
		}
	}
	if o.HistoryRenewals && !o.History {
		return providerkit.BadOption("HistoryRenewals", true, "History to be set as well")
	}
	return nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
