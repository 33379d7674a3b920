package providerkit_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// The text of an error contains its class once, however many layers add the class. An error that
// joins the errors from several servers keeps the class of each.
func TestTrap_T271_AnErrorSaysItsClassOnce(t *testing.T) {
	for text, want := range map[string]string{
		"backend unavailable: late: backend unavailable: locked":                             "backend unavailable: late: locked",
		"backend unavailable: 1: backend unavailable: refused; 2: backend unavailable: full": "backend unavailable: 1: refused; 2: full",
		"backend unavailable: 1: access denied: a; 2: access denied: b":                      "backend unavailable: 1: access denied: a; 2: access denied: b",
		"access denied: access denied: no":                                                   "access denied: no",
		"late: backend unavailable: locked":                                                  "late: backend unavailable: locked",
	} {
		err := &abstractions.Error{Op: "acquire", Name: "n", Provider: "p", Err: errors.New(text)}
		require.EqualError(t, err, `leasing: acquire "n" (p): `+want)
	}
}
