package postgreslease

import (
	"os"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The statements of docs/from-lease-tables.md, on PostgreSQL.
const (
	moveLease = `INSERT INTO infra."Lease" AS l ("Name", "Owner", "LeaseUntilUtc", "LastGrantedUtc")
VALUES ($1, 'moved to leasing', '9999-12-31Z', clock_timestamp())
ON CONFLICT ("Name") DO UPDATE
SET "Owner" = excluded."Owner", "LeaseUntilUtc" = excluded."LeaseUntilUtc"
WHERE l."LeaseUntilUtc" IS NULL OR l."LeaseUntilUtc" <= clock_timestamp() OR l."Owner" = excluded."Owner"
RETURNING true`
	moveLock = `INSERT INTO infra."DistributedLock" AS l ("ResourceName", "OwnerToken", "LeaseUntil", "FencingToken")
VALUES ($1, '00000000-0000-0000-0000-00000000feed', '9999-12-31Z', 1)
ON CONFLICT ("ResourceName") DO UPDATE
SET "OwnerToken" = excluded."OwnerToken", "LeaseUntil" = excluded."LeaseUntil", "FencingToken" = l."FencingToken" + 1
WHERE l."LeaseUntil" IS NULL OR l."LeaseUntil" <= clock_timestamp() OR l."OwnerToken" = excluded."OwnerToken"
RETURNING true`
	undoLease = `UPDATE infra."Lease" SET "Owner" = NULL, "LeaseUntilUtc" = NULL WHERE "Owner" = 'moved to leasing'`
	undoLock  = `UPDATE infra."DistributedLock" SET "OwnerToken" = NULL, "LeaseUntil" = NULL WHERE "OwnerToken" = '00000000-0000-0000-0000-00000000feed'`
)

// The other library's tables and statements, as far as the move needs them: a process that finds no live lease takes the name.
const (
	oldTables = `CREATE TABLE IF NOT EXISTS infra."Lease" (
	"Name" text PRIMARY KEY, "Owner" text NULL, "LeaseUntilUtc" timestamptz NULL, "LastGrantedUtc" timestamptz NULL);
CREATE TABLE IF NOT EXISTS infra."DistributedLock" (
	"ResourceName" text PRIMARY KEY, "OwnerToken" uuid NULL, "LeaseUntil" timestamptz NULL, "FencingToken" bigint NOT NULL DEFAULT 0, "ContextJson" text NULL)`
	takeLease = `INSERT INTO infra."Lease" AS l ("Name", "Owner", "LeaseUntilUtc") VALUES ($1, 'worker', now() + interval '1 hour')
ON CONFLICT ("Name") DO UPDATE SET "Owner" = 'worker', "LeaseUntilUtc" = excluded."LeaseUntilUtc"
WHERE l."LeaseUntilUtc" IS NULL OR l."LeaseUntilUtc" <= now() RETURNING true`
	takeLock = `INSERT INTO infra."DistributedLock" AS l ("ResourceName", "OwnerToken", "LeaseUntil", "FencingToken")
VALUES ($1, 'aaaaaaaa-0000-0000-0000-000000000001', now() + interval '1 hour', 1)
ON CONFLICT ("ResourceName") DO UPDATE SET "OwnerToken" = excluded."OwnerToken", "LeaseUntil" = excluded."LeaseUntil", "FencingToken" = l."FencingToken" + 1
WHERE l."LeaseUntil" IS NULL OR l."LeaseUntil" <= now() RETURNING true`
	leaveLease = `UPDATE infra."Lease" SET "LeaseUntilUtc" = NULL, "Owner" = NULL WHERE "Name" = $1 RETURNING true`
	leaveLock  = `UPDATE infra."DistributedLock" SET "LeaseUntil" = NULL, "OwnerToken" = NULL WHERE "ResourceName" = $1 RETURNING true`
)

// A program moves away from the tables of another library while the program's processes are replaced in turn. No name ever has
// a holder on both sides.
func TestMoveFromLeaseTables(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		page, err := os.ReadFile("../../../docs/from-lease-tables.md")
		require.NoError(t, err)
		conn := connectPostgres(t)
		defer conn.Close(bounded(t))
		_, err = conn.Exec(bounded(t), `CREATE SCHEMA IF NOT EXISTS infra; `+oldTables)
		require.NoError(t, err)
		t.Cleanup(func() { execPostgres(t, `DROP TABLE infra."Lease", infra."DistributedLock"`) })
		did := func(statement string, args ...any) bool {
			var did bool
			err := conn.QueryRow(bounded(t), statement, args...).Scan(&did)
			if err != pgx.ErrNoRows { //nolint:errorlint // as it is returned
				require.NoError(t, err)
			}
			return did
		}
		for _, side := range []struct{ table, take, leave, move, undo string }{
			{"Lease", takeLease, leaveLease, moveLease, undoLease}, {"DistributedLock", takeLock, leaveLock, moveLock, undoLock},
		} {
			require.Contains(t, string(page), side.move)
			require.Contains(t, string(page), side.undo)
			name := "jobs/" + abstractions.NewID()
			require.True(t, did(side.take, name))
			require.False(t, did(side.move, name), "an old process has it")
			require.True(t, did(side.leave, name))
			require.True(t, did(side.move, name))
			require.True(t, did(side.move, name), "another new process")
			require.False(t, did(side.take, name), "old processes are out")

			p := openTest(t, withParameters(postgresURL(t), "schema", newSchema(t)), nil)
			grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
			require.NoError(t, err)
			require.Greater(t, grant.Token, int64(1e15), "more than any count of theirs")
			require.NoError(t, p.Release(bounded(t), releaseOf(grant)))

			_, err = conn.Exec(bounded(t), side.undo)
			require.NoError(t, err)
			require.True(t, did(side.take, name), "back again")
			require.True(t, did(side.move, "never/"+name))
			require.False(t, did(side.take, "never/"+name))
			_, err = conn.Exec(bounded(t), side.undo)
			require.NoError(t, err)
		}
	})
}
