package bloblease

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// bed is a container with a provider, and an administrator's client.
type bed struct {
	*Provider
	t        testing.TB
	options  Options // of another provider; without a transport
	admin    *container.Client
	recorder *recorder
}

// newBed makes a bed with a new container on the shared server.
func newBed(t testing.TB) *bed {
	t.Helper()
	return bedOf(t, Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer(), Infinite: true})
}

// bedOn is newBed on the given server.
func bedOn(t testing.TB, s *Azurite) *bed {
	t.Helper()
	return bedOf(t, Options{ConnectionString: s.ConnectionString(), Container: newContainer(), Infinite: true})
}

func bedOf(t testing.TB, o Options) *bed {
	t.Helper()
	b := &bed{t: t, options: o}
	transport := httpguard.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	b.admin, err = container.NewClientFromConnectionString(o.ConnectionString, o.Container, &container.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}},
	})
	require.NoError(t, err)
	if !o.Create {
		_, err = b.admin.Create(t.Context(), nil)
		require.NoError(t, err)
	}
	b.Provider, b.recorder = b.process()
	return b
}

// process returns the provider of another process.
func (b *bed) process() (*Provider, *recorder) {
	b.t.Helper()
	w := &recorder{transport: httpguard.NewTransport()}
	b.t.Cleanup(w.transport.CloseIdleConnections)
	o := b.options
	o.ClientOptions.Transport = w
	return opener{o, true}.open(b.t), w
}

func acquireRequest(name, id string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "owner of " + id, TTL: maxTTL, Metadata: map[string]string{"k": "v"}}
}

func (b *bed) try(name, id string) (abstractions.Grant, error) {
	return b.Acquire(b.t.Context(), acquireRequest(name, id))
}

func (b *bed) acquire(name, id string) abstractions.Grant {
	b.t.Helper()
	g, err := b.try(name, id)
	require.NoError(b.t, err)
	return g
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func releaseRequest(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}
}

func (b *bed) renew(g abstractions.Grant) error {
	_, err := b.Renew(b.t.Context(), renewRequest(g))
	return err
}

func (b *bed) release(name, id string) {
	b.t.Helper()
	require.NoError(b.t, b.Release(b.t.Context(), abstractions.ReleaseRequest{Name: name, ID: id}))
}

// blobView is the state of a name in the service.
type blobView struct {
	*blobState
	record  string
	seconds int32 // the TTL in the record
	now     time.Time
}

func (b *bed) view(name string) blobView {
	b.t.Helper()
	item, err := b.driver.store.Get(b.t.Context(), b.blobName(name))
	require.NoError(b.t, err)
	s := blobView{blobState: item.State.(*blobState), record: string(item.Data), now: item.Now}
	var held struct {
		ID  string `json:"id"`
		TTL int64  `json:"ttl_us"`
	}
	if s.record != "" {
		require.NoError(b.t, json.Unmarshal(item.Data, &held))
	}
	if s.seconds = int32(held.TTL / 1e6); held.ID != "" && held.TTL == 0 {
		s.seconds = infinite
	}
	return s
}

func (s blobView) isBroken() bool {
	return s.lease == lease.StateTypeBroken || s.lease == lease.StateTypeBreaking
}

func (b *bed) inspect(name string) abstractions.Record {
	b.t.Helper()
	r, err := b.Inspect(b.t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(b.t, err)
	return r
}

// waitFor waits until the service's clock, which shows whole seconds, has advanced by more
// than d.
func (b *bed) waitFor(d time.Duration) {
	b.t.Helper()
	from := b.view("clock").now
	require.Eventually(b.t, func() bool { return b.view("clock").now.Sub(from) > d }, time.Minute, 100*time.Millisecond)
}

// verb is the kind of a request to the service.
type verb string

const (
	verbRead    verb = "look"
	verbCreate  verb = "create"
	verbWrite   verb = "write"
	verbAcquire verb = "acquire"
	verbRenew   verb = "renew"
	verbRelease verb = "release"
	verbBreak   verb = "break"
	verbOther   verb = "other"
)

func verbOf(r *http.Request) verb {
	switch comp := r.URL.Query().Get("comp"); {
	case r.Method == http.MethodHead:
		return verbRead
	case comp == "metadata":
		return verbWrite
	case comp == "lease":
		return verb(r.Header["x-ms-lease-action"][0]) //nolint:staticcheck // with azblob's spelling
	case r.Method == http.MethodPut && comp == "" && r.URL.Query().Get("restype") == "":
		return verbCreate
	}
	return verbOther
}

// recorder is a transport that records the requests, and can make them fail.
type recorder struct {
	transport *httpguard.Transport

	mu     sync.Mutex
	sent   []verb
	wrote  bool                                              // a record was written since the last count
	skew   time.Duration                                     // of the service's clock
	before func(verb, *http.Request) (*http.Response, error) // its results replace the request, unless both are nil
	after  func(verb, *http.Response) (*http.Response, error)
}

func (w *recorder) Do(r *http.Request) (*http.Response, error) {
	v := verbOf(r)
	w.mu.Lock()
	w.sent = append(w.sent, v)
	before, after, skew := w.before, w.after, w.skew
	w.mu.Unlock()
	if before != nil {
		if answer, err := before(v, r); answer != nil || err != nil {
			return answer, err
		}
	}
	answer, err := w.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.wrote = w.wrote || (v == verbCreate || v == verbWrite) && answer.StatusCode < 300
	w.mu.Unlock()
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		answer.Header.Set("Date", at.Add(skew).UTC().Format(http.TimeFormat))
	}
	if after == nil {
		return answer, nil
	}
	return after(v, answer)
}

// count returns the requests since the last count.
func (w *recorder) count() []verb {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent, w.wrote = nil, false
	return sent
}

func (w *recorder) set(before func(verb, *http.Request) (*http.Response, error), after func(verb, *http.Response) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// runBefore runs a function before the next request of a kind.
func (w *recorder) runBefore(which verb, do func()) {
	var once sync.Once
	w.set(func(v verb, _ *http.Request) (*http.Response, error) {
		if v == which {
			once.Do(do)
		}
		return nil, nil
	}, nil)
}

// answerWith answers requests of a kind with a status, without sending them to the
// service.
func (w *recorder) answerWith(which verb, status int, headers ...string) {
	w.set(func(v verb, r *http.Request) (*http.Response, error) {
		if v != which && which != "" {
			return nil, nil
		}
		return newAnswer(r, status, headers...), nil
	}, nil)
}

// advanceClock sets the service's clock ahead of the local clock.
func (w *recorder) advanceClock(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = by
}

func (w *recorder) reset() {
	w.set(nil, nil)
	w.advanceClock(0)
}

// newAnswer makes an answer from the service if x-ms-error-code is among the headers, and
// otherwise from a gateway. The headers are names and values in turn.
func newAnswer(r *http.Request, status int, headers ...string) *http.Response {
	answer := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: http.NoBody, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for i := 0; i < len(headers); i += 2 {
		answer.Header.Set(headers[i], headers[i+1])
	}
	if answer.Header.Get("x-ms-error-code") != "" {
		answer.Header.Set("x-ms-request-id", "1234")
	}
	return answer
}

func (b *bed) blobName(name string) string { return b.driver.Key(name) }

// othersMetadata returns the metadata of other programs in a blob.
func othersMetadata(v blobView) map[string]string {
	all := map[string]string{}
	for name, value := range v.others {
		all[strings.ToLower(name)] = deref(value)
	}
	return all
}

func pointers(m map[string]string) map[string]*string {
	all := map[string]*string{}
	for k, v := range m {
		all[k] = to.Ptr(v)
	}
	return all
}
