package bloblease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
)

// meaning is what an answer of the service says about the request.
type meaning uint8

const (
	unknown  meaning = iota // it may have been applied: ErrUnavailable
	moved                   // not applied: the lease or the record is not what it was; see errMoved
	missing                 // not applied: there is no such blob
	refused                 // for now, and not applied: ErrThrottled
	denied                  // ErrDenied
	misused                 // ErrNotSetUp
	deleting                // ErrNotSetUp, or ErrThrottled where the container is created on demand
	homeless                // the same: there is no container
)

// codes gives the service's error codes their meaning
// (learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and
// …/common-rest-api-error-codes). What is not listed goes by its status.
var codes = map[bloberror.Code]meaning{
	bloberror.ConditionNotMet:                    moved,
	bloberror.TargetConditionNotMet:              moved,
	bloberror.BlobAlreadyExists:                  moved,
	bloberror.LeaseAlreadyBroken:                 moved,
	bloberror.LeaseAlreadyPresent:                moved,
	bloberror.LeaseIDMismatchWithBlobOperation:   moved,
	bloberror.LeaseIDMismatchWithLeaseOperation:  moved,
	bloberror.LeaseIDMissing:                     moved,
	bloberror.LeaseIsBreakingAndCannotBeAcquired: moved,
	bloberror.LeaseIsBreakingAndCannotBeChanged:  moved,
	bloberror.LeaseIsBrokenAndCannotBeRenewed:    moved,
	bloberror.LeaseLost:                          moved,
	bloberror.LeaseNotPresentWithBlobOperation:   moved,
	bloberror.LeaseNotPresentWithLeaseOperation:  moved,

	bloberror.BlobNotFound: missing,

	bloberror.ServerBusy: refused, // over a limit of account or partition: …/azure/storage/blobs/scalability-targets

	bloberror.AccountIsDisabled:         denied,
	bloberror.UnauthorizedBlobOverwrite: denied,

	bloberror.ContainerNotFound:     homeless,
	bloberror.ContainerBeingDeleted: deleting,

	bloberror.BlobArchived:                             misused,
	bloberror.BlobBeingRehydrated:                      misused,
	bloberror.BlobImmutableDueToPolicy:                 misused,
	bloberror.BlobUsesCustomerSpecifiedEncryption:      misused,
	bloberror.ContainerDisabled:                        misused,
	bloberror.FeatureVersionMismatch:                   misused,
	bloberror.InvalidBlobType:                          misused,
	bloberror.OperationNotAllowedOnIncrementalCopyBlob: misused,
	bloberror.OperationNotAllowedOnRootBlob:            misused,
	bloberror.ResourceTypeMismatch:                     misused,

	// The permitted time was over; whether the work was done is not said.
	bloberror.OperationTimedOut: unknown,
	bloberror.InternalError:     unknown,
}

// statuses gives statuses their meaning where the code says nothing. HEAD has no
// body, so an answer of something in between may have no code.
var statuses = map[int]meaning{
	http.StatusBadRequest:         misused,
	http.StatusUnauthorized:       denied,
	http.StatusForbidden:          denied,
	http.StatusPreconditionFailed: moved,
	http.StatusTooManyRequests:    refused,
}

// containerExists are the codes of a container that need not be created.
var containerExists = []bloberror.Code{bloberror.ContainerAlreadyExists}

func meaningOf(answer *azcore.ResponseError) meaning {
	if m, found := codes[bloberror.Code(answer.ErrorCode)]; found {
		return m
	}
	return statuses[answer.StatusCode]
}

// failure turns an error of the client library into one of package leasing,
// keeping both in its chain. What no caller of a provider is to see comes as
// *movedError and *containerError: see Provider.outward.
func failure(err error) error {
	switch {
	case err == nil || errors.Is(err, abstractions.ErrDenied) || errors.Is(err, abstractions.ErrInvalid) || errors.Is(err, abstractions.ErrUnavailable):
		return err
	case errors.Is(err, context.Canceled): // the caller left: that says nothing of the service
		return err
	}
	answer := (*azcore.ResponseError)(nil)
	if !errors.As(err, &answer) {
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, withoutURL(err))
	}
	told := &statusError{answer: answer}
	switch meaningOf(answer) {
	case moved, missing:
		return &movedError{told, meaningOf(answer) == missing}
	case refused:
		return &abstractions.ThrottledError{RetryAfter: retryAfter(answer.RawResponse), Err: told}
	case denied:
		return fmt.Errorf("%w: %w", abstractions.ErrDenied, told)
	case misused:
		return fmt.Errorf("%w: %w", abstractions.ErrNotSetUp, told)
	case homeless, deleting:
		return &containerError{told, meaningOf(answer)}
	}
	return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, told)
}

// statusError is the service's answer in one line. The library's own text is many,
// and has the answer's body, which quotes what the request was signed with.
type statusError struct{ answer *azcore.ResponseError }

func (e *statusError) Error() string {
	code, request := e.answer.ErrorCode, ""
	if code == "" {
		code = http.StatusText(e.answer.StatusCode)
	}
	if e.answer.RawResponse != nil {
		if id := e.answer.RawResponse.Header.Get("x-ms-request-id"); id != "" {
			request = ", request " + strconv.Quote(id)
		}
	}
	return fmt.Sprintf("the Blob service answered %d %s%s", e.answer.StatusCode, code, request)
}

func (e *statusError) Unwrap() error { return e.answer }

// errMoved says that the lease or the record is not what it was at the last look,
// and that nothing was done: it is for looking again.
var errMoved = errors.New("the record has changed meanwhile")

// movedError is errMoved as the service says it.
type movedError struct {
	*statusError
	missing bool // there is no blob, or none any more
}

func (e *movedError) Is(target error) bool { return target == errMoved }

// containerError says that there is no container.
type containerError struct {
	*statusError
	meaning meaning
}

func (e *containerError) Error() string {
	if e.meaning == deleting {
		return fmt.Sprintf("%v: %v; wait until the container is gone, 30 s or more, and create it again: az storage container create", abstractions.ErrNotSetUp, e.statusError)
	}
	return fmt.Sprintf("%v: %v; create the container, with az storage container create, or set Options.CreateContainer", abstractions.ErrNotSetUp, e.statusError)
}

func (e *containerError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

// foreignError is a blob of somebody else's.
type foreignError struct {
	blob   string
	folder bool
	err    error // why it can't be read, if it has a record
}

func (e *foreignError) Error() string {
	why := "it has content, and no record of a lease"
	switch {
	case e.err != nil:
		why = e.err.Error()
	case e.folder:
		why = "it is a folder"
	}
	return fmt.Sprintf("%v: the blob %q is not this library's, and is left alone: %s; use a container of its own for leases, or set Options.Prefix", abstractions.ErrNotSetUp, e.blob, why)
}

func (e *foreignError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

func isForeign(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign)
}

func isMoved(err error) bool { return errors.Is(err, errMoved) }

func isMissing(err error) bool {
	var moved *movedError
	return errors.As(err, &moved) && moved.missing
}

// isHomeless returns the error of a container that is not there.
func isHomeless(err error) (*containerError, bool) {
	var homeless *containerError
	return homeless, errors.As(err, &homeless)
}

// hasCode is bloberror.HasCode. What it is used for is documented where it is.
func hasCode(err error, among ...bloberror.Code) bool {
	var answer *azcore.ResponseError
	return errors.As(err, &answer) && slices.Contains(among, bloberror.Code(answer.ErrorCode))
}

// retryAfter is when the service wants to be asked again, 0 if it does not say.
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	for _, header := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if n, err := strconv.ParseUint(response.Header.Get(header), 10, 31); err == nil {
			return time.Duration(n) * time.Millisecond
		}
	}
	text := response.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	now, errNow := http.ParseTime(response.Header.Get("Date"))
	if err != nil || errNow != nil { // by the service's clock, or not at all
		return 0
	}
	return max(0, at.Sub(now))
}

// dateOf is the service's clock in an error.
func dateOf(err error) time.Time {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) || answer.RawResponse == nil {
		return time.Time{}
	}
	now, err := http.ParseTime(answer.RawResponse.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return now
}
