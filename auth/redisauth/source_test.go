package redisauth

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	redisauth "github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a credential whose tokens are numbered.
type source struct {
	mu        sync.Mutex
	requested []time.Time
	issued    int
	lifetime  time.Duration
	refresh   time.Duration
	takes     time.Duration
	err       error
	repeat    bool // GetToken returns the latest token again
}

func (s *source) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	s.mu.Lock()
	s.requested = append(s.requested, time.Now())
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return azcore.AccessToken{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return azcore.AccessToken{}, s.err
	}
	if !s.repeat {
		s.issued++
	}
	token := azcore.AccessToken{Token: strconv.Itoa(s.issued), ExpiresOn: time.Now().Add(s.lifetime)}
	if s.refresh > 0 {
		token.RefreshOn = time.Now().Add(s.refresh)
	}
	return token, nil
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requested)
}

func (s *source) requests() int { return len(s.times()) }

// listener stands for a connection, and records its tokens and errors.
type listener struct {
	mu     sync.Mutex
	tokens []string
	at     []time.Time
	errs   []error
}

func (l *listener) OnNext(credentials redisauth.Credentials) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, token := credentials.BasicAuth()
	l.tokens, l.at = append(l.tokens, token), append(l.at, time.Now())
}

func (l *listener) OnError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *listener) received() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tokens)
}

func open(t *testing.T, s *source) *Credentials {
	t.Helper()
	c, err := New(Options{Credential: s, User: "user"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func subscribe(t *testing.T, c *Credentials, l *listener) (token string, unsubscribe func()) {
	t.Helper()
	signIn, end, err := c.Subscribe(l)
	require.NoError(t, err)
	user, token := signIn.BasicAuth()
	require.Equal(t, "user", user)
	require.Equal(t, token, signIn.RawCredentials())
	return token, func() { require.NoError(t, end()) }
}
