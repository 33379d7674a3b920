package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

func TestWhoHoldsTheLease(t *testing.T) {
	now := time.Now()
	record := leasing.Record{Held: true, Owner: "w1", Token: 7, Now: now, ExpiresAt: now.Add(1500 * time.Millisecond), Metadata: map[string]string{"pid": "3", "host": "h"}}
	require.Equal(t, "waits: w1 has the lease, token 7, for 1.5s unless renewed, host=h, pid=3", waitingFor(record).line())
	record.Breaking = true
	require.Equal(t, "waits: w1 has the lease, token 7, broken, it ends in 1.5s, host=h, pid=3", waitingFor(record).line())
	record.ExpiresAt, record.Metadata = time.Time{}, nil
	require.Equal(t, "waits: w1 has the lease, token 7, for how long the backend does not tell", waitingFor(record).line())
	record.Unconfirmed = true
	require.Equal(t, "waits: somebody has just taken it; who, is not written yet", waitingFor(record).line(), "the rest may be an earlier holder's")
}

func TestLinesForPeople(t *testing.T) {
	var out bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	print := textTo(&out)
	for _, r := range []report{
		{Kind: competing, Text: "competes"},
		{Kind: acquired, Token: 7, Left: 3 * time.Second},
		{Kind: did, Item: 4, Left: time.Second},
		{Kind: renewed, Item: 2, Left: 3 * time.Second},
		{Kind: troubled, Text: "a\nb"},
		{Kind: refused, Text: "stale"},
		{Kind: lost, Text: "lease lost: taken"},
		{Kind: stopping, Text: "asked to"},
		{Kind: released},
		{Kind: released, Text: "no answer"},
		{Kind: exited, Text: "exit status 0"},
	} {
		r.Time, r.Worker = at, "w1"
		print(r)
	}
	require.Equal(t, `03:04:05.006 w1  competes
03:04:05.006 w1  HAS THE LEASE, token 7, for 3.0s unless renewed
03:04:05.006 w1  did item 4   the lease has 1.0s left
03:04:05.006 w1  renewed the lease, 3.0s left again (2 so far)
03:04:05.006 w1  trouble: a; b
03:04:05.006 w1  its write was refused: stale
03:04:05.006 w1  HAS LOST THE LEASE: lease lost: taken
03:04:05.006 w1  stops its work: asked to
03:04:05.006 w1  has given the lease up
03:04:05.006 w1  could not tell the backend that it gives the lease up: no answer
03:04:05.006 w1  is gone: exit status 0
`, out.String())
}

func TestLinesForProgramsComeBackAsTheyWere(t *testing.T) {
	var out bytes.Buffer
	left := time.Second
	r := report{
		Time: time.Now().Round(0), Worker: "w1", Kind: waiting, Token: 1 << 52, Item: 2, Left: left, Text: "t",
		Holder: &holder{Owner: "w2", Token: 1<<53 - 1, Left: &left, Breaking: true, Metadata: map[string]string{"a": "b"}},
	}
	jsonTo(&out)(r)
	var got report
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.True(t, r.Time.Equal(got.Time))
	got.Time = r.Time
	require.Equal(t, r, got)
}
