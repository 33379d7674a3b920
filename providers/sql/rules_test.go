package sqllease

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestEndedRemembersTheLatest(t *testing.T) {
	var list ended
	for i := range remembered + 3 {
		list = list.add(fmt.Sprintf("id-%d", i), i%2 == 0)
	}
	require.Len(t, list, remembered)
	require.Equal(t, list, parseEnded(list.String()))
	for i := range remembered + 3 {
		known, broken := list.find(fmt.Sprintf("id-%d", i))
		require.Equal(t, i >= 3, known)
		require.Equal(t, known && i%2 == 0, broken)
	}
	known, _ := list.find("id")
	require.False(t, known, "a part of an ID is none")
	require.Equal(t, list, list.add("id-5", true), "it was released, and stays so")
}

func TestTTLIsRoundedUpToMicroseconds(t *testing.T) {
	require.Nil(t, micros(abstractions.Infinite))
	require.EqualValues(t, 1, *micros(1))
	require.EqualValues(t, 1000, *micros(time.Millisecond))
	require.EqualValues(t, 1001, *micros(time.Millisecond + 1))
	for _, ttl := range []time.Duration{time.Microsecond, time.Hour, maxTTL, abstractions.Infinite} {
		require.Equal(t, ttl, fromMicros(micros(ttl)))
	}
}

// A lease can't have more left than its TTL, unless the clock went back.
func TestClockThatWentBackKeepsNothingForEver(t *testing.T) {
	r := row{name: "n", version: 1, id: "theirs", token: 7, ttl: time.Minute, now: time.Unix(1000, 0)}
	r.setLeft(time.Hour)
	require.Equal(t, time.Minute, r.left)

	c := r.acquire(abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second})
	var held *abstractions.HeldError
	require.ErrorAs(t, c.err, &held)
	left, known := held.Holder.Remaining()
	require.True(t, known)
	require.Equal(t, time.Minute, left)
	require.True(t, c.write, "the deadline is written down by the clock of now")
	require.Equal(t, expireIn, c.expiry)
	require.Equal(t, time.Minute, c.in)
	require.Equal(t, "theirs", c.id)

	r.unsettled = false
	r.setLeft(time.Minute)
	require.False(t, r.acquire(abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second}).write, "to be refused changes nothing")
}

// T07: the TTL of a renewal is the requested one. A repeated acquire is
// another thing: it may be old, and never shortens.
func TestTrap_T07_OldAcquireDoesNotShortenTheLease(t *testing.T) {
	r := row{name: "n", version: 1, id: "mine", token: 7, ttl: abstractions.Infinite, left: abstractions.Infinite}
	c := r.acquire(abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second})
	require.NoError(t, c.err)
	require.Equal(t, expireAsBefore, c.expiry)
	require.Equal(t, abstractions.Infinite, c.ttl)
	require.False(t, c.newToken)

	r.ttl, r.left = time.Second, 500*time.Millisecond
	c = r.acquire(abstractions.AcquireRequest{Name: "n", ID: "mine", TTL: time.Second})
	require.Equal(t, expireIn, c.expiry)
	require.Equal(t, time.Second, c.in)
}

func TestWhyAClaimIsLost(t *testing.T) {
	live := row{version: 1, id: "mine", token: 7, left: time.Second}
	for _, test := range []struct {
		name   string
		row    row
		reason abstractions.LostReason
	}{
		{"it is ours", live, ""},
		{"it ran out", row{version: 1, id: "mine", token: 7}, abstractions.LostExpired},
		{"no row", row{}, abstractions.LostGone},
		{"released", row{version: 1, token: 7, ended: ended{"mine"}}, abstractions.LostGone},
		{"released, and taken since", row{version: 1, id: "theirs", token: 9, ended: ended{"mine"}, left: 1}, abstractions.LostGone},
		{"broken", row{version: 1, id: "mine", token: 7, left: 1, ended: ended{"mine!"}, breaking: true}, abstractions.LostBroken},
		{"broken and free", row{version: 1, token: 7, ended: ended{"mine!"}}, abstractions.LostBroken},
		{"taken", row{version: 1, id: "theirs", token: 9, left: 1}, abstractions.LostTaken},
		{"taken and left since", row{version: 1, token: 9}, abstractions.LostTaken},
		{"taken under our ID after it ran out", row{version: 1, id: "mine", token: 9, left: 1}, abstractions.LostTaken},
		{"the database went back in time", row{version: 1, id: "theirs", token: 5, left: 1}, abstractions.LostGone},
		{"the database went back in time, to a free name", row{version: 1, token: 7}, abstractions.LostGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.row.lost(abstractions.RenewRequest{ID: "mine", Token: 7})
			if test.reason == "" {
				require.NoError(t, err)
				return
			}
			lostBecause(t, err, test.reason)
		})
	}
}

func TestAfterIsTheFirstNameBeyondAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                   "",
		"a":                  "b",
		"jobs/":              "jobs0",
		"ä":                  "å",
		"a\U0010FFFF":        "b",
		"\U0010FFFF":         "",
		"\uD7FF":             "\uE000",
		"a\u007f":            "a\u0080",
		"x\uFFFF":            "x\U00010000",
		"\U0010FFFEz\x00\t ": "\U0010FFFEz\x00\t!",
	} {
		bound, bounded := after(prefix)
		require.Equal(t, want, bound, "%q", prefix)
		require.Equal(t, want != "", bounded)
		if bounded {
			require.Less(t, prefix+"\U0010FFFF\U0010FFFF", bound)
		}
	}
}
