package kuberneteslease

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// lease is an object of coordination.k8s.io/v1.
type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`

	note note // what the annotation says, or what is true in place of it
}

type metadata struct {
	Name              string                           `json:"name"`
	GenerateName      string                           `json:"generateName,omitempty"`
	UID               string                           `json:"uid,omitempty"`
	ResourceVersion   string                           `json:"resourceVersion,omitempty"`
	Labels            map[string]string                `json:"labels,omitempty"`
	Annotations       map[string]string                `json:"annotations,omitempty"`
	OwnerReferences   json.RawMessage                  `json:"ownerReferences,omitempty"`
	Finalizers        []string                         `json:"finalizers,omitempty"`
	CreationTimestamp time.Time                        `json:"creationTimestamp,omitzero"`
	ManagedFields     []struct{ Manager, Time string } `json:"managedFields,omitempty"` // of which none are sent
}

// spec is all of a lease's. Times are texts, which the server returns as they are.
type spec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int32  `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime,omitempty"`
	LeaseTransitions     int32  `json:"leaseTransitions"`
	Strategy             string `json:"strategy,omitempty"`
	PreferredHolder      string `json:"preferredHolder,omitempty"`
}

const (
	group      = "coordination.k8s.io"
	apiVersion = group + "/v1"
	manager    = "leasing" // of fields, as the server calls it
	annotation = "distributedleasing.github.io/record"
	microTime  = "2006-01-02T15:04:05.000000Z" // of metav1.MicroTime
)

// note is the annotation: the record, the ID of its holder, and the spec as it was written
// with it, by which the writes of others are noticed.
type note struct {
	Record json.RawMessage `json:"record"`
	ID     string          `json:"id,omitempty"`
	Spec   spec            `json:"spec"`
}

// ours reports whether the holder is a claim, and none of another library's.
func (n *note) ours() bool { return n.ID != "" && strings.Contains(n.Spec.HolderIdentity, n.ID) }

// item is what a lease says, as of the time of the reply.
func (l *lease) item(now time.Time) (providerkit.Item, error) {
	item := providerkit.Item{Key: l.Metadata.Name, Version: l.Metadata.ResourceVersion, Now: now, State: l}
	text := cmp.Or(l.Metadata.Annotations[annotation], "{}")
	if err := json.Unmarshal([]byte(text), &l.note); err != nil {
		return item, fmt.Errorf("%w: the annotation %s of the lease %s: %w", abstractions.ErrNotSetUp, annotation, l.Metadata.Name, err)
	}
	before := l.note.Spec
	// Who was leader frees the name without a look at who has it now: tryRelease in
	// k8s.io/client-go@v0.37.2/tools/leaderelection/leaderelection.go.
	freed := l.note.ours() && l.Spec.HolderIdentity == "" && l.Spec.LeaseTransitions == before.LeaseTransitions
	if l.note.Record != nil && (l.Spec == before || freed) {
		l.Spec = before
		item.Data, item.Written = l.note.Record, l.written()
		return item, nil
	}
	f := providerkit.Foreign{Terms: int64(l.Spec.LeaseTransitions) - int64(before.LeaseTransitions), Now: now}
	if l.Spec.HolderIdentity != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", l.Spec.LeaseTransitions, l.Spec.HolderIdentity))
		f.ID, f.Owner, f.Write = "foreign-"+hex.EncodeToString(sum[:16]), l.Spec.HolderIdentity, l.Metadata.ResourceVersion
		if l.note.ours() { // the identity has the ID of a claim, and an owner is shown to everybody
			f.Owner = strings.ReplaceAll(f.Owner, l.note.ID, abstractions.FingerprintOf(l.note.ID).String())
		}
		if f.TTL = time.Duration(l.Spec.LeaseDurationSeconds) * time.Second; f.TTL <= 0 {
			f.TTL = abstractions.Infinite
		}
	}
	data, err := f.Record(l.Metadata.Name, l.note.Record)
	item.Data, l.note.Record, l.note.ID = data, data, f.ID
	return item, err
}

// written is the server's time of the last write of a record; zero if it tells none. What was
// restored is no older than its restoration.
func (l *lease) written() (at time.Time) {
	for _, fields := range l.Metadata.ManagedFields {
		if write, err := time.Parse(time.RFC3339, fields.Time); err == nil && fields.Manager == manager {
			at = slices.MaxFunc([]time.Time{at, write, l.Metadata.CreationTimestamp}, time.Time.Compare)
		}
	}
	return at
}

// with is a lease as it is to be written: with a record, and what others see of it.
func (l *lease) with(r *providerkit.Record, data []byte) (*lease, error) {
	next := *l
	next.APIVersion, next.Kind, next.Metadata.ManagedFields = apiVersion, "Lease", nil
	s := &next.Spec
	lasts, write := providerkit.DeadlineOf(data)
	_, before := providerkit.DeadlineOf(l.note.Record)
	now := r.Now
	switch {
	case r.ID == "":
		if s.HolderIdentity != "" {
			s.HolderIdentity, s.LeaseDurationSeconds, s.RenewTime = "", 1, now.Format(microTime)
		}
	case r.ID != l.note.ID:
		s.HolderIdentity = strings.TrimPrefix(r.Owner+"_"+r.ID, "_")
		s.LeaseTransitions += min(1, math.MaxInt32-s.LeaseTransitions)
		s.LeaseDurationSeconds, s.AcquireTime, s.RenewTime = seconds(lasts), now.Format(microTime), now.Format(microTime)
	case r.Breaking && !l.note.ours():
		s.HolderIdentity = "broken_" + r.ID // who knows no breaks can't renew what is another's
	case write != before:
		// client-go sees renewals by the second: LeaderElectionRecord in
		// k8s.io/client-go@v0.37.2/tools/leaderelection/resourcelock/interface.go.
		if last, err := time.Parse(time.RFC3339, s.RenewTime); err == nil && now.Before(last.Add(time.Second)) {
			now = last.Add(time.Second).UTC()
		}
		s.LeaseDurationSeconds, s.RenewTime = seconds(lasts), now.Format(microTime)
	}
	next.note = note{Record: data, ID: r.ID, Spec: *s}
	text, err := json.Marshal(next.note)
	next.Metadata.Annotations = map[string]string{}
	maps.Copy(next.Metadata.Annotations, l.Metadata.Annotations)
	next.Metadata.Annotations[annotation] = string(text)
	return &next, err
}

// floorName is of the object that has the highest forgotten token. encode returns it for no name, but with a collision of SHA-256.
const floorName = "floor--00000000000000000000000000000000"

// seconds is a duration as candidates wait it: rounded up, and for ever 68 years.
func seconds(d time.Duration) int32 {
	return int32((min(d, math.MaxInt32*time.Second) + time.Second - 1) / time.Second)
}

var (
	// subdomain is what Kubernetes takes for the name of an object: RFC 1123.
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// hashed is what names end in that encode has made up.
	hashed = regexp.MustCompile(`--[0-9a-f]{32}$`)
	others = regexp.MustCompile(`[^a-z0-9]+`)
)

// encode returns the name of the object of a lease: the same where Kubernetes takes it, so
// that client-go's candidates mean the same lease. Otherwise it is what can be read of the
// name, and the beginning of its SHA-256.
func encode(name string) string {
	if len(name) <= 253 && subdomain.MatchString(name) && !hashed.MatchString(name) {
		return name
	}
	slug := strings.Trim(others.ReplaceAllString(strings.ToLower(name), "-"), "-")
	slug = cmp.Or(strings.TrimRight(slug[:min(len(slug), 100)], "-"), "lease")
	sum := sha256.Sum256([]byte(name))
	return slug + "--" + hex.EncodeToString(sum[:16])
}
