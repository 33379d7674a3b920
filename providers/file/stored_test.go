package filelease

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

// Every release must read the file that release 0.1.0 stored.
func TestStoredFile(t *testing.T) {
	p := open(t, t.TempDir())
	now, left := hostclock.Now(), 30*time.Second
	ends := fmt.Sprintf(`"host":{"wall_us":%d,"boot":%q,"boot_us":%d}`, now.Wall.Add(left).UnixMicro(), now.Boot, (now.SinceBoot + left).Microseconds())
	record := strings.Replace(recordstest.StoredRecord, `"write":"1f2e3d4c5b6a7988","lasts_us":30000000`, ends, 1)
	require.Contains(t, record, ends)
	recordstest.UsesStored(t, p, func() {
		require.NoError(t, os.WriteFile(filepath.Join(pathOf(p), "jobs~2Fdaily.lease"), []byte(record), 0o600))
	})
}
