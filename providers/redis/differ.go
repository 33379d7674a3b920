package redislease

import (
	"context"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// differ refuses servers that are the same under two addresses.
func differ(ctx context.Context, r *redlock) error {
	seen := make(map[string]int, len(r.nodes))
	for i, d := range r.nodes {
		id, err := d.runID(ctx)
		if err != nil {
			return r.label(i, err)
		}
		if other, found := seen[id]; found {
			return &abstractions.InvalidError{Field: "Options", Value: fmt.Sprintf("with servers %d and %d", other+1, i+1), Want: "each server once: those are the same"}
		}
		seen[id] = i
	}
	return nil
}

// runID is what a server calls this run of itself.
func (d *node) runID(ctx context.Context) (string, error) {
	text, err := aside(ctx, d, func(ctx context.Context) (string, error) { return d.client.Info(ctx, "server").Result() })
	_, rest, _ := strings.Cut(text, "run_id:")
	id, _, _ := strings.Cut(rest, "\r")
	return id, err
}
