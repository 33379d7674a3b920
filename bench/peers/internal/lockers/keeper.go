package lockers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// RenewAt is the fraction of the TTL after which a lock is renewed: this library's default, used
// for the others as well.
const RenewAt = 0.6

// keeper is the loop that users of a library without auto-renewal write for
// each lock: a goroutine with a ticker. After a failure other than errGone, the
// next tick retries the renewal. The zero keeper does not renew.
type keeper struct {
	stop chan struct{} // nil unless the lock is kept
	lost atomic.Bool
}

func (k *keeper) keep(ttl time.Duration, renew func(context.Context) error) {
	k.stop = make(chan struct{})
	go func(stop chan struct{}) {
		ticker := time.NewTicker(time.Duration(RenewAt * float64(ttl)))
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if errors.Is(renewWithin(ttl, renew), errGone) {
				k.lost.Store(true)
				return
			}
		}
	}(k.stop)
}

func renewWithin(ttl time.Duration, renew func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), ttl/5)
	defer cancel()
	return renew(ctx)
}

// Kept implements Lock.Kept.
func (k *keeper) Kept() bool { return !k.lost.Load() }

// end stops the loop. It does not wait for a renewal in flight.
func (k *keeper) end() {
	if k.stop != nil {
		close(k.stop)
	}
}
