package lockers

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // "sqlite3"

	"github.com/distributedleasing/leasing"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// sqlitePeers returns the peers on SQLite. They write to files in the folder that the URL names.
func sqlitePeers(synchronous string) []Peer {
	return []Peer{
		{Name: "leasing", Open: openLeasing(func(ctx context.Context, config Config) (leasing.Provider, func() error, error) {
			provider, err := sqlitelease.Open(ctx, sqlitelease.Options{
				Path: filepath.Join(config.URL, "leases.db"), Synchronous: synchronous, Create: true,
			})
			if err != nil {
				return nil, nil, err
			}
			return provider, provider.Close, nil
		})},
		{Name: "upsert", TryOnly: true, Open: func(ctx context.Context, config Config) (Locker, error) {
			return openSqliteUpsert(ctx, config, synchronous)
		}},
		{Name: "flock", WaitOnly: true, Open: func(_ context.Context, config Config) (Locker, error) {
			return flockLocker{config.URL}, nil
		}},
	}
}

// sqliteStore implements Store for the folder of the database files.
type sqliteStore struct{ folder string }

func openSqlite(folder string) (Store, error) { return sqliteStore{folder}, nil }

func (sqliteStore) Version(ctx context.Context) (version string, err error) {
	db, err := sql.Open("sqlite3", "file::memory:")
	if err != nil {
		return "", err
	}
	err = db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version)
	return version, errors.Join(err, db.Close())
}

func (sqliteStore) CPU(context.Context) (time.Duration, error) { return 0, nil }

// Memory returns the size of the files.
func (s sqliteStore) Memory(context.Context) (bytes float64, err error) {
	files, err := filepath.Glob(filepath.Join(s.folder, "*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			bytes += float64(info.Size())
		}
	}
	return bytes, err
}

// Log returns the number of bytes that this process has written, mostly to the log: see proc_pid_io(5).
func (sqliteStore) Log(context.Context) (bytes int64, err error) {
	text, err := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(line, "wchar: "); found {
			bytes, err = strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		}
	}
	return bytes, err
}

func (sqliteStore) Close() error { return nil }

func (s sqliteStore) Sweep(context.Context, string) error {
	files, err := filepath.Glob(filepath.Join(s.folder, "*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// openSqliteUpsert is like openPostgresUpsert, but on a file and with one connection: several
// connections would sleep while they wait for each other's locks.
func openSqliteUpsert(ctx context.Context, config Config, synchronous string) (Locker, error) {
	pragmas := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(" + synchronous + ")"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(config.URL, "bare.db")+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	prepare := func(statement string) (prepared *sql.Stmt) {
		if err == nil {
			prepared, err = db.PrepareContext(ctx, statement)
		}
		return prepared
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare (name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_us INTEGER NOT NULL) STRICT, WITHOUT ROWID")
	take := prepare(`INSERT INTO bare VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_us = excluded.expires_us WHERE bare.expires_us <= ?4`)
	free := prepare("DELETE FROM bare WHERE name = ?1 AND owner = ?2")
	renew := prepare(`UPDATE bare SET expires_us = ?2 FROM json_each(?1) AS r
WHERE bare.name = r.value ->> 0 AND bare.owner = r.value ->> 1`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return upsertLocker{
		keeper: newBatchKeeper(config.TTL, func(ctx context.Context, names, owners []string) error {
			list := make([][2]string, len(names))
			for i := range names {
				list[i] = [2]string{names[i], owners[i]}
			}
			text, err := json.Marshal(list)
			if err != nil {
				return err
			}
			_, err = renew.ExecContext(ctx, string(text), time.Now().Add(config.TTL).UnixMicro())
			return err
		}),
		take: func(ctx context.Context, name, owner string) (taken bool, err error) {
			now := time.Now()
			return rowChanged(take.ExecContext(ctx, name, owner, now.Add(config.TTL).UnixMicro(), now.UnixMicro()))
		},
		free: func(ctx context.Context, name, owner string) (freed bool, err error) {
			return rowChanged(free.ExecContext(ctx, name, owner))
		},
		close: func() error { return errors.Join(take.Close(), free.Close(), db.Close()) },
	}, nil
}

func rowChanged(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// flockLocker locks one file with flock(2), whatever the name.
type flockLocker struct{ folder string }

func (l flockLocker) Try(context.Context, string) (Lock, error) {
	return l.lock(syscall.LOCK_EX | syscall.LOCK_NB)
}

// Acquire notices the end of ctx only when it has the lock.
func (l flockLocker) Acquire(ctx context.Context, _ string) (Lock, error) {
	lock, err := l.lock(syscall.LOCK_EX)
	if err == nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), lock.Release(ctx))
	}
	return lock, err
}

func (l flockLocker) lock(how int) (Lock, error) {
	file, err := os.OpenFile(filepath.Join(l.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, errors.Join(err, file.Close())
	}
	return flockLock{file}, nil
}

func (flockLocker) Close() error { return nil }

type flockLock struct{ file *os.File }

func (flockLock) Keep()                           {}
func (flockLock) Kept() bool                      { return true }
func (l flockLock) Release(context.Context) error { return l.file.Close() }
