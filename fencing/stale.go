package fencing

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// StaleError reports that a resource refused a token. It matches leasing.ErrStale.
type StaleError struct {
	Resource string // as named by the check; "" for a Gate
	Token    int64  // the refused token
	Seen     int64  // the highest token that the resource has seen
}

func (e *StaleError) Error() string {
	resource := "the resource"
	if e.Resource != "" {
		resource = fmt.Sprintf("%q", e.Resource)
	}
	return fmt.Sprintf("%v: %d refused, %s has seen %d", leasing.ErrStale, e.Token, resource, e.Seen)
}

// Is makes the error match leasing.ErrStale.
func (e *StaleError) Is(target error) bool { return target == leasing.ErrStale }

// Check implements the rule: it returns nil if token is at least the highest token
// that the resource has seen (0 for none), and a *StaleError otherwise. For a number
// that no lease has, such as 0, the error matches leasing.ErrInvalid: comparing the
// number would admit a caller without a lease. Refusals are counted in
// leasing.fence.refused, of OpenTelemetry's global meter provider.
func Check(resource string, token, seen int64) error {
	if token < 1 || token > leasing.MaxToken {
		return &leasing.InvalidError{Field: "token", Value: token, Want: wantToken}
	}
	if seen < 0 || seen > leasing.MaxToken {
		return &leasing.InvalidError{Field: "seen", Value: seen, Want: "0 for none, or " + wantToken}
	}
	if token < seen {
		countRefusal()
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}

// countRefusal counts a refused token. Refusals are rare enough to look up the instrument each
// time, in the present global provider.
func countRefusal() {
	c, err := otel.Meter("github.com/distributedleasing/leasing/fencing").Int64Counter("leasing.fence.refused",
		metric.WithUnit("{token}"), metric.WithDescription("Tokens that were refused because the resource has seen a larger token."))
	if err != nil {
		otel.Handle(err)
		return
	}
	c.Add(context.Background(), 1)
}
