package memsequence_test

import (
	"context"
	"sync"
	"testing"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance_memory(t *testing.T) {
	sequencetest.Run(t, sequencetest.Harness[memsequence.Tx]{
		New:     func(testing.TB) sequencetest.Database[memsequence.Tx] { return &memory{store: memsequence.New()} },
		Virtual: true,
	})
}

// memory is a database in memory, with a table of the application.
type memory struct {
	store *memsequence.Store
	mu    sync.Mutex
	rows  []string
}

func (m *memory) Open(testing.TB) sequence.Store[memsequence.Tx] { return m.store }
func (m *memory) HintsOtherProcesses() bool                      { return true }

func (m *memory) Insert(_ context.Context, tx memsequence.Tx, row string) error {
	tx.OnCommit(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.rows = append(m.rows, row)
	})
	return nil
}

func (m *memory) Rows(testing.TB) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.rows...)
}
