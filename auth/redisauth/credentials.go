package redisauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	redisauth "github.com/redis/go-redis/v9/auth"
)

// Credentials sign connections in. It is safe for concurrent use.
type Credentials struct {
	options Options
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	// telling has something in it while listeners are told of a token, so that
	// they hear of each in turn.
	telling chan struct{}

	mu        sync.Mutex
	closed    bool
	current   *signIn
	listeners map[redisauth.CredentialsListener]struct{}
	request   *request
	renewing  bool
	changed   chan struct{} // there is another token, or a listener where there was none
}

var _ redisauth.StreamingCredentialsProvider = (*Credentials)(nil)

// request is one for a token, which several may wait for.
type request struct {
	done   chan struct{}
	signIn *signIn
	err    error
}

// New makes credentials for redis.Options.StreamingCredentialsProvider. It sends
// nothing. Options that can't work are a *leasing.InvalidError.
func New(options Options) (*Credentials, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Credentials{
		options: options, ctx: ctx, stop: stop, telling: make(chan struct{}, 1),
		listeners: make(map[redisauth.CredentialsListener]struct{}), changed: make(chan struct{}, 1),
	}, nil
}

// String shows no token.
func (c *Credentials) String() string { return "redisauth.Credentials" }

// GoString is String.
func (c *Credentials) GoString() string { return c.String() }

// Close ends the replacing of tokens and waits until that has ended. Close the
// clients first: their connections stay signed in only until their token's end,
// and they get no new ones. It returns nil. Closing again does nothing.
func (c *Credentials) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
	return nil
}

// Subscribe is go-redis', for each connection that it opens. It waits for a token
// where there is none that is good, up to Options.Timeout. The listener is told of
// each later one, and of no error: go-redis would close the connection for it.
func (c *Credentials) Subscribe(listener redisauth.CredentialsListener) (redisauth.Credentials, redisauth.UnsubscribeFunc, error) {
	for {
		found, wait, err := c.subscribe(listener)
		if err != nil {
			return nil, nil, err
		}
		if found != nil {
			return found, func() error { c.unsubscribe(listener); return nil }, nil
		}
		<-wait.done
		if wait.err != nil {
			return nil, nil, wait.err
		}
	}
}

// subscribe adds the listener if there is a good token, in one step with reading
// it, so that no later one is missed; or else asks for one.
func (c *Credentials) subscribe(listener redisauth.CredentialsListener) (*signIn, *request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, leasing.ErrClosed
	}
	if c.current == nil || !time.Now().Before(c.current.expires) {
		return nil, c.ask(), nil
	}
	c.listeners[listener] = struct{}{}
	c.startRenewing()
	return c.current, nil, nil
}

func (c *Credentials) unsubscribe(listener redisauth.CredentialsListener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listeners, listener)
}

// ask asks for a token, or joins those who wait for one; mu is held, and the
// credentials are not closed.
func (c *Credentials) ask() *request {
	if c.request == nil {
		r := &request{done: make(chan struct{})}
		c.request = r
		c.running.Go(func() { c.answer(r) })
	}
	return c.request
}

// answer makes a request, and tells all.
func (c *Credentials) answer(r *request) {
	r.signIn, r.err = c.token()
	c.telling <- struct{}{}
	defer func() { <-c.telling }()
	told := c.keep(r)
	close(r.done)
	for _, listener := range told {
		listener.OnNext(r.signIn)
	}
}

func (c *Credentials) token() (*signIn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.options.Timeout)
	defer cancel()
	token, err := c.options.Credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{c.options.Scope}})
	if err == nil {
		return newSignIn(c.options.User, token, time.Now())
	}
	if c.ctx.Err() != nil {
		return nil, leasing.ErrClosed
	}
	if known := (*auth.Error)(nil); errors.As(err, &known) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: no token: %w", leasing.ErrUnavailable, err)
}

// keep makes a token the current one, and returns who has to be told of it.
func (c *Credentials) keep(r *request) (told []redisauth.CredentialsListener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request = nil
	if r.err != nil || c.current != nil && r.signIn.token == c.current.token {
		return nil
	}
	c.current = r.signIn
	for listener := range c.listeners {
		told = append(told, listener)
	}
	c.signal()
	return told
}

func (c *Credentials) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // it is on its way
	}
}
