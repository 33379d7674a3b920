package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	defaultName = "sample/worker"
	defaultTTL  = 30 * time.Second
	defaultPace = time.Second
	defaultShow = 2 * time.Second
)

// config is the file: what an application reads at its start. To move to another
// backend change Provider; the sections of the others may stay.
//
// In its strings ${NAME} stands for the environment variable NAME, and
// ${NAME:-text} for text where that is not set, so that a file need not hold
// secrets. In the sections of other backends nothing is looked up.
type config struct {
	Provider string          // one of backends
	Section  json.RawMessage `json:"-"` // of the provider

	Name     string
	Owner    string
	Metadata map[string]string // beside host and pid
	Ledger   string
	Leasing  leasingConfig
	Pace     duration
	Show     duration
}

// leasingConfig is the part of leasing.Options that a file may set.
type leasingConfig struct {
	TTL           duration
	RenewFraction float64
	RenewCadence  duration
	MaxPoll       duration
}

// duration is a time.Duration as text: "30s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// parse reads a file.
func parse(data []byte, env lookup) (config, error) {
	var c config
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return c, err
	}
	provider, err := expand("Provider", members["Provider"], env)
	if err != nil {
		return c, err
	}
	if len(provider) > 0 {
		if err := json.Unmarshal(provider, &c.Provider); err != nil {
			return c, err
		}
	}
	chosen, found := backends[c.Provider]
	if !found {
		return c, fmt.Errorf(`"Provider" is %q: there are %s`, c.Provider, strings.Join(slices.Sorted(maps.Keys(backends)), ", "))
	}
	section, found := members[chosen.section]
	if !found {
		return c, fmt.Errorf(`"Provider" is %q, and there is no section %q`, c.Provider, chosen.section)
	}
	if section, err = expand(chosen.section, section, env); err != nil {
		return c, err
	}
	for _, b := range backends {
		delete(members, b.section)
	}
	if err := c.decode(members, env); err != nil {
		return c, err
	}
	c.Section = section
	return c, nil
}

// decode reads all but the sections. A member that it does not know is an error.
func (c *config) decode(members map[string]json.RawMessage, env lookup) error {
	for name, value := range members {
		expanded, err := expand(name, value, env)
		if err != nil {
			return err
		}
		members[name] = expanded
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(rest))
	decoder.DisallowUnknownFields()
	return decoder.Decode(c)
}

// with lays what the command line gives over the file's, and fills in defaults.
func (c config) with(given config) config {
	c.Name = first(given.Name, c.Name, defaultName)
	c.Owner = first(given.Owner, c.Owner, hostAndProcess())
	c.Ledger = first(given.Ledger, c.Ledger)
	c.Leasing.TTL = first(given.Leasing.TTL, c.Leasing.TTL, duration(defaultTTL))
	c.Pace = first(given.Pace, c.Pace, duration(defaultPace))
	c.Show = first(given.Show, c.Show, duration(defaultShow))
	return c
}

func (c config) validate() error {
	if c.Pace < 0 || c.Show < 0 {
		return errors.New("pace and show: want more than 0")
	}
	return nil // the rest is the library's to check, before anything is sent
}

// first returns the first that is set.
func first[T comparable](values ...T) (value T) {
	var unset T
	for _, value = range values {
		if value != unset {
			break
		}
	}
	return value
}

func hostAndProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
