package sqllease

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/internal/seam"
)

type shell = providerkit.Provider

// Provider is a leasing provider over tables. Package postgreslease, sqlitelease, mysqllease or sqlserverlease opens one for its
// database. It is safe for concurrent use. Each method makes one attempt; a leasing.Manager renews leases and reports their loss.
// See also [Times].
//
// Its optional abilities (see package abstractions) are BatchRenewer, Lister, Pinger,
// Waiter and WaiterLister, and also HistoryReader if the option History is set.
type Provider struct {
	*shell
	driver *driver
}

// driver implements the verbs with a backend.
type driver struct {
	*dialect.Store
	backend dialect.Backend
	caps    abstractions.Capabilities
	checked atomic.Int64 // when the tables were last found to be of our version
}

func init() {
	seam.Backend = func(provider any) *dialect.Backend { return &provider.(*Provider).driver.backend }
	seam.Store = func(provider any) *dialect.Store { return provider.(*Provider).driver.Store }
	seam.Checked = func(provider any) *atomic.Int64 { return &provider.(*Provider).driver.checked }
}

// checkAgain is the time from a check of the tables' version to the next. A newer
// release may migrate the tables in between.
const checkAgain = 10 * time.Second

// check verifies that the tables exist and are of our version, unless the last check was less than checkAgain ago.
func (d *driver) check(ctx context.Context) error {
	now, last := time.Now().UnixNano(), d.checked.Load()
	if now-last < int64(checkAgain) || last != 0 && !d.checked.CompareAndSwap(last, now) { // another call checks
		return nil
	}
	found, err := d.backend.Version(ctx)
	if err == nil {
		err = d.Tables.Check(found)
	}
	if err != nil {
		now = 0
	}
	d.checked.Store(now)
	return err
}

// Classify interprets an error from a driver.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := d.backend.Verdict(err).Meaning
	if m.Class == providerkit.NotSetUp {
		m.Advice = cmp.Or(m.Advice, "check the URL, Schema and Table, and call Migrate, or set Options.Create")
	}
	return m
}
