package torture_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// failing is a testing.TB that records whether the test failed.
type failing struct {
	testing.TB
	failed bool
	dir    string
}

func (f *failing) Error(...any)        { f.failed = true }
func (f *failing) ArtifactDir() string { return f.dir }

func TestTestFailsForABrokenProvider_memory(t *testing.T) {
	for _, defect := range broken.All() {
		if defect.Trap != "T24" {
			continue
		}
		for _, isBroken := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				options, inner := short(defect, 1), &failing{TB: t, dir: t.TempDir()}
				var provider leasing.Provider = memlease.New(memlease.Options{})
				if isBroken {
					provider = defect.Wrap(provider)
				}
				options.Open = torture.Share(provider)
				torture.Test(inner, options)
				require.Equal(t, isBroken, inner.failed)
				if !isBroken {
					return
				}
				file, err := os.Open(filepath.Join(inner.dir, "history.json"))
				require.NoError(t, err)
				defer file.Close()
				again, err := torture.Verify(file)
				require.NoError(t, err)
				require.Error(t, again.Err())
			})
		}
	}
}
