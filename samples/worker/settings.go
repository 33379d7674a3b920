package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/distributedleasing/leasing"
)

const (
	outputText = "text"
	outputJSON = "json"
)

// settings are those of one process: of the file, and over them those of the
// command line.
type settings struct {
	config

	url     string // of the provider; "" if the file says it
	file    string
	output  string
	stdin   bool // end with standard input
	demo    bool
	measure int // cycles; 0: not at all
	env     lookup
	vars    []string // of the demo's workers, beside the environment
}

// lookup looks an environment variable up.
type lookup func(name string) (value string, found bool)

// settingsOf reads the command line, and the file it names.
func settingsOf(args []string, env lookup) (settings, error) {
	s := settings{env: env}
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&s.url, "provider", "", "URL of the backend: sqlite://file, postgres://..., redis://..., ... (default: the variable "+urlVariable+")")
	flags.StringVar(&s.file, "config", "", "JSON file that says the backend, and all the rest: see worker/configs")
	flags.StringVar(&s.output, "output", outputText, "text, or json: one object on each line")
	flags.BoolVar(&s.stdin, "stdin", false, "stop, in order, when standard input ends: when who started this is gone")
	flags.BoolVar(&s.demo, "demo", false, "start three workers, kill the one that works, and watch")
	flags.IntVar(&s.measure, "measure", 0, "acquire, renew and release so many times, and print how long that takes")
	var given config
	flags.StringVar(&given.Name, "name", "", `name of the lease (default "`+defaultName+`")`)
	flags.StringVar(&given.Owner, "owner", "", "who this is, for people to read (default: host and process)")
	flags.StringVar(&given.Ledger, "ledger", "", "SQLite file to write each item to, under the fencing token (default: none)")
	flags.DurationVar((*time.Duration)(&given.Leasing.TTL), "ttl", 0, "how long the lease lasts without renewal (default 30s)")
	flags.DurationVar((*time.Duration)(&given.Pace), "pace", 0, "how long an item takes (default 1s)")
	flags.DurationVar((*time.Duration)(&given.Show), "show", 0, "how often those who wait look who holds the lease (default 2s)")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("what is %q? All settings are flags", flags.Arg(0))
	}
	return s.complete(given)
}

// complete reads the file and lays the command line over it.
func (s settings) complete(given config) (settings, error) {
	if s.url != "" && s.file != "" {
		return s, errors.New("-provider and -config both say which backend it is; give one of them")
	}
	if s.file == "" && s.url == "" {
		s.url, _ = s.env(urlVariable)
		if s.url == "" {
			return s, errors.New("which backend? Give -provider with a URL, or -config with a file, or set " + urlVariable)
		}
	}
	if s.output != outputText && s.output != outputJSON {
		return s, fmt.Errorf("-output %q: there are text and json", s.output)
	}
	if s.file != "" {
		data, err := os.ReadFile(s.file)
		if err != nil {
			return s, err
		}
		if s.config, err = parse(data, s.env); err != nil {
			return s, fmt.Errorf("%s: %w", s.file, err)
		}
	}
	s.config = s.config.with(given)
	return s, s.validate()
}

// options are the manager's. Fit lets one TTL do for every backend: those with
// only longer leases get their shortest.
func (s settings) options() leasing.Options {
	return leasing.Options{
		Owner: s.Owner, TTL: time.Duration(s.Leasing.TTL), RaiseToMinTTL: true,
		RenewFraction: s.Leasing.RenewFraction, RenewCadence: time.Duration(s.Leasing.RenewCadence), MaxPoll: time.Duration(s.Leasing.MaxPoll),
	}
}
