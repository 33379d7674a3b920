package redislease

import (
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// mode is what is behind the options' source.
func (o Options) mode(field string, l location) (Mode, error) {
	if field != "URL" {
		if o.TLS != nil {
			return "", invalid("TLS", providerkit.NotShown, "nothing: a client has its own")
		}
		return o.modeOfClients(field)
	}
	if o.TLS != nil && (l.scheme != "rediss" || l.query.Has("skip_verify")) {
		return "", invalid("TLS", providerkit.NotShown, "a URL that begins with rediss://, and without skip_verify")
	}
	mode := o.Mode
	switch {
	case mode == "" && o.Master != "":
		mode = Sentinel
	case mode == "" && len(l.hosts) <= 1:
		mode = Single
	}
	return mode, l.suits(mode, o.Master)
}

// suits says whether a URL can be of a mode.
func (l location) suits(mode Mode, master string) error {
	if len(l.hosts) == 0 && mode != Single {
		return invalid("Mode", string(mode), "single for a unix socket")
	}
	switch mode {
	case Single:
		if len(l.hosts) > 1 {
			return invalid("Mode", string(mode), "one host in the URL, or cluster, sentinel or redlock")
		}
	case Cluster:
		if number := l.path; number != "" && number != "/" && number != "/0" {
			return invalid("URL", providerkit.NotShown, "database 0: a Cluster has no other")
		}
	case Sentinel:
		if master == "" {
			return invalid("Master", master, "what the sentinels call the master")
		}
	case Redlock:
		return l.redlock()
	default:
		return invalid("Mode", string(mode), "single, cluster, sentinel or redlock; several hosts may be any but single")
	}
	return nil
}

// redlock refuses what is no Redlock: the same server's vote may not count twice.
func (l location) redlock() error {
	if err := odd("Options.URL", len(l.hosts)); err != nil {
		return err
	}
	return distinct("Options.URL", l.addrs(redisPort))
}

// odd refuses numbers of servers that make no better majority than one less.
func odd(field string, n int) error {
	if n >= 3 && n%2 == 1 {
		return nil
	}
	return &abstractions.InvalidError{
		Field: field, Value: fmt.Sprintf("with %d", n),
		Want: "3, 5 or another odd number of servers for Redlock; one server is mode single, and safer so",
	}
}

func distinct(field string, addrs []string) error {
	seen := make(map[string]bool, len(addrs))
	for _, addr := range addrs {
		if seen[addr] {
			return &abstractions.InvalidError{Field: field, Value: addr, Want: "each server once"}
		}
		seen[addr] = true
	}
	return nil
}
