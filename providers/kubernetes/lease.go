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
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// lease is an object of coordination.k8s.io/v1.
type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`

	note note // the annotation, or its replacement for a foreign lease
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
	ManagedFields     []struct{ Manager, Time string } `json:"managedFields,omitempty"` // never sent
}

// spec has all fields of a lease's spec. Times are strings, which the server returns unchanged.
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
	manager    = "leasing" // the name under which the server records our writes
	annotation = "distributedleasing.github.io/record"
	microTime  = "2006-01-02T15:04:05.000000Z" // the format of metav1.MicroTime
)

// note is the annotation: the record, the ID of its holder, and the spec of the same
// write. A different spec in the lease reveals a write of another program.
type note struct {
	Record json.RawMessage `json:"record"`
	ID     string          `json:"id,omitempty"`
	Spec   spec            `json:"spec"`
}

// isOfClaim reports whether the holder is a claim of this library.
func (n *note) isOfClaim() bool { return n.ID != "" && strings.Contains(n.Spec.HolderIdentity, n.ID) }

// item returns the state of a lease, as of the time of the reply.
func (l *lease) item(now time.Time) (cas.Item, error) {
	item := cas.Item{Key: l.Metadata.Name, Version: l.Metadata.ResourceVersion, Now: now, State: l}
	text := cmp.Or(l.Metadata.Annotations[annotation], "{}")
	if err := json.Unmarshal([]byte(text), &l.note); err != nil {
		return item, fmt.Errorf("%w: the annotation %s of the lease %s: %w", abstractions.ErrNotSetUp, annotation, l.Metadata.Name, err)
	}
	before := l.note.Spec
	// A former leader frees the name without a check of the present holder: tryRelease
	// in k8s.io/client-go@v0.37.2/tools/leaderelection/leaderelection.go.
	freed := l.note.isOfClaim() && l.Spec.HolderIdentity == "" && l.Spec.LeaseTransitions == before.LeaseTransitions
	if l.note.Record != nil && (l.Spec == before || freed) {
		l.Spec = before
		item.Data, item.Written = l.note.Record, l.writtenAt()
		return item, nil
	}
	f := cas.Foreign{Terms: int64(l.Spec.LeaseTransitions) - int64(before.LeaseTransitions), Now: now}
	if l.Spec.HolderIdentity != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", l.Spec.LeaseTransitions, l.Spec.HolderIdentity))
		f.ID, f.Owner, f.Write = "foreign-"+hex.EncodeToString(sum[:16]), l.Spec.HolderIdentity, l.Metadata.ResourceVersion
		if l.note.isOfClaim() { // the identity contains a claim's ID, and owners are public
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

// writtenAt returns the server's time of the last write of a record, or zero if the server has
// set no time. A restored lease is never older than its restoration.
func (l *lease) writtenAt() (at time.Time) {
	for _, fields := range l.Metadata.ManagedFields {
		if write, err := time.Parse(time.RFC3339, fields.Time); err == nil && fields.Manager == manager {
			at = slices.MaxFunc([]time.Time{at, write, l.Metadata.CreationTimestamp}, time.Time.Compare)
		}
	}
	return at
}

// with returns the lease to write, with the given record and with a spec for other programs.
func (l *lease) with(r *providerkit.Record, data []byte) (*lease, error) {
	next := *l
	next.APIVersion, next.Kind, next.Metadata.ManagedFields = apiVersion, "Lease", nil
	s := &next.Spec
	lasts, write := cas.DeadlineOf(data)
	_, before := cas.DeadlineOf(l.note.Record)
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
	case r.Breaking && !l.note.isOfClaim():
		s.HolderIdentity = "broken_" + r.ID // a program that does not support breaks can't renew another holder's lease
	case write != before:
		// client-go sees times in whole seconds: LeaderElectionRecord in
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

// floorName is the name of the object with the highest forgotten token. encode could return this
// name only for a name whose SHA-256 begins with 16 zero bytes.
const floorName = "floor--00000000000000000000000000000000"

// seconds converts a duration to leaseDurationSeconds. It rounds up, and returns 68 years
// for an infinite duration.
func seconds(d time.Duration) int32 {
	return int32((min(d, math.MaxInt32*time.Second) + time.Second - 1) / time.Second)
}

var (
	// subdomain is the form of an object's name in Kubernetes: RFC 1123.
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// hashSuffix is the end of the names that encode makes.
	hashSuffix   = regexp.MustCompile(`--[0-9a-f]{32}$`)
	invalidRunes = regexp.MustCompile(`[^a-z0-9]+`)
)

// encode returns the name of a lease's object. It is the lease's name if Kubernetes
// accepts that name, so that client-go's candidates use the same lease. Otherwise it is
// the readable part of the name, and the beginning of its SHA-256.
func encode(name string) string {
	if len(name) <= 253 && subdomain.MatchString(name) && !hashSuffix.MatchString(name) {
		return name
	}
	slug := strings.Trim(invalidRunes.ReplaceAllString(strings.ToLower(name), "-"), "-")
	slug = cmp.Or(strings.TrimRight(slug[:min(len(slug), 100)], "-"), "lease")
	sum := sha256.Sum256([]byte(name))
	return slug + "--" + hex.EncodeToString(sum[:16])
}
