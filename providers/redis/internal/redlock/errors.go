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

// certainty returns the sentinel of a node's error if the error proves that the node has
// not applied the request, and nil otherwise.
func certainty(err error) error {
	for _, sentinel := range [...]error{abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid, abstractions.ErrClosed} {
		if errors.Is(err, sentinel) {
			return sentinel
		}
	}
	return nil
}

// definite extends certainty to a node that was not reached at all.
func definite(err error) error {
	if reason := certainty(err); reason != nil || !abstractions.NotApplied(err) {
		return reason
	}
	return abstractions.ErrUnavailable
}

// majorityError returns the error of a call that reached no majority, unless its caller has left. errs has the nodes' errors, nil
// for a node that did not fail. It is certain that nothing was applied if no node has applied the request, all failed nodes
// prove that they did nothing, for the same reason, and a majority needs one of these nodes. Otherwise the outcome is
// ambiguous, and the error matches no sentinel of a certain outcome, although errors of single nodes may match such a
// sentinel.
func (r *Redlock) majorityError(ctx context.Context, errs []error, applied bool) error {
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
