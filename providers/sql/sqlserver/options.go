package sqlserverlease

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"
)

// DefaultSchema is the default of Options.Schema. It is a schema of the library's own, since statements name their schema: with the
// default schemas of two users there could be two tables "lease", and two holders of one name.
const DefaultSchema = "leasing"

// Options configure a provider. Exactly one of URL and DB names the database.
//
// In JSON, and in the query of a URL, fields are named by their tags, and durations are written as
// in Go ("90m") or "forever". Printing options, logging them or marshalling them to JSON does not
// show the URL, which may hold a password.
type Options struct {
	// URL is "sqlserver://user:password@host:port?database=app", with the parameters of go-mssqldb and a password whose special
	// characters are escaped. The parameter encrypt is "true" by default, unlike in go-mssqldb: the server needs a certificate
	// that this machine trusts, unless the URL has trustservercertificate=true. The query may set the fields below that have a
	// tag.
	URL string `json:"url" option:"secret"`
	// DB is your own database handle, opened with a driver from go-mssqldb. It stays open when the provider
	// closes. A call whose context ends may return some seconds late: go-mssqldb waits for the server's
	// confirmation.
	DB *sql.DB `json:"-"`
	// MaxConns is the maximum number of connections with a URL, 2 or more. One of them is for renewals. Default 8.
	MaxConns int `json:"pool_max_conns" option:"default=8,min=2"`

	// Schema is the schema of the tables. Default DefaultSchema.
	Schema string `json:"schema" option:"default=leasing,maxlen=100"`
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

// complete validates the options, and fills in the defaults. It returns the connector of a URL, and nil for DB.
func (o *Options) complete() (connector sqldriver.Connector, err error) {
	field, err := providerkit.ExactlyOne(o, "URL", "DB")
	if err == nil && field == "URL" {
		connector, err = o.readURL()
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
	return connector, err
}

var urlSchemes = []string{"sqlserver"}

// readURL returns the connector of the URL. No parameter of go-mssqldb can undo a setting that the statements rely on: each
// batch has its own settings.
func (o *Options) readURL() (sqldriver.Connector, error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return nil, err
	}
	known, err := o.parameters(u)
	if err != nil {
		return nil, err
	}
	config, err := msdsn.Parse(u.With(known).Reveal())
	if err != nil || u.Host == "" || config.Database == "" { // the error's text may quote a secret
		return nil, providerkit.BadURL("sqlserver://user:password@host:port?database=NAME, and parameters that go-mssqldb understands")
	}
	return sessions{mssql.NewConnectorConfig(config)}.recordDials(), nil
}

// parameters sets the fields that a URL's query names, and returns the parameters of go-mssqldb.
func (o *Options) parameters(u providerkit.URL) (url.Values, error) {
	rest, err := providerkit.SetQuery(o, u.Query)
	known := url.Values{"encrypt": {"true"}}
	for key, values := range rest {
		known[strings.ToLower(key)] = values
	}
	return known, err
}
