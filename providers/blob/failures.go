package bloblease

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// What an answer says beside the classes of the kit. Nothing was applied.
const (
	changed     providerkit.Class = 0x80 + iota // the lease or the record is not what it was; see errChanged
	missing                                     // there is no such blob
	noContainer                                 // there is none
	deleting                                    // the container is about to go
)

// codes gives the service's error codes their meaning
// (learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and
// …/common-rest-api-error-codes). What is not listed goes by its status.
var codes = map[bloberror.Code]providerkit.Class{
	bloberror.BlobAlreadyExists:                  changed,
	bloberror.LeaseAlreadyBroken:                 changed,
	bloberror.LeaseAlreadyPresent:                changed,
	bloberror.LeaseIDMismatchWithBlobOperation:   changed,
	bloberror.LeaseIDMismatchWithLeaseOperation:  changed,
	bloberror.LeaseIsBreakingAndCannotBeAcquired: changed,
	bloberror.LeaseIsBreakingAndCannotBeChanged:  changed,
	bloberror.LeaseIsBrokenAndCannotBeRenewed:    changed,
	bloberror.LeaseNotPresentWithLeaseOperation:  changed,

	bloberror.BlobNotFound: missing,

	bloberror.ServerBusy: providerkit.Refused, // over a limit of account or partition: …/azure/storage/blobs/scalability-targets

	bloberror.AccountIsDisabled: providerkit.Denied,

	bloberror.ContainerNotFound:     noContainer,
	bloberror.ContainerBeingDeleted: deleting,

	bloberror.BlobArchived:                             providerkit.NotSetUp,
	bloberror.BlobBeingRehydrated:                      providerkit.NotSetUp,
	bloberror.BlobImmutableDueToPolicy:                 providerkit.NotSetUp,
	bloberror.BlobUsesCustomerSpecifiedEncryption:      providerkit.NotSetUp,
	bloberror.ContainerDisabled:                        providerkit.NotSetUp,
	bloberror.FeatureVersionMismatch:                   providerkit.NotSetUp,
	bloberror.InvalidBlobType:                          providerkit.NotSetUp,
	bloberror.OperationNotAllowedOnIncrementalCopyBlob: providerkit.NotSetUp,
	bloberror.OperationNotAllowedOnRootBlob:            providerkit.NotSetUp,
	bloberror.ResourceTypeMismatch:                     providerkit.NotSetUp,
}

// statuses gives statuses their meaning where the code says nothing. HEAD has no
// body, so an answer of something in between may have no code. After any other, a
// 500 for one, the request may have been applied.
var statuses = map[int]providerkit.Class{
	http.StatusBadRequest:         providerkit.NotSetUp,
	http.StatusUnauthorized:       providerkit.Denied,
	http.StatusForbidden:          providerkit.Denied,
	http.StatusPreconditionFailed: changed,
	http.StatusTooManyRequests:    providerkit.Refused,
}

// classOf says what an error is about: Unknown if it is no answer of the service, or
// of a call that was applied in part.
func classOf(err error) providerkit.Class {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || errors.Is(err, abstractions.ErrUnavailable) {
		return providerkit.Unknown
	}
	if class, found := codes[bloberror.Code(answer.ErrorCode)]; found {
		return class
	}
	return statuses[answer.StatusCode]
}

// Classify says what an error of the client library means. The library makes each
// request once: see Options.client.
func (d *driver) Classify(err error) providerkit.Meaning {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		m := providerkit.Meaning{Text: withoutURL(err).Error()}
		if providerkit.NotSent(err) {
			m.Class = providerkit.Unsent
		}
		return m
	}
	m := providerkit.Meaning{Class: classOf(err), Text: (&statusError{answer}).Error()}
	switch class := m.Class; {
	case class == changed, class == missing:
		m.Class = providerkit.Unknown
	case class == providerkit.Refused:
		m.RetryAfter = providerkit.RetryAfter(headerOf(answer))
	case class < changed:
	case d.create: // the next acquire creates the container, once it is gone
		m.Class = providerkit.Refused
	case class == deleting:
		m.Class, m.Advice = providerkit.NotSetUp, "wait until the container is gone, 30 s or more, and create it again: az storage container create"
	default:
		m.Class, m.Advice = providerkit.NotSetUp, "create the container, with az storage container create, or set Options.Create"
	}
	return m
}

// partialIf is for the error of a call that has written before, and so was applied in
// part.
func partialIf(wrote bool, err error) error {
	if !wrote || err == nil {
		return err
	}
	return providerkit.Partial(short(err))
}

// short is an error whose text is one line if it is an answer of the service.
func short(err error) error {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return &statusError{answer}
	}
	return err
}

// statusError is the service's answer in one line. The library's own text is many,
// and has the answer's body, which quotes what the request was signed with.
type statusError struct{ answer *azcore.ResponseError }

func (e *statusError) Error() string {
	code, request := e.answer.ErrorCode, ""
	if code == "" {
		code = http.StatusText(e.answer.StatusCode)
	}
	if id := headerOf(e.answer).Get("x-ms-request-id"); id != "" {
		request = ", request " + strconv.Quote(id)
	}
	return fmt.Sprintf("the Blob service answered %d %s%s", e.answer.StatusCode, code, request)
}

func (e *statusError) Unwrap() error { return e.answer }

// errChanged says that the lease or the record is not what it was at the last look,
// and that nothing was done: it is for looking again.
var errChanged = errors.New("the record has changed meanwhile")

// isChanged reports whether an error is errChanged, or the same as the service says it.
func isChanged(err error) bool {
	class := classOf(err)
	return class == changed || class == missing || errors.Is(err, errChanged)
}

func isMissing(err error) bool { return classOf(err) == missing }

func isNoContainer(err error) bool {
	class := classOf(err)
	return class == noContainer || class == deleting
}

// willCreate reports whether an error is of a container that the next acquire creates.
func (d *driver) willCreate(err error) bool { return d.create && classOf(err) == noContainer }

// attempts bounds how often a call begins again because the record has changed
// between its look and its write. Each time somebody else has got further.
const attempts = 5

// errContended says that a call gave up because others were quicker each time.
var errContended = fmt.Errorf("%w: others have changed the record each time between reading and writing it", abstractions.ErrUnavailable)

// notOursError is a blob of somebody else's.
type notOursError struct {
	blob   string
	folder bool
	err    error // why it can't be read, if it has a record
}

func (e *notOursError) Error() string {
	why := "it has content, and no record of a lease"
	switch {
	case e.err != nil:
		why = e.err.Error()
	case e.folder:
		why = "it is a folder"
	}
	return fmt.Sprintf("%v: the blob %q is not this library's, and is left alone: %s; use a container of its own for leases, or set Options.Prefix", abstractions.ErrNotSetUp, e.blob, why)
}

func (e *notOursError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

func isNotOurs(err error) bool {
	_, ok := errors.AsType[*notOursError](err)
	return ok
}

// headerOf is the header of the service's answer in an error; nil if there is none.
func headerOf(err error) http.Header {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || answer.RawResponse == nil {
		return nil
	}
	return answer.RawResponse.Header
}

// dateOf is the service's clock in an error, zero if there is none.
func dateOf(err error) time.Time {
	now, _ := http.ParseTime(headerOf(err).Get("Date"))
	return now
}
