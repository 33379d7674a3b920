//go:build unix

package filelease

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// T33: calls don't hang while a stopped process has the lock.
func TestTrap_T33_AStoppedWriterHoldsUpNobodyForLong(t *testing.T) {
	folder := t.TempDir()
	p := openTest(t, folder)
	p.mustAcquire(t, "n", "mine")
	var held []*os.File
	for i := range locks {
		lock, err := os.Create(filepath.Join(folder, lockFolder, fmt.Sprint(i)))
		require.NoError(t, err)
		require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
		held = append(held, lock)
	}
	patient, giveUp := context.WithTimeout(t.Context(), time.Minute)
	first := make(chan error, 1)
	go func() { first <- p.Release(patient, abstractions.ReleaseRequest{Name: "n", ID: "other"}) }()
	for range 3 { // behind the call that polls for the lock
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "mine"})
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	require.Empty(t, first)
	giveUp()
	require.ErrorIs(t, <-first, context.Canceled)
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err, "reads take no lock")
	require.True(t, record.Held)
	for _, lock := range held {
		require.NoError(t, lock.Close())
	}
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine"}))
}
