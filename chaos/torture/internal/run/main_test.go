package run

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// TestMain also runs in worker processes. Each process has its own memory provider.
func TestMain(m *testing.M) {
	WorkerMain(func(context.Context) (leasing.Provider, error) {
		if why := os.Getenv("TORTURE_TEST_FAILURE"); why != "" {
			return nil, errors.New(why)
		}
		if os.Getenv("TORTURE_TEST_LEAK") != "" {
			go func() { select {} }()
		}
		return memlease.New(memlease.Options{}), nil
	})
	goleak.VerifyTestMain(m)
}
