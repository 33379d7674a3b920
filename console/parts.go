package console

import (
	"bytes"
	"context"
	"html/template"
	"maps"
	"runtime"
	"sync"
	"time"
)

// parts are the currently shown parts of pages. Each is rendered once for all its viewers, and few are
// rendered at a time, so that viewers leave the processor to the leases of this process.
type parts struct {
	slots chan struct{} // has an element for each rendering under way

	mu    sync.Mutex
	byKey map[partKey]*part
}

// partKey identifies a part by its template, by its query or name and, for parts of the list, by the backend's
// answer.
type partKey struct {
	template, subject string
	reading           *reading // nil for parts that read the backend themselves
	problem           string
}

// part is a rendered part of a page. It is not changed after rendered is closed.
type part struct {
	rendered chan struct{}
	data     any           // shown by the template
	html     template.HTML // "" if the template failed
	event    []byte        // the HTML as a server-sent event
	until    time.Time     // when the part is out of date
}

// lastKept bounds the time for which the data of a part are kept without a viewer. The next part shows these data if the backend
// does not answer.
const lastKept = time.Minute

func newParts() *parts {
	return &parts{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), byKey: map[partKey]*part{}}
}

// get returns a part that is up to date, or nil if ctx ends before another caller has rendered the part. Only one of several
// concurrent callers gathers the data and renders the part. gather receives the data that were shown before,
// or nil. It returns a function that produces the new data, and the time at which the part is out of date. The
// function runs in a slot, like the rendering.
func (s *parts) get(ctx context.Context, key partKey, gather func(last any) (data func() any, until time.Time)) *part {
	s.mu.Lock()
	now := time.Now()
	p, last := s.byKey[key], any(nil)
	if p != nil && isClosed(p.rendered) && !now.Before(p.until) {
		p, last = nil, p.data
	}
	if p == nil {
		maps.DeleteFunc(s.byKey, func(key partKey, p *part) bool { return isClosed(p.rendered) && p.isForgotten(key, now) })
		p = &part{rendered: make(chan struct{})}
		s.byKey[key] = p
		s.mu.Unlock()
		s.render(p, key.template, last, gather)
		return p
	}
	s.mu.Unlock()
	select {
	case <-p.rendered:
		return p
	case <-ctx.Done():
		return nil
	}
}

func (p *part) isForgotten(key partKey, now time.Time) bool {
	if key.reading == nil {
		now = now.Add(-lastKept)
	}
	return !now.Before(p.until)
}

func (s *parts) render(p *part, name string, last any, gather func(last any) (data func() any, until time.Time)) {
	defer close(p.rendered) // even after a panic in the provider's code
	data, until := gather(last)
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	var html bytes.Buffer
	p.data, p.until = data(), until
	if err := pages.ExecuteTemplate(&html, name, p.data); err != nil {
		return
	}
	p.html, p.event = template.HTML(html.String()), eventOf(html.Bytes()) //nolint:gosec // a template's
}

// eventOf returns HTML as a server-sent event.
func eventOf(html []byte) []byte {
	var event bytes.Buffer
	event.Grow(len(html) + len(html)/8)
	for line := range bytes.Lines(html) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\r\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return event.Bytes()
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
