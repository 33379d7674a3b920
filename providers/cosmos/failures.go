package cosmoslease

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// These are the classes of the service's refusals, in addition to those of package providerkit.
const (
	missing     providerkit.Class = 0x80 + iota // the item does not exist
	conflict                                    // another write has created or changed the item
	noContainer                                 // the container or the database does not exist
)

// status is a status code with its substatus. A substatus of 0 stands for every
// substatus that is not listed.
type status struct{ code, sub int }

// codes maps statuses to their meaning. A status that is not listed is Unknown. The class says whether the
// request may have been applied: see [providerkit.Class]. The codes are those of
// learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb, the substatuses those of
// Azure/azure-sdk-for-java, sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
var codes = map[status]providerkit.Meaning{
	{400, 0}:    {Class: providerkit.NotSetUp},
	{401, 0}:    {Class: providerkit.Denied, Advice: "the key or token is from another account or has expired, or this machine's clock is off"},
	{403, 0}:    {Class: providerkit.Denied, Advice: "the account's firewall may keep this machine out, or the identity lacks the actions of RoleDefinition"},
	{403, 3}:    {Class: providerkit.Refused}, // a region that accepts no writes, during a failover
	{403, 1008}: {Class: providerkit.Refused}, // a replica that does not have the account yet
	{404, 0}:    {Class: missing},
	{404, 1002}: {Class: providerkit.Unknown}, // the replica lags behind the session token
	{404, 1003}: {Class: noContainer},
	{404, 1024}: {Class: providerkit.Unknown}, // the container was created a moment ago
	{409, 0}:    {Class: conflict},
	{412, 0}:    {Class: conflict},
	{413, 0}:    {Class: providerkit.NotSetUp, Advice: "the document has another program's data"}, // more than 2 MB
	{429, 0}:    {Class: providerkit.Refused},
	// 408, 410, 449, 500, 502, 503 and 504 are Unknown. The documentation says that 449 is safe to
	// retry, but not that the request was not applied.
}

// statusOf returns the status and the header of the service's answer in an error. The
// header is nil if the error contains no answer.
func statusOf(err error) (status, http.Header) {
	var answered *azcore.ResponseError
	if !errors.As(err, &answered) {
		return status{}, nil
	}
	s := status{code: answered.StatusCode}
	if answered.RawResponse == nil {
		return s, http.Header{}
	}
	header := answered.RawResponse.Header
	s.sub, _ = strconv.Atoi(header.Get("x-ms-substatus"))
	return s, header
}

func meaningOf(err error) providerkit.Meaning {
	s, _ := statusOf(err)
	if m, ok := codes[s]; ok {
		return m
	}
	return codes[status{code: s.code}]
}

func classOf(err error) providerkit.Class { return meaningOf(err).Class }

// refusal converts the error of a write. The result is ErrConflict if the item was created,
// changed or deleted since it was read.
func refusal(err error) error {
	if class := classOf(err); class == conflict || class == missing && !errors.Is(err, errNoContainer) {
		return cas.ErrConflict
	}
	return err
}

// containerError returns the error of a request about the container as a whole. The answer
// for a missing container may be a plain 404.
func containerError(err error) error {
	if classOf(err) == missing {
		return fmt.Errorf("%w: %w", errNoContainer, err)
	}
	return err
}

// Classify returns the meaning of an error from azcosmos. It reports Unsent only for reads:
// azcosmos repeats some writes, and an earlier copy may have arrived.
func (*driver) Classify(err error) providerkit.Meaning {
	m := meaningOf(err)
	switch m.Class {
	case missing, conflict:
		m.Class = providerkit.Unknown
	case noContainer:
		m.Class = providerkit.NotSetUp
	case providerkit.Refused:
		_, header := statusOf(err)
		m.RetryAfter = httpguard.RetryAfter(header)
	case providerkit.Unknown:
		if read := (readError{}); errors.As(err, &read) && providerkit.NotSent(read) {
			m.Class = providerkit.Unsent
		}
	}
	return m
}

// readError is the error of a request that only reads.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// errNoContainer is wrapped by the errors of calls whose container does not exist.
var errNoContainer = fmt.Errorf("%w: there is no such container", abstractions.ErrNotSetUp)

// shortError returns an error in one line: status, substatus, and the service's own sentences. azcosmos shows the whole reply, in
// eight to twelve lines, with the text that was signed.
func shortError(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	text := httpguard.Sentences(nil, err.Error())
	if s, header := statusOf(err); header != nil {
		text = fmt.Sprintf("Cosmos DB answered %d/%d%s, activity %q", s.code, s.sub, serviceMessage(err), header.Get("x-ms-activity-id"))
	}
	return providerkit.WithText(text, err)
}

// serviceMessage returns the service's own sentences about a refusal, after a colon, or "" if there
// is no message.
func serviceMessage(err error) string {
	var answered *azcore.ResponseError
	if !errors.As(err, &answered) || answered.RawResponse == nil {
		return ""
	}
	body, err := runtime.Payload(answered.RawResponse) // the body is in memory
	var refusal struct{ Message string }
	if err != nil || json.Unmarshal(body, &refusal) != nil {
		return ""
	}
	if text := httpguard.Sentences(answered.RawResponse.Request, refusal.Message); text != "" {
		return ": " + text
	}
	return ""
}
