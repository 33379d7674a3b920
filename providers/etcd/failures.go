package etcdlease

import (
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Classify goes by the codes of gRPC, and by etcd's own errors where one code says several things
// (go.etcd.io/etcd/api/v3/v3rpc/rpctypes). A dial that failed is told from a connection that was lost by its text alone, so
// it is Unknown.
func (*driver) Classify(err error) (m providerkit.Meaning) {
	known, code := rpctypes.Error(err), status.Code(err)
	if own := (rpctypes.EtcdError{}); errors.As(err, &own) {
		code = own.Code()
	}
	switch {
	case errors.Is(known, rpctypes.ErrAuthOldRevision): // somebody has changed users
	case errors.Is(known, rpctypes.ErrAuthFailed), errors.Is(known, rpctypes.ErrUserEmpty), code == codes.Unauthenticated, code == codes.PermissionDenied:
		m.Class, m.Advice = providerkit.Denied, "a role with readwrite on the prefix is needed"
	case errors.Is(known, rpctypes.ErrNoSpace):
		m.Class, m.Advice = providerkit.Refused, "free space, and then disarm the alarm: etcdctl alarm disarm"
	case code == codes.ResourceExhausted: // too many requests
		m.Class = providerkit.Refused
	case code == codes.FailedPrecondition, code == codes.Unimplemented:
		m.Class = providerkit.NotSetUp
	case code == codes.InvalidArgument, code == codes.OutOfRange:
		m.Class = providerkit.Invalid
	}
	return m
}
