package s3lease

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// What an answer says beside the classes of the kit.
const (
	missing  providerkit.Class = 0x80 + iota // there is no such object
	conflict                                 // somebody has created or changed the object, or is about to
)

const noBucket = "NoSuchBucket"

// answerOf is what the store has answered; the zero values if it has not.
func answerOf(err error) (code string, status int, header http.Header) {
	if named := smithy.APIError(nil); errors.As(err, &named) {
		code = named.ErrorCode()
	}
	if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
		status, header = answer.Response.StatusCode, answer.Response.Header
	}
	return code, status, header
}

// classOf goes by docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. An error
// without a code is of no answer of the store: see answers.
func classOf(err error) providerkit.Class {
	code, status, _ := answerOf(err)
	switch code {
	case "", "RequestTimeout", // 400
		"TemporaryRedirect": // 307, until the names of a new bucket are known
		return providerkit.Unknown
	case "NoSuchKey":
		return missing
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted": // 412; 409, another request for the key was under way
		return conflict
	case noBucket:
		return providerkit.NotSetUp
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired": // 400
		return providerkit.Denied
	case "SlowDown": // 503
		return providerkit.Refused
	}
	switch status {
	case http.StatusMovedPermanently, // another region's bucket
		http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented: // a store that knows no conditions
		return providerkit.NotSetUp
	case http.StatusUnauthorized, http.StatusForbidden:
		return providerkit.Denied
	case http.StatusTooManyRequests:
		return providerkit.Refused
	}
	return providerkit.Unknown
}

// Classify says what an error of the SDK means. It makes one attempt, so a dial that
// failed has sent nothing.
func (*driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: classOf(err)}
	code, status, header := answerOf(err)
	if unanswered, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		m.Text = unanswered.Err.Error() // the SDK puts an empty status and IDs before it
	}
	switch {
	case m.Class == missing, m.Class == conflict:
		m.Class = providerkit.Unknown
	case m.Class == providerkit.Refused:
		m.RetryAfter = httpguard.RetryAfter(header)
	case m.Class == providerkit.Denied:
		m.Advice = "s3:GetObject, s3:PutObject and s3:ListBucket are needed, and this machine's clock has to be right"
	case code == noBucket:
		m.Advice = "create the bucket"
	case status == 0 && providerkit.NotSent(err):
		m.Class = providerkit.Unsent
	}
	return m
}
