package s3lease

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
)

// T18: a store that accepts a write although its condition does not hold would admit two
// holders.
func TestTrap_T18_AStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	for name, ignored := range map[string][]string{
		"both": {"If-Match", "If-None-Match"}, "creation": {"If-None-Match"}, "replacement": {"If-Match"},
	} {
		t.Run(name, func(t *testing.T) {
			o, w := wireOptions(t)
			*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
				for _, header := range ignored {
					req.Header.Del(header)
				}
				return send(req)
			}
			for range 2 { // the second time, the probe's object exists
				_, err := Open(t.Context(), o)
				require.ErrorIs(t, err, abstractions.ErrNotSetUp)
				require.NotErrorIs(t, err, abstractions.ErrUnavailable)
				require.ErrorContains(t, err, "two clients could hold a name")
			}
		})
	}
}

// Some stores check the condition when a request arrives, and not when they write:
// github.com/seaweedfs/seaweedfs/issues/8800.
func TestAStoreThatLetsTwoCreateAnObjectIsRefused(t *testing.T) {
	var puts atomic.Int32
	o, w := wireOptions(t)
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		if req.Method == http.MethodPut && strings.Contains(req.URL.Path, "~~probe") && puts.Add(1) <= racers {
			req.Header.Del("If-None-Match")
		}
		return send(req)
	}
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

// Hetzner's store rejects ETags with quotes: github.com/benbjohnson/litestream/pull/1509. Other stores reject ETags without quotes.
func TestETagsAreSentAsTheStoreWantsThem(t *testing.T) {
	for _, quoted := range []bool{false, true} {
		o, w := wireOptions(t)
		*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
			if tag := req.Header.Get("If-Match"); tag != "" && strings.HasPrefix(tag, `"`) != quoted {
				req.Header.Set("If-Match", wrongETag)
			}
			return send(req)
		}
		p, err := Open(t.Context(), o)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		g := acquire(t, p, "a")
		g, err = p.Renew(t.Context(), renewRequest(g))
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	}
}

// One store answers 501 to a condition, and another refuses all conditions.
func TestAStoreThatKnowsNoConditionsIsRefused(t *testing.T) {
	for status, want := range map[int]error{
		http.StatusNotImplemented: abstractions.ErrNotSetUp, http.StatusPreconditionFailed: abstractions.ErrUnavailable,
		http.StatusForbidden: abstractions.ErrDenied, http.StatusServiceUnavailable: abstractions.ErrUnavailable,
	} {
		o, w := wireOptions(t)
		*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
			if req.Header.Get("If-Match") != "" {
				return answer(req, status, "Refused"), nil
			}
			return send(req)
		}
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, want)
	}
}

// Processes that start together don't disturb each other, even on a new prefix.
func TestManyOpenAtOnce_ConcurrentSafe(t *testing.T) {
	for name, variable := range servers {
		t.Run(name, func(t *testing.T) {
			url := serverURL(t, variable) + "&prefix=" + abstractions.NewID()
			opened := make(chan error)
			for range 20 {
				go func() {
					p, err := OpenURL(t.Context(), url)
					if err == nil {
						err = p.Close()
					}
					opened <- err
				}()
			}
			for range 20 {
				require.NoError(t, <-opened)
			}
		})
	}
}

func TestABucketThatIsMissing(t *testing.T) {
	o, _ := wireOptions(t)
	o.Bucket = "missing"
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "create the bucket")
}

// Ping reads from the store, and does not write.
func TestPing(t *testing.T) {
	p, w := openProbed(t)
	var methods []string
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		if methods = append(methods, req.Method); len(methods) > 1 {
			return answer(req, http.StatusInternalServerError, "InternalError"), nil
		}
		return send(req)
	}
	require.NoError(t, p.Ping(t.Context()))
	require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrUnavailable)
	require.Equal(t, []string{"GET", "GET"}, methods)
}
