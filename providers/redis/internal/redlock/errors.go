package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// certainty returns the sentinel of an error of a node that says that it did
// nothing; nil if it does not say so.
func certainty(err error) error {
	for _, sentinel := range [...]error{abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid, abstractions.ErrClosed} {
		if errors.Is(err, sentinel) {
			return sentinel
		}
	}
	return nil
}

// definite is certainty, also of a node that was not reached at all.
func definite(err error) error {
	if reason := certainty(err); reason != nil || !abstractions.NotApplied(err) {
		return reason
	}
	return abstractions.ErrUnavailable
}

// failed is the error of a call that reached no majority, unless its caller has left; errs are the nodes', nil
// for those that did not fail. It is certain that nothing was applied, unless some node has done so, if all who
// failed say so for the same reason and a majority can't do without them. Otherwise the outcome is unknown, and the
// error matches none of those that say the contrary, although single nodes may have said so.
func (r *Redlock) failed(ctx context.Context, errs []error, applied bool) error {
	if ctx.Err() != nil {
		return failure.Of(ctx.Err())
	}
	var failures, reasons []error
	var texts []string
	for i, err := range errs {
		if err != nil {
			failures = append(failures, err)
			texts = append(texts, r.label(i, err).Error())
			reasons = append(reasons, definite(err))
		}
	}
	err := providerkit.WithText(fmt.Sprintf("%v: no majority: %s", abstractions.ErrUnavailable, strings.Join(texts, "; ")), errors.Join(failures...))
	reasons = slices.Compact(reasons)
	switch {
	case applied || len(errs)-len(failures) >= r.quorum || len(reasons) != 1 || reasons[0] == nil:
		return providerkit.Partial(err)
	case errors.Is(reasons[0], abstractions.ErrThrottled):
		return &abstractions.ThrottledError{Err: err}
	}
	return err
}
