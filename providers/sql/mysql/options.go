package mysqllease

import (
	sqldriver "database/sql/driver"
	"fmt"
	"net/url"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/netdial"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/go-sql-driver/mysql"
)

// Options configure a provider. Exactly one of URL and Connector names the database.
//
// In JSON, and in the query of a URL, fields are named by their tags, and durations are written as
// in Go ("90m") or "forever". Printing options, logging them or marshalling them to JSON does not
// show the URL, which may hold a password.
type Options struct {
	// URL is "mysql://user:password@host:port/database", port 3306 by default, with a password whose special characters are
	// escaped. "mariadb://" means the same. The query may set the fields below that have a tag, and
	//
	//   - tls: "true", "skip-verify", "preferred", or a name given to mysql.RegisterTLSConfig; no TLS by default;
	//   - allowCleartextPasswords and allowFallbackToPlaintext: as in go-sql-driver/mysql.
	URL string `json:"url" option:"secret"`
	// Connector is your own connector from go-sql-driver/mysql, from a config with MultiStatements and InterpolateParams
	// set. The connections belong to the provider, which sets up their sessions.
	Connector sqldriver.Connector `json:"-"`
	// MaxConns is the maximum number of connections, 2 or more. One of them is for renewals. Default 8.
	MaxConns int `json:"pool_max_conns" option:"default=8,min=2"`

	// Table is the table of leases, and the prefix of the other tables'
	// names. Default "lease".
	Table string `json:"table" option:"default=lease,maxlen=40"`
	// Create makes Open call Provider.Migrate, which creates the tables. Otherwise
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

// complete validates the options, and fills in the defaults. It returns the connector.
func (o *Options) complete() (sqldriver.Connector, error) {
	field, err := providerkit.ExactlyOne(o, "URL", "Connector")
	if err != nil {
		return nil, err
	}
	connector := o.Connector
	if field == "URL" {
		if connector, err = o.readURL(); err != nil {
			return nil, err
		}
	}
	if err := providerkit.Complete(o); err != nil {
		return nil, err
	}
	return connector, o.common().Validate()
}

var urlSchemes = []string{"mysql", "mariadb"}

// connectTimeout bounds an attempt to connect, even if its context allows more time.
const connectTimeout = 5 * time.Second

// readURL sets the fields that the URL's query names, and makes a connector from the rest. It refuses parameters of the
// library that could undo the settings that the statements rely on.
func (o *Options) readURL() (sqldriver.Connector, error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return nil, err
	}
	rest, err := providerkit.SetQuery(o, u.Query)
	if err != nil {
		return nil, err
	}
	known := url.Values{}
	for _, key := range []string{"tls", "allowCleartextPasswords", "allowFallbackToPlaintext"} {
		if value := rest.Get(key); value != "" {
			known.Set(key, value)
		}
		rest.Del(key)
	}
	if err := providerkit.UnknownParameter(o, rest); err != nil {
		return nil, err
	}
	database, err := url.PathUnescape(u.Path)
	host := providerkit.HostPort(u.Host, "3306")
	if err != nil || host == "" || len(database) < 2 {
		return nil, providerkit.BadURL("mysql://user:password@host:port/database, with % written as %25")
	}
	config, err := mysql.ParseDSN("tcp(" + host + ")/?" + known.Encode())
	if err != nil { // its text may quote a secret
		return nil, providerkit.BadURL("a host and parameters that go-sql-driver/mysql understands")
	}
	config.User, config.Passwd, config.DBName = u.User, u.Password.Reveal(), database[1:]
	config.Timeout, config.MultiStatements, config.InterpolateParams = connectTimeout, true, true
	config.DialFunc = netdial.New().DialContext
	config.Logger = &mysql.NopLogger{} // the errors have the same text
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, providerkit.BadURL("a host and parameters that go-sql-driver/mysql understands")
	}
	return connector, nil
}
