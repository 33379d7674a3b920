package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/samples/internal/show/showtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReplyOnSQLite(t *testing.T)   { showtest.OnSQLite(t, "reply", play) }
func TestReplyOnPostgres(t *testing.T) { showtest.OnPostgres(t, "reply", play) }
func TestReplyOnRedis(t *testing.T)    { showtest.OnRedis(t, "reply", play) }
