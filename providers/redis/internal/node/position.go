package node

import (
	"encoding/base64"
	"encoding/json"

	"github.com/distributedleasing/leasing/abstractions"
)

// Position is where a listing goes on, as ListResult.Next tells it: at a cursor of
// SCAN at one of the servers. A SCAN that tells more than fits on the page is
// not repeated, since a repetition may tell others: the rest goes along. It is
// about as long as the names that a SCAN for a page tells beyond it.
type Position struct {
	Server int    `json:"s,omitempty"`
	Cursor uint64 `json:"c,omitempty"`
	// Names were found and are to be told next.
	Names []string `json:"n,omitempty"`
	// Which is listing.which.
	Which string `json:"w,omitempty"`
	// Mute are servers of Redlock that were left out, a bit for each.
	Mute uint64 `json:"m,omitempty"`
}

// Muted reports whether a server was left out.
func (p Position) Muted(server int) bool { return p.Mute&(1<<server) != 0 }

func (p Position) text() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and texts are JSON
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func parsePosition(after, which string) (Position, error) {
	p := Position{Which: which}
	if after == "" {
		return p, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(after)
	if err == nil {
		p = Position{}
		err = json.Unmarshal(data, &p)
	}
	switch {
	case err != nil:
		return p, badAfter(after, "Next of the page before")
	case p.Which != which:
		return p, badAfter(after, "a listing from the start: the Cluster has other masters than for the page before")
	}
	return p, nil
}

func badAfter(after, want string) error {
	return &abstractions.InvalidError{Field: "After", Value: after, Want: want}
}
