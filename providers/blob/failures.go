package bloblease

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// What an answer says beside the classes of the kit. Nothing was applied.
const (
	changed     providerkit.Class = 0x80 + iota // the lease or the record is not what it was
	missing                                     // there is no such blob
	noContainer                                 // there is none
	deleting                                    // the container is about to go
)

// codes gives the service's error codes their meaning
// (learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and
// …/common-rest-api-error-codes). A code that begins with Lease says that a lease has
// changed. A code that is not listed goes by its status.
var codes = map[bloberror.Code]providerkit.Class{
	bloberror.BlobAlreadyExists:     changed,
	bloberror.BlobNotFound:          missing,
	"SoftDeletedBlobNotFound":       missing, // one that was deleted, in an account that keeps those: the SDK has no name for it
	bloberror.ContainerNotFound:     noContainer,
	bloberror.ContainerBeingDeleted: deleting,

	bloberror.ServerBusy: providerkit.Refused, // over a limit of account or partition: …/azure/storage/blobs/scalability-targets

	bloberror.AccountIsDisabled: providerkit.Denied,

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

// statuses gives statuses their meaning where the code says nothing. After any other, a
// 500 for one, the request may have been applied.
var statuses = map[int]providerkit.Class{
	http.StatusBadRequest:         providerkit.NotSetUp,
	http.StatusUnauthorized:       providerkit.Denied,
	http.StatusForbidden:          providerkit.Denied,
	http.StatusPreconditionFailed: changed,
	http.StatusTooManyRequests:    providerkit.Refused,
}

// classOf is the class of an error: Unknown without an answer of the service, which has a
// code, and for a call that was applied in part.
func classOf(err error) providerkit.Class {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || answer.ErrorCode == "" || errors.Is(err, abstractions.ErrUnavailable) {
		return providerkit.Unknown
	}
	if class, found := codes[bloberror.Code(answer.ErrorCode)]; found {
		return class
	}
	if strings.HasPrefix(answer.ErrorCode, "Lease") {
		return changed
	}
	return statuses[answer.StatusCode]
}

func isMissing(err error) bool { return classOf(err) == missing }

func isNoContainer(err error) bool {
	class := classOf(err)
	return class == noContainer || class == deleting
}

// willCreate reports whether an error is of a container that the next write creates.
func (s *store) willCreate(err error) bool { return s.create && classOf(err) == noContainer }

// failure is the error of a request that changes something: ErrConflict if the record,
// the lease or the container is not what it was at the last look.
func (s *store) failure(err error) error {
	if class := classOf(err); class == changed || class == missing || s.willCreate(err) {
		return providerkit.ErrConflict
	}
	return short(err)
}

// Classify says what an error of the client library means. The library makes each
// request once: see Options.client.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: classOf(err), Text: withoutURL(short(err)).Error()}
	switch class := m.Class; {
	case providerkit.NotSent(err):
		m.Class = providerkit.Unsent
	case class == changed, class == missing:
		m.Class = providerkit.Unknown
	case class == providerkit.Refused:
		m.RetryAfter = httpguard.RetryAfter(headerOf(err))
	case class < changed:
	case d.store.create: // the next acquire creates the container, once it is gone
		m.Class = providerkit.Refused
	case class == deleting:
		m.Class, m.Advice = providerkit.NotSetUp, "wait until the container is gone, 30 s or more, and create it again: az storage container create"
	default:
		m.Class, m.Advice = providerkit.NotSetUp, "create the container, with az storage container create, or set Options.Create"
	}
	return m
}

// short is an error whose text is one line if it is an answer of the service. The
// library's own text is many, and has the answer's body, which quotes what the request
// was signed with.
func short(err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("the Blob service answered %d %s", answer.StatusCode, cmp.Or(answer.ErrorCode, http.StatusText(answer.StatusCode)))
	if id := headerOf(err).Get("x-ms-request-id"); id != "" {
		text += ", request " + strconv.Quote(id)
	}
	return providerkit.WithText(text, err)
}

// lockedError is of a blob that somebody has leased, and that is not ours, or not any
// more.
type lockedError struct{ error }

func (e lockedError) Unwrap() error { return e.error }

func isLockedByOthers(err error) bool {
	_, ok := errors.AsType[lockedError](err)
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
