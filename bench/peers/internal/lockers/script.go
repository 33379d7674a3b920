package lockers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/abstractions"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// scriptLocker sends what this library's provider sends for an acquire and a
// release, and does nothing else: no clocks, no renewal, no metrics. It has
// learnt the two commands by listening to the provider.
type scriptLocker struct {
	bare
	acquire, release template
}

func openRawScript(ctx context.Context, config Config) (Locker, error) {
	l := &scriptLocker{}
	if err := l.learn(ctx, config); err != nil {
		return nil, fmt.Errorf("learn what the provider sends: %w", err)
	}
	client, err := oneClient(config)
	if err != nil {
		return nil, err
	}
	l.bare = bare{client: client, ttl: config.TTL}
	return l, nil
}

// learn has a provider acquire and release a name, twice, since the first time a
// server may have to be told the scripts.
func (l *scriptLocker) learn(ctx context.Context, config Config) (err error) {
	client, err := oneClient(Config{URL: config.URL})
	if err != nil {
		return err
	}
	ear := &ear{}
	client.AddHook(ear)
	provider, err := redislease.Open(ctx, redislease.Options{Client: client})
	if err != nil {
		return errors.Join(err, client.Close())
	}
	defer func() { err = errors.Join(err, provider.Close(), client.Close()) }()
	name := "bench-learn:" + rand.Text()
	var id string
	for range 2 {
		ear.heard, id = nil, abstractions.NewID()
		grant, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, TTL: config.TTL, Owner: "bench"})
		if err != nil {
			return err
		}
		if err := provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id, Token: grant.Token, State: grant.State}); err != nil {
			return err
		}
	}
	if len(ear.heard) != 2 {
		return fmt.Errorf("it sent %d commands and not two", len(ear.heard))
	}
	l.acquire, l.release = newTemplate(ear.heard[0], name, id), newTemplate(ear.heard[1], name, id)
	return client.Unlink(ctx, l.acquire.keys(name)...).Err()
}

func (l *scriptLocker) Try(ctx context.Context, name string) (Lock, error) {
	id := rand.Text()
	granted, err := l.send(ctx, l.acquire.fill(name, id))
	if err != nil {
		return nil, err
	}
	if !granted {
		return nil, ErrTaken
	}
	return unkept(func(ctx context.Context) error {
		done, err := l.send(ctx, l.release.fill(name, id))
		if err == nil && !done {
			return errGone
		}
		return err
	}), nil
}

// send says whether the one operation did what it is for: then the script
// replies with an integer, else with a list.
func (l *scriptLocker) send(ctx context.Context, args []any) (bool, error) {
	replies, err := l.client.Do(ctx, args...).Slice()
	if err != nil {
		return false, err
	}
	if len(replies) != 1 {
		return false, fmt.Errorf("the script gave %d replies to one operation", len(replies))
	}
	_, done := replies[0].(int64)
	return done, nil
}

func (l *scriptLocker) FreeIn(ctx context.Context, servers []*redis.Client, name string) (time.Duration, error) {
	return freeIn(ctx, servers, l.acquire.keys(name)[:1], 1)
}

// template is a command that was sent for a name and an ID.
type template struct {
	args     []any
	name, id string
	gaps     []int // the arguments that hold them
}

func newTemplate(args []any, name, id string) template {
	t := template{args: args, name: name, id: id}
	for i := range args {
		if text, ok := args[i].(string); ok && (strings.Contains(text, name) || strings.Contains(text, id)) {
			t.gaps = append(t.gaps, i)
		}
	}
	return t
}

// fill returns the command for another name and ID.
func (t template) fill(name, id string) []any {
	args := slices.Clone(t.args)
	for _, i := range t.gaps {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i].(string), t.id, id), t.name, name)
	}
	return args
}

// keys are those of EVALSHA, whose arguments are a script, the number of keys,
// the keys, and the script's arguments. The first is the lease's
// (providers/redis/scripts/prelude.lua).
func (t template) keys(name string) []string {
	var keys []string
	for _, arg := range t.fill(name, "")[3:] {
		if key, ok := arg.(string); ok && strings.Contains(key, name) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ear is a hook that hears the commands of a client for one goroutine.
type ear struct{ heard [][]any }

func (e *ear) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (e *ear) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := make([]any, len(cmd.Args()))
		for i, arg := range cmd.Args() {
			if text, ok := arg.(*string); ok {
				arg = *text
			}
			args[i] = arg
		}
		e.heard = append(e.heard, args)
		return next(ctx, cmd)
	}
}

func (e *ear) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
