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

// underVariable names the leases of the runs that this process is part of, by their fingerprints.
const underVariable = "LEASING_UNDER"

// nested returns an error if this process is part of a run that has the name: that run ends when this process has
// ended, so the process would wait for itself.
func nested(ctx context.Context, m *leasing.Manager, name string) error {
	if os.Getenv(underVariable) == "" {
		return nil
	}
	r, err := m.Inspect(ctx, name)
	if err == nil && r.Held && isUnder(&r) {
		return errNested(name)
	}
	return nil // the request that follows reports what is wrong with the backend
}

// isUnder reports whether this command is part of a run that has the lease of r.
func isUnder(r *leasing.Record) bool {
	return slices.Contains(strings.Fields(os.Getenv(underVariable)), r.Fingerprint.String())
}

func errNested(name string) error {
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("%s: this command is part of the run that holds the lease, and would wait for itself", name)}
}
