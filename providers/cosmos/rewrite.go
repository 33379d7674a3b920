package cosmoslease

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// maxConflicts bounds how often a call begins again because somebody else was
// faster. Each time somebody has got on.
const maxConflicts = 8

// change is what an operation makes of a document: the next one, or nil if nothing
// is to be written. before is how the write before was refused, if there was one.
//
// A verdict beside nil is the operation's error at once. One beside a document is its
// error when that was written: a read may come from a replica that lags, and the
// write, on condition that the document is still the one that was read, shows that it
// did not. See unchanged.
type change func(s snapshot, before meaning) (next *document, verdict error)

// rewrite reads the document of a name and writes what becomes of it, on condition
// that it is still the same; where it is not it begins again. So whatever happened
// to earlier requests, be it that their replies were lost or that they were sent
// twice, the read shows what came of them: nothing is concluded from a conflict but
// that there is something to read.
//
// known, unless nil, is what the caller takes for the latest version. It saves the
// first read.
func (t *items) rewrite(ctx context.Context, name string, known *snapshot, become change) (snapshot, error) {
	taken, before := false, unknown // taken: a create was refused
	for range maxConflicts {
		s, err := t.start(ctx, name, &known)
		if err != nil {
			return s, after(before, err)
		}
		if taken && s.doc == nil {
			return s, fmt.Errorf("%w: the document of %q can neither be created nor read", abstractions.ErrUnavailable, name)
		}
		next, verdict := become(s, before)
		if next == nil {
			return s, verdict
		}
		etag, refusal, err := t.write(ctx, next, s.etag)
		switch {
		case err != nil:
			return s, after(before, err)
		case refusal == missing && s.doc == nil:
			return s, after(before, fmt.Errorf("%w; 404 for a new document", errNoContainer))
		case refusal != unknown:
			taken, before = s.doc == nil, refusal
			continue
		}
		return snapshot{doc: next, etag: etag, now: s.now}, verdict
	}
	return snapshot{}, fmt.Errorf("%w: others have changed the document of %q %d times in a row", abstractions.ErrUnavailable, name, maxConflicts)
}

// after is an error after a write was, or was not, refused.
func after(before meaning, err error) error {
	if before == unknown {
		return err
	}
	return unsure(err)
}

func (t *items) start(ctx context.Context, name string, known **snapshot) (snapshot, error) {
	if s := *known; s != nil {
		*known = nil
		return *s, nil
	}
	return t.read(ctx, name)
}

// unchanged is a document as it is, or one that says that nobody ever held the name.
// That it can be written shows that nobody has written since the read.
func (s snapshot) unchanged(name string) *document {
	if s.doc == nil {
		return &document{Version: formatVersion, Name: name}
	}
	next := s.doc.clone()
	s.keepEnd(next)
	return next
}
