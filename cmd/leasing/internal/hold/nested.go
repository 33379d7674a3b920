package hold

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// nestedVariable is the environment variable with the fingerprints of the leases of all runs that this process is part
// of.
const nestedVariable = "LEASING_UNDER"

// checkNested returns an error if this process is part of a run that has the name: that run ends only after this
// process has ended, so the process would wait for itself.
func checkNested(ctx context.Context, m *leasing.Manager, name string) error {
	if os.Getenv(nestedVariable) == "" {
		return nil
	}
	r, err := m.Inspect(ctx, name)
	if err == nil && r.Held && isEnclosing(&r) {
		return errNested(name)
	}
	return nil // the request that follows reports what is wrong with the backend
}

// isEnclosing reports whether this command is part of a run that has the lease of r.
func isEnclosing(r *leasing.Record) bool {
	return slices.Contains(strings.Fields(os.Getenv(nestedVariable)), r.Fingerprint.String())
}

func errNested(name string) error {
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("%s: this command is part of the run that holds the lease, and would wait for itself", name)}
}
