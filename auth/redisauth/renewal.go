package redisauth

import (
	"math/rand/v2"
	"time"
)

const (
	// firstRetry and lastRetry are the pauses after the first failure in a row,
	// and after many: they double. Entra ID asks to wait for longer each time
	// (learn.microsoft.com/entra/identity-platform/reference-error-codes).
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// shortest is the pause before a token that is good for next to nothing is
	// replaced.
	shortest = 10 * time.Millisecond
)

// retryPause is the pause after the n-th failure in a row (from 1), less up to a
// quarter of it.
func retryPause(n int, random float64) time.Duration {
	pause := lastRetry
	if n < 6 {
		pause = min(lastRetry, firstRetry<<(n-1))
	}
	return pause - time.Duration(random*float64(pause)/4)
}

// startRenewing starts what replaces tokens, once; mu is held.
func (c *Credentials) startRenewing() {
	if !c.renewing {
		c.renewing = true
		c.running.Go(c.renew)
		return
	}
	if len(c.listeners) == 1 {
		c.signal() // it may have paused for want of listeners
	}
}

// renew replaces tokens as they near their end, as long as somebody listens.
func (c *Credentials) renew() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.changed:
			failures = 0
		case <-timer.C:
			if c.renewOnce() {
				failures = 0
			} else {
				failures++
			}
		}
		timer.Stop()
		if pause, wanted := c.pause(failures); wanted {
			timer.Reset(pause)
		}
	}
}

// renewOnce replaces the token if it is time to. It reports false for a failure,
// and for a credential that gave out the same token once more.
func (c *Credentials) renewOnce() bool {
	c.mu.Lock()
	if c.closed || len(c.listeners) == 0 || time.Now().Before(c.current.renewAt) {
		c.mu.Unlock()
		return true
	}
	r := c.ask()
	c.mu.Unlock()
	<-r.done
	if r.err != nil {
		c.logFailure(r.err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.current.renewAt)
}

// pause is how long to wait, unless there is nobody to wait for.
func (c *Credentials) pause(failures int) (pause time.Duration, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.listeners) == 0 {
		return 0, false
	}
	if failures > 0 {
		return retryPause(failures, rand.Float64()), true //nolint:gosec // jitter
	}
	return max(shortest, time.Until(c.current.renewAt)), true
}

func (c *Credentials) logFailure(err error) {
	c.mu.Lock()
	left := time.Until(c.current.expires)
	c.mu.Unlock()
	if c.ctx.Err() == nil {
		c.options.Logger.Warn("redisauth: the token could not be replaced", "left", left, "error", err)
	}
}
