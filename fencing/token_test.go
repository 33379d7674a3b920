package fencing_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

func TestParseTokenReadsDecimalsAndNothingElse(t *testing.T) {
	for _, text := range fencingtest.NotTokens {
		_, err := fencing.ParseToken(text)
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.Int64Range(1, leasing.MaxToken).Draw(t, "token")
		parsed, err := fencing.ParseToken(strconv.FormatInt(token, 10))
		require.NoError(t, err)
		require.Equal(t, token, parsed)
	})
}

func TestTrap_T65_TheLargestTokensStayApart(t *testing.T) {
	for _, token := range []int64{leasing.MaxToken, leasing.MaxToken - 1, 9007199254740989} {
		parsed, err := fencing.ParseToken(strconv.FormatInt(token, 10))
		require.NoError(t, err)
		require.Equal(t, token, parsed)
	}
}
