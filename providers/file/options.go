package filelease

import (
	"context"
	"path/filepath"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options configure a Provider. Folder is required.
type Options struct {
	// Folder holds the records, and nothing else.
	Folder string `json:"folder"`
	// Create makes the folder if it is missing.
	Create bool `json:"create"`
	// OneHost says that only this host uses the folder. Without it, a folder on a network file system, or on
	// one that a program serves (FUSE), is refused with leasing.ErrNotSetUp, since its locks may not work.
	OneHost bool `json:"one_host"`
	// Retention is the time for which a name is remembered after its last use. A request that
	// is delayed for longer may take effect although its claim was released, or may
	// repeat another holder's token. At least 1 min, which is far longer than a call
	// should take. Default 1 h; with leasing.Infinite, "forever", no name is forgotten.
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	// Timeout bounds a call whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
}

// UnmarshalJSON reads options; an unknown field is an error.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

func (o Options) complete() (Options, error) {
	folder, err := filepath.Abs(o.Folder) // the working directory may change
	if o.Folder == "" || err != nil {
		return o, &abstractions.InvalidError{Field: "Options.Folder", Value: o.Folder, Want: "the path of a folder"}
	}
	o.Folder = folder
	return o, providerkit.Complete(&o)
}

// OpenURL opens the folder of a URL, with options as a query:
// "file:///var/lib/myapp/leases?create=true&retention=10m".
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	var options Options
	u, folder, err := providerkit.ReadURL(&options, rawURL, urlSchemes...)
	switch {
	case err != nil:
		return nil, err
	case u.Path == "" || u.Host != "" || u.User != "":
		return nil, providerkit.BadURL("file:///path/of/the/folder, with options as a query")
	}
	options.Folder = "/" + folder
	return Open(ctx, options)
}

// Opener returns the opener of URLs that begin with file://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"file"}
