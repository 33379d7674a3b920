package place_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

func TestJournalOnSQLite(t *testing.T)   { testJournal(t, "") }
func TestJournalOnPostgres(t *testing.T) { testJournal(t, server(t, "LEASING_TEST_POSTGRES")) }

func openJournal(t *testing.T, url string) place.Journal {
	t.Helper()
	p, clear, err := place.SetUp(t.Context(), "journal", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clear()) })
	data, err := p.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, data.Close()) })
	j := place.Journal{Data: data}
	require.NoError(t, j.Create(t.Context()))
	return j
}

func testJournal(t *testing.T, url string) {
	t.Run("takes each thing once", func(t *testing.T) {
		j, ctx := openJournal(t, url), t.Context()
		first, err := j.Note(ctx, "r", 5, "a", "w1")
		require.NoError(t, err)
		require.True(t, first)
		first, err = j.Note(ctx, "r", 6, "a", "w2")
		require.NoError(t, err)
		require.False(t, first, "noted before")
		first, err = j.Note(ctx, "other", 1, "b", "w2")
		require.NoError(t, err)
		require.True(t, first, "another resource has another fence")
		all, err := j.All(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "w1", "b": "w2"}, all)
	})
	t.Run("refuses what is stale", func(t *testing.T) {
		j, ctx := openJournal(t, url), t.Context()
		_, err := j.Note(ctx, "r", 6, "a", "w2")
		require.NoError(t, err)
		first, err := j.Note(ctx, "r", 5, "b", "w1")
		require.ErrorIs(t, err, leasing.ErrStale)
		require.False(t, first)
		_, err = j.Has(ctx, "r", 5, "a")
		require.ErrorIs(t, err, leasing.ErrStale)
		all, err := j.All(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "w2"}, all)
	})
	t.Run("a look keeps former holders out", func(t *testing.T) {
		j, ctx := openJournal(t, url), t.Context()
		has, err := j.Has(ctx, "r", 6, "a")
		require.NoError(t, err)
		require.False(t, has)
		_, err = j.Note(ctx, "r", 5, "a", "w1")
		require.ErrorIs(t, err, leasing.ErrStale, "it was shown a later token")
		_, err = j.Note(ctx, "r", 6, "a", "w2")
		require.NoError(t, err)
		has, err = j.Has(ctx, "r", 6, "a")
		require.NoError(t, err)
		require.True(t, has)
	})
	t.Run("obeys its context", func(t *testing.T) {
		j := openJournal(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		<-ctx.Done()
		first, err := j.Note(ctx, "r", 1, "a", "w")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, first)
	})
}
