package recordstest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

func TestStoredRecordIsThatOfTheKit(t *testing.T) {
	golden, err := os.ReadFile("../providerkit/cas/testdata/records-0.1.0.txt")
	require.NoError(t, err)
	require.Contains(t, string(golden), "\nheld "+recordstest.StoredRecord+"\n")
}
