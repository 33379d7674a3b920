package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/httpfence"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

// fencedServer is a handler behind the check, and its results.
type fencedServer struct {
	handler http.Handler
	ran     int
	errs    []error
}

func newServer(options httpfence.HandlerOptions) *fencedServer {
	s := &fencedServer{}
	options.OnError = func(_ *http.Request, err error) { s.errs = append(s.errs, err) }
	s.handler = httpfence.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.ran++
		w.WriteHeader(http.StatusNoContent)
	}), options)
	return s
}

func (s *fencedServer) serve(r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, r)
	return recorder
}

// check is CheckResponse for a recorded answer.
func check(recorded *httptest.ResponseRecorder) error {
	resp := recorded.Result()
	defer resp.Body.Close()
	return httpfence.CheckResponse(resp)
}

func put(path string, tokens ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, path, nil)
	for _, token := range tokens {
		r.Header.Add(httpfence.HeaderToken, token)
	}
	return r
}

func requireProblem(t *testing.T, answer *httptest.ResponseRecorder, status int) map[string]any {
	t.Helper()
	require.Equal(t, status, answer.Code)
	require.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
	require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
	var problem map[string]any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&problem))
	require.EqualValues(t, status, problem["status"])
	return problem
}

func TestHandlerRefusesAStaleToken(t *testing.T) {
	server := newServer(httpfence.HandlerOptions{})
	for _, token := range []string{"33", "33", "34"} {
		require.Equal(t, http.StatusNoContent, server.serve(put("/", token)).Code)
	}
	answer := server.serve(put("/", "33"))
	problem := requireProblem(t, answer, http.StatusPreconditionFailed)
	require.EqualValues(t, 33, problem["token"])
	require.EqualValues(t, 34, problem["seen"])
	require.Contains(t, problem["type"], "#StaleError")
	require.Equal(t, 3, server.ran)
	require.Equal(t, []error{&fencing.StaleError{Token: 33, Seen: 34}}, server.errs)
	require.Equal(t, &fencing.StaleError{Token: 33, Seen: 34}, check(answer))
}

func TestHandlerWantsAToken(t *testing.T) {
	server := newServer(httpfence.HandlerOptions{})
	problem := requireProblem(t, server.serve(put("/")), http.StatusPreconditionRequired)
	require.Contains(t, problem["detail"], httpfence.HeaderToken, "says how to do better")
	require.Equal(t, "about:blank", problem["type"])
	for _, text := range append(fencingtest.NotTokens, "5, 6") {
		problem := requireProblem(t, server.serve(put("/", text)), http.StatusBadRequest)
		require.Contains(t, problem["detail"], httpfence.HeaderToken, "%q", text)
	}
	requireProblem(t, server.serve(put("/", "5", "6")), http.StatusBadRequest)
	requireProblem(t, server.serve(put("/", "5", "5")), http.StatusBadRequest)
	require.Zero(t, server.ran)
	for _, err := range server.errs {
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
	require.Len(t, server.errs, 1+len(fencingtest.NotTokens)+1+2)
}

func TestHandlerRefusesTheTokenOfAnotherLease(t *testing.T) {
	server := newServer(httpfence.HandlerOptions{Lease: func(r *http.Request) string {
		if r.URL.Path == "/any" {
			return ""
		}
		return "reports/täglich 1%"
	}})
	send := func(path string, names ...string) *httptest.ResponseRecorder {
		r := put(path, "7")
		for _, name := range names {
			r.Header.Add(httpfence.HeaderName, name)
		}
		return server.serve(r)
	}
	require.Equal(t, http.StatusNoContent, send("/", "reports%2Ft%C3%A4glich%201%25").Code)
	require.Equal(t, http.StatusNoContent, send("/").Code, "the name is optional")
	require.Equal(t, http.StatusNoContent, send("/any", "others").Code)
	for _, name := range []string{"others", "", "reports%2Ft%C3%A4glich%201%", "Reports%2Ft%C3%A4glich%201%25"} {
		problem := requireProblem(t, send("/", name), http.StatusBadRequest)
		require.Contains(t, problem["detail"], httpfence.HeaderName)
	}
	requireProblem(t, send("/", "reports%2Ft%C3%A4glich%201%25", "others"), http.StatusBadRequest)
	require.Equal(t, 3, server.ran)
}

func TestHandlerKeepsResourcesApart(t *testing.T) {
	server := newServer(httpfence.HandlerOptions{Resource: func(r *http.Request) string { return r.URL.Path }})
	require.Equal(t, http.StatusNoContent, server.serve(put("/a", "34")).Code)
	require.Equal(t, http.StatusNoContent, server.serve(put("/b", "33")).Code)
	requireProblem(t, server.serve(put("/a", "33")), http.StatusPreconditionFailed)
	require.Equal(t, &fencing.StaleError{Resource: "/a", Token: 33, Seen: 34}, server.errs[0])
}

// A request that can't be checked is not run, and the error is shown only to the server.
func TestHandlerDoesNotRunWhatItCouldNotCheck(t *testing.T) {
	secret := errors.New("dial redis://:secret@10.0.0.1: refused")
	server := newServer(httpfence.HandlerOptions{Fence: fencing.CheckFirst(
		func(context.Context, string, int64) error { return secret })})
	problem := requireProblem(t, server.serve(put("/", "7")), http.StatusServiceUnavailable)
	require.NotContains(t, problem["detail"], "secret")
	require.Equal(t, []error{secret}, server.errs)

	silent := newServer(httpfence.HandlerOptions{Fence: fencing.Fence(
		func(context.Context, string, int64, func(context.Context) error) error { return nil })})
	requireProblem(t, silent.serve(put("/", "7")), http.StatusServiceUnavailable)
	require.Len(t, silent.errs, 1)
	require.Zero(t, server.ran+silent.ran)
}

func TestHandlerRunsOnceAndAnswersOnce(t *testing.T) {
	late := errors.New("commit failed")
	server := newServer(httpfence.HandlerOptions{Fence: fencing.Fence(
		func(ctx context.Context, _ string, _ int64, fn func(context.Context) error) error {
			if err := fn(ctx); err != nil {
				return err
			}
			if err := fn(ctx); err == nil {
				return errors.New("ran twice")
			}
			return late
		})})
	answer := server.serve(put("/", "7"))
	require.Equal(t, http.StatusNoContent, answer.Code)
	require.Empty(t, answer.Body.String(), "the handler's answer stands alone")
	require.Equal(t, 1, server.ran)
	require.Equal(t, []error{late}, server.errs)
}

func TestHandlerHandsTheFencesContextOn(t *testing.T) {
	type key struct{}
	var got any
	fence := fencing.Fence(func(ctx context.Context, _ string, _ int64, fn func(context.Context) error) error {
		return fn(context.WithValue(ctx, key{}, "transaction"))
	})
	handler := httpfence.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Context().Value(key{})
	}), httpfence.HandlerOptions{Fence: fence})
	handler.ServeHTTP(httptest.NewRecorder(), put("/", "7"))
	require.Equal(t, "transaction", got)
}

// A successor's request waits until an admitted handler has returned.
func TestHandlerLetsNoLargerTokenInBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		var inside []int64
		handler := httpfence.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token, err := httpfence.RequestToken(r)
			assert.NoError(t, err)
			inside = append(inside, token)
			<-leave
		}), httpfence.HandlerOptions{})
		var wg sync.WaitGroup
		send := func(ctx context.Context, token string, want int) {
			wg.Go(func() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, put("/", token).WithContext(ctx))
				assert.Equal(t, want, recorder.Code)
			})
			synctest.Wait()
		}
		gone, leaveEarly := context.WithCancel(t.Context())
		send(t.Context(), "33", http.StatusOK)
		send(gone, "35", http.StatusServiceUnavailable)
		send(t.Context(), "34", http.StatusOK)
		leaveEarly()
		synctest.Wait()
		require.Equal(t, []int64{33}, inside)
		close(leave)
		wg.Wait()
		require.Equal(t, []int64{33, 34}, inside, "a request that ended before its turn has shown no token")
	})
}

func TestHandlerStaysUsableAfterAPanic(t *testing.T) {
	panics := true
	handler := httpfence.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if panics {
			panic(http.ErrAbortHandler)
		}
	}), httpfence.HandlerOptions{})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { handler.ServeHTTP(httptest.NewRecorder(), put("/", "33")) })
	panics = false
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, put("/", "33"))
	require.Equal(t, http.StatusOK, recorder.Code)
}

func TestCheckResponseKnowsNothingButItsOwnRefusal(t *testing.T) {
	header := func(token, seen string) http.Header {
		return http.Header{httpfence.HeaderToken: {token}, httpfence.HeaderSeen: {seen}}
	}
	require.Equal(t, &fencing.StaleError{Token: 33, Seen: 34},
		httpfence.CheckResponse(&http.Response{StatusCode: http.StatusPreconditionFailed, Header: header("33", "34")}))
	for _, resp := range []http.Response{
		{StatusCode: http.StatusOK},
		{StatusCode: http.StatusPreconditionFailed}, // the application's own If-Match
		{StatusCode: http.StatusOK, Header: header("33", "34")},
		{StatusCode: http.StatusConflict, Header: header("33", "34")},
		{StatusCode: http.StatusPreconditionFailed, Header: header("34", "34")},
		{StatusCode: http.StatusPreconditionFailed, Header: header("35", "34")},
		{StatusCode: http.StatusPreconditionFailed, Header: header("33", "034")},
		{StatusCode: http.StatusPreconditionFailed, Header: header("33", "x")},
		{StatusCode: http.StatusPreconditionFailed, Header: header("", "34")},
	} {
		require.NoError(t, httpfence.CheckResponse(&resp))
	}
}

func TestTrap_T65_TheLargestTokensStayApartOverHTTP(t *testing.T) {
	server := newServer(httpfence.HandlerOptions{})
	require.Equal(t, http.StatusNoContent, server.serve(put("/", "9007199254740991")).Code)
	answer := server.serve(put("/", "9007199254740990"))
	require.Equal(t, &fencing.StaleError{Token: leasing.MaxToken - 1, Seen: leasing.MaxToken}, check(answer))
	problem := requireProblem(t, answer, http.StatusPreconditionFailed)
	require.InDelta(t, math.Pow(2, 53)-1, problem["seen"], 0, "JSON numbers are floats to many")
}
