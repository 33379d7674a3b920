package netfault

import (
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Conditions are the state of the network between client and server. The zero
// value is a good network.
type Conditions struct {
	// Latency is added to each reply, and a random part of Jitter.
	Latency, Jitter time.Duration
	// RequestsLost drops what clients send, RepliesLost what the server sends. A
	// connection that has lost something is reset when that ends: TCP leaves no holes.
	RequestsLost, RepliesLost bool
	// Partitioned holds everything back, in both directions, and lets it pass when
	// that ends: requests arrive late. New connections are made, but silent.
	Partitioned bool
	// Down resets all connections and refuses new ones.
	Down bool
}

func (c Conditions) validate() error {
	if c.Latency < 0 {
		return &abstractions.InvalidError{Field: "Conditions.Latency", Value: c.Latency, Want: "0 or more"}
	}
	if c.Jitter < 0 {
		return &abstractions.InvalidError{Field: "Conditions.Jitter", Value: c.Jitter, Want: "0 or more"}
	}
	return nil
}

// direction is that of a link.
type direction int

const (
	request direction = iota
	reply
)

// loses says whether a direction drops what passes.
func (c Conditions) loses(d direction) bool {
	return d == request && c.RequestsLost || d == reply && c.RepliesLost
}

// delay is how long something takes on its way.
func (c Conditions) delay(d direction) time.Duration {
	if d == request {
		return 0
	}
	delay := c.Latency
	if c.Jitter > 0 {
		delay += rand.N(c.Jitter)
	}
	return delay
}
