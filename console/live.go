package console

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// writeTime is for how long a browser may take no event before its stream ends.
const writeTime = 20 * time.Second

// stream sends a part of a page as server-sent events, as soon as it is there and again
// when next says, until the browser leaves or the console is closed.
func (c *Console) stream(w http.ResponseWriter, r *http.Request, name string, next func(context.Context) (part any, at time.Time)) {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "Too many pages are kept up to date.")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	control := http.NewResponseController(w)
	for {
		part, at := next(ctx)
		if ctx.Err() != nil {
			return
		}
		var html, event bytes.Buffer
		if err := pages.ExecuteTemplate(&html, name, part); err != nil {
			return
		}
		for line := range bytes.Lines(html.Bytes()) {
			event.WriteString("data: ")
			event.Write(bytes.TrimRight(line, "\r\n"))
			event.WriteByte('\n')
		}
		event.WriteByte('\n')
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // where there are none, the network decides
		if _, err := w.Write(event.Bytes()); err != nil {
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

// minPause is the least time from one event of a stream to the next.
const minPause = 100 * time.Millisecond
