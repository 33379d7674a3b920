package etcdlease

import (
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// classOf goes by the codes of gRPC, and by etcd's own errors where one code says several
// things (go.etcd.io/etcd/api/v3/v3rpc/rpctypes).
func classOf(err error) providerkit.Class {
	switch known := rpctypes.Error(err); {
	case errors.Is(known, rpctypes.ErrAuthFailed), errors.Is(known, rpctypes.ErrUserEmpty):
		return providerkit.Denied
	case errors.Is(known, rpctypes.ErrAuthOldRevision): // somebody has changed users
		return providerkit.Unknown
	}
	code := status.Code(err)
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		code = known.Code()
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return providerkit.Denied
	case codes.ResourceExhausted: // no space, or too many requests
		return providerkit.Refused
	case codes.FailedPrecondition, codes.Unimplemented:
		return providerkit.NotSetUp
	case codes.InvalidArgument, codes.OutOfRange:
		return providerkit.Invalid
	}
	return providerkit.Unknown
}

// Classify says what an error of the client means. A dial that failed is told from a
// connection that was lost by its text alone, so it is Unknown.
func (*driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: classOf(err)}
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace):
		m.Advice = "free space, and then disarm the alarm: etcdctl alarm disarm"
	case m.Class == providerkit.Denied:
		m.Advice = "a role with readwrite on the prefix is needed"
	}
	return m
}
