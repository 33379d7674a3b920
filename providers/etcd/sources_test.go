package etcdlease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
)

// callCredentials are credentials of the application, which gRPC requests for each call.
type callCredentials func(context.Context) error

func (f callCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return nil, f(ctx)
}

func (callCredentials) RequireTransportSecurity() bool { return false }

// openOwnClient returns a provider with a client of the application.
func openOwnClient(t testing.TB, prefix string, options ...grpc.DialOption) *Provider {
	t.Helper()
	member := Options{URL: serverURL(t)}
	require.NoError(t, member.complete())
	client, err := clientv3.New(clientv3.Config{Endpoints: member.Endpoints, Logger: zap.NewNop(), DialOptions: options})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return open(t, Options{Client: client, Prefix: prefix})
}

// T119: an error from credentials that an application's client adds to calls is not reported as an error from
// etcd.
func TestTrap_T119_CredentialsOfCallsFail(t *testing.T) {
	source, prefix := &credentialtest.Source{}, abstractions.NewID()
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Unnamed: true, // T124 tests the panic
		Open: func(t testing.TB) abstractions.Provider {
			return openOwnClient(t, prefix, grpc.WithPerRPCCredentials(callCredentials(source.Err)))
		},
	})
}

// T124: a panic in the application's credentials or interceptor does not end the process.
func TestTrap_T124_CodeOfTheApplicationPanics(t *testing.T) {
	for name, option := range map[string]func(maybe func()) grpc.DialOption{
		"credentials": func(maybe func()) grpc.DialOption {
			return grpc.WithPerRPCCredentials(callCredentials(func(context.Context) error { maybe(); return nil }))
		},
		"interceptor": func(maybe func()) grpc.DialOption {
			return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				maybe()
				return invoke(ctx, method, req, reply, cc, opts...)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.ApplicationPanics(t, time.Minute, func(t testing.TB, maybe func()) abstractions.Provider {
				return openOwnClient(t, abstractions.NewID(), option(maybe))
			})
		})
	}
}

// T118: the password and its token go only to the hosts of the URL, not to the addresses that
// members advertise to clients.
func TestTrap_T118_APasswordIsForTheHostsOfItsURL(t *testing.T) {
	var elsewhere credentialtest.Recorder
	addr := elsewhere.Listen(t, nil)
	c := newCluster(t, 1, "--advertise-client-urls", "http://"+addr)
	members, err := c.client.MemberList(t.Context())
	require.NoError(t, err)
	require.Contains(t, members.Members[0].ClientURLs[0], addr)
	c.enableAuth()
	p := open(t, Options{URL: "etcd://app:secret%2F%40app@" + c.addrs[0] + "/p"})
	g := acquire(t, p, "n", "a", time.Minute)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	require.Empty(t, elsewhere.String())
}
