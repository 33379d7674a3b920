package redislease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// bootstrap lets new servers vote at once, if all of them answer and all are new.
func (r *redlock) bootstrap(ctx context.Context) error {
	all, err := r.askMembers(ctx, lookAtServer)
	if err != nil {
		return err
	}
	runs := map[string]int{}
	var used []string
	for i, a := range all {
		if other, found := runs[a.run]; found {
			return sameServer(other, i)
		}
		runs[a.run] = i
		if !a.isNew {
			used = append(used, r.peers[i].label)
		}
	}
	switch len(used) {
	case 0:
		_, err = r.askMembers(ctx, bootstrapServer)
		return err
	case len(all):
		return nil
	}
	return &abstractions.InvalidError{Field: "Options", Value: "with " + strings.Join(used, ", ") + " in use", Want: "servers that are all new: the others may have lost leases, and vote in a while"}
}

// sameServer refuses a server with two votes.
func sameServer(one, other int) error {
	return &abstractions.InvalidError{Field: "Options", Value: fmt.Sprintf("with servers %d and %d", one+1, other+1), Want: "each server once: those are the same"}
}

// askMembers runs admit.lua everywhere, and fails if that fails anywhere.
func (r *redlock) askMembers(ctx context.Context, verb string) ([]admission, error) {
	type answer struct {
		i   int
		a   admission
		err error
	}
	answers := make(chan answer, len(r.nodes))
	for i, d := range r.nodes {
		if !r.after.start(func() {
			a, err := aside(ctx, d, func(ctx context.Context) (admission, error) {
				return d.member.ask(ctx, d.client.(redis.Scripter), verb) //nolint:forcetypeassert // every client is one
			})
			answers <- answer{i, a, r.label(i, err)}
		}) {
			return nil, abstractions.ErrClosed
		}
	}
	all, errs := make([]admission, len(r.nodes)), make([]error, len(r.nodes))
	for range r.nodes {
		a := <-answers
		all[a.i], errs[a.i] = a.a, a.err
	}
	return all, errors.Join(errs...)
}
