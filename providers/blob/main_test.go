package bloblease

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests end the server that they share before leaks are looked for.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer stopSharedAzurite()
	return t.M.Run()
}
