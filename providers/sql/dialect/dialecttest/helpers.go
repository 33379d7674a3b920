package dialecttest

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/internal/seam"
)

// Executor is a backend that can also run statements that write. Dialects implement it in their tests.
type Executor interface {
	Execute(ctx context.Context, statement string, args ...any) error
}

// BackendOf returns the backend of a provider.
func BackendOf(p *sqllease.Provider) dialect.Backend { return *seam.Backend(p) }

// SetBackend replaces the backend of a provider.
func SetBackend(p *sqllease.Provider, b dialect.Backend) { *seam.Backend(p) = b }

// StoreOf returns the store of a provider.
func StoreOf(p *sqllease.Provider) *dialect.Store { return seam.Store(p) }

// CheckedOf returns the time of a provider's latest check of its tables, in ns since 1970.
func CheckedOf(p *sqllease.Provider) *atomic.Int64 { return seam.Checked(p) }

// Execute runs a statement on a provider's database, with the names of its tables in place of {lease}, {history}, {waiters} and
// {schema}.
func Execute(ctx context.Context, t testing.TB, p *sqllease.Provider, statement string, args ...any) {
	t.Helper()
	require.NoError(t, BackendOf(p).(Executor).Execute(ctx, InTables(p, statement), args...), statement)
}

// InTables returns a statement with the names of a provider's tables in place of {lease}, {history}, {waiters} and
// {schema}.
func InTables(p *sqllease.Provider, statement string) string {
	lease := StoreOf(p).Table
	if schema := StoreOf(p).Schema; schema != "" {
		lease = schema + "." + lease
	}
	return strings.NewReplacer(
		"{lease}", lease, "{history}", lease+dialect.HistorySuffix, "{schema}", lease+dialect.SchemaSuffix, "{waiters}", lease+dialect.WaitersSuffix,
	).Replace(statement)
}

// onPostgres reports whether the dialect of a provider is PostgreSQL's.
func onPostgres(p *sqllease.Provider) bool { return p.Capabilities().Provider == "postgres" }

// WithParameters adds query parameters, each a name and a value, to a URL.
func WithParameters(rawURL string, parameters ...string) string {
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	if strings.Contains(rawURL, "?") {
		return rawURL + "&" + values.Encode()
	}
	return rawURL + "?" + values.Encode()
}

// Bounded returns a context that ends a hanging test.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ClaimOf returns an acquire with a new ID.
func ClaimOf(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "tester", TTL: ttl}
}

// RenewalOf returns a renewal of a grant.
func RenewalOf(claim abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token, TTL: claim.TTL}
}

// ReleaseOf returns a release of a grant.
func ReleaseOf(claim abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token}
}

// LostBecause checks the reason of a loss.
func LostBecause(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}
