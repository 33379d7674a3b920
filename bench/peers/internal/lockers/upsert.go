package lockers

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// upsertLocker is a table of locks: take and free change one row of the table.
type upsertLocker struct {
	keeper *batchKeeper
	take   func(ctx context.Context, name, owner string) (taken bool, err error)
	free   func(ctx context.Context, name, owner string) (freed bool, err error)
	close  func() error
}

func (l upsertLocker) Try(ctx context.Context, name string) (Lock, error) {
	owner := rand.Text()
	taken, err := l.take(ctx, name, owner)
	if err != nil {
		return nil, err
	}
	if !taken {
		return nil, ErrTaken
	}
	return &upsertLock{locker: l, name: name, owner: owner}, nil
}

func (upsertLocker) Acquire(context.Context, string) (Lock, error) { return nil, errors.ErrUnsupported }

func (l upsertLocker) Close() error {
	l.keeper.end()
	return l.close()
}

type upsertLock struct {
	locker      upsertLocker
	name, owner string
	released    atomic.Bool
}

func (l *upsertLock) Keep() { l.locker.keeper.keep(l) }

func (*upsertLock) Kept() bool { return true }

func (l *upsertLock) Release(ctx context.Context) error {
	l.released.Store(true)
	freed, err := l.locker.free(ctx, l.name, l.owner)
	if err == nil && !freed {
		err = errGone
	}
	return err
}

// batchKeeper is the loop that a careful user writes for many locks of one TTL: all locks that are
// due are renewed in one statement.
type batchKeeper struct {
	ttl   time.Duration
	renew func(ctx context.Context, names, owners []string) error

	mu      sync.Mutex
	queue   []renewalDue // ordered by due time
	running sync.WaitGroup
	stop    chan struct{}
}

type renewalDue struct {
	lock *upsertLock
	due  time.Time
}

// maxPerStatement is the maximum number of locks that one statement renews, the same as in this library.
const maxPerStatement = 256

func newBatchKeeper(ttl time.Duration, renew func(ctx context.Context, names, owners []string) error) *batchKeeper {
	k := &batchKeeper{ttl: ttl, renew: renew, stop: make(chan struct{})}
	k.running.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-k.stop:
				return
			}
			for k.renewDue() {
			}
		}
	})
	return k
}

func (k *batchKeeper) keep(locks ...*upsertLock) {
	due := time.Now().Add(time.Duration(RenewAt * float64(k.ttl)))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, lock := range locks {
		k.queue = append(k.queue, renewalDue{lock, due})
	}
}

// renewDue renews the locks that are due, in one statement. It reports false if none were due.
func (k *batchKeeper) renewDue() bool {
	now := time.Now()
	var locks []*upsertLock
	var names, owners []string
	k.mu.Lock()
	n := 0
	for n < len(k.queue) && len(locks) < maxPerStatement && !k.queue[n].due.After(now) {
		if lock := k.queue[n].lock; !lock.released.Load() {
			locks, names, owners = append(locks, lock), append(names, lock.name), append(owners, lock.owner)
		}
		n++
	}
	k.queue = k.queue[n:]
	k.mu.Unlock()
	if len(locks) > 0 {
		_ = renewWithin(k.ttl, func(ctx context.Context) error { return k.renew(ctx, names, owners) })
		k.keep(locks...)
	}
	return n > 0
}

func (k *batchKeeper) end() {
	close(k.stop)
	k.running.Wait()
}
