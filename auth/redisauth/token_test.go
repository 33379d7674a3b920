package redisauth

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

// The user is the object ID in a token of Entra ID.
func TestUser(t *testing.T) {
	server := authtest.Start(t)
	c, err := New(Options{Auth: server.ClientSecret()})
	require.NoError(t, err)
	defer c.Close()
	signIn, _, err := c.Subscribe(new(listener))
	require.NoError(t, err)
	user, token := signIn.BasicAuth()
	require.Equal(t, server.ObjectID(), user)
	require.NoError(t, server.Check(token, "https://redis.azure.com"))
}

// The error for an unusable token names the remedy.
func TestUselessTokens(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		token string
		left  time.Duration
		want  error
		says  string
	}{
		{"opaque", time.Hour, leasing.ErrDenied, "Options.User"},
		{"a.e30.c", time.Hour, leasing.ErrDenied, `"oid"`},
		{"a.!.c", time.Hour, leasing.ErrDenied, `"oid"`},
		{"a.eyJvaWQiOiJ4In0.c", -time.Second, leasing.ErrUnavailable, "clock"},
	} {
		_, err := newSignIn("", azcore.AccessToken{Token: c.token, ExpiresOn: now.Add(c.left)}, now)
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), c.token)
	}
}

// T49: credentials, the values that go-redis gets, and the log show no token.
func TestTrap_T49_TokensAreNotShown(t *testing.T) {
	server := authtest.Start(t)
	server.SetLifetime(2 * time.Second)
	var shown bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&shown, nil))
	options := Options{Auth: server.ClientSecret(), Logger: logger}
	c, err := New(options)
	require.NoError(t, err)
	l := new(listener)
	signIn, _, err := c.Subscribe(l)
	require.NoError(t, err)
	server.Fail(401)
	require.Eventually(t, func() bool { return server.Requests() >= 3 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, _, err = c.Subscribe(new(listener))
		return err != nil // the token has expired
	}, 10*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, err, leasing.ErrDenied)
	require.NoError(t, c.Close())
	for _, value := range []any{c, signIn, options, err} {
		fmt.Fprintf(&shown, "%v %+v %#v %s\n", value, value, value, value)
		logger.Info("x", "value", value)
	}
	require.Contains(t, shown.String(), "could not be replaced")
	for _, secret := range server.Secrets() {
		require.NotContains(t, shown.String(), secret)
	}
}
