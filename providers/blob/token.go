package bloblease

import (
	"sync"
	"time"
)

// instant is the service's time as far as tokens are concerned. Its Date has whole
// seconds. A blob that remembers a token gives the next one plus 1; one that was
// deleted and made again within the same second, or a service that was
// started again without its data, needs the part of the second, which is ours: the
// time by which our clock is ahead of Date, within that second. It orders what
// clients make whose clocks agree, and where they don't it is as good as none: a
// token never leaves the second that the service has told. The second's last tenth
// is left to tokens.
func instant(date, local time.Time) time.Time {
	ahead := min(max(0, local.Sub(date)), time.Second)
	return date.Add(ahead * 9 / 10)
}

// tokens is the latest token that a provider has given. By it one process orders
// its own tokens within a second whatever its clock shows.
type tokens struct {
	mu     sync.Mutex
	latest int64
}

// instant is past the latest token, if that is of the second that the service has
// told and there is still room in it.
func (t *tokens) instant(date, local time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := date.Add(time.Second - time.Microsecond)
	at := instant(date, local)
	if t.latest < at.UnixMicro() || t.latest >= last.UnixMicro() {
		return at
	}
	return time.UnixMicro(t.latest + 1)
}

// given takes a token down. Those of the future, which are another clock's fault,
// are left out: they order nothing.
func (t *tokens) given(token int64, date time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token < date.Add(time.Second).UnixMicro() {
		t.latest = max(t.latest, token)
	}
}
