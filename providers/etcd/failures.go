package etcdlease

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	adviceRole   = "a role with readwrite on the prefix is needed"
	adviceTxnOps = "allow 128 operations in a transaction: --max-txn-ops"
)

// meanings maps etcd's errors to their meaning by name (go.etcd.io/etcd/api/v3/v3rpc/rpctypes), where the name is more precise
// than the gRPC code. The class says whether a request was applied: see [providerkit.Class]. It has no effect on the connection:
// gRPC closes connections that fail, and the function retryOnLearner avoids learners.
var meanings = map[string]providerkit.Meaning{
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner): {Class: providerkit.Unsent, Advice: "endpoints must be voting members"},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNotLeader):              {Class: providerkit.Unsent},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNotCapable):             {Class: providerkit.Unsent}, // a cluster that started just now has no version yet
	rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision):        {Class: providerkit.Unsent}, // users were changed at the same time
	rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooManyRequests): {Class: providerkit.Refused},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCNoSpace):                {Class: providerkit.Refused, Advice: "free space, and then disarm the alarm: etcdctl alarm disarm"},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthFailed):             {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCUserEmpty):              {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCUserNotFound):           {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCRoleNotFound):           {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCPermissionDenied):       {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken):       {Class: providerkit.Denied, Advice: adviceRole},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthNotEnabled):         {Class: providerkit.NotSetUp, Advice: "enable authentication, or leave Username out"},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCClusterIDMismatch):      {Class: providerkit.NotSetUp, Advice: "endpoints must be members of one cluster"},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCTooManyOps):             {Class: providerkit.NotSetUp, Advice: adviceTxnOps},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooLarge):        {Class: providerkit.Invalid},
	rpctypes.ErrorDesc(rpctypes.ErrGRPCLeaseTTLTooLarge):       {Class: providerkit.Invalid},
}

// textOf returns the text of etcd's own error, by which rpctypes identifies errors.
func textOf(err error) string {
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		return e.Error()
	}
	return rpctypes.ErrorDesc(err)
}

// isEtcdError reports whether err is the given etcd error.
func isEtcdError(err, of error) bool { return err != nil && textOf(err) == rpctypes.ErrorDesc(of) }

// retryOnLearner makes a request, and repeats the request while a learner answers. A learner applies nothing. The client uses its connected
// endpoints in turn, and other callers use some of the turns. After four rounds retryOnLearner pauses between attempts, since the client may
// not be connected to the voting members yet.
func retryOnLearner[T any](ctx context.Context, client *clientv3.Client, request func() (T, error)) (T, error) {
	members, pause := len(client.Endpoints()), 5*time.Millisecond
	for attempt := 1; ; attempt++ {
		answer, err := request()
		if members == 1 || !isEtcdError(err, rpctypes.ErrGRPCNotSupportedForLearner) {
			return answer, err
		}
		if attempt < 4*members {
			continue
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
			pause = min(2*pause, time.Second/2)
		}
	}
}

// Classify recognizes etcd's own errors, and otherwise uses the gRPC code. Only the text distinguishes a failed dial from a lost
// connection, so both are Unknown.
func (*driver) Classify(err error) providerkit.Meaning {
	if isCredentialError(err) {
		return providerkit.Meaning{Class: providerkit.Unsent, Text: providerkit.NewCredentialError(err, false).Error()}
	}
	if err == nil {
		return providerkit.Meaning{}
	}
	if m, known := meanings[textOf(err)]; known {
		return m
	}
	code := status.Code(err)
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return providerkit.Meaning{Class: providerkit.Denied, Advice: adviceRole}
	case codes.ResourceExhausted:
		return providerkit.Meaning{Class: providerkit.Refused}
	case codes.Unimplemented:
		return providerkit.Meaning{Class: providerkit.NotSetUp}
	case codes.InvalidArgument:
		return providerkit.Meaning{Class: providerkit.Invalid}
	}
	return providerkit.Meaning{}
}

// isCredentialError reports whether an error comes from credentials that an application's Client adds to each call. gRPC 1.84
// gives such errors any code and marks them only by their text (internal/transport/http2_client.go, getTrAuthData and
// getCallAuthData).
func isCredentialError(err error) bool {
	return err != nil && strings.Contains(err.Error(), "per-RPC creds")
}
