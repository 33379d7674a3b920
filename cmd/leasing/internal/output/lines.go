package output

import (
	"io"
	"time"
)

const (
	// maxLines is the maximum number of lines that are queued while the file blocks.
	maxLines = 256
	// flushTimeout bounds the wait for the file at the end of the program.
	flushTimeout = 500 * time.Millisecond
)

// Lines writes to a file that may block indefinitely, such as a pipe to a paused pager. Write never blocks: a
// line that does not fit into the queue is dropped.
type Lines struct {
	queue   chan []byte
	written chan struct{} // closed when all is written
}

// NewLines returns lines that are written in the background. The caller must call Flush.
func NewLines(to io.Writer) *Lines {
	l := &Lines{queue: make(chan []byte, maxLines), written: make(chan struct{})}
	go func() {
		defer close(l.written)
		for line := range l.queue {
			if line == nil { // from Flush
				return
			}
			_, _ = to.Write(line) // there is no other place to report an error
		}
	}()
	return l
}

func (l *Lines) Write(line []byte) (int, error) {
	if len(line) == 0 {
		return 0, nil
	}
	select {
	case l.queue <- append([]byte(nil), line...):
	default:
	}
	return len(line), nil
}

// Flush waits until all lines are written, but no longer than flushTimeout. Later lines are lost.
func (l *Lines) Flush() {
	over := time.After(flushTimeout)
	select {
	case l.queue <- nil:
	case <-over:
		return
	}
	select {
	case <-l.written:
	case <-over:
	}
}
