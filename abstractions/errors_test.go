package abstractions

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTrap_T54_TokenIsNoMereCount(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, now.UnixMicro(), NextToken(0, now), "a store that forgot does not begin again")
	require.Equal(t, now.UnixMicro()+1, NextToken(now.UnixMicro(), now), "two in one microsecond")
	ahead := now.Add(time.Hour).UnixMicro()
	require.Equal(t, ahead+1, NextToken(ahead, now), "a clock that was set back does not lower it")
}

func TestTrap_T65_TokensFitIntoFloats(t *testing.T) {
	last := NextToken(0, time.Date(2254, 12, 31, 0, 0, 0, 0, time.UTC))
	require.LessOrEqual(t, last, int64(MaxToken))
	require.Equal(t, int64(MaxToken), int64(float64(MaxToken)))
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

// Each sentinel determines whether it is certain that the request was not
// applied.
func TestNotApplied(t *testing.T) {
	for _, test := range []struct {
		err      error
		definite bool
	}{
		{&HeldError{}, true},
		{&LostError{Reason: LostTaken}, true},
		{ErrReleased, true},
		{ErrClosed, true},
		{ErrUnavailable, false},
		{&ThrottledError{}, true},
		{&InvalidError{}, true},
		{ErrDenied, true},
		{ErrNotSetUp, true},
		{ErrStale, true},
		{ErrUnsupported, true},
		{errors.New("of the SDK"), false},
	} {
		wrapped := error(&Error{Op: "renew", Name: "n", Provider: "p", Err: test.err})
		require.Equal(t, test.definite, NotApplied(wrapped), test.err)
		require.ErrorIs(t, wrapped, test.err)
	}
	require.ErrorIs(t, &ThrottledError{}, ErrUnavailable)
}

func TestErrorTexts(t *testing.T) {
	now := time.Now()
	sdk := errors.New("sdk says no")
	for want, err := range map[string]error{
		`leasing: acquire "a/b" (redis): held by another: "host/1", token 7, for another 1.5s unless renewed`: &Error{Op: "acquire", Name: "a/b", Provider: "redis", Err: &HeldError{
			Holder: Record{Held: true, Owner: "host/1", Token: 7, Now: now, ExpiresAt: now.Add(1500 * time.Millisecond)}}},
		`held by another`:                                       &HeldError{Holder: Record{Held: true, Owner: "earlier", Unconfirmed: true}},
		`held by another: reserved for a waiter`:                &HeldError{RetryAfter: time.Second},
		`lease lost: broken`:                                    &LostError{Reason: LostBroken, Err: &Error{Op: "renew", Err: &LostError{Reason: LostBroken}}},
		`lease lost: taken: sdk says no`:                        &LostError{Reason: LostTaken, Err: &Error{Op: "renew", Err: &LostError{Reason: LostTaken, Err: sdk}}},
		`lease lost: expired: sdk says no`:                      &LostError{Reason: LostExpired, Err: sdk},
		`throttled by the backend, retry after 2s: sdk says no`: &ThrottledError{RetryAfter: 2 * time.Second, Err: sdk},
		`invalid TTL Infinite: want less`:                       &InvalidError{Field: "TTL", Value: Infinite, Want: "less"},
		`ouch: still in use and left to run out (1): a`:         &CloseError{Err: errors.New("ouch"), InUse: []string{"a"}},
		`ouch: still in use and left to run out (2): a, b: claims that the backend has not released: 1`: &CloseError{
			Err: errors.New("ouch"), InUse: []string{"a", "b"}, Unreleased: 1},
		`held by this manager: "us", token 7`: &HeldError{ByThisManager: true, Holder: Record{Held: true, Owner: "us", Token: 7}},
		`leasing: close: closed`:              &Error{Op: "close", Err: ErrClosed},
	} {
		require.Equal(t, want, err.Error())
	}
}

func TestRecordRemaining(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		record Record
		left   time.Duration
		known  bool
	}{
		{Record{}, 0, true},
		{Record{Held: true}, 0, false},
		{Record{Held: true, Now: now, ExpiresAt: now.Add(time.Second)}, time.Second, true},
		{Record{Held: true, Now: now, ExpiresAt: now.Add(-time.Second)}, 0, true},
		{Record{Held: true, Now: now}, 0, false},
	} {
		left, known := test.record.Remaining()
		require.Equal(t, test.left, left)
		require.Equal(t, test.known, known)
	}
}

func TestPageLimits(t *testing.T) {
	require.Equal(t, 100, ListRequest{}.PageLimit())
	require.Equal(t, 7, ListRequest{Limit: 7}.PageLimit())
	require.Equal(t, 1000, HistoryRequest{Limit: 1 << 30}.PageLimit())
}

func TestRequestLimits(t *testing.T) {
	c := Capabilities{Provider: "p", MinTTL: time.Second, MaxNameBytes: 10}
	id := NewID()
	for want, err := range map[string]error{
		"1 to 10 bytes, not 11":              ReleaseRequest{Name: "12345678901", ID: id}.Validate(c),
		"ID \"\": want 1 to 64":              ReleaseRequest{Name: "n"}.Validate(c),
		"letters, digits and hyphens":        ReleaseRequest{Name: "n", ID: "a b"}.Validate(c),
		"TTL Infinite: want a finite TTL: p": c.ValidateTTL("TTL", Infinite),
		"Owner \"\"":                         AcquireRequest{Name: "n", ID: id, TTL: time.Second}.Validate(c),
		"TTL 0s: want more than 0":           AcquireRequest{Name: "n", ID: id, Owner: "o"}.Validate(c),
		"TTL 1ms: want at least 1s":          RenewRequest{Name: "n", ID: id, TTL: time.Millisecond}.Validate(c),
		"IfToken -1":                         BreakRequest{Name: "n", IfToken: -1}.Validate(c),
		"Grace -1ns":                         BreakRequest{Name: "n", Grace: -1}.Validate(c),
		"Name \"\"":                          InspectRequest{}.Validate(c),
		"Name \"\\x00\"":                     WaitRequest{Name: "\x00", ID: id}.Validate(c),
		"Name \"\\u0085\": want no contr":    BreakRequest{Name: "\u0085"}.Validate(c),
	} {
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, ValidateName("Ünïcödé/漢字"))
	require.NoError(t, AcquireRequest{Name: "n", ID: id, Owner: "o", TTL: time.Hour, Metadata: map[string]string{"k": "line\nbreak"}}.Validate(c))
}
