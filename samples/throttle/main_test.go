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

func TestThrottleOnSQLite(t *testing.T)   { showtest.OnSQLite(t, "throttle", play) }
func TestThrottleOnPostgres(t *testing.T) { showtest.OnPostgres(t, "throttle", play) }
func TestThrottleOnRedis(t *testing.T)    { showtest.OnRedis(t, "throttle", play) }
