package etcdlease

import (
	"context"
	"errors"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errWatchEnded = errors.New("the watch has ended")

// watch tells which claims end, by release, break or expiry: a providerkit.Connection.
type watch struct {
	client *clientv3.Client
	prefix string // of the claims
	ctx    context.Context
	cancel context.CancelFunc
	events clientv3.WatchChan
	names  []string // that Receive has not returned yet
}

// connect begins a watch, and returns when it misses nothing any more. A member that has lost its leader ends it, and so does
// a compaction of what it has not told yet.
func (s *store) connect(ctx context.Context) (providerkit.Connection, error) {
	w := &watch{client: s.client, prefix: s.prefix + claims}
	w.ctx, w.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	stop := context.AfterFunc(ctx, w.cancel) // Watch itself waits for a member
	w.events = w.client.Watch(w.ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	err := w.next(ctx)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		w.cancel()
		return nil, err
	}
	return w, nil
}

// next takes what the watch tells next, be it nothing but that it is there.
func (w *watch) next(ctx context.Context) error {
	select {
	case told, open := <-w.events:
		if !open {
			return errWatchEnded
		}
		for _, event := range told.Events {
			w.names = append(w.names, strings.TrimPrefix(string(event.Kv.Key), w.prefix))
		}
		return told.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive returns the name of the next claim that has ended.
func (w *watch) Receive(ctx context.Context) (name string, err error) {
	for len(w.names) == 0 {
		if err := w.next(ctx); err != nil {
			return "", err
		}
	}
	name, w.names = w.names[0], w.names[1:]
	return name, nil
}

// Ping asks for a sign of life.
func (w *watch) Ping(ctx context.Context) error {
	if err := w.client.RequestProgress(w.ctx); err != nil {
		return err
	}
	return w.next(ctx)
}

func (w *watch) Close() { w.cancel() }
