package console

import (
	"context"
	"net/http"
	"time"
)

// writeTimeout is the time after which the connection of a browser that reads nothing is closed.
const writeTimeout = 20 * time.Second

// stream sends a part of a page as server-sent events, when it is ready and then at the times that
// next returns, until the browser leaves or the console is closed.
func (c *Console) stream(w http.ResponseWriter, r *http.Request, next func(context.Context) (p *part, at time.Time)) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	leave, ok := c.streams.add(viewerOf(r), cancel)
	if !ok {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "Too many live pages are open.")
		return
	}
	defer leave()
	defer context.AfterFunc(c.running, cancel)()
	control := http.NewResponseController(w)
	for {
		p, at := next(ctx)
		if ctx.Err() != nil || p == nil || p.html == "" {
			return
		}
		setWriteDeadline(w)
		if _, err := w.Write(p.event); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		pause := time.NewTimer(max(time.Until(at), minPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// streamShared streams a part that is read from the backend every Options.Refresh, once for all viewers. The read
// continues if the browser that started it leaves.
func (c *Console) streamShared(w http.ResponseWriter, r *http.Request, key partKey, read func(ctx context.Context, last any) any) {
	c.stream(w, r, func(ctx context.Context) (*part, time.Time) {
		p := c.parts.get(ctx, key, func(last any) (func() any, time.Time) {
			data := read(context.WithoutCancel(ctx), last)
			return func() any { return data }, time.Now().Add(c.options.Refresh)
		})
		if p == nil {
			return nil, time.Time{}
		}
		return p, p.until
	})
}

// minPause is the minimum time between two events of a stream.
const minPause = 100 * time.Millisecond

// viewerOf returns the viewer whose share of the streams a request uses: the user, or the address if there is no
// user.
func viewerOf(r *http.Request) string {
	if user := userOf(r); user != "" {
		return "user " + user
	}
	return "address " + peerOf(r).String()
}
