package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/distributedleasing/leasing/open"
)

// settings is the content of the config file.
type settings struct {
	URL   *string `json:"url"`
	Owner string  `json:"owner"`
}

// ErrNoURL is the error of a command without a backend.
var ErrNoURL = errors.New(`no backend: name one for all machines with --url, LEASING_URL or "url" in the config file, ` +
	`or add --local for this user on this machine alone`)

// Where returns the URL of the backend and its source: a flag, a variable or a file.
func (a *App) Where() (rawURL, from string, err error) {
	file, err := a.readConfig()
	if err != nil {
		return "", "", err
	}
	a.Owner = cmp.Or(a.Owner, file.Owner)
	flag := a.URL
	if a.Local {
		flag = "--local"
	}
	variable, err := variable("LEASING_URL", flag)
	switch {
	case err != nil:
		return "", "", err
	case a.URL != "" && a.Local:
		return "", "", errors.New("--url and --local: want only one of the two")
	case a.Local:
		rawURL, err = ownURL()
		return rawURL, "--local: this user, on this machine", err
	case a.URL != "":
		rawURL, from = a.URL, "--url"
	case variable != "":
		rawURL, from = variable, "LEASING_URL"
	case file.URL == nil:
		return "", "", ErrNoURL
	case *file.URL == "":
		return "", "", errors.New(`"url" in the config file is empty: set a URL, or remove the field`)
	default:
		rawURL, from = *file.URL, "the config file"
	}
	return rawURL, from, absolute(rawURL, from)
}

// absolute refuses a relative path to an SQLite file: cron jobs, services and shells have different working
// folders, and so would have different leases. Other providers refuse a relative path in a URL themselves.
func absolute(rawURL, from string) error {
	path, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "sqlite://"), "?")
	path, _ = url.PathUnescape(path) // the provider reports an error
	if open.Scheme(rawURL) != "sqlite" || path == "" || filepath.IsAbs(path) {
		return nil
	}
	return fmt.Errorf("%s: the path of the SQLite file is relative, so each working folder would have a file of its own: want sqlite:///folder/file", from)
}

// variable returns an environment variable that a flag may override. A variable that is set but empty is an error:
// if it were ignored, another setting might name another backend.
func variable(name, flag string) (string, error) {
	value, set := os.LookupEnv(name)
	if set && value == "" && flag == "" {
		return "", fmt.Errorf("%s is empty: set a value, or unset the variable", name)
	}
	return value, nil
}

// readConfig reads the config file. A missing file is an error only if the user has named it explicitly.
func (a *App) readConfig() (s settings, err error) {
	variable, err := variable("LEASING_CONFIG", a.Config)
	if err != nil {
		return s, err
	}
	path := cmp.Or(a.Config, variable)
	named := path != ""
	if !named && (a.URL != "" || !a.Local && os.Getenv("LEASING_URL") != "") {
		defer func() {
			if err != nil { // the file could only add the owner, a label for people
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

// ownURL returns the URL of this user's SQLite file on this machine.
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

// userFolder returns a folder of the XDG base directory specification, or "" for a user without a home. It
// refuses a relative path, such as the "~" of a crontab's HOME=~, which would mean a different folder in
// each working folder.
func userFolder(variable, otherwise string) (string, error) {
	folder, from := os.Getenv(variable), variable
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil || home == "" {
			return "", nil //nolint:nilerr // the error says only that no home is set
		}
		folder, from = filepath.Join(home, otherwise), "HOME"
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("%s is %q, a relative path: set an absolute path", from, os.Getenv(from))
	}
	return folder, nil
}
