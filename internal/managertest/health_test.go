package managertest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestHealth(t *testing.T) {
	virtual(t, leasing.Options{Owner: "me"}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		require.Equal(t, leasing.Health{Status: leasing.Healthy, Provider: "memory", Owner: "me", Held: 1}, m.Health(t.Context()))

		fail := p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		time.Sleep(20 * time.Second)
		health := m.Health(t.Context())
		require.Equal(t, leasing.Degraded, health.Status)
		require.Equal(t, 1, health.Failing)
		require.False(t, health.FailingSince.IsZero(), "failed renewals count too")
		fail()
		time.Sleep(8 * time.Second)
		require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status)
		require.NoError(t, l.Err())

		p.Use(leasingtest.Delay(leasingtest.Ping, 1, 300*time.Millisecond))
		require.Equal(t, 300*time.Millisecond, m.Health(t.Context()).Ping)
		p.Use(leasingtest.Fail(leasingtest.Ping, 1, errNetwork))
		health = m.Health(t.Context())
		require.Equal(t, leasing.Unhealthy, health.Status)
		require.Contains(t, health.Error, "connection reset")
		leasingtest.Lose(t, p, l, leasing.LostTaken)
		require.EqualValues(t, 1, m.Health(t.Context()).Lost)
		require.Equal(t, 1, p.Count(leasingtest.Acquire), "health takes no lease")
	})
}

func TestHealthInspectsWhereThereIsNoPing(t *testing.T) {
	p := leasingtest.NewProvider()
	m := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
	require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status)
	require.Equal(t, 1, p.Count(leasingtest.Inspect))
	require.Zero(t, p.Count(leasingtest.Ping))
}

func TestHealthHandler(t *testing.T) {
	m, p := leasingtest.NewManager(t, leasing.Options{})
	serve := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		leasing.HealthHandler(m).ServeHTTP(w, httptest.NewRequest(method, "/healthz", nil))
		return w
	}
	w := serve(http.MethodGet)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var health leasing.Health
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &health))
	require.Equal(t, leasing.Healthy, health.Status)
	require.Equal(t, http.StatusMethodNotAllowed, serve(http.MethodPost).Code)
	p.Use(leasingtest.Fail(leasingtest.Ping, 1, errNetwork))
	require.Equal(t, http.StatusServiceUnavailable, serve(http.MethodGet).Code)
}
