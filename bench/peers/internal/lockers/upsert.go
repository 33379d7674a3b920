package lockers

import (
	"context"
	"crypto/rand"
	"errors"
)

// upsertLocker is a table of locks: take and free change one row of it.
type upsertLocker struct {
	take  func(ctx context.Context, name, owner string) (taken bool, err error)
	free  func(ctx context.Context, name, owner string) (freed bool, err error)
	close func() error
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
	return upsertLock{l, name, owner}, nil
}

func (upsertLocker) Acquire(context.Context, string) (Lock, error) { return nil, errors.ErrUnsupported }

func (l upsertLocker) Close() error { return l.close() }

type upsertLock struct {
	locker      upsertLocker
	name, owner string
}

// Keep is not for those that are measured: they only come and go.
func (upsertLock) Keep() {}

func (upsertLock) Kept() bool { return true }

func (l upsertLock) Release(ctx context.Context) error {
	freed, err := l.locker.free(ctx, l.name, l.owner)
	if err == nil && !freed {
		err = errGone
	}
	return err
}
