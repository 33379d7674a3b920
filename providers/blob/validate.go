package bloblease

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// maxRetention keeps instants within what Go can count.
const maxRetention = 10 * 365 * 24 * time.Hour

var (
	// containerName is the form of a container's name
	// (learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
	containerName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)
	// prefixName leaves out what encode escapes, and what would make an empty or
	// a hidden folder.
	prefixName = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$`)
)

const maxPrefix = 200

// complete validates options without a URL and fills in the defaults.
func (o Options) complete() (Options, endpoint, error) {
	var e endpoint
	if o.AccountURL != "" {
		var err error
		if o, e, err = o.completeAccount(); err != nil {
			return o, e, err
		}
	} else if err := o.validateConnectionString(); err != nil {
		return o, e, err
	}
	defaultTo(&o.Retention, DefaultRetention)
	defaultTo(&o.Timeout, DefaultTimeout)
	switch {
	case len(o.Container) > 63 || !containerName.MatchString(o.Container):
		return o, e, &abstractions.InvalidError{Field: "Options.Container", Value: o.Container, Want: "3 to 63 lower-case letters, digits and single hyphens between them"}
	case len(o.Prefix) > maxPrefix || !prefixName.MatchString(o.Prefix) || strings.Contains(o.Prefix, "./"):
		return o, e, &abstractions.InvalidError{Field: "Options.Prefix", Value: o.Prefix, Want: fmt.Sprintf(`at most %d letters, digits and "-_./", a letter or digit before each slash, such as "leases/"`, maxPrefix)}
	case !reflect.ValueOf(o.ClientOptions.Retry).IsZero():
		return o, e, &abstractions.InvalidError{Field: "Options.ClientOptions.Retry", Value: notShown, Want: "nothing: a request is made once, and package leasing tries again"}
	}
	return o, e, o.validateDurations()
}

// completeAccount reads AccountURL, and wants one identity for it.
func (o Options) completeAccount() (Options, endpoint, error) {
	e, sas, err := splitAccountURL(o.AccountURL)
	if err != nil {
		return o, e, err
	}
	if sas != "" && o.SAS != "" {
		return o, e, badAccountURL("no query, since Options.SAS is set")
	}
	o.SAS = strings.TrimPrefix(o.SAS+sas, "?")
	defaultTo(&o.Container, e.container)
	if e.container != "" && e.container != o.Container {
		return o, e, &abstractions.InvalidError{Field: "Options.Container", Value: o.Container, Want: fmt.Sprintf("%q, which Options.AccountURL names; or nothing", e.container)}
	}
	if given := o.identities(); len(given) != 1 {
		value := "with none"
		if len(given) > 0 {
			value = "with " + strings.Join(given, " and ")
		}
		return o, e, &abstractions.InvalidError{Field: "Options", Value: value, Want: "exactly one of Auth, Credential, AccountKey and SAS beside AccountURL"}
	}
	return o, e, o.validateIdentity(e)
}

func (o Options) validateIdentity(e endpoint) error {
	switch {
	case !o.Auth.IsZero() || o.Credential != nil:
		if e.scheme != "https" && !o.ClientOptions.InsecureAllowCredentialWithHTTP {
			return badAccountURL("https: tokens are not sent over http")
		}
		if o.Auth.IsZero() {
			return nil
		}
		return o.Auth.Validate()
	case o.AccountKey != "":
		if key, err := base64.StdEncoding.DecodeString(o.AccountKey); err != nil || len(key) == 0 {
			return &abstractions.InvalidError{Field: "Options.AccountKey", Value: notShown, Want: "one of the account's keys, in base64"}
		}
		return nil
	}
	return validateSAS(o.SAS)
}

// validateSAS wants the two parameters that every SAS has
// (learn.microsoft.com/rest/api/storageservices/create-account-sas).
func validateSAS(sas string) error {
	query, err := url.ParseQuery(sas)
	if err != nil || query.Get("sv") == "" || query.Get("sig") == "" {
		return &abstractions.InvalidError{Field: "Options.SAS", Value: notShown, Want: `a shared access signature: "sv=...&sig=..."`}
	}
	return nil
}

// validateConnectionString leaves to the client library what it takes a connection
// string for, but for its errors.
func (o Options) validateConnectionString() error {
	if given := o.identities(); len(given) > 0 {
		return &abstractions.InvalidError{Field: "Options", Value: "ConnectionString with " + strings.Join(given, " and "), Want: "ConnectionString alone: it says who we are"}
	}
	for part := range strings.SplitSeq(strings.TrimRight(o.ConnectionString, "; \n"), ";") {
		if name, _, found := strings.Cut(part, "="); !found || name == "" {
			return badConnectionString()
		}
	}
	return nil
}

func badConnectionString() error {
	return &abstractions.InvalidError{
		Field: "Options.ConnectionString", Value: notShown,
		Want: "AccountName=...;AccountKey=..., or BlobEndpoint=...;SharedAccessSignature=..., as the portal shows it",
	}
}

func (o Options) validateDurations() error {
	for _, d := range []struct {
		field       string
		value       time.Duration
		least, most time.Duration
		forever     bool
	}{
		{field: "Retention", value: o.Retention, least: time.Minute, most: maxRetention, forever: true},
		{field: "Timeout", value: o.Timeout, least: time.Millisecond, most: time.Hour},
	} {
		if d.forever && d.value == Forever || d.value >= d.least && d.value <= d.most {
			continue
		}
		return &abstractions.InvalidError{Field: "Options." + d.field, Value: d.value, Want: fmt.Sprintf("%v to %v; or 0 for the default", d.least, d.most)}
	}
	return nil
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
