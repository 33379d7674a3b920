package bloblease

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// record is what a blob's metadata remembers of a name. It outlives leases, and says
// nothing about when they end: the service's own lease does.
type record struct {
	Name  string `json:"name"`
	Token int64  `json:"token"`
	// ID is the claim that may take the lease, has it, or has let it run out.
	ID string `json:"id,omitempty"`
	// Over is a claim that was released or broken, whose lease may not have been
	// ended yet: that is the request after the one which wrote this.
	Over        string            `json:"over,omitempty"`
	Owner       string            `json:"owner,omitempty"`
	Seconds     int32             `json:"ttl,omitempty"`   // the lease's duration; -1 is infinite
	Since       int64             `json:"since,omitempty"` // when it was claimed, in seconds by the service's clock
	Breaking    bool              `json:"breaking,omitempty"`
	BrokenBy    string            `json:"broken_by,omitempty"`
	BreakReason string            `json:"break_reason,omitempty"`
	Grace       int32             `json:"grace,omitempty"` // of a Break of an infinite lease, in seconds
	Metadata    map[string]string `json:"metadata,omitempty"`
	Ended       providerkit.Ended `json:"ended,omitempty"`
}

// after is the record that a rule has made of this one.
func (r record) after(k *providerkit.Record) record {
	next := record{
		Name: k.Name, Token: k.Token, ID: k.ID, Owner: k.Owner, Seconds: seconds(k.TTL),
		Breaking: k.Breaking, BrokenBy: k.BrokenBy, BreakReason: k.BreakReason, Metadata: k.Metadata, Ended: k.Ended,
	}
	if !k.AcquiredAt.IsZero() {
		next.Since = k.AcquiredAt.Unix()
	}
	switch {
	case k.ID == "" && r.ID != "":
		next.Over = r.ID
	case k.ID == r.ID:
		next.Over, next.Grace = r.Over, r.Grace
	}
	return next
}

func (r record) equal(other record) bool { return reflect.DeepEqual(r, other) }

// rules is what the rules of package providerkit need to know, for a request of the
// claim id. How long the lease still runs is not known: it may be the whole TTL, or
// nothing. A claim that has run out lives on for its own holder: see Renew.
func (v view) rules(name, id string) *providerkit.Record {
	r := v.record
	k := &providerkit.Record{Name: name, Token: r.Token, Now: v.now, Ended: append(providerkit.Ended(nil), r.Ended...)}
	if r.ID == "" {
		return k
	}
	k.ID, k.Owner, k.TTL, k.Metadata = r.ID, r.Owner, ttlOf(r.Seconds), r.Metadata
	k.AcquiredAt = time.Unix(r.Since, 0).UTC()
	k.Breaking, k.BrokenBy, k.BreakReason = r.Breaking || v.isBroken(), r.BrokenBy, r.BreakReason
	if v.locked() || r.ID == id && !k.Breaking {
		k.Left = k.TTL
	}
	if k.Left != abstractions.Infinite {
		k.Slack = k.Left
	}
	return k
}

const (
	// metadataName is the name of our entry in a blob's metadata. Services and
	// proxies change the case of such names.
	metadataName = "leasing"
	// maxMetadata bounds names and values of a blob's metadata, "up to 8 KB in
	// total size" (learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources).
	maxMetadata = 8 << 10
	// asJSON and asDeflate begin the value and say what follows in base64url.
	// Only what would be too large is deflated.
	asJSON    = "1."
	asDeflate = "1z."
)

// encode makes the metadata of a blob: the record in one value, since the service
// changes the case of names, and what others have put beside it. Where room is
// scarce the oldest ended IDs give way, down to those that are always kept.
func (r record) encode(others map[string]*string) (map[string]*string, error) {
	room := maxMetadata - len(metadataName)
	for name, value := range others {
		room -= len(name) + len(deref(value))
	}
	value, err := r.text(room)
	for err == nil && len(value) > room && len(r.Ended) > providerkit.EndedLeast {
		r.Ended = r.Ended[1:]
		value, err = r.text(room)
	}
	if err != nil {
		return nil, err // there is nothing in it that JSON can't say
	}
	if len(value) > room {
		return nil, &abstractions.InvalidError{
			Field: "Metadata", Value: fmt.Sprintf("%d bytes", len(value)),
			Want: fmt.Sprintf("no more than %d bytes when encoded with owner and ID: a blob's metadata has 8 KB", room),
		}
	}
	metadata := make(map[string]*string, len(others)+1)
	maps.Copy(metadata, others)
	metadata[metadataName] = &value
	return metadata, nil
}

func (r record) text(room int) (string, error) {
	text, err := json.Marshal(r)
	value := asJSON + base64.RawURLEncoding.EncodeToString(text)
	if len(value) > room {
		value = asDeflate + base64.RawURLEncoding.EncodeToString(deflate(text))
	}
	return value, err
}

var errRecord = errors.New("its metadata has an entry named leasing that this version can't read")

// decodeRecord finds the record in a blob's metadata, and what is not ours.
func decodeRecord(metadata map[string]*string) (r record, found bool, others map[string]*string, err error) {
	var text *string
	for name, value := range metadata {
		if strings.EqualFold(name, metadataName) {
			text = value
			continue
		}
		if others == nil {
			others = make(map[string]*string, len(metadata))
		}
		others[name] = value
	}
	if text == nil {
		return record{}, false, others, nil
	}
	r, err = parseRecord(*text)
	return r, true, others, err
}

func parseRecord(text string) (record, error) {
	inflated := strings.HasPrefix(text, asDeflate)
	encoded, ok := strings.CutPrefix(text, asJSON)
	if inflated {
		encoded, ok = text[len(asDeflate):], true
	}
	if !ok {
		return record{}, errRecord
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil && inflated {
		raw, err = inflate(raw)
	}
	var r record
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil || r.Token < 0 || r.Token > abstractions.MaxToken {
		return record{}, errRecord
	}
	return r, nil
}

func deflate(text []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression) // fails for other levels only
	_, _ = w.Write(text)                               // into memory
	_ = w.Close()
	return b.Bytes()
}

// maxInflated bounds what a record may become: some times what it can be.
const maxInflated = 256 << 10

func inflate(raw []byte) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxInflated+1))
	if err == nil && len(text) > maxInflated {
		return nil, errRecord
	}
	return text, err
}
