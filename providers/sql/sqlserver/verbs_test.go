package sqlserverlease

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/microsoft/go-mssqldb/msdsn"
	"github.com/stretchr/testify/require"
)

func TestVerbsOnTheFake(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{History: true, HistoryRenewals: true})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, abstractions.FingerprintOf(grant.ID), held.Holder.Fingerprint)

	renewed, err := p.Renew(bounded(t), renewalOf(grant))
	require.NoError(t, err)
	now, expires, ok := sqllease.Times(renewed)
	require.True(t, ok)
	require.Equal(t, time.Minute, expires.Sub(now))
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	_, err = p.Renew(bounded(t), renewalOf(grant))
	require.ErrorIs(t, err, abstractions.ErrLost)
	next, err := p.Acquire(bounded(t), claimOf("n", abstractions.Infinite))
	require.NoError(t, err)
	require.Greater(t, next.Token, grant.Token)
	result, err := p.Break(bounded(t), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.Equal(t, next.Token, result.Token)
	require.Equal(t, 5, f.notes, "acquired, renewed, released, acquired, broken")
	require.Zero(t, f.of("note"), "each in the batch of its change")
}

// The parameters have the types of the columns: a name is bytes, and only an infinite TTL and a missing time are NULL.
func TestParametersOfAChange(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	req := claimOf("a ", time.Minute)
	req.Owner, req.Metadata = "o ", map[string]string{"k": "v'; --"}
	grant, err := p.Acquire(bounded(t), req)
	require.NoError(t, err)
	insert := f.of("insert")[0].args
	require.Equal(t, []driver.Value{
		[]byte("a "), insert[1], grant.Token, req.ID, "o ", time.Minute.Microseconds(), `{"k":"v'; --"}`, insert[7], insert[8], false, "", "", []byte{}, "",
		int64(0), 1, int64(math.MaxInt64),
	}, insert)
	require.Equal(t, insert[7].(int64)+time.Minute.Microseconds(), insert[8])

	forEver := renewalOf(grant)
	forEver.TTL = abstractions.Infinite
	_, err = p.Renew(bounded(t), forEver)
	require.NoError(t, err)
	update := f.of("update")[0].args
	require.Nil(t, update[4], "an infinite TTL")
	require.Equal(t, []driver.Value{[]byte("a "), insert[1], grant.Token, req.ID, insert[8], 1, insert[8]}, update[13:])
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	for i, arg := range f.of("update")[1].args {
		require.Equal(t, i == 4 || i == 6, arg == nil, "parameter %d: only the TTL and the beginning of no claim are NULL", i+1)
	}
}

func TestABatchOfRenewals(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	var batch []abstractions.RenewRequest
	for i := range 300 { // more than fit in one batch
		grant, err := p.Acquire(bounded(t), claimOf(fmt.Sprint("n", i), time.Minute))
		require.NoError(t, err)
		batch = append(batch, renewalOf(grant))
	}
	require.NoError(t, p.Release(bounded(t), abstractions.ReleaseRequest{Name: "n7", ID: batch[7].ID, Token: batch[7].Token}))
	results, err := p.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	for i, result := range results {
		if i == 7 {
			require.ErrorIs(t, result.Err, abstractions.ErrLost)
		} else {
			require.NoError(t, result.Err, i)
		}
	}
	sent := f.of("renew")
	require.Len(t, sent, 2, "in halves")
	for _, s := range sent {
		require.LessOrEqual(t, len(s.args)+1, 2000, "parameters")
		require.Contains(t, s.text, "SET LOCK_TIMEOUT 0;\n")
	}
	require.Contains(t, f.of("insert")[0].text, "SET LOCK_TIMEOUT 2000;\n")

	page, err := p.List(bounded(t), abstractions.ListRequest{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Records, 300)
	require.Equal(t, []driver.Value{[]byte{}, []byte{}}, f.of("list")[0].args[:2], "an empty prefix is not NULL")
}

// T299: a name that ends in a space, or has capital letters, is another name.
func TestTrap_T299_NamesAreBytes(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	for _, name := range []string{"a", "A", "a ", "ä", "a\u0308", "a'; DROP TABLE lease; --", "?b", "@p1", strings.Repeat("x", abstractions.MaxNameBytes)} {
		_, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err, name)
	}
	for _, s := range f.of("insert") {
		require.IsType(t, []byte{}, s.args[0])
		require.NotContains(t, s.text, "DROP")
	}
	for name, text := range batches() {
		require.NotRegexp(t, `\bname +n?varchar`, text, name)
	}
}

// A waiter polls for its turn, and gets the name after the holder's release.
func TestAWaiterPolls(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	req := claimOf("n", time.Minute)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: req.ID})
	require.NoError(t, err)
	_, err = p.Acquire(ctx, req)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	all, err := p.Waiters(ctx, abstractions.WaitersRequest{Name: "n"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, p.Release(ctx, releaseOf(grant)))
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld, "the name is reserved")
	select {
	case <-wakeups.C:
	case <-ctx.Done():
		t.Fatal("no wake-up")
	}
	_, err = p.Acquire(ctx, req)
	require.NoError(t, err)
}

// A sweep raises the floor before it deletes a row.
func TestASweepOnTheFake(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{Retention: time.Millisecond})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	f.ahead = time.Hour
	n, err := p.Sweep(bounded(t))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []driver.Value{grant.Token}, f.of("raise")[0].args)
	require.Less(t, indexOf(f, "raise"), indexOf(f, "forget"))
}

func indexOf(f *fakeServer, kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.log {
		if s.kind == kind {
			return i
		}
	}
	return -1
}

func TestURLsThatCannotBe(t *testing.T) {
	for rawURL, want := range map[string]string{
		"postgres://u:geheim@h/d":                                    "sqlserver://",
		"sqlserver://u:geheim@h":                                     "database",
		"sqlserver://u:geheim@?database=d":                           "database",
		"sqlserver://u:geheim@h?database=d&encrypt=perhaps":          "go-mssqldb",
		"sqlserver://u:geheim@h?database=d&pool_max_conns=1":         "MaxConns",
		"sqlserver://u:geheim@h?database=d&retention=5":              "retention",
		"sqlserver://u:geheim@h?database=d&schema=a b":               "Schema",
		"sqlserver://u:12?geheim@h?database=d":                       "%3F",
		"sqlserver://u:geheim@h:port?database=d":                     "go-mssqldb",
		"sqlserver://u:geheim@h?database=d&history_renewals=true":    "HistoryRenewals",
		"sqlserver://u:geheim@h?database=d&packet size=many&table=x": "go-mssqldb",
	} {
		_, err := OpenURL(t.Context(), rawURL)
		require.ErrorIs(t, err, abstractions.ErrInvalid, rawURL)
		require.ErrorContains(t, err, want, rawURL)
		require.NotContains(t, err.Error(), "geheim", rawURL)
	}
	_, err := Open(t.Context(), Options{})
	require.ErrorContains(t, err, "exactly one of URL, or in Go DB")
}

// Without the parameter encrypt in the URL, connections are encrypted, and the certificate is
// checked.
func TestURLsAreEncryptedByDefault(t *testing.T) {
	for parameters, want := range map[string]msdsn.Encryption{
		"": msdsn.EncryptionRequired, "&encrypt=disable": msdsn.EncryptionDisabled, "&Encrypt=strict": msdsn.EncryptionStrict,
	} {
		u, err := providerkit.ParseURL("sqlserver://app:secret@db?database=app"+parameters, urlSchemes...)
		require.NoError(t, err)
		known, err := new(Options).parameters(u)
		require.NoError(t, err)
		config, err := msdsn.Parse(u.With(known).Reveal())
		require.NoError(t, err)
		require.Equal(t, want, config.Encryption)
		require.False(t, config.TrustServerCertificate)
	}
}

func TestOptionsShowNoSecret(t *testing.T) {
	o := Options{URL: "sqlserver://app:geheim@db?database=app", MaxConns: 4}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%#v", o), string(text)} {
		require.NotContains(t, text, "geheim")
	}
}

// A server that accepts connections and does not answer does not block a call beyond the end of its
// context.
func TestAServerThatHangs(t *testing.T) {
	p := silentProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 4*time.Second, "before connectTimeout")
	require.True(t, p.Capabilities().HeedsContext)
}

// silentProvider returns a provider whose server accepts connections and never answers.
func silentProvider(t testing.TB) abstractions.Provider {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	p, err := OpenURL(t.Context(), "sqlserver://app:secret@"+listener.Addr().String()+"?database=leases")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}
