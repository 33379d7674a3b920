// Package app has the parts that the samples share with most applications: flags, a manager of leases, and a database
// behind a fence.
package app

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// App is this process. URLs come from the environment unless a flag sets them, since they may hold passwords.
type App struct {
	Name    string // of the lease, or the beginning of the names of several leases
	Owner   string
	Manager *leasing.Manager
	DB      *sql.DB         // the resource; its SQL uses $1, $2, which SQLite understands too
	Fence   *sqlfence.Table // refuses the writes of former holders

	url, data string
	ttl       time.Duration
	step      bool
}

// Main is the main function of a sample: it opens the leases and the data, and calls run with a context that ends when
// the process is interrupted.
func Main(name string, run func(ctx context.Context, a *App) error) {
	a := &App{}
	flag.StringVar(&a.url, "url", getenv("LEASING_URL", "sqlite://leases.db?create=true"), "URL of the leases: redis://..., postgres://... (variable LEASING_URL)")
	flag.StringVar(&a.data, "data", getenv("LEASING_DATA", "file:data.db?_txlock=immediate&_pragma=busy_timeout(10000)"), "database: postgres://..., or file: of SQLite (variable LEASING_DATA)")
	flag.StringVar(&a.Name, "name", name, "name of the leases")
	flag.StringVar(&a.Owner, "owner", fmt.Sprint("process-", os.Getpid()), "name of this process")
	flag.DurationVar(&a.ttl, "ttl", 15*time.Second, "how long a lease lasts without renewal")
	flag.BoolVar(&a.step, "step", false, "log as JSON, and wait for a line of standard input after each record")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if a.step {
		slog.SetDefault(slog.New(newStepper(stop)))
	}
	if err := a.run(ctx, run); err != nil {
		slog.Error("failed", "err", err)
		os.Exit(1)
	}
}

func getenv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func (a *App) run(ctx context.Context, run func(context.Context, *App) error) (err error) {
	provider, err := Open(ctx, a.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	a.Manager, err = leasing.NewManager(provider, leasing.Options{
		Owner: a.Owner, TTL: a.ttl, RaiseToMinTTL: true,
		Tuning: leasing.Tuning{MaxPoll: 100 * time.Millisecond}, // how soon waiters on SQLite find a released lease
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, a.Manager.Close(closing))
	}()
	driver, style := "sqlite3", sqlfence.Question
	if a.OnPostgres() {
		driver, style = "pgx", sqlfence.Dollar
	}
	if a.DB, err = sql.Open(driver, a.data); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.DB.Close()) }()
	if a.Fence, err = sqlfence.NewTable(style, "fencing"); err != nil {
		return err
	}
	if err = run(ctx, a); ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // interrupted
	}
	return err
}

// OnPostgres reports whether the data is in PostgreSQL.
func (a *App) OnPostgres() bool { return strings.HasPrefix(a.data, "postgres") }

// Create runs statements that make tables, in one process at a time.
func (a *App) Create(ctx context.Context, statements ...string) error {
	return a.Manager.Do(ctx, a.Name+"/tables", func(ctx context.Context, _ *leasing.Lease) error {
		for _, statement := range append(statements, a.Fence.CreateSQL()) {
			if _, err := a.DB.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// Write runs a function in a transaction. If the resource has seen a greater token, Write returns an error that matches
// leasing.ErrStale.
func (a *App) Write(ctx context.Context, resource string, token int64, write func(ctx context.Context, tx *sql.Tx) error) error {
	return a.Fence.Do(ctx, a.DB, resource, token, write)
}

// Wait waits for d. If ctx ends first, Wait returns the cause.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
