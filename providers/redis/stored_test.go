package redislease

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// Texts stored by release 0.1.0. Later releases must read all three.
const (
	goldenHeld     = "Aw9999999999999 H1795779254138624 an-id\n0\n\nworker-1\n{\"cursor\":\"7\"}"
	goldenBreaking = "Aw9999999999999 B1795779254138624 an-id\n0\n!f00992d8c0a4fb\nworker-1\n{\"cursor\":\"7\"}\nann\nfreeze"
	goldenFree     = "A-0000000000000 F1795779254138624 \n\n f00992d8c0a4fb"
)

// useStored uses names whose records another release has stored under the version letter.
func useStored(t *testing.T, letter string) {
	b := newBed(t, redistest.Options{})
	put := func(name, text string) { b.set(b.keys(name).Name, letter+text[1:], 0) }
	isCurrent := func(name string) { require.Equal(t, "A", b.get(b.keys(name).Name)[:1], name) }
	record := func(name string) abstractions.Record {
		r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		return r
	}

	put("held", goldenHeld)
	r := record("held")
	require.True(t, r.Held)
	require.EqualValues(t, 1795779254138624, r.Token)
	require.Equal(t, "worker-1", r.Owner)
	require.Equal(t, map[string]string{"cursor": "7"}, r.Metadata)
	_, err := b.Try("held", "other", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.NoError(t, b.renew(abstractions.Grant{Name: "held", ID: "an-id", Token: r.Token}, time.Minute))
	isCurrent("held")
	require.Equal(t, r.Metadata, record("held").Metadata)
	b.release("held", "an-id")
	require.Greater(t, b.Take("held", "other", time.Minute).Token, r.Token)

	put("broken", goldenHeld)
	require.True(t, b.breakNow("broken").WasHeld)
	isCurrent("broken")
	require.False(t, record("broken").Held)

	put("breaking", goldenBreaking)
	r = record("breaking")
	require.True(t, r.Held && r.Breaking)
	require.Equal(t, "ann", r.BrokenBy)
	require.Equal(t, "freeze", r.BreakReason)
	require.ErrorIs(t, b.renew(abstractions.Grant{Name: "breaking", ID: "an-id", Token: r.Token}, time.Minute), abstractions.ErrLost)
	b.release("breaking", "an-id")
	isCurrent("breaking")
	require.False(t, record("breaking").Held)

	put("free", goldenFree)
	require.False(t, record("free").Held)
	_, err = b.Try("free", "an-id", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrReleased)
	require.Greater(t, b.Take("free", "other", time.Minute).Token, int64(1795779254138624))
	isCurrent("free")
}

func TestStoredTextsOfTheFirstRelease(t *testing.T) {
	t.Parallel()
	useStored(t, "A")
}

// The letter "@" stands for a version before A. The test isn't parallel, since it changes the scripts that all tests send.
func TestTrap_T253_ATextOfAnEarlierVersionIsBroughtUpToDate(t *testing.T) {
	for _, p := range script.Programs {
		current := p.Source
		defer func() { p.Source = current }()
		text := strings.Replace(p.Text, "local OLDER = {}", "local OLDER = {['@'] = function(text) return 'A' .. sub(text, 2) end}", 1)
		require.NotEqual(t, p.Text, text)
		p.Source = script.SourceOf(text)
	}
	useStored(t, "@")
}
