package console

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// guessDelay is the time between two answers to wrong tokens.
	guessDelay = 200 * time.Millisecond
	// maxDelay bounds the delay of an answer to a wrong token.
	maxDelay = 10 * time.Second
	// logInterval is the minimum time between two log lines about wrong tokens.
	logInterval = time.Second
)

// wrongTokens delays and logs requests with wrong tokens. A request with the right token is never
// delayed, so that guesses do not lock out any user.
type wrongTokens struct {
	mu       sync.Mutex
	next     time.Time // of the next answer
	logged   time.Time
	unlogged int
}

// delayAnswer logs that a request had a wrong token, and returns when the request may be answered, or has ended.
func (g *wrongTokens) delayAnswer(r *http.Request, user string) {
	g.mu.Lock()
	now := time.Now()
	delay := min(max(g.next.Sub(now), 0), maxDelay)
	g.next = now.Add(delay + guessDelay)
	g.unlogged++
	count := g.unlogged
	log := now.Sub(g.logged) >= logInterval
	if log {
		g.logged, g.unlogged = now, 0
	}
	g.mu.Unlock()
	if log {
		slog.WarnContext(r.Context(), "console: a wrong token", "user", user, "from", r.RemoteAddr, "count", count)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
