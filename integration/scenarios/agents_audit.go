package main

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/history"
	"github.com/distributedleasing/leasing/integration/scenarios/place"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// audit is the history of the leases.
type audit struct {
	leasing.Provider // with the history
	abstractions.HistoryReader
	file     string            // "" where the provider of the leases keeps a history
	recorder *history.Recorder // nil if the provider of the leases keeps a history
}

// openAudit opens the provider's history or, if the provider keeps none, a file to which a recorder writes the manager's events.
func openAudit(ctx context.Context, url, file string, m *leasing.Manager) (*audit, error) {
	provider, err := place.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	if reader, keeps := abstractions.As[abstractions.HistoryReader](provider); keeps {
		return &audit{provider, reader, "", nil}, nil
	}
	if err := provider.Close(); err != nil {
		return nil, err
	}
	table, err := sqlitelease.Open(ctx, sqlitelease.Options{Path: file, Create: true, History: true})
	if err != nil {
		return nil, err
	}
	recorder, err := history.New(table, history.Options{})
	if err == nil {
		m.Subscribe(recorder.Observe)
	}
	reader, _ := abstractions.As[abstractions.HistoryReader](table)
	return &audit{table, reader, file, recorder}, err
}

// finish closes the manager, so that all that it did is in the history.
func (a *audit) finish(ctx context.Context, m *leasing.Manager) error {
	err := m.Close(context.WithoutCancel(ctx))
	if a.recorder != nil {
		err = errors.Join(err, a.recorder.Close(ctx))
	}
	return err
}
