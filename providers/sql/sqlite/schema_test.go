package sqlitelease

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestSqliteFolderThatIsMissingIsASetupError(t *testing.T) {
	p, err := OpenURL(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "missing", "x.db"))
	require.NoError(t, err)
	defer p.Close()
	require.ErrorIs(t, p.Migrate(t.Context()), abstractions.ErrNotSetUp)
}

func TestFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(path, []byte("this is a text, and long enough to be taken for the header of a database file, which is a hundred bytes long"), 0o600))
	_, err := OpenURL(t.Context(), "sqlite://"+path+"?create=true")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

func TestOpenMakesNoRequest(t *testing.T) {
	p, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "missing", "x.db")})
	require.NoError(t, err)
	require.Error(t, p.Ping(t.Context()))
	require.NoError(t, p.Close())
}

func TestAbilitiesAreListed(t *testing.T) {
	for parameters, history := range map[string]bool{"": false, "?history=1": true} {
		p, err := OpenURL(t.Context(), "sqlite://x.db"+parameters)
		require.NoError(t, err)
		_, has := abstractions.As[abstractions.HistoryReader](p)
		require.Equal(t, history, has)
		_, waits := abstractions.As[abstractions.Waiter](p)
		require.True(t, waits)
		require.NoError(t, p.Close())
	}
}
