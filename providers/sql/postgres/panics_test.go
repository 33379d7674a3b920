package postgreslease

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// tracer is a query tracer of the application.
type tracer struct{ broken *atomic.Bool }

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if t.broken.Load() {
		panic("of the application")
	}
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// T124: a panic of the application's tracer during a batch must not end the process.
func TestTrap_T124_ATracerPanics(t *testing.T) {
	config, err := pgx.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	var broken atomic.Bool
	config.Tracer = tracer{&broken}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { db.Close() })
	p, err := Open(t.Context(), Options{DB: db, Schema: newSchema(t), Create: true})
	require.NoError(t, err)
	claim := func() abstractions.AcquireRequest {
		return abstractions.AcquireRequest{Name: "panics", ID: abstractions.NewID(), Owner: "test", TTL: time.Minute}
	}
	broken.Store(true)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err = p.Acquire(ctx, claim())
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorContains(t, err, "of the application")
		require.NoError(t, ctx.Err())
		cancel()
	}
	broken.Store(false)
	g, err := p.Acquire(t.Context(), claim())
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token}))
	require.NoError(t, p.Close())
}
