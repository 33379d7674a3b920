package sqlitelease

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// Options configure a provider. Exactly one of URL, Path and DB names the database.
//
// In JSON, and in the query of a URL, fields are named by their tags, and durations are written as
// in Go ("90m") or "forever".
type Options struct {
	// URL is "sqlite:///folder/file.db", or "sqlite://file.db" relative to the working
	// directory. The query may set the fields below that have a tag, from Table on.
	URL string `json:"url" option:"secret"`
	// Path is the path of the file, in the system's own form.
	Path string `json:"path"`
	// DB is your own database handle. It stays open when the provider closes. The
	// database must be in WAL mode and have a busy timeout.
	DB *sql.DB `json:"-"`

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
	// Synchronous is SQLite's PRAGMA of that name for files that Open opens,
	// "full" or "normal". "normal" saves a sync per change, but a power
	// failure may lose the last changes. Default "full".
	Synchronous string `json:"synchronous" option:"default=full,oneof=full|normal"`
	// OneHost says that this host alone uses the file. Otherwise a file on a network file system, or on
	// one that a program serves (FUSE), is refused with leasing.ErrNotSetUp: SQLite's locks may not work
	// there (https://www.sqlite.org/howtocorrupt.html, 2.1).
	OneHost bool `json:"one_host"`
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

// complete validates the options, and fills in the defaults. It returns the path of the file, or "" with a DB.
func (o *Options) complete() (path string, err error) {
	field, err := providerkit.ExactlyOne(o, "URL", "Path", "DB")
	if err != nil {
		return "", err
	}
	where := o.Path
	if field == "URL" {
		if where, err = o.readURL(); err != nil {
			return "", err
		}
	}
	if err := providerkit.Complete(o); err != nil {
		return "", err
	}
	if err := o.common().Validate(); err != nil || field == "DB" {
		return "", err
	}
	return absolute("Options."+field, where)
}

// absolute returns the absolute path that a field names, with slashes.
func absolute(field, where string) (string, error) {
	if where == "" || strings.ContainsRune(where, 0) || strings.Contains(where, ":memory:") || strings.HasPrefix(where, "file:") {
		return "", &abstractions.InvalidError{Field: field, Value: where, Want: "the path of a file; for leases in memory use memlease"}
	}
	path, err := filepath.Abs(where)
	if err != nil {
		return "", &abstractions.InvalidError{Field: field, Value: where, Want: "a path: " + err.Error()}
	}
	return filepath.ToSlash(path), nil
}

var urlSchemes = []string{"sqlite"}

// readURL sets the fields that the URL's query names, and returns the path.
func (o *Options) readURL() (where string, err error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return "", err
	}
	rest, err := providerkit.SetQuery(o, u.Query)
	if err != nil {
		return "", err
	}
	if o.Path != "" {
		return "", providerkit.BadURL("the path before the query")
	}
	if where, err = url.PathUnescape(u.Host + u.Path); err != nil {
		return "", providerkit.BadURL("a path with % written as %25")
	}
	return where, providerkit.UnknownParameter(o, rest)
}
