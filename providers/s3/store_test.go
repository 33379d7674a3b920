package s3lease

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// answer returns an answer from a store.
func answer(req *http.Request, status int, code string) *http.Response {
	response := faulttest.Answer(req, status, "<Error><Code>"+code+"</Code><Message>refused</Message></Error>")
	response.Header.Set(requestID, "1")
	return response
}

// openProbed returns a provider that has probed its store, and whose wire can be changed.
func openProbed(t testing.TB) (*Provider, *faulttest.Wire) {
	t.Helper()
	return peer(t, nil)
}

// peer returns another process's client of the same records.
func peer(t testing.TB, other *Provider) (*Provider, *faulttest.Wire) {
	t.Helper()
	o, w := wireOptions(t)
	if other != nil {
		o.Prefix = strings.TrimSuffix(other.driver.store.naming.Prefix, "/")
	}
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, w
}

// T13, T14, T15: requests succeed although their replies are lost.
func TestTrap_T13_RepliesThatAreLost(t *testing.T) {
	p, w := openProbed(t)
	lose := func() {
		lost := false
		*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
			response, err := send(req)
			if err == nil && req.Method == http.MethodPut && !lost {
				lost = true
				require.Less(t, response.StatusCode, 300)
				_ = response.Body.Close()
				return nil, errors.New("connection reset by peer")
			}
			return response, err
		}
	}
	lose()
	g := acquire(t, p, "a")
	lose()
	g, err := p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	g, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err, "T15: with what the read showed")
	lose()
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	acquire(t, p, "b")
}

// A write that is sent twice conflicts with its own first copy.
func TestTrap_T14_WritesThatAreSentTwice(t *testing.T) {
	p, w := openProbed(t)
	twice := func() {
		done := false
		*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
			if req.Method == http.MethodPut && !done {
				done = true
				body, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				req.Body = io.NopCloser(bytes.NewReader(body))
				first, err := send(req)
				require.NoError(t, err)
				require.Less(t, first.StatusCode, 300)
				_ = first.Body.Close()
				req.Body = io.NopCloser(bytes.NewReader(body))
			}
			return send(req)
		}
	}
	twice()
	g := acquire(t, p, "a")
	twice()
	g, err := p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	twice()
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	acquire(t, p, "b")
}

// The ETag depends on the content, so each renewal changes the content. Otherwise a
// process that has read the lease earlier could replace the object.
func TestARenewalChangesTheETag(t *testing.T) {
	for name, variable := range servers {
		t.Run(name, func(t *testing.T) {
			p := open(t, serverURL(t, variable))
			req := acquireRequest(abstractions.NewID(), time.Minute)
			req.Name = "etag/" + req.ID
			g, err := p.Acquire(t.Context(), req)
			require.NoError(t, err)
			key := p.driver.store.naming.Encode(req.Name)
			before, err := p.driver.store.Get(t.Context(), key)
			require.NoError(t, err)
			_, err = p.Renew(t.Context(), renewRequest(g))
			require.NoError(t, err)
			after, err := p.driver.store.Get(t.Context(), key)
			require.NoError(t, err)
			require.NotEqual(t, before.Version, after.Version)
			_, err = p.driver.store.Put(t.Context(), cas.Item{Key: key, Version: before.Version}, nil, before.Data)
			require.ErrorIs(t, err, cas.ErrConflict)
		})
	}
}

// A gateway may combine a reply from several reads, with writes between the reads:
// versitygw 1.8.0 reads Last-Modified first, then the ETag, and then the content. The
// lease in such a reply is held, but looks expired.
func TestARepliesPartsMayBeOfSeveralVersions(t *testing.T) {
	holder, _ := openProbed(t)
	contender, w := peer(t, holder)
	free := acquire(t, holder, "first")
	require.NoError(t, holder.Release(t.Context(), releaseRequest(free)))
	released, err := holder.driver.store.Get(t.Context(), holder.driver.store.naming.Encode("n"))
	require.NoError(t, err)
	g := acquire(t, holder, "a")
	for name, tear := range map[string]func(*http.Response){
		"an old Last-Modified": func(r *http.Response) {
			r.Header.Set("Last-Modified", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		},
		"an old content": func(r *http.Response) {
			_ = r.Body.Close()
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(released.Data))), int64(len(released.Data))
			r.Header.Del("Content-Length")
		},
	} {
		torn := false
		*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
			response, err := send(req)
			if err == nil && req.Method == http.MethodGet && !torn {
				torn = true
				tear(response)
			}
			return response, err
		}
		_, err := contender.Acquire(t.Context(), acquireRequest("b", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld, name)
		require.True(t, torn)
	}
	_, err = holder.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
}

// S3 answers 409 while another request for the key is in flight, and 404 if the object
// of a replacement is missing.
func TestConflictsAreLookedAt(t *testing.T) {
	p, w := openProbed(t)
	g, refused := acquire(t, p, "a"), 0
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		if req.Method == http.MethodPut && refused < 2 {
			refused++
			return answer(req, http.StatusConflict, "ConditionalRequestConflict"), nil
		}
		return send(req)
	}
	g, err := p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	require.Equal(t, 2, refused)
	s := p.driver.store
	_, err = s.client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.naming.Encode("n"))})
	require.NoError(t, err)
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		if req.Method == http.MethodPut && req.Header.Get("If-Match") != "" {
			return answer(req, http.StatusNotFound, "NoSuchKey"), nil
		}
		return send(req)
	}
	_, err = p.Renew(t.Context(), renewRequest(g))
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, abstractions.LostGone, lost.Reason)
	again := acquire(t, p, "b")
	require.Greater(t, again.Token, g.Token, "T21: the token rises through a deletion")
}

// Each method makes one attempt: the SDK's retries are off, even those of an application's
// client.
func TestNothingIsRetried(t *testing.T) {
	p, w := openProbed(t)
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		requests := 0
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			requests++
			return answer(req, status, "Failed"), nil
		}
		_, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.Error(t, err)
		require.Equal(t, 1, requests, status)
	}
}

// An object that is not a record is left unchanged.
func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	p, _ := openProbed(t)
	for _, text := range []string{"somebody's notes", strings.Repeat("x", maxRecord+1)} {
		_, err := p.driver.store.client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &p.driver.store.bucket, Key: aws.String(p.driver.store.naming.Encode("n")), Body: strings.NewReader(text),
		})
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		page, err := p.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err)
		require.Empty(t, page.Records)
	}
}

// No call deletes an object.
func TestNothingIsDeleted(t *testing.T) {
	p, w := openProbed(t)
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		require.NotEqual(t, http.MethodDelete, req.Method)
		return send(req)
	}
	for _, id := range []string{"a", "b"} {
		require.NoError(t, p.Release(t.Context(), releaseRequest(acquire(t, p, id))))
	}
	require.ErrorIs(t, p.driver.store.Delete(t.Context(), cas.Item{Key: "leases/n", Version: "v"}), abstractions.ErrUnsupported)
}

// No lease lasts for a whole day, which is the unit of lifecycle rules.
func TestNoLeaseOutlivesALifecycleRule(t *testing.T) {
	p, _ := openProbed(t)
	require.False(t, p.Capabilities().Infinite)
	for _, ttl := range []time.Duration{13 * time.Hour, abstractions.Infinite} {
		_, err := p.Acquire(t.Context(), acquireRequest("a", ttl))
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	}
}
