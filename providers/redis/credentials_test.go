package redislease

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"
)

// signIn is a source of one password, or of an error.
type signIn struct {
	password string
	err      error
}

func (c signIn) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials("default", c.password), func() error { return nil }, c.err
}

func (c signIn) String() string { return "credentials with " + c.password }

func TestCredentialsSignConnectionsIn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	for name, test := range map[string]struct {
		credentials signIn
		want        error
	}{
		"accepted":            {signIn{password: "secret"}, nil},
		"of another":          {signIn{password: "other"}, abstractions.ErrDenied},
		"not to be had":       {signIn{err: fmt.Errorf("%w: no identity", abstractions.ErrDenied)}, abstractions.ErrDenied},
		"not to be had today": {signIn{err: fmt.Errorf("%w: Entra ID is away", abstractions.ErrUnavailable)}, abstractions.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Open(t.Context(), Options{URL: "redis://" + server.Addr(), Credentials: test.credentials})
			require.NoError(t, err)
			defer p.Close()
			_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: abstractions.NewID(), Owner: "me", TTL: time.Second})
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.Equal(t, errors.Is(test.want, abstractions.ErrUnavailable), errors.Is(err, abstractions.ErrUnavailable), "%v", err)
		})
	}
}

func TestCredentialsAreForAURLWithoutAny(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	for _, o := range []Options{
		{URL: "redis://:secret@" + server.Addr()},
		{URL: "redis://user:secret@" + server.Addr()},
		{Client: server.Client(t)},
	} {
		o.Credentials = signIn{password: "s3cret"}
		_, err := Open(t.Context(), o)
		var invalid *abstractions.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "Options.Credentials", invalid.Field)
		var s credentialtest.Shown
		s.Show(o, err)
		s.Hides(t, "s3cret")
	}
}
