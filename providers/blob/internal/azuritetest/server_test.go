package azuritetest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asks asks for the account's containers without saying who asks.
func asks(t *testing.T, s *Server, patience time.Duration) (status int, err error) {
	t.Helper()
	transport := s.Transport()
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"?comp=list", http.NoBody)
	require.NoError(t, err)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestServerKeepsItsPort(t *testing.T) {
	for _, options := range []Options{{}, {Tokens: true}} {
		s := Start(t, options)
		url := s.URL()
		status, err := asks(t, s, time.Minute)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, status, "it speaks, and wants to know who asks")

		s.Pause(t)
		_, err = asks(t, s, 300*time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Resume(t)
		_, err = asks(t, s, time.Minute)
		require.NoError(t, err)

		s.Kill()
		s.Kill()
		_, err = asks(t, s, time.Minute)
		require.Error(t, err)
		s.Restart(t)
		require.Equal(t, url, s.URL())
		_, err = asks(t, s, time.Minute)
		require.NoError(t, err)
	}
}

func TestSharedIsOne(t *testing.T) {
	t.Setenv("LEASING_TEST_AZURITE", "")
	defer StopShared()
	first := Shared(t)
	require.Equal(t, first, Shared(t))
	t.Setenv("LEASING_TEST_AZURITE", "AccountName=x")
	require.Equal(t, "AccountName=x", Shared(t))
}

func TestMissingProgramIsAnError(t *testing.T) {
	t.Setenv(programVariable, t.TempDir()+"/none")
	_, _, err := program()
	require.ErrorIs(t, err, errNoProgram)
}
