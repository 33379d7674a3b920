package kuberneteslease

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// storedLease returns the stored lease in the form that other programs see.
func storedLease(t testing.TB, p *Provider, name string) *lease {
	t.Helper()
	var l lease
	_, err := p.driver.store.client.Do(t.Context(), http.MethodGet, p.driver.store.path+"/"+encode(name), nil, nil, &l)
	require.NoError(t, err)
	return &l
}

// writeForeign writes a lease as another library does, without a record.
func writeForeign(t testing.TB, p *Provider, l *lease, holder string, transitions int32) error {
	t.Helper()
	l.APIVersion, l.Kind, l.Metadata.ManagedFields = apiVersion, "Lease", nil
	now := time.Now().UTC().Format(microTime)
	l.Spec = spec{HolderIdentity: holder, LeaseDurationSeconds: 5, AcquireTime: now, RenewTime: now, LeaseTransitions: transitions}
	method, path := http.MethodPut, p.driver.store.path+"/"+l.Metadata.Name
	if l.Metadata.UID == "" {
		method, path = http.MethodPost, p.driver.store.path
	}
	_, err := p.driver.store.client.Do(t.Context(), method, path, nil, l, l)
	return err
}

func TestOthersSeeWhoHasALease(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "jobs/"+abstractions.NewID()
	req := acquireRequest(name, 5100*time.Millisecond)
	g, err := p.Acquire(t.Context(), req)
	require.NoError(t, err)
	seen := storedLease(t, p, name)
	require.Equal(t, "test_"+g.ID, seen.Spec.HolderIdentity)
	require.EqualValues(t, 6, seen.Spec.LeaseDurationSeconds, "rounded up, so that nobody comes early")
	require.EqualValues(t, 1, seen.Spec.LeaseTransitions)
	require.Equal(t, seen.Spec.AcquireTime, seen.Spec.RenewTime)
	require.Contains(t, seen.Metadata.Annotations[annotation], name)
	require.Equal(t, []string{name, "test_" + g.ID}, table(t, p, name), "kubectl get lease")

	// client-go sees only whole seconds, so it would miss a renewal within the same second.
	for range 5 {
		g, err = p.Renew(t.Context(), renewRequest(g))
		require.NoError(t, err)
		before, err := time.Parse(time.RFC3339, seen.Spec.RenewTime)
		require.NoError(t, err)
		seen = storedLease(t, p, name)
		after, err := time.Parse(time.RFC3339, seen.Spec.RenewTime)
		require.NoError(t, err)
		require.GreaterOrEqual(t, after.Sub(before), time.Second)
		require.Equal(t, "test_"+g.ID, seen.Spec.HolderIdentity)
	}

	// Writes that are not renewals do not look like renewals.
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: abstractions.NewID()}))
	_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: name})
	require.NoError(t, err)
	require.Equal(t, seen.Spec, storedLease(t, p, name).Spec)

	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: g.ID, Token: g.Token}))
	seen = storedLease(t, p, name)
	require.Empty(t, seen.Spec.HolderIdentity)
	require.EqualValues(t, 1, seen.Spec.LeaseDurationSeconds)
	_, err = p.Acquire(t.Context(), acquireRequest(name, abstractions.Infinite))
	require.NoError(t, err)
	seen = storedLease(t, p, name)
	require.EqualValues(t, math.MaxInt32, seen.Spec.LeaseDurationSeconds)
	require.EqualValues(t, 2, seen.Spec.LeaseTransitions)
	_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: name, Grace: 7 * time.Second})
	require.NoError(t, err)
	require.EqualValues(t, 7, storedLease(t, p, name).Spec.LeaseDurationSeconds)
}

// table returns the row that kubectl get lease prints, without the age and with the name decoded.
func table(t testing.TB, p *Provider, name string) []string {
	t.Helper()
	client := p.driver.store.client
	token := strings.TrimPrefix(strings.Split(serverURL(t), "@")[0], "kubernetes://:")
	base, _, _ := strings.Cut(strings.Split(serverURL(t), "@")[1], "/")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+base+p.driver.store.path+"/"+encode(name), nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Transport().RoundTrip(req)
	require.NoError(t, err)
	defer response.Body.Close()
	var shown struct{ Rows []struct{ Cells []string } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&shown))
	require.Len(t, shown.Rows, 1)
	require.Equal(t, encode(name), shown.Rows[0].Cells[0])
	return []string{name, shown.Rows[0].Cells[1]}
}

// A lease of another library counts as held until no newer write has been seen for the
// lease's own duration. The name is then granted with a new token.
func TestForeignHoldersAreRespected(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "of-others-"+abstractions.NewID()
	other := &lease{Metadata: metadata{Name: name, Labels: map[string]string{"app": "other"}}}
	require.NoError(t, writeForeign(t, p, other, "pod-1", 3))
	shown, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	require.True(t, shown.Held)
	require.Equal(t, "pod-1", shown.Owner)
	require.Equal(t, 5*time.Second, shown.TTL)

	var held *abstractions.HeldError
	_, err = p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.ErrorAs(t, err, &held)
	require.Equal(t, "pod-1", held.Holder.Owner)
	<-time.After(3 * time.Second)
	sent := time.Now()
	require.NoError(t, writeForeign(t, p, other, "pod-1", 3), "it renews")
	var g abstractions.Grant
	for {
		if g, err = p.Acquire(t.Context(), acquireRequest(name, time.Minute)); err == nil {
			break
		}
		require.ErrorIs(t, err, abstractions.ErrHeld)
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: abstractions.NewID()}), "which prolongs nothing")
		<-time.After(200 * time.Millisecond)
	}
	require.GreaterOrEqual(t, time.Since(sent), 5*time.Second)
	require.Less(t, time.Since(sent), 20*time.Second)
	require.Greater(t, g.Token, shown.Token)
	seen := storedLease(t, p, name)
	require.EqualValues(t, 4, seen.Spec.LeaseTransitions)
	require.Equal(t, "other", seen.Metadata.Labels["app"], "what others have noted stays")

	// The other library renews with an outdated version: it gets a conflict, and then loses the lease.
	require.Error(t, writeForeign(t, p, other, "pod-1", 3))
}

// A holder that another library has replaced loses its lease, and the other
// library's term gets a token.
func TestForeignHoldersReplaceOurs(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "ours-"+abstractions.NewID()
	g, err := p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.NoError(t, err)
	for i, holder := range []string{"pod-1", "", "pod-2"} {
		require.NoError(t, writeForeign(t, p, storedLease(t, p, name), holder, int32(2+i/2)))
		shown, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.Equal(t, holder != "", shown.Held)
		require.Equal(t, g.Token+int64(1+i/2), shown.Token)
		var lost *abstractions.LostError
		_, err = p.Renew(t.Context(), renewRequest(g))
		require.ErrorAs(t, err, &lost)
		require.Equal(t, abstractions.LostTaken, lost.Reason)
	}
	_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: name, IfToken: g.Token + 1, Immediate: true})
	require.ErrorIs(t, err, abstractions.ErrStale, "it was pod-1's")
	result, err := p.Break(t.Context(), abstractions.BreakRequest{Name: name, IfToken: g.Token + 2, Immediate: true})
	require.NoError(t, err)
	require.True(t, result.WasHeld)
	again, err := p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.NoError(t, err)
	require.Greater(t, again.Token, g.Token+2)
}

// A former leader of client-go does not end a lease of ours, although it frees the name
// without a check of the present holder.
func TestAForeignReleaseEndsNoLeaseOfOurs(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "freed-"+abstractions.NewID()
	g, err := p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.NoError(t, err)
	before := storedLease(t, p, name)
	require.NoError(t, writeForeign(t, p, storedLease(t, p, name), "", before.Spec.LeaseTransitions))
	_, err = p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	require.Equal(t, before.Spec.HolderIdentity, storedLease(t, p, name).Spec.HolderIdentity, "it is shown again")
}

// After a break with grace, a foreign holder keeps its remaining time, but can't renew its lease.
func TestForeignHoldersAreBroken(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "broken-"+abstractions.NewID()
	other := &lease{Metadata: metadata{Name: name}}
	require.NoError(t, writeForeign(t, p, other, "pod-1", 0))
	result, err := p.Break(t.Context(), abstractions.BreakRequest{Name: name, Actor: "test"})
	require.NoError(t, err)
	require.Positive(t, result.Remaining)
	before := other.Spec
	require.Error(t, writeForeign(t, p, other, "pod-1", 0))
	seen := storedLease(t, p, name).Spec
	require.NotContains(t, seen.HolderIdentity, "pod-1", "it sees that another has it, and gives up")
	require.Equal(t, before.RenewTime, seen.RenewTime)
	require.EqualValues(t, 5, seen.LeaseDurationSeconds)
	_, err = p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	shown, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	require.True(t, shown.Breaking)
}

// Writes of other programs outside the spec are kept, and do not affect the lease.
func TestForeignMetadataIsKept(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), abstractions.NewID()
	g, err := p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.NoError(t, err)
	l := storedLease(t, p, name)
	l.Metadata.ManagedFields = nil
	l.APIVersion, l.Kind, l.Metadata.Labels, l.Metadata.Finalizers = apiVersion, "Lease", map[string]string{"a": "b"}, []string{"example.com/f"}
	l.Metadata.OwnerReferences = json.RawMessage(`[{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]`)
	l.Metadata.Annotations["other"] = "c"
	_, err = p.driver.store.client.Do(t.Context(), http.MethodPut, p.driver.store.path+"/"+name, nil, l, &struct{}{})
	require.NoError(t, err)
	g, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	now := storedLease(t, p, name)
	require.Equal(t, l.Metadata.Labels, now.Metadata.Labels)
	require.Equal(t, l.Metadata.Finalizers, now.Metadata.Finalizers)
	require.Contains(t, string(now.Metadata.OwnerReferences), "ConfigMap")
	require.Equal(t, "c", now.Metadata.Annotations["other"])
	now.APIVersion, now.Kind, now.Metadata.Finalizers, now.Metadata.ManagedFields = apiVersion, "Lease", nil, nil
	_, err = p.driver.store.client.Do(t.Context(), http.MethodPut, p.driver.store.path+"/"+name, nil, now, &struct{}{})
	require.NoError(t, err)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
}

func TestWhatIsNoRecordIsLeftAlone(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), abstractions.NewID()
	for i, text := range []string{"{", `{"record": 1}`, `{"record": {"v": 2}}`} {
		l := &lease{Metadata: metadata{Name: fmt.Sprint(name, i), Annotations: map[string]string{annotation: text}}}
		require.NoError(t, writeForeign(t, p, l, "pod-1", 0))
		_, err := p.Acquire(t.Context(), acquireRequest(l.Metadata.Name, time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, text)
	}
	_, err := p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
}

// The time of a lease is that of the last write with a record. A restored object still
// has the times from before its restoration, so its creation also counts as a write.
func TestTimesOfWrites(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var l lease
	require.NoError(t, errors.Join(
		json.Unmarshal([]byte(`{"metadata": {"managedFields": [
			{"manager": "leasing", "time": "2026-01-01T00:00:00Z"}, {"manager": "leasing", "time": "2025-01-01T00:00:00Z"}, {"manager": "kubectl", "time": "2027-01-01T00:00:00Z"}
		]}}`), &l)))
	require.True(t, at.Equal(l.writtenAt()))
	l.Metadata.CreationTimestamp = at.Add(time.Hour)
	require.Equal(t, at.Add(time.Hour), l.writtenAt())
	l.Metadata.ManagedFields = nil
	require.Zero(t, l.writtenAt(), "then leases are watched")
	item, err := (&lease{Metadata: metadata{Name: "a"}}).item(at)
	require.NoError(t, err)
	require.Equal(t, cas.Item{Key: "a", Now: at, Data: item.Data, State: item.State}, item)
}

// T141: if another client changes a lease of ours and keeps the holder, the reported owner does not contain the claim's ID.
func TestTrap_T141_AForeignOwnerHasNoID(t *testing.T) {
	p, name := open(t, Options{URL: serverURL(t)}), "touched-"+abstractions.NewID()
	g, err := p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.NoError(t, err)
	before := storedLease(t, p, name)
	require.NoError(t, writeForeign(t, p, storedLease(t, p, name), before.Spec.HolderIdentity, before.Spec.LeaseTransitions))
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	require.True(t, record.Held)
	require.Equal(t, "test_"+abstractions.FingerprintOf(g.ID).String(), record.Owner)
	_, err = p.Acquire(t.Context(), acquireRequest(name, time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.NotContains(t, err.Error(), g.ID)
}
