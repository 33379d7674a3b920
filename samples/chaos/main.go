// Command chaos is an ordinary service: its leader writes to a ledger, and the others answer requests until they lead. The test
// beside it runs the service while its backend fails. Copy both.
//
//	LEASING_URL='redis://127.0.0.1:6379' go run .
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// Ledger is the resource. It refuses entries from earlier leaders.
type Ledger struct {
	gate    fencing.Gate
	mu      sync.Mutex
	entries []int64 // the token of each
}

// Write appends an entry.
func (l *Ledger) Write(ctx context.Context, token int64) error {
	return l.gate.Do(ctx, token, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.entries = append(l.entries, token)
		return nil
	})
}

// Len returns the number of entries.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Service is one process of the service.
type Service struct {
	Manager *leasing.Manager
	Name    string // of the lease
	Ledger  *Ledger
	Every   time.Duration // the pause between entries
	leading atomic.Bool
}

// Run leads whenever it can, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Manager.Do(ctx, s.Name, s.lead); err != nil && ctx.Err() == nil {
			log.Print(err)
			wait(ctx, s.Every)
		}
	}
}

func (s *Service) lead(ctx context.Context, lease *leasing.Lease) error {
	s.leading.Store(true)
	defer s.leading.Store(false)
	for ctx.Err() == nil {
		if err := s.Ledger.Write(ctx, lease.Token()); err != nil {
			return err
		}
		wait(ctx, s.Every)
	}
	return context.Cause(ctx)
}

// wait returns after d, or at the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ServeHTTP reports whether this process leads.
func (s *Service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !s.leading.Load() {
		http.Error(w, "another process leads", http.StatusServiceUnavailable)
	}
}

// openURL opens the backend of a URL.
func openURL(ctx context.Context, url string) (leasing.Provider, error) {
	return open.URL(ctx, url, sqlitelease.Opener(), redislease.Opener(), bloblease.Opener())
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	provider, err := openURL(ctx, os.Getenv("LEASING_URL"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.Close(context.WithoutCancel(ctx))) }()
	service := &Service{Manager: manager, Name: "samples/chaos/leader", Ledger: &Ledger{}, Every: time.Second}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: service, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go service.Run(ctx)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
