package managertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestTrap_T83_PrintingIsShortAndRaceFree(t *testing.T) {
	virtual(t, leasing.Options{Owner: "o"}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: map[string]string{"secret": "s3cret"}})
		var all sync.WaitGroup
		all.Go(func() {
			for range 100 {
				_ = l.Renew(context.Background())
			}
		})
		for range 100 {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
				require.Equal(t, fmt.Sprintf("lease %q, token %d, held", name, l.Token()), fmt.Sprintf(verb, l))
				require.Equal(t, `manager of memory, owner "o", 1 held`, fmt.Sprintf(verb, m))
			}
		}
		all.Wait()
		var out bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("work", "lease", l, "manager", m)
		}
		require.Contains(t, out.String(), "lease.name="+name+" lease.fingerprint="+leasing.FingerprintOf(l.ID()).String())
		require.Contains(t, out.String(), `"status":"held"`)
		require.NotContains(t, out.String(), "s3cret")
		require.Less(t, out.Len(), 700)
		require.NoError(t, m.Do(t.Context(), "in do", func(_ context.Context, l *leasing.Lease) error {
			require.NoError(t, l.Release(t.Context()))
			require.Contains(t, fmt.Sprintf("%+v", l), `lease "in do", token `)
			require.Contains(t, fmt.Sprint(l), ", held, to be released")
			return nil
		}))
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		time.Sleep(time.Minute)
		require.Contains(t, fmt.Sprint(l), ", lost: expired")
		p.Clear()
		l = acquire(t, m, nil)
		require.NoError(t, l.Release(t.Context()))
		require.Contains(t, fmt.Sprint(l), ", released")
	})
}
