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

func TestDailyOnSQLite(t *testing.T)   { showtest.OnSQLite(t, "daily", play) }
func TestDailyOnPostgres(t *testing.T) { showtest.OnPostgres(t, "daily", play) }
func TestDailyOnRedis(t *testing.T)    { showtest.OnRedis(t, "daily", play) }
