package bloblease

import (
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// state is a grant's own. While its claim lives, the service's lease has at least
// the duration that the record had: see renew.go. Nothing in it changes but for
// endless.
type state struct {
	name, id string
	view     view
	endless  atomic.Bool // a finite lease may have become infinite since
}

func granted(name, id string, ttl time.Duration, v view) abstractions.Grant {
	return abstractions.Grant{Name: name, ID: id, Token: v.record.Token, TTL: ttl, State: &state{name: name, id: id, view: v}}
}

// stateOf is the state in a request, or nil if it is another claim's.
func stateOf(any any, name, id string, token int64) *state {
	s, ok := any.(*state)
	if !ok || s == nil || s.name != name || s.id != id || s.view.record.Token != token {
		return nil
	}
	return s
}
