package gocron_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distributedleasing/leasing"
	gocronlease "github.com/distributedleasing/leasing/adapters/gocron"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

func init() { gocron.Hook(newLocker, newElector, func() gocron.Locker { return held{} }) }

// elections counts the elections of this process.
var elections atomic.Int64

// lockers are the lockers of three processes, which take turns: the schedulers of a test share one
// locker.
type lockers struct {
	turn    atomic.Int64
	all     [3]gocronlease.Locker
	refused chan<- struct{}
}

func newLocker(refused chan<- struct{}) gocron.Locker {
	l := &lockers{refused: refused}
	for i := range l.all {
		l.all[i].Manager, l.all[i].Prefix = hosttest.NewManager(), "jobs/"
	}
	return l
}

func (l *lockers) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.all[l.turn.Add(1)%3].Lock(ctx, key)
	if errors.Is(err, leasing.ErrHeld) {
		l.refused <- struct{}{}
	}
	return lock, err
}

// held is a locker whose jobs run in another process.
type held struct{}

func (held) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if _, err := hosttest.NewManager().Acquire(ctx, "held/"+key); err != nil {
		return nil, err
	}
	return (&gocronlease.Locker{Manager: hosttest.NewManager(), Prefix: "held/"}).Lock(ctx, key)
}

// electors are candidates of three processes, which take turns: the schedulers of a test share one elector.
type electors struct {
	turn    atomic.Int64
	all     [3]*gocronlease.Elector
	refused chan<- struct{}
}

func newElector(refused chan<- struct{}) gocron.Elector {
	name, e := fmt.Sprint("elections/", elections.Add(1)), &electors{refused: refused}
	for i := range e.all {
		one, err := gocronlease.NewElector(hosttest.NewManager(), name)
		if err != nil {
			panic(err)
		}
		go one.Run(context.Background())
		e.all[i] = one
	}
	for e.all[0].IsLeader(context.Background()) != nil && e.all[1].IsLeader(context.Background()) != nil && e.all[2].IsLeader(context.Background()) != nil {
		time.Sleep(time.Millisecond)
	}
	return e
}

func (e *electors) IsLeader(ctx context.Context) error {
	err := e.all[e.turn.Add(1)%3].IsLeader(ctx)
	if errors.Is(err, gocronlease.ErrNotLeader) {
		e.refused <- struct{}{}
	}
	return err
}
