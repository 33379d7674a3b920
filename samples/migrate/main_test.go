package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/samples/internal/show"
	"github.com/distributedleasing/leasing/samples/internal/show/showtest"
)

func TestMain(m *testing.M) {
	show.MainOfWorker(work)
	goleak.VerifyTestMain(m)
}

func TestMigrateOnSQLite(t *testing.T)   { showtest.OnSQLite(t, "migrate", play) }
func TestMigrateOnPostgres(t *testing.T) { showtest.OnPostgres(t, "migrate", play) }
func TestMigrateOnRedis(t *testing.T)    { showtest.OnRedis(t, "migrate", play) }
