package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions"
)

// meaning is what a status of Cosmos DB says about the request.
type meaning uint8

const (
	unknown     meaning = iota // it may have been applied: ErrUnavailable
	refused                    // for now, and not applied: ErrThrottled
	denied                     // ErrDenied
	misused                    // ErrNotSetUp
	noContainer                // ErrNotSetUp: there is none, or no database
	missing                    // there is no such item
	conflict                   // somebody has created or changed the item
)

// status is a status code with its substatus. 0 as a substatus stands for all
// that are not listed.
type status struct{ code, sub int }

// codes gives statuses their meaning; what is not listed is unknown. The codes are
// those of learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb,
// the substatus those of Azure/azure-sdk-for-java,
// sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
var codes = map[status]meaning{
	{400, 0}:    misused,
	{401, 0}:    denied,
	{403, 0}:    denied,
	{403, 3}:    refused, // a region that takes no writes: a failover under way
	{403, 1008}: refused, // a replica that does not know the account yet
	{404, 0}:    missing,
	{404, 1002}: unknown, // the replica has not seen what the session token tells of
	{404, 1003}: noContainer,
	{404, 1024}: unknown, // the container was created anew a moment ago
	{409, 0}:    conflict,
	{412, 0}:    conflict,
	{413, 0}:    misused, // more than 2 MB: there is somebody else's data in the document
	{429, 0}:    refused,
	// 408, 410, 449, 500, 502, 503 and 504 are unknown. 449 is documented as
	// safe to retry, not as not applied.
}

// statusOf is the service's answer in an error, with the fields of its header, if
// there is one.
func statusOf(err error) (status, http.Header) {
	var answered *azcore.ResponseError
	if !errors.As(err, &answered) {
		return status{}, nil
	}
	s := status{code: answered.StatusCode}
	if answered.RawResponse == nil {
		return s, nil
	}
	header := answered.RawResponse.Header
	s.sub, _ = strconv.Atoi(header.Get("x-ms-substatus"))
	return s, header
}

func meaningOf(err error) meaning {
	s, _ := statusOf(err)
	if m, ok := codes[s]; ok {
		return m
	}
	return codes[status{code: s.code}]
}

// errNoContainer is part of what a call without a container returns.
var errNoContainer = fmt.Errorf("%w: there is no such container", abstractions.ErrNotSetUp)

// known are the errors of package leasing that say something already: package
// auth's do, of a token that could not be had.
var known = []error{
	abstractions.ErrUnavailable, abstractions.ErrClosed, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid,
	abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale,
}

// failure turns an error of the client library into one of package leasing,
// keeping both in its chain.
func failure(err error) error {
	if err == nil || errors.Is(err, context.Canceled) { // the caller left: that says nothing of Cosmos DB
		return err
	}
	if said(err) {
		return err
	}
	switch meaningOf(err) {
	case refused:
		return &abstractions.ThrottledError{RetryAfter: retryAfter(err), Err: err}
	case denied:
		return fmt.Errorf("%w: %w", abstractions.ErrDenied, err)
	case misused:
		return fmt.Errorf("%w: %w", abstractions.ErrNotSetUp, err)
	case noContainer:
		return fmt.Errorf("%w: %w", errNoContainer, err)
	}
	return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
}

// said reports whether an error is one of package leasing.
func said(err error) bool {
	return slices.ContainsFunc(known, func(kind error) bool { return errors.Is(err, kind) })
}

// unsure is the error of a call after a write of its own was refused. The refusal may
// have been of a write that had been sent twice, and applied the first time: nothing
// that follows says that the call has done nothing. azcosmos' error stays reachable.
func unsure(err error) error {
	if !errors.Is(err, abstractions.ErrThrottled) && !errors.Is(err, abstractions.ErrDenied) && !errors.Is(err, abstractions.ErrNotSetUp) {
		return err
	}
	var answered *azcore.ResponseError
	if errors.As(err, &answered) {
		return fmt.Errorf("%w: after a write that was refused: %w", abstractions.ErrUnavailable, answered)
	}
	return fmt.Errorf("%w: after a write that was refused: %v", abstractions.ErrUnavailable, err)
}

// retryAfter is how long the service asks to wait: learn.microsoft.com/rest/api/
// cosmos-db/common-cosmosdb-rest-response-headers.
func retryAfter(err error) time.Duration {
	_, header := statusOf(err)
	ms, err := strconv.ParseFloat(header.Get("x-ms-retry-after-ms"), 64)
	if err != nil || ms < 0 || ms > float64(time.Hour.Milliseconds()) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
