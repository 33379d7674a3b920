//go:build unix

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

func TestFanoutOnSQLite(t *testing.T)   { showtest.OnSQLite(t, "fanout", play) }
func TestFanoutOnPostgres(t *testing.T) { showtest.OnPostgres(t, "fanout", play) }
func TestFanoutOnRedis(t *testing.T)    { showtest.OnRedis(t, "fanout", play) }
