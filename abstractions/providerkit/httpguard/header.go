package httpguard

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// RetryAfter returns how long an answer with this header asks to wait, in the form of
// Azure's services; 0 if it does not say, or not by the service's own clock.
func RetryAfter(header http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(header.Get(name), 64); err == nil && ms >= 0 && ms <= float64(time.Hour.Milliseconds()) {
			return time.Duration(ms * float64(time.Millisecond))
		}
	}
	text := header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	now, errNow := http.ParseTime(header.Get("Date"))
	if err != nil || errNow != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// Date is the service's time of the reply with a header: see Item.Now. Without one there
// is nothing to be said of a lease.
func Date(header http.Header) (time.Time, error) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a reply without a Date header", abstractions.ErrUnavailable)
	}
	return date.UTC(), nil
}
