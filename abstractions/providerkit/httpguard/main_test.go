package httpguard

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http reads HTTP_PROXY once. Requests to this machine bypass the proxy.
	if err := os.Setenv("HTTP_PROXY", "http://proxy.test:3128"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
