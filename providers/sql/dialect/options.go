package dialect

import (
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options are the options of all dialects. A dialect's own Options repeat each field, with the same name and
// meaning.
type Options struct {
	Table                    string
	Create                   bool
	Retention                time.Duration
	History, HistoryRenewals bool
	HistoryRetention         time.Duration
	Timeout                  time.Duration
}

// Validate checks the rules that the tags of the fields can't express.
func (o Options) Validate() error {
	if o.HistoryRenewals && !o.History {
		return providerkit.BadOption("HistoryRenewals", true, "History as well")
	}
	return CheckIdentifier("Table", o.Table)
}

// CheckIdentifier refuses a value that can't be an identifier in a statement.
func CheckIdentifier(field, value string) error {
	if !identifier.MatchString(value) {
		return providerkit.BadOption(field, value, "a letter or underscore, then letters, digits and underscores")
	}
	return nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Store is the part of a provider that its driver and its backend share.
type Store struct {
	Tables
	Record    Recording
	Retention time.Duration   // 0 means no end
	Random    func(n int) int // from 0 to n-1
}

// NewStore returns the store of a provider with these options over these tables.
func NewStore(o Options, t Tables) *Store {
	return &Store{
		Tables:    t,
		Record:    Recording{Changes: o.History, Renewals: o.HistoryRenewals, Retention: Finite(o.HistoryRetention)},
		Retention: Finite(o.Retention),
		Random:    rand.IntN,
	}
}

// Finite turns abstractions.Infinite into 0, which means no end in a [Store].
func Finite(d time.Duration) time.Duration {
	if d == abstractions.Infinite {
		return 0
	}
	return d
}
