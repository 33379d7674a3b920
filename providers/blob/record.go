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
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// phase is how far the claim of a record has come. What is not here, the
// service's own lease state says.
type phase string

const (
	// claimed: by whoever may take the lease, has it, or has let it run out.
	claimed phase = ""
	// released: given up, or about to be: it is written before the lease is.
	released phase = "released"
	// breaking: broken by an operator, and running out.
	breaking phase = "breaking"
	// broken: broken by an operator for good.
	broken phase = "broken"
)

// record is what a blob's metadata remembers of a name. It outlives leases.
type record struct {
	Name     string            `json:"name,omitempty"` // only if the blob's name does not tell it
	Token    int64             `json:"token"`
	ID       string            `json:"id,omitempty"`
	Phase    phase             `json:"phase,omitempty"`
	Owner    string            `json:"owner,omitempty"`
	Seconds  int32             `json:"ttl,omitempty"`   // the lease's duration; -1 is infinite
	Since    int64             `json:"since,omitempty"` // when it was claimed, in seconds by the service's clock
	Grace    int32             `json:"grace,omitempty"` // of a Break of an infinite lease, in seconds
	Metadata map[string]string `json:"metadata,omitempty"`
	// Ended are IDs that were released or broken before, the latest last.
	Ended []string `json:"ended,omitempty"`
}

// remembered is how many ended IDs a record keeps.
const remembered = 8

// brokenMark follows a broken ID in Ended. IDs have letters, digits and hyphens.
const brokenMark = "!"

// claim makes the record of the next claim of a name. brokenNow says that the
// service has the latest lease as broken.
func (r record) claim(req abstractions.AcquireRequest, now time.Time, brokenNow bool) record {
	next := record{
		Name: r.Name, Token: abstractions.NextToken(r.Token, now), Ended: r.Ended,
		ID: req.ID, Owner: req.Owner, Seconds: seconds(req.TTL), Since: now.Unix(), Metadata: maps.Clone(req.Metadata),
	}
	switch {
	case r.ID == "" || r.Phase == claimed && !brokenNow: // it ran out
	case r.Phase == released:
		next.Ended = ending(r.Ended, r.ID)
	default:
		next.Ended = ending(r.Ended, r.ID+brokenMark)
	}
	return next
}

// end makes the record of a claim that is over.
func (r record) end(how phase) record {
	r.Phase, r.Owner, r.Metadata = how, "", nil
	return r
}

// refuse makes a record that refuses an ID which never held the name.
func (r record) refuse(id string) record {
	r.Ended = ending(r.Ended, id)
	return r
}

func ending(ended []string, id string) []string {
	all := append(slices.Clone(ended), id)
	return all[max(0, len(all)-remembered):]
}

// over reports whether an ID was released or broken.
func (r record) over(id string) (isOver, wasBroken bool) {
	switch {
	case r.ID == id && r.Phase != claimed:
		return true, r.Phase != released
	case slices.Contains(r.Ended, id):
		return true, false
	}
	wasBroken = slices.Contains(r.Ended, id+brokenMark)
	return wasBroken, wasBroken
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
// changes the case of names, and what others have put beside it.
func (r record) encode(others map[string]*string) (map[string]*string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err // there is nothing in it that JSON can't say
	}
	room := maxMetadata - len(metadataName)
	for name, value := range others {
		room -= len(name)
		if value != nil {
			room -= len(*value)
		}
	}
	value := asJSON + base64.RawURLEncoding.EncodeToString(text)
	if len(value) > room {
		value = asDeflate + base64.RawURLEncoding.EncodeToString(deflate(text))
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
