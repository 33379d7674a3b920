package providerkit

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// These constants bound the list of ended IDs that a record keeps. A late copy of an
// acquire may arrive after its claim was released; the name must then refuse that copy.
// A name that changes hands at most about once a second refuses every ended ID for
// EndedFor. A busier name refuses the last EndedMost, whatever their age, so that a
// record stays below 4 KB. The last EndedLeast are refused for as long as the record is
// kept.
const (
	EndedLeast = 8
	EndedMost  = 64
	EndedFor   = time.Minute
)

// EndedID is the ID of a claim that was released or broken.
type EndedID struct {
	ID     string
	Broken bool
	// At is the end of the claim, in seconds since 1970 by the backend's clock;
	// 0 if the backend reports no time.
	At int64
}

// Ended is the list of ended IDs that a name refuses, from the oldest to the latest.
type Ended []EndedID

// Find reports whether a claim has ended, and whether it was broken.
func (e Ended) Find(id string) (known, broken bool) {
	if id == "" {
		return false, false
	}
	last := len(id) - 1
	for i := range e { // an acquire in memory spends most of its time here, so few IDs should reach the full comparison
		if other := e[i].ID; len(other) == len(id) && other[last] == id[last] && other[0] == id[0] {
			if other == id {
				return true, e[i].Broken
			}
		}
	}
	return false, false
}

// Add returns the list with one more ID, cut to its bounds. An ID that is already
// in the list stays unchanged. Like append, Add may write past the end of e:
// clone a list that is read concurrently.
func (e Ended) Add(id string, broken bool, now time.Time) Ended {
	if known, _ := e.Find(id); known {
		return e
	}
	return e.add(id, broken, now)
}

// add is Add for an ID that is not in the list.
func (e Ended) add(id string, broken bool, now time.Time) Ended {
	var at int64
	if !now.IsZero() {
		at = now.Unix()
	}
	drop := 0
	for len(e)-drop >= EndedLeast && (len(e)-drop >= EndedMost || e[drop].At < at-int64(EndedFor/time.Second)) {
		drop++
	}
	return append(e[drop:], EndedID{ID: id, Broken: broken, At: at})
}

// brokenMark follows the ID of a claim that was broken, and timeMark precedes the time.
// IDs have only letters, digits and hyphens.
const (
	brokenMark = "!"
	timeMark   = "@"
)

// String returns the stored form: "ID@seconds" or "ID!@seconds" for each ID, separated
// by spaces, from the latest to the oldest.
func (e Ended) String() string {
	var text []byte
	for i := len(e) - 1; i >= 0; i-- {
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = append(text, e[i].ID...)
		if e[i].Broken {
			text = append(text, brokenMark...)
		}
		if e[i].At != 0 {
			text = strconv.AppendInt(append(text, timeMark...), e[i].At, 10)
		}
	}
	return string(text)
}

// ParseEnded reads the stored form. An ID without a time counts as older than
// all others.
func ParseEnded(text string) Ended {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil
	}
	e := make(Ended, 0, len(fields)+1)
	for _, field := range slices.Backward(fields) {
		id, seconds, _ := strings.Cut(field, timeMark)
		at, _ := strconv.ParseInt(seconds, 10, 64)
		id, broken := strings.CutSuffix(id, brokenMark)
		e = append(e, EndedID{ID: id, Broken: broken, At: at})
	}
	return e
}

// MarshalText returns the stored form, which JSON uses as well.
func (e Ended) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the stored form.
func (e *Ended) UnmarshalText(text []byte) error {
	*e = ParseEnded(string(text))
	return nil
}
