package s3lease

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// The classes of the store's refusals, in addition to those of the kit.
const (
	missing  providerkit.Class = 0x80 + iota // the object does not exist
	conflict                                 // another request has created or changed the object, or is about to
)

const noBucket = "NoSuchBucket"

// answerOf returns the store's answer in an error, or zero values if the error contains no answer.
func answerOf(err error) (code string, status int, header http.Header) {
	if named := smithy.APIError(nil); errors.As(err, &named) {
		code = named.ErrorCode()
	}
	if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
		status, header = answer.Response.StatusCode, answer.Response.Header
	}
	return code, status, header
}

// codes maps the store's error codes to their meaning (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
// …/KMS/latest/APIReference/CommonErrors.html). The class says whether the request was applied: see [providerkit.Class]. The SDK
// lists the throttling codes. Any other code has the meaning of its status.
var codes = map[string]providerkit.Meaning{
	"NoSuchKey":                  {Class: missing},
	"PreconditionFailed":         {Class: conflict}, // 412
	"ConditionalRequestConflict": {Class: conflict}, // 409, another request for the key was in flight
	"OperationAborted":           {Class: conflict}, // 409
	noBucket:                     {Class: providerkit.NotSetUp, Advice: "create the bucket"},

	"RequestTimeout":    {Class: providerkit.Unknown}, // 400
	"TemporaryRedirect": {Class: providerkit.Unknown}, // 307, until DNS has the new bucket

	// These are temporary: the next request has other credentials, another timestamp, or a complete body.
	"ExpiredToken":                {Class: providerkit.Unsent, Advice: adviceExpired}, // 400
	"ExpiredTokenException":       {Class: providerkit.Unsent, Advice: adviceExpired},
	"TokenRefreshRequired":        {Class: providerkit.Unsent, Advice: adviceExpired}, // 400
	"RequestExpired":              {Class: providerkit.Unsent, Advice: adviceClock},   // 400
	"RequestTimeTooSkewed":        {Class: providerkit.Unsent, Advice: adviceClock},   // 403
	"IncompleteBody":              {Class: providerkit.Unsent},                        // 400
	"BadDigest":                   {Class: providerkit.Unsent},                        // 400, the body was damaged
	"XAmzContentSHA256Mismatch":   {Class: providerkit.Unsent},                        // 400, as BadDigest
	"XAmzContentChecksumMismatch": {Class: providerkit.Unsent},                        // 400, as BadDigest

	"InvalidToken": {Class: providerkit.Denied, Advice: adviceRights}, // 400
}

const (
	adviceExpired = "the credentials have expired: their source has to supply new ones"
	adviceClock   = "this machine's clock has to be right"
	adviceRights  = "s3:GetObject, s3:PutObject and s3:ListBucket are needed, and keys of the bucket's account"
)

// statuses maps statuses to their meaning, for codes without a class. After any other status the request may have been applied.
var statuses = map[int]providerkit.Meaning{
	http.StatusMovedPermanently: {Class: providerkit.NotSetUp}, // another region's bucket
	http.StatusBadRequest:       {Class: providerkit.NotSetUp}, // like the next two: from a store without conditional writes
	http.StatusMethodNotAllowed: {Class: providerkit.NotSetUp},
	http.StatusNotImplemented:   {Class: providerkit.NotSetUp},
	http.StatusUnauthorized:     {Class: providerkit.Denied, Advice: adviceRights},
	http.StatusForbidden:        {Class: providerkit.Denied, Advice: adviceRights},
	http.StatusTooManyRequests:  {Class: providerkit.Refused},
}

// meaningOf returns the meaning of an error. An error without a code is not an answer from the
// store: see answerChecker.
func meaningOf(err error) providerkit.Meaning {
	code, status, _ := answerOf(err)
	code = strings.TrimPrefix(code, "KMS.") // a code of the service that encrypts the bucket
	if code == "" {
		return providerkit.Meaning{}
	}
	if m, found := codes[code]; found {
		return m
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return providerkit.Meaning{Class: providerkit.Refused}
	}
	return statuses[status]
}

func classOf(err error) providerkit.Class { return meaningOf(err).Class }

// Classify returns the meaning of an error from the SDK. The SDK makes one attempt, so
// a failed dial has sent nothing.
func (*driver) Classify(err error) providerkit.Meaning {
	m := meaningOf(err)
	_, status, header := answerOf(err)
	if unanswered, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		m.Text = unanswered.Err.Error() // the SDK puts an empty status and IDs before this text
	}
	switch {
	case m.Class == missing, m.Class == conflict:
		m.Class = providerkit.Unknown
	case m.Class == providerkit.Refused:
		m.RetryAfter = httpguard.RetryAfter(header)
	case status == 0 && providerkit.NotSent(err):
		m.Class = providerkit.Unsent
	}
	return m
}
