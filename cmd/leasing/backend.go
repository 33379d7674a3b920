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
	filelease "github.com/distributedleasing/leasing/providers/file"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// openers are of all backends that processes share.
var openers = []abstractions.Opener{
	postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(), filelease.Opener(),
}

// settings is the config file.
type settings struct {
	URL   *string `json:"url"`
	Owner string  `json:"owner"`
}

// errNowhere is the error of a command without a backend.
var errNowhere = errors.New(`no backend: name one for all machines with --url, LEASING_URL or "url" in the config file, ` +
	`or add --local for this user on this machine alone`)

// where returns the URL of the backend and its source: a flag, a variable or a file.
func (a *app) where() (rawURL, from string, err error) {
	file, err := a.readConfig()
	if err != nil {
		return "", "", err
	}
	a.owner = cmp.Or(a.owner, file.Owner)
	flag := a.url
	if a.local {
		flag = "--local"
	}
	variable, err := variable("LEASING_URL", flag)
	switch {
	case err != nil:
		return "", "", err
	case a.url != "" && a.local:
		return "", "", errors.New("--url and --local: want only one of the two")
	case a.local:
		rawURL, err = ownURL()
		return rawURL, "--local: this user, on this machine", err
	case a.url != "":
		rawURL, from = a.url, "--url"
	case variable != "":
		rawURL, from = variable, "LEASING_URL"
	case file.URL == nil:
		return "", "", errNowhere
	case *file.URL == "":
		return "", "", errors.New(`"url" in the config file is empty: set a URL, or remove the field`)
	default:
		rawURL, from = *file.URL, "the config file"
	}
	return rawURL, from, absolute(rawURL, from)
}

// absolute refuses an SQLite file in the working folder: cron jobs, services and shells have different ones, and
// so would have different leases. Other URLs that hold a path want it absolute by themselves.
func absolute(rawURL, from string) error {
	path, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "sqlite://"), "?")
	path, _ = url.PathUnescape(path) // the provider reports an error
	if open.Scheme(rawURL) != "sqlite" || path == "" || filepath.IsAbs(path) {
		return nil
	}
	return fmt.Errorf("%s: the path of the SQLite file is relative, so each working folder would have a file of its own: want sqlite:///folder/file", from)
}

// variable returns an environment variable that a flag may replace. A variable that is set and empty is an error: to
// ignore it would lead to the leases of this machine, which exclude no process elsewhere.
func variable(name, flag string) (string, error) {
	value, set := os.LookupEnv(name)
	if set && value == "" && flag == "" {
		return "", fmt.Errorf("%s is empty: set a value, or unset the variable", name)
	}
	return value, nil
}

// readConfig reads the config file. A missing file is an error only if the user has named it explicitly.
func (a *app) readConfig() (s settings, err error) {
	variable, err := variable("LEASING_CONFIG", a.config)
	if err != nil {
		return s, err
	}
	path := cmp.Or(a.config, variable)
	named := path != ""
	if !named && (a.url != "" || !a.local && os.Getenv("LEASING_URL") != "") {
		defer func() {
			if err != nil { // all that it could tell is the owner, for people to read
				s, err = settings{}, nil
			}
		}()
	}
	if !named {
		folder, err := userFolder("XDG_CONFIG_HOME", ".config")
		if folder == "" {
			return s, err
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
		return s, fmt.Errorf("%s: more data follows the first JSON object", path)
	}
	return s, nil
}

// ownURL is the SQLite file of this user on this machine.
func ownURL() (string, error) {
	folder, err := userFolder("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if err != nil {
		return "", err
	}
	if folder == "" {
		return "", errors.New("--local: neither HOME nor XDG_STATE_HOME is set, so there is no folder for the file")
	}
	folder = filepath.Join(folder, "leasing")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path := (&url.URL{Path: filepath.ToSlash(filepath.Join(folder, "leases.db"))}).EscapedPath()
	return "sqlite://" + path + "?create=true&history=true", nil
}

// userFolder is a folder of the XDG base directory specification, or "" for a user without a home. It refuses
// a path that is relative, such as the "~" of a crontab's HOME=~: files there are other ones in each
// working folder.
func userFolder(variable, otherwise string) (string, error) {
	folder, from := os.Getenv(variable), variable
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil || home == "" {
			return "", nil //nolint:nilerr // it says that no home is set
		}
		folder, from = filepath.Join(home, otherwise), "HOME"
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("%s is %q, a relative path: set an absolute path", from, os.Getenv(from))
	}
	return folder, nil
}

// provider opens the backend.
func (a *app) provider(ctx context.Context) (leasing.Provider, error) {
	where, _, err := a.where()
	if err != nil {
		return nil, err
	}
	if open.Scheme(where) == "sqlite" {
		if err := roomForSqlite(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	provider, err := open.URL(ctx, where, openers...)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer in time: %w", leasing.ErrUnavailable, err)
	}
	return provider, err
}

// backend is a provider and its manager.
type backend struct {
	*leasing.Manager
	provider leasing.Provider
}

// closeTime bounds the time for which a command that is done waits for the backend.
const closeTime = 5 * time.Second

// open opens the backend with options to which the global flags are added.
func (a *app) open(ctx context.Context, options leasing.Options) (*backend, error) {
	provider, err := a.provider(ctx)
	if err != nil {
		return nil, err
	}
	options.Owner, options.Tuning.RequestTimeout, options.Tuning.HealthTimeout = a.owner, a.timeout, a.timeout
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	return &backend{manager, provider}, nil
}

// openPause is the pause from an attempt to open the backend to the next.
const openPause = time.Second

// openWithin retries open within a limit while the backend can't be reached: opening needs a server if tables are to be
// created, or servers are checked. 0 means a single attempt, and a negative limit means no limit.
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

// passes reports whether an error may pass or change in a while.
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

// Handle prints an error alone, which names the failed operation and the lease.
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
