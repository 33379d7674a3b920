package etcdlease

import (
	"context"
	"net"

	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"google.golang.org/grpc/credentials"
)

// liveTLS are credentials whose handshakes use the newest contents of files.
type liveTLS struct {
	credentials.TransportCredentials // of the files' first contents
	files                            *livefile.TLS
}

func newLiveTLS(o *Options) (credentials.TransportCredentials, error) {
	files, err := livefile.NewTLS(o.CAFile, o.CertFile, o.KeyFile)
	if err != nil {
		return nil, err
	}
	return liveTLS{credentials.NewTLS(files.Config()), files}, nil
}

func (l liveTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := credentials.NewTLS(l.files.Config()).ClientHandshake(ctx, authority, conn)
	return secure, info, l.files.Explain(err)
}

func (l liveTLS) Clone() credentials.TransportCredentials { return l }
