package httpguard

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// RetryAfter returns the pause that an answer with this header asks for, in the forms
// of Azure's services; 0 if it asks for none, or gives a date without the service's
// own time.
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

// Date returns the service's time of the reply with this header: see cas.Item.Now.
// Without a Date header nothing can be concluded about a lease.
func Date(header http.Header) (time.Time, error) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a reply without a Date header", abstractions.ErrUnavailable)
	}
	return date.UTC(), nil
}
