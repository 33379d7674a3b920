package memlease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options configure a Provider. The zero value is ready to use.
//
// In JSON, and as the query of a URL, the fields are retention (a Go duration
// such as "90m", or "forever"), history and history_renewals.
type Options struct {
	// Retention is the time for which a name is remembered after its lease has ended.
	// A request that is delayed for longer may take effect although its claim
	// was released. Default 1 h; with leasing.Infinite, "forever", no name is forgotten.
	Retention time.Duration `json:"retention" option:"retention"`
	// History is the number of latest changes that are kept for each name. With 0 there
	// is no history, and the provider does not implement abstractions.HistoryReader.
	History int `json:"history" option:"min=0"`
	// HistoryRenewals also records renewals.
	HistoryRenewals bool `json:"history_renewals"`
	// Now is the provider's clock. It is called under a lock and must be safe for
	// concurrent use. Its time should not go back. Default time.Now. JSON and URLs
	// can't set Now.
	Now func() time.Time `json:"-"`
}

// UnmarshalJSON reads options; an unknown field is an error.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

func (o Options) complete() (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	if o.HistoryRenewals && o.History == 0 {
		return o, &abstractions.InvalidError{Field: "Options.HistoryRenewals", Value: true, Want: "History as well"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// OpenURL makes a provider from a URL: "memory://", or with options as a query,
// "memory://?retention=10m&history=100". Each call makes a new provider: to
// share leases, share the provider. Invalid options lead to errors that match
// abstractions.ErrInvalid. Like every provider's OpenURL, it does nothing if ctx
// has ended.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	var options Options
	u, path, err := providerkit.ReadURL(&options, rawURL, urlSchemes...)
	switch {
	case err != nil:
		return nil, err
	case u.User != "" || u.Host != "" || path != "":
		return nil, providerkit.BadURL("memory://, with options as a query if necessary")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	return newProvider(options), nil
}

// Opener returns the opener of URLs that begin with memory://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"memory"}
