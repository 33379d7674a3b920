package processes

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

const (
	leaseName = "integration/exclusion"
	ttl       = 1500 * time.Millisecond
)

// job is a worker's job, which the parent passes as JSON in the worker's environment.
type job struct {
	URL    string // of the leases
	Schema string
	Driver string // of database/sql, for the resource
	DSN    string
	Style  sqlfence.Placeholders
}

// note is a report of a worker to the parent, sent as one line of JSON.
type note struct {
	Kind  string
	At    time.Duration // by the machine's CLOCK_BOOTTIME, which all processes share
	Token int64
	Until time.Duration `json:",omitempty"` // trusted until (Kind trusted)
	Text  string        `json:",omitempty"`
}

// The kinds of notes.
const (
	acquired  = "acquired"
	trusted   = "trusted"
	releasing = "releasing" // from here on the lease is given up on purpose
	lost      = "lost"
	late      = "late write" // with the token of a lost lease: Text has the result
	failed    = "failed"
)

func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func report(n note) {
	n.At = now()
	_ = json.NewEncoder(os.Stdout).Encode(n)
}

// open opens a provider of the job's database.
func (j job) open(ctx context.Context, create bool) (leasing.Provider, error) {
	if j.Schema == "" {
		return sqlitelease.Open(ctx, sqlitelease.Options{URL: j.URL, Create: create})
	}
	return postgreslease.Open(ctx, postgreslease.Options{URL: j.URL, Schema: j.Schema, Create: create})
}

// work competes until it is killed.
func work(config string) error {
	var j job
	if err := json.Unmarshal([]byte(config), &j); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := sql.Open(j.Driver, j.DSN)
	if err != nil {
		return err
	}
	provider, err := j.open(ctx, false)
	if err != nil {
		return err
	}
	manager, err := leasing.NewManager(provider, leasing.Options{TTL: ttl, Tuning: leasing.Tuning{RequestTimeout: 5 * time.Second}})
	if err != nil {
		return err
	}
	w := worker{db: db}
	if w.fence, err = sqlfence.NewTable(j.Style, "fence"); err != nil {
		return err
	}
	for {
		lease, err := manager.Acquire(ctx, leaseName)
		if err != nil {
			return err
		}
		report(note{Kind: acquired, Token: lease.Token()})
		w.lead(lease)
	}
}

type worker struct {
	db    *sql.DB
	fence *sqlfence.Table
}

// lead works for a while, or until it notices that the lease is lost. After the
// loss it still writes, like a process that was paused between the check and the
// write.
func (w worker) lead(lease *leasing.Lease) {
	enough := time.After(time.Duration(1+rand.IntN(4)) * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		at := now()
		if left := lease.Remaining(); left > 0 {
			report(note{Kind: trusted, Token: lease.Token(), Until: at + left})
		}
		if lease.Err() != nil {
			report(note{Kind: lost, Token: lease.Token(), Text: lease.Err().Error()})
			select { // a process that was stopped notices the loss as soon as it resumes
			case <-lease.Done():
			case <-time.After(5 * time.Second):
				report(note{Kind: failed, Text: "the lease is lost, but its context has not ended"})
			}
			report(note{Kind: late, Token: lease.Token(), Text: outcome(w.write(lease.Token()))})
			return
		}
		if err := w.write(lease.Token()); err != nil && !errors.Is(err, leasing.ErrStale) && !errors.Is(err, context.DeadlineExceeded) {
			report(note{Kind: failed, Token: lease.Token(), Text: err.Error()})
		}
		select {
		case <-tick.C:
		case <-lease.Done():
		case <-enough:
			report(note{Kind: releasing, Token: lease.Token()})
			ctx, cancel := context.WithTimeout(context.Background(), ttl)
			defer cancel()
			_ = lease.Release(ctx) // on a busy database the release may be too late: then the lease runs out
			return
		}
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "accepted"
	case errors.Is(err, leasing.ErrStale):
		return "refused"
	}
	return err.Error()
}

// write adds a row to the ledger, if the token is not stale.
func (w worker) write(token int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := w.fence.Do(ctx, w.db, "ledger", token, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO ledger (token) VALUES (%d)", token))
		return err
	})
	if ctx.Err() != nil { // some drivers return an error of their own
		return context.DeadlineExceeded
	}
	return err
}
