package fencing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// notTokens are texts that some parser of numbers would let through.
var notTokens = []string{
	"", "0", "00", "01", "-1", "+1", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "1_000", "١", "NaN", "inf", "abc", "1,2",
	"9007199254740992",     // 2^53
	"9223372036854775808",  // 2^63
	"18446744073709551617", // 2^64 + 1
}

func TestParseTokenReadsDecimalsAndNothingElse(t *testing.T) {
	for _, text := range notTokens {
		_, err := fencing.ParseToken(text)
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.Int64Range(1, leasing.MaxToken).Draw(t, "token")
		parsed, err := fencing.ParseToken(decimal(token))
		require.NoError(t, err)
		require.Equal(t, token, parsed)
	})
}

func TestTrap_T65_TheLargestTokensStayApart(t *testing.T) {
	for _, token := range []int64{leasing.MaxToken, leasing.MaxToken - 1, 9007199254740989} {
		parsed, err := fencing.ParseToken(decimal(token))
		require.NoError(t, err)
		require.Equal(t, token, parsed)
	}
}
