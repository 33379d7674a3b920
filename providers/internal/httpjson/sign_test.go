package httpjson

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// T119: a request without its token is not sent, and neither an error nor a panic of the token's source counts as an answer from the
// service.
func TestTrap_T119_ATokenThatCannotBeHad(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("sent without a token") }))
	defer server.Close()
	for what, source := range map[string]func(*http.Request) error{
		"error":  func(*http.Request) error { return errors.New("no such file") },
		"a loss": func(*http.Request) error { return &abstractions.LostError{Reason: abstractions.LostGone} },
		"a status": func(*http.Request) error {
			return &StatusError{Status: http.StatusNotFound, response: &http.Response{StatusCode: http.StatusNotFound}}
		},
		"set-up": func(*http.Request) error { return abstractions.ErrNotSetUp },
		"panic":  func(*http.Request) error { panic("of the source") },
	} {
		c := New(server.URL, nil, source)
		_, err := c.Do(t.Context(), http.MethodPut, "/", nil, "text", nil)
		require.ErrorContains(t, err, "credentials: ", what)
		require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
		require.NotErrorIs(t, err, abstractions.ErrLost, what)
		require.NotErrorIs(t, err, abstractions.ErrNotSetUp, what)
		require.Zero(t, StatusOf(err), what)
		require.True(t, abstractions.NotApplied(err), what)
		c.Close()
	}
}
