package cas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// A term of a foreign client ends the lease before it, as any other lease would,
// and has a token.
func TestTermsOfOthers(t *testing.T) {
	r := providerkit.Record{Name: "n", Token: 7, ID: "ours", Owner: "o", TTL: time.Minute, Metadata: map[string]string{"a": "b"}}
	ours, err := currentFormat.encode(&r, deadline{Write: "w", Lasts: micros(time.Minute)})
	require.NoError(t, err)
	data, err := Foreign{ID: "theirs", Owner: "pod", TTL: 15 * time.Second, Write: "5", Terms: 3, Now: noon}.Record("n", ours)
	require.NoError(t, err)
	got, d, err := currentFormat.decode(data, "n")
	require.NoError(t, err)
	require.Equal(t, providerkit.Record{Name: "n", Token: 10, ID: "theirs", Owner: "pod", TTL: 15 * time.Second}, got)
	require.Equal(t, deadline{Write: "5", Lasts: micros(15 * time.Second)}, d)
	lasts, write := DeadlineOf(data)
	require.Equal(t, 15*time.Second, lasts)
	require.Equal(t, "5", write)
	got.Left = time.Second
	lostBecause(t, got.Renew(abstractions.RenewRequest{Name: "n", ID: "ours", Token: 7, TTL: time.Second}).Err, abstractions.LostTaken)

	// A record that was written during the foreign term does not end that term.
	data, err = Foreign{ID: "theirs", Owner: "pod", TTL: 15 * time.Second, Write: "7", Now: noon}.Record("n", data)
	require.NoError(t, err)
	again, d, err := currentFormat.decode(data, "n")
	require.NoError(t, err)
	require.EqualValues(t, 10, again.Token)
	require.Equal(t, "7", d.Write)

	// A term that ended before any read gets a token as well, even if the service does not
	// count terms.
	data, err = Foreign{Terms: -4, Now: noon}.Record("n", ours)
	require.NoError(t, err)
	got, d, err = currentFormat.decode(data, "n")
	require.NoError(t, err)
	require.Equal(t, providerkit.Record{Name: "n", Token: 8}, got)
	require.Zero(t, d)
	_, write = DeadlineOf(data)
	require.Empty(t, write)

	// A broken claim stays refused during and after the foreign term.
	r.Breaking, r.BrokenBy = true, "me"
	ours, err = currentFormat.encode(&r, deadline{})
	require.NoError(t, err)
	data, err = Foreign{ID: "theirs", Now: noon}.Record("n", ours)
	require.NoError(t, err)
	got, _, err = currentFormat.decode(data, "n")
	require.NoError(t, err)
	require.False(t, got.Breaking)
	require.Equal(t, noon, got.IdleSince)
	require.ErrorIs(t, got.Acquire(abstractions.AcquireRequest{Name: "n", ID: "ours"}).Err, abstractions.ErrReleased)

	// Without a record the result has the given name; data that is not a record causes an error.
	data, err = Foreign{ID: "theirs", TTL: abstractions.Infinite}.Record("n", nil)
	require.NoError(t, err)
	got, _, err = currentFormat.decode(data, "n")
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Token)
	lasts, _ = DeadlineOf(data)
	require.Equal(t, abstractions.Infinite, lasts)
	_, err = Foreign{}.Record("n", []byte("{}"))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}
