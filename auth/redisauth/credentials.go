package redisauth

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
	redisauth "github.com/redis/go-redis/v9/auth"
	"golang.org/x/sync/singleflight"
)

const (
	// firstRetry is the pause after one failure. The pause doubles with each further failure in a
	// row, up to lastRetry. Entra ID requires clients to wait longer each time
	// (learn.microsoft.com/entra/identity-platform/reference-error-codes).
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// minPause is the shortest pause before a token is replaced, even if the token expires at once.
	minPause = 10 * time.Millisecond
)

// go-redis-entraid 1.0.7 can't replace Credentials. Between a token's renewal time and its end, each new connection sends a
// request to Entra ID, fails if the request fails, and meanwhile blocks all others (GetToken in
// manager/entraid_manager.go). If the first request after a time without connections fails, all later requests block
// forever (Subscribe in credentials_provider.go).

// Credentials authenticate connections. They are safe for concurrent use.
type Credentials struct {
	options Options
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running providerkit.Group
	// replacing limits the requests for a token to one in flight at a time. A request ends when all
	// listeners have the token, so they get the tokens in order.
	replacing singleflight.Group

	mu        sync.Mutex
	current   *signIn
	listeners map[redisauth.CredentialsListener]struct{}
	renewing  bool
	changed   chan struct{} // signals another token, or the first listener
}

var _ redisauth.StreamingCredentialsProvider = (*Credentials)(nil)

// New makes credentials for redis.Options.StreamingCredentialsProvider. It sends
// nothing. For invalid options it returns a *leasing.InvalidError.
func New(options Options) (*Credentials, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Credentials{
		options: options, ctx: ctx, stop: stop,
		listeners: make(map[redisauth.CredentialsListener]struct{}), changed: make(chan struct{}, 1),
	}, nil
}

// Format prints no token.
func (c *Credentials) Format(f fmt.State, _ rune) { fmt.Fprint(f, "redisauth.Credentials") }

// Close stops the replacement of tokens and waits for it to end. Close the clients
// first: their connections stay signed in only until their token expires, and they get
// no new tokens. Close returns nil. A second Close does nothing.
func (c *Credentials) Close() error {
	c.mu.Lock()
	c.stop() // under mu, so that subscribe starts no goroutine afterwards
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// Subscribe is called by go-redis for each connection that it opens. Without a valid
// token it waits for one, for at most Options.Timeout. The listener receives each later
// token, but no error, because go-redis closes a connection on an error.
func (c *Credentials) Subscribe(listener redisauth.CredentialsListener) (redisauth.Credentials, redisauth.UnsubscribeFunc, error) {
	for {
		if found, err := c.subscribe(listener); err != nil {
			return nil, nil, err
		} else if found != nil {
			return found, func() error { c.unsubscribe(listener); return nil }, nil
		}
		if err := c.replace(); err != nil {
			return nil, nil, err
		}
	}
}

// subscribe adds the listener if there is a valid token. It reads the token under the same lock, so
// that the listener misses no later token. Locks mu.
func (c *Credentials) subscribe(listener redisauth.CredentialsListener) (*signIn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, leasing.ErrClosed
	}
	if c.current == nil || !time.Now().Before(c.current.expires) {
		return nil, nil
	}
	c.listeners[listener] = struct{}{}
	switch {
	case !c.renewing:
		c.renewing = true
		c.running.Go(c.renew, nil)
	case len(c.listeners) == 1:
		c.signal() // renew may have paused for lack of listeners
	}
	return c.current, nil
}

func (c *Credentials) unsubscribe(listener redisauth.CredentialsListener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listeners, listener)
}

// replace requests another token and passes it to all listeners. Concurrent calls wait for the
// same token.
func (c *Credentials) replace() error {
	_, err, _ := c.replacing.Do("", func() (any, error) {
		next, err := c.token()
		if err != nil {
			return nil, err
		}
		return nil, providerkit.Guard(func() error {
			for _, listener := range c.setCurrent(next) {
				listener.OnNext(next)
			}
			return nil
		})
	})
	return err
}

func (c *Credentials) token() (*signIn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.options.Timeout)
	defer cancel()
	signIn, err := providerkit.AskCredentials(ctx, auth.Refused, func(ctx context.Context) (*signIn, error) {
		token, err := c.options.Credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{c.options.Scope}})
		if err != nil {
			return nil, err
		}
		return newSignIn(c.options.User, token, time.Now())
	})
	if err != nil && c.ctx.Err() != nil {
		return nil, leasing.ErrClosed
	}
	return signIn, err
}

// setCurrent makes a token the current one, and returns the listeners to notify. Locks mu.
func (c *Credentials) setCurrent(next *signIn) []redisauth.CredentialsListener {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && next.token == c.current.token {
		return nil
	}
	c.current = next
	c.signal()
	return slices.Collect(maps.Keys(c.listeners))
}

func (c *Credentials) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

// renew replaces tokens as they near their end, as long as there are listeners.
func (c *Credentials) renew() error {
	failures := 0
	for {
		pause, _ := c.left()
		if failures > 0 {
			pause = max(pause, retryPause(failures, rand.Float64())) //nolint:gosec // jitter
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-c.changed:
			failures = 0
			continue
		case <-time.After(max(minPause, pause)):
		}
		if pause, _ = c.left(); pause > 0 { // the listeners have gone, or a connection has replaced the token
			continue
		}
		failures++ // only a new token resets failures (changed), since the credential may return the old token again
		if err := c.replace(); err != nil && c.ctx.Err() == nil {
			_, valid := c.left()
			c.options.Logger.Warn("redisauth: the token could not be replaced", "left", valid, "error", err)
		}
	}
}

// left returns the time until the token must be replaced (infinite without listeners), and the time
// until the token expires. Locks mu.
func (c *Credentials) left() (pause, valid time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause = math.MaxInt64
	if len(c.listeners) > 0 {
		pause = time.Until(c.current.renewAt)
	}
	return pause, time.Until(c.current.expires)
}

// retryPause is the pause after the n-th failure in a row (from 1), minus a random part of at most
// a quarter.
func retryPause(n int, random float64) time.Duration {
	pause := min(lastRetry, firstRetry<<min(n-1, 10))
	return pause - time.Duration(random*float64(pause)/4)
}
