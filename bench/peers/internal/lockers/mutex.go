package lockers

import (
	"context"
	"sync"
)

func openMutex(context.Context, Config) (Locker, error) { return &mutexLocker{}, nil }

// mutexLocker has a sync.Mutex for each name.
type mutexLocker struct {
	names sync.Map // of string to *sync.Mutex
}

func (l *mutexLocker) mutex(name string) *sync.Mutex {
	m, _ := l.names.LoadOrStore(name, &sync.Mutex{})
	return m.(*sync.Mutex)
}

func (l *mutexLocker) Try(_ context.Context, name string) (Lock, error) {
	m := l.mutex(name)
	if !m.TryLock() {
		return nil, ErrTaken
	}
	return mutexLock{m}, nil
}

// Acquire notices the end of ctx only when it has the lock.
func (l *mutexLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	m := l.mutex(name)
	m.Lock()
	if err := ctx.Err(); err != nil {
		m.Unlock()
		return nil, err
	}
	return mutexLock{m}, nil
}

func (l *mutexLocker) Close() error { return nil }

type mutexLock struct{ mutex *sync.Mutex }

func (mutexLock) Keep()      {}
func (mutexLock) Kept() bool { return true }

func (l mutexLock) Release(context.Context) error {
	l.mutex.Unlock()
	return nil
}
