package lockers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errLocal is why a lock in memory lacks something.
var errLocal = errors.New("a local lock has no server")

// local is what the locks in memory have in common.
type local struct{}

func (local) FreeIn(context.Context, []*redis.Client, string) (time.Duration, error) {
	return 0, errLocal
}

func (local) Close() error { return nil }

// unlock is a local lock held.
type unlock func()

func (unlock) Keep()      {}
func (unlock) Kept() bool { return true }

func (u unlock) Release(context.Context) error {
	u()
	return nil
}

func openMutex(context.Context, Config) (Locker, error) { return &mutexLocker{}, nil }

// mutexLocker is a sync.Mutex for each name.
type mutexLocker struct {
	local
	names sync.Map // of string to *sync.Mutex
}

func (l *mutexLocker) mutex(name string) *sync.Mutex {
	m, ok := l.names.Load(name)
	if !ok {
		m, _ = l.names.LoadOrStore(name, &sync.Mutex{})
	}
	return m.(*sync.Mutex)
}

func (l *mutexLocker) Try(_ context.Context, name string) (Lock, error) {
	m := l.mutex(name)
	if !m.TryLock() {
		return nil, ErrTaken
	}
	return unlock(m.Unlock), nil
}

// Acquire notices the end of ctx only when it has the lock.
func (l *mutexLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	m := l.mutex(name)
	m.Lock()
	if err := ctx.Err(); err != nil {
		m.Unlock()
		return nil, err
	}
	return unlock(m.Unlock), nil
}

func openQueue(context.Context, Config) (Locker, error) {
	return &queueLocker{turns: map[string]*turns{}}, nil
}

// queueLocker is a mutex for each name that is handed to whoever has waited
// longest, as a fair lock does across processes.
type queueLocker struct {
	local
	mu    sync.Mutex
	turns map[string]*turns
}

// turns is who has a name and who waits for it.
type turns struct {
	held    bool
	waiting []chan struct{} // closed when it is the waiter's turn; first come first
}

func (l *queueLocker) of(name string) *turns {
	t := l.turns[name]
	if t == nil {
		t = &turns{}
		l.turns[name] = t
	}
	return t
}

func (l *queueLocker) Try(_ context.Context, name string) (Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of(name)
	if t.held {
		return nil, ErrTaken
	}
	t.held = true
	return unlock(func() { l.next(t) }), nil
}

// Acquire, like that of mutexLocker, notices the end of ctx when it has the lock.
func (l *queueLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	l.mu.Lock()
	t := l.of(name)
	if t.held {
		turn := make(chan struct{})
		t.waiting = append(t.waiting, turn)
		l.mu.Unlock()
		<-turn
	} else {
		t.held = true
		l.mu.Unlock()
	}
	if err := ctx.Err(); err != nil {
		l.next(t)
		return nil, err
	}
	return unlock(func() { l.next(t) }), nil
}

func (l *queueLocker) next(t *turns) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(t.waiting) == 0 {
		t.held = false
		return
	}
	close(t.waiting[0])
	t.waiting = t.waiting[1:]
}
