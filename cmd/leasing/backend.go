package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	folderlease "github.com/distributedleasing/leasing/providers/file"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
)

// openers are of all backends that processes share.
var openers = []abstractions.Opener{
	sqllease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(), folderlease.Opener(),
}

// settings is the config file.
type settings struct {
	URL   *string `json:"url"`
	Owner string  `json:"owner"`
}

// where is the URL of the backend, and who says so.
func (a *app) where() (rawURL, from string, err error) {
	file, err := a.readConfig()
	if err != nil {
		return "", "", err
	}
	a.owner = cmp.Or(a.owner, file.Owner)
	variable, err := variable("LEASING_URL", a.url)
	switch {
	case err != nil:
		return "", "", err
	case a.url != "":
		return a.url, "--url", nil
	case variable != "":
		return variable, "LEASING_URL", nil
	case file.URL != nil && *file.URL == "":
		return "", "", errors.New(`"url" in the config file is empty: set it, or leave it out`)
	case file.URL != nil:
		return *file.URL, "the config file", nil
	}
	rawURL, err = ownURL()
	return rawURL, "the default: this user, on this machine", err
}

// variable is an environment variable, for which a flag may stand. One that is set and empty is not left out:
// what follows are the leases of this machine, which exclude nobody elsewhere.
func variable(name, flag string) (string, error) {
	value, set := os.LookupEnv(name)
	if set && value == "" && flag == "" {
		return "", fmt.Errorf("%s is empty: set it, or unset it", name)
	}
	return value, nil
}

// readConfig reads the config file. Only one that somebody has named has to be there.
func (a *app) readConfig() (s settings, err error) {
	variable, err := variable("LEASING_CONFIG", a.config)
	if err != nil {
		return s, err
	}
	path := cmp.Or(a.config, variable)
	named := path != ""
	if !named {
		folder, err := userFolder("XDG_CONFIG_HOME", ".config")
		if err != nil {
			return s, nil //nolint:nilerr // who has no home has no config
		}
		path = filepath.Join(folder, "leasing", "config.json")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return s, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if decoder.More() {
		return s, fmt.Errorf("%s: there is more after the first object", path)
	}
	return s, nil
}

// ownURL is the SQLite file of this user on this machine.
func ownURL() (string, error) {
	folder, err := userFolder("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if err != nil {
		return "", fmt.Errorf("no --url, and no place for a file: %w", err)
	}
	folder = filepath.Join(folder, "leasing")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path := (&url.URL{Path: filepath.ToSlash(filepath.Join(folder, "leases.db"))}).EscapedPath()
	return "sqlite://" + path + "?create=true&history=true", nil
}

// userFolder is a folder of the XDG base directory specification.
func userFolder(variable, otherwise string) (string, error) {
	if folder := os.Getenv(variable); filepath.IsAbs(folder) {
		return folder, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, otherwise), err
}

// provider opens the backend.
func (a *app) provider(ctx context.Context) (leasing.Provider, error) {
	where, _, err := a.where()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	provider, err := open.URL(ctx, where, openers...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer in time: %w", leasing.ErrUnavailable, err)
	}
	return provider, err
}

// openForWorker is for the worker processes of a torture run.
func openForWorker(ctx context.Context) (leasing.Provider, error) {
	return open.URL(ctx, os.Getenv(workerVariable), openers...)
}

// backend is a provider and its manager.
type backend struct {
	leasing.Manager
	provider leasing.Provider
}

// closeTime is how long a command that is done waits for the backend.
const closeTime = 5 * time.Second

// open opens the backend with options to which the global flags are added.
func (a *app) open(ctx context.Context, options leasing.Options) (*backend, error) {
	provider, err := a.provider(ctx)
	if err != nil {
		return nil, err
	}
	options.Owner, options.RequestTimeout, options.HealthTimeout = a.owner, a.timeout, a.timeout
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	return &backend{manager, provider}, nil
}

// openPause is from an attempt to open the backend to the next.
const openPause = time.Second

// openWithin is open, which it repeats within a limit while the backend can't be reached: where tables are to be
// created, or servers looked at, opening takes a server. 0 is a single attempt, a negative limit none.
func (a *app) openWithin(ctx context.Context, limit time.Duration, options leasing.Options) (*backend, error) {
	for begin := time.Now(); ; {
		b, err := a.open(ctx, options)
		pause := openPause
		if limit >= 0 {
			pause = min(pause, limit-time.Since(begin))
		}
		if err == nil || !passes(err) || pause <= 0 {
			return b, err
		}
		a.warn("%s", oneLine(err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// passes reports whether an error may be another one, or none, in a while.
func passes(err error) bool {
	return errors.Is(err, leasing.ErrUnavailable) || errors.Is(err, leasing.ErrThrottled)
}

func (b *backend) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return errors.Join(b.Close(ctx), b.provider.Close())
}

// using calls a function with the backend, for commands that make a few requests.
func (a *app) using(ctx context.Context, use func(context.Context, *backend) error) error {
	b, err := a.open(ctx, leasing.Options{})
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, b), b.close())
}

// plainHandler prints what the manager logs as lines for people.
type plainHandler struct{ a *app }

func (h plainHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (h plainHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h plainHandler) WithGroup(string) slog.Handler      { return h }

// Handle prints an error alone, which says what failed and for which name.
func (h plainHandler) Handle(_ context.Context, r slog.Record) error {
	text, detail := strings.TrimPrefix(r.Message, "leasing: "), ""
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "error":
			text, detail = oneLine(errors.New(attr.Value.String())), ""
			return false
		case "name":
			detail = ": " + attr.Value.String()
		}
		return true
	})
	h.a.warn("%s", text+detail)
	return nil
}
