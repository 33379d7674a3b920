package bloblease

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// The classes of the service's refusals, in addition to those of package providerkit. The request was not
// applied.
const (
	changed     providerkit.Class = 0x80 + iota // the lease or the record has changed since the read
	missing                                     // the blob does not exist
	noContainer                                 // the container does not exist
	deleting                                    // the container is being deleted
)

// codes maps the service's error codes to their meaning
// (learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and …/common-rest-api-error-codes).
// The class says whether the request was applied: see [providerkit.Class]. An answer to HEAD has no body, so
// the advice of a code replaces the message. A code that begins with Lease means that a lease has changed. A
// code that is not listed has the meaning of its status.
var codes = map[bloberror.Code]providerkit.Meaning{
	bloberror.BlobAlreadyExists:     {Class: changed},
	bloberror.BlobNotFound:          {Class: missing},
	"SoftDeletedBlobNotFound":       {Class: missing}, // a deleted blob, in an account with soft delete: the SDK has no name for the code
	bloberror.ContainerNotFound:     {Class: noContainer, Advice: "create the container, with az storage container create, or set Options.Create"},
	bloberror.ContainerBeingDeleted: {Class: deleting, Advice: "wait until the container is gone, 30 s or more, and create it again: az storage container create"},

	bloberror.ServerBusy: {Class: providerkit.Refused}, // over a limit of account or partition: …/azure/storage/blobs/scalability-targets

	bloberror.AccountIsDisabled:                 {Class: providerkit.Denied},
	bloberror.AuthenticationFailed:              {Class: providerkit.Denied, Advice: "the key, SAS or token is wrong or has expired, or this machine's clock is off"},
	bloberror.InvalidAuthenticationInfo:         {Class: providerkit.Denied, Advice: "the token has expired or is from another tenant, or this machine's clock is off"},
	bloberror.NoAuthenticationInformation:       {Class: providerkit.Denied, Advice: "the account permits nothing without a key, a SAS or a token"},
	bloberror.AuthorizationFailure:              {Class: providerkit.Denied, Advice: "the account's firewall may keep this machine out, or the SAS does not permit read, write, create and list"},
	bloberror.AuthorizationPermissionMismatch:   {Class: providerkit.Denied, Advice: roleAdvice},
	bloberror.InsufficientAccountPermissions:    {Class: providerkit.Denied, Advice: roleAdvice},
	bloberror.AuthorizationProtocolMismatch:     {Class: providerkit.Denied, Advice: "the SAS is for https only"},
	bloberror.AuthorizationSourceIPMismatch:     {Class: providerkit.Denied, Advice: "the SAS is not for this machine's address"},
	bloberror.AuthorizationResourceTypeMismatch: {Class: providerkit.Denied, Advice: "the SAS has to be for containers and objects"},
	bloberror.AuthorizationServiceMismatch:      {Class: providerkit.Denied, Advice: "the SAS has to be for the Blob service"},
	"KeyBasedAuthenticationNotPermitted":        {Class: providerkit.Denied, Advice: "the account permits no keys and no SAS of a key: use Options.Auth"},

	bloberror.BlobArchived:                             {Class: providerkit.NotSetUp},
	bloberror.BlobBeingRehydrated:                      {Class: providerkit.NotSetUp},
	bloberror.BlobImmutableDueToPolicy:                 {Class: providerkit.NotSetUp},
	bloberror.BlobUsesCustomerSpecifiedEncryption:      {Class: providerkit.NotSetUp},
	bloberror.ContainerDisabled:                        {Class: providerkit.NotSetUp},
	bloberror.FeatureVersionMismatch:                   {Class: providerkit.NotSetUp},
	bloberror.InvalidBlobType:                          {Class: providerkit.NotSetUp},
	bloberror.InvalidHeaderValue:                       {Class: providerkit.NotSetUp, Advice: "Azurite may need --skipApiVersionCheck"},
	bloberror.OperationNotAllowedOnIncrementalCopyBlob: {Class: providerkit.NotSetUp},
	bloberror.OperationNotAllowedOnRootBlob:            {Class: providerkit.NotSetUp},
	bloberror.ResourceTypeMismatch:                     {Class: providerkit.NotSetUp},
}

const roleAdvice = "a role such as Storage Blob Data Contributor is needed, which counts some minutes after its assignment, or a SAS that permits read, write, create and list"

// statuses maps statuses to their meaning, for codes without a class. After any other
// status, such as 500, the request may have been applied.
var statuses = map[int]providerkit.Meaning{
	http.StatusBadRequest:         {Class: providerkit.NotSetUp},
	http.StatusUnauthorized:       {Class: providerkit.Denied},
	http.StatusForbidden:          {Class: providerkit.Denied},
	http.StatusPreconditionFailed: {Class: changed},
	http.StatusTooManyRequests:    {Class: providerkit.Refused},
}

// meaningOf returns the meaning of an error. It is Unknown for an error without a code from the
// service, and for a call that was applied in part.
func meaningOf(err error) providerkit.Meaning {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || answer.ErrorCode == "" || errors.Is(err, abstractions.ErrUnavailable) {
		return providerkit.Meaning{}
	}
	if m, found := codes[bloberror.Code(answer.ErrorCode)]; found {
		return m
	}
	if strings.HasPrefix(answer.ErrorCode, "Lease") {
		return providerkit.Meaning{Class: changed}
	}
	return statuses[answer.StatusCode]
}

func classOf(err error) providerkit.Class { return meaningOf(err).Class }

func isMissing(err error) bool { return classOf(err) == missing }

func isNoContainer(err error) bool {
	class := classOf(err)
	return class == noContainer || class == deleting
}

// willCreate reports whether an error comes from a missing container that the next
// write creates.
func (s *store) willCreate(err error) bool { return s.create && classOf(err) == noContainer }

// failure returns the error of a request that changes something: ErrConflict if the
// record, the lease or the container has changed since the last read.
func (s *store) failure(err error) error {
	if class := classOf(err); class == changed || class == missing || s.willCreate(err) {
		return cas.ErrConflict
	}
	return shortError(err)
}

// Classify returns the meaning of an error from the client library. The library makes each request
// once: see Options.client.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := meaningOf(err)
	m.Text = withoutURL(shortError(err)).Error()
	switch class := m.Class; {
	case providerkit.NotSent(err):
		m.Class = providerkit.Unsent
	case class == changed, class == missing:
		m.Class = providerkit.Unknown
	case class == providerkit.Refused:
		m.RetryAfter = httpguard.RetryAfter(headerOf(err))
	case class < changed:
	case d.store.create: // the next acquire creates the container, after its deletion has ended
		m.Class, m.Advice = providerkit.Refused, ""
	default:
		m.Class = providerkit.NotSetUp
	}
	return m
}

// shortError replaces the text of an answer from the service with one line: status, code, the service's
// message and the request ID. The library's own text has many lines and the answer's body, which may quote the text that
// was signed.
func shortError(err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("the Blob service answered %d %s", answer.StatusCode, cmp.Or(answer.ErrorCode, http.StatusText(answer.StatusCode)))
	if quoted := serviceMessage(answer.RawResponse); quoted != "" {
		text += ": " + quoted
	}
	if id := headerOf(err).Get("x-ms-request-id"); id != "" {
		text += ", request " + strconv.Quote(id)
	}
	return providerkit.WithText(text, err)
}

// serviceMessage returns the service's own sentences about a refusal
// (learn.microsoft.com/rest/api/storageservices/status-and-error-codes2). AuthenticationErrorDetail explains a
// refused signature: a clock that is off, a SAS that has expired.
func serviceMessage(response *http.Response) string {
	if response == nil {
		return ""
	}
	body, err := runtime.Payload(response) // the body is in memory
	var refusal struct{ Message, AuthenticationErrorDetail, HeaderName string }
	if err != nil || xml.Unmarshal(body, &refusal) != nil {
		return ""
	}
	text := cmp.Or(httpguard.Sentences(response.Request, refusal.AuthenticationErrorDetail), httpguard.Sentences(response.Request, refusal.Message))
	if name := httpguard.Sentences(response.Request, refusal.HeaderName); name != "" {
		text += " (header " + name + ")"
	}
	return text
}

// lockedError is the error of a blob that is leased and has no record of this library,
// or has lost its record.
type lockedError struct{ error }

func (e lockedError) Unwrap() error { return e.error }

func isLockedByOthers(err error) bool {
	_, ok := errors.AsType[lockedError](err)
	return ok
}

// headerOf returns the header of the service's answer in an error, or nil.
func headerOf(err error) http.Header {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || answer.RawResponse == nil {
		return nil
	}
	return answer.RawResponse.Header
}

// dateOf returns the time of the service's clock in an error, or the zero time.
func dateOf(err error) time.Time {
	now, _ := http.ParseTime(headerOf(err).Get("Date"))
	return now
}
