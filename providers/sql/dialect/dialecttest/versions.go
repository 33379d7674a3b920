package dialecttest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// later makes a provider behave like a provider of a later release. Version 2 adds a column, and version 3
// renames that column.
func later(p *sqllease.Provider, version int) *sqllease.Provider {
	store, unless := StoreOf(p), "IF NOT EXISTS "
	if p.Capabilities().Provider == "sqlite" { // SQLite lacks this clause for columns, and runs all statements in one transaction
		unless = ""
	}
	lease := store.Name("")
	store.SQL["step_2"] = "ALTER TABLE " + lease + " ADD COLUMN " + unless + "note TEXT NOT NULL DEFAULT '';\nUPDATE " + lease + " SET note = 'of version 1'"
	store.SQL["step_3"] = "ALTER TABLE " + lease + " RENAME COLUMN note TO remark"
	store.Version = version
	return p
}

// texts returns the first column of a query's rows.
func texts(ctx context.Context, t *testing.T, p *sqllease.Provider, query string) (all []string) {
	t.Helper()
	require.NoError(t, BackendOf(p).Query(ctx, InTables(p, query), nil, func(scan dialect.Scan) error {
		var text string
		err := scan(&text)
		all = append(all, text)
		return err
	}))
	return all
}

const (
	versionText = "SELECT CAST(version AS CHAR(9)) FROM {schema}"
	rowText     = "SELECT concat(name, ' ', token, ' ', id, ' ', version) FROM {lease} ORDER BY name"
)

// A later release refuses tables of an earlier release until Migrate has brought them up to date, with all rows. From then on
// each verb of the earlier release refuses the tables and does not write.
func tablesAreBroughtUpToDate(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, earlier := Bounded(t), open()
		req := ClaimOf("n", time.Minute)
		req.Metadata = map[string]string{"region": "north"}
		grant, err := earlier.Acquire(ctx, req)
		require.NoError(t, err)

		newer := later(open("create", "false"), 3)
		_, err = newer.Renew(ctx, RenewalOf(grant))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "Migrate")
		var group sync.WaitGroup
		for range 4 {
			p := later(open("create", "false"), 3)
			group.Go(func() { assert.NoError(t, p.Migrate(ctx)) })
		}
		group.Wait()
		require.NoError(t, newer.Migrate(ctx))
		require.Equal(t, []string{"3"}, trimAll(texts(ctx, t, newer, versionText)))
		require.Equal(t, []string{"of version 1"}, texts(ctx, t, newer, "SELECT remark FROM {lease} WHERE name = 'n'"))
		record, err := newer.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf(grant.ID), record.Fingerprint)
		require.Equal(t, req.Metadata, record.Metadata)
		_, err = newer.Renew(ctx, RenewalOf(grant))
		require.NoError(t, err)

		rows := texts(ctx, t, newer, rowText)
		for _, p := range []*sqllease.Provider{earlier, later(open("create", "false"), 2)} {
			CheckedOf(p).Store(1) // long ago
			for verb, err := range verbs(ctx, p, grant) {
				require.ErrorIs(t, err, abstractions.ErrNotSetUp, verb)
				require.ErrorContains(t, err, "the tables are of version 3, and this release knows versions up to ", verb)
			}
		}
		require.Equal(t, rows, texts(ctx, t, newer, rowText))
		require.NoError(t, newer.Release(ctx, ReleaseOf(grant)), "the later release goes on")
	})
}

func trimAll(all []string) []string { return strings.Fields(strings.Join(all, " ")) }

// verbs returns the error of each verb for a claim.
func verbs(ctx context.Context, p *sqllease.Provider, grant abstractions.Grant) map[string]error {
	_, acquire := p.Acquire(ctx, ClaimOf(grant.Name, time.Minute))
	_, renew := p.Renew(ctx, RenewalOf(grant))
	_, broken := p.Break(ctx, abstractions.BreakRequest{Name: grant.Name, Immediate: true})
	_, inspect := p.Inspect(ctx, abstractions.InspectRequest{Name: grant.Name})
	_, list := p.List(ctx, abstractions.ListRequest{})
	_, sweep := p.Sweep(ctx)
	return map[string]error{
		"acquire": acquire, "renew": renew, "release": p.Release(ctx, ReleaseOf(grant)), "break": broken, "inspect": inspect,
		"list": list, "sweep": sweep, "ping": p.Ping(ctx), "migrate": p.Migrate(ctx),
	}
}

// A step that fails loses no rows, and the next Migrate starts from the version that it finds.
func aStepThatFailsIsBegunAgain(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, earlier := Bounded(t), open()
		grant, err := earlier.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		failing := later(open("create", "false"), 2)
		StoreOf(failing).SQL["step_2"] += ";\nNONSENSE"
		require.Error(t, failing.Migrate(ctx))
		require.Equal(t, []string{"1"}, trimAll(texts(ctx, t, earlier, versionText)))
		_, err = earlier.Renew(ctx, RenewalOf(grant))
		require.NoError(t, err)

		newer := later(open("create", "false"), 3)
		require.NoError(t, newer.Migrate(ctx))
		_, err = newer.Renew(ctx, RenewalOf(grant))
		require.NoError(t, err)
	})
}

// Tables from before release 0.1.0 have their version in another table.
func tablesOfBeforeTheFirstReleaseAreRefused(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		grant, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		rows := texts(ctx, t, p, rowText)
		Execute(ctx, t, p, "ALTER TABLE {schema} RENAME TO lease_schema")
		CheckedOf(p).Store(1)
		for _, p := range []*sqllease.Provider{p, open("create", "false")} {
			err := p.Migrate(ctx)
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "a release before 0.1.0")
			for verb, err := range verbs(ctx, p, grant) {
				require.ErrorIs(t, err, abstractions.ErrNotSetUp, verb)
			}
		}
		require.Equal(t, rows, texts(ctx, t, p, rowText))
	})
}

//go:embed testdata/*.sql
var golden embed.FS

// Each release makes the same tables as release 0.1.0, or has steps that migrate them, and reads the rows of release
// 0.1.0.
func goldenTables(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("create", "false")
		text, err := golden.ReadFile("testdata/" + p.Capabilities().Provider + "-0.1.0.sql")
		require.NoError(t, err)
		tables, rows, found := strings.Cut(string(text), "\n-- rows\n")
		require.True(t, found)
		in := func(text string) string { return strings.ReplaceAll(text, `"golden"`, `"`+StoreOf(p).Schema+`"`) }
		require.Equal(t, in(tables), strings.Join(p.Statements(), ";\n\n")+";\n")
		for _, statement := range append(p.Statements(), strings.Split(strings.TrimSuffix(in(rows), ";\n"), ";\n")...) {
			Execute(ctx, t, p, statement)
		}

		held, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "held"})
		require.NoError(t, err)
		require.True(t, held.Held)
		require.Equal(t, "host-1", held.Owner)
		require.Equal(t, map[string]string{"region": "north"}, held.Metadata)
		require.Equal(t, 30*time.Second, held.TTL)
		forever := abstractions.Grant{Name: "forever", ID: "11111111111111111111111111111111", Token: 1789000000123457, TTL: abstractions.Infinite}
		_, err = p.Renew(ctx, RenewalOf(forever))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, ReleaseOf(forever)))
		broken, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "broken"})
		require.NoError(t, err)
		require.Equal(t, []any{true, "operator", "it hangs"}, []any{broken.Breaking, broken.BrokenBy, broken.BreakReason})
		free, err := p.Acquire(ctx, ClaimOf("free", time.Minute))
		require.NoError(t, err)
		require.Greater(t, free.Token, int64(1789000000123455))
		again := ClaimOf("free", time.Minute)
		again.ID = "33333333333333333333333333333333"
		_, err = p.Acquire(ctx, again)
		require.True(t, errors.Is(err, abstractions.ErrReleased), fmt.Sprint(err))
	})
}
