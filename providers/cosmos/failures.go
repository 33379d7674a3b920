package cosmoslease

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// What a status says beside the classes of the kit.
const (
	missing     providerkit.Class = 0x80 + iota // there is no such item
	conflict                                    // somebody has created or changed the item
	noContainer                                 // there is none, or no database
)

// status is a status code with its substatus. 0 as a substatus stands for all
// that are not listed.
type status struct{ code, sub int }

// codes gives statuses their meaning; what is not listed is Unknown. The codes are
// those of learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb,
// the substatus those of Azure/azure-sdk-for-java,
// sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
var codes = map[status]providerkit.Class{
	{400, 0}:    providerkit.NotSetUp,
	{401, 0}:    providerkit.Denied,
	{403, 0}:    providerkit.Denied,
	{403, 3}:    providerkit.Refused, // a region that takes no writes: a failover under way
	{403, 1008}: providerkit.Refused, // a replica that does not know the account yet
	{404, 0}:    missing,
	{404, 1002}: providerkit.Unknown, // the replica has not seen what the session token tells of
	{404, 1003}: noContainer,
	{404, 1024}: providerkit.Unknown, // the container was created anew a moment ago
	{409, 0}:    conflict,
	{412, 0}:    conflict,
	{413, 0}:    providerkit.NotSetUp, // more than 2 MB: there is somebody else's data in the document
	{429, 0}:    providerkit.Refused,
	// 408, 410, 449, 500, 502, 503 and 504 are unknown. 449 is documented as
	// safe to retry, not as not applied.
}

// statusOf is the service's answer in an error, with its header; nil if there is none.
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

func classOf(err error) providerkit.Class {
	s, _ := statusOf(err)
	if class, ok := codes[s]; ok {
		return class
	}
	return codes[status{code: s.code}]
}

// refusal is the error of a request that changes something: ErrConflict if the item is
// not what it was.
func refusal(err error) error {
	if class := classOf(err); class == conflict || class == missing && !errors.Is(err, errNoContainer) {
		return providerkit.ErrConflict
	}
	return err
}

// whole is the error of a request about the container as a whole. One that is gone may be
// told by 404 alone.
func whole(err error) error {
	if classOf(err) == missing {
		return fmt.Errorf("%w: %w", errNoContainer, err)
	}
	return err
}

// Classify says what an error of azcosmos means. That nothing was sent is certain of
// a read alone: azcosmos repeats some writes, and the one before may have arrived.
func (*driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: classOf(err)}
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

// readError is of a request that changes nothing.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// errNoContainer is part of what a call without a container returns.
var errNoContainer = fmt.Errorf("%w: there is no such container", abstractions.ErrNotSetUp)

// brief is an error in one line. azcosmos shows the whole reply, in eight to twelve.
func brief(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if s, header := statusOf(err); header != nil {
		text = fmt.Sprintf("Cosmos DB answered %d/%d, activity %q", s.code, s.sub, header.Get("x-ms-activity-id"))
	}
	const longest = 300
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return providerkit.WithText(text, err)
}
