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
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

const (
	// metadataName is the name of our entry in a blob's metadata. Services and proxies may change
	// the case of such names, so one value contains everything: a form, the holder's ID, and the
	// record in base64url, separated by dots.
	metadataName = "leasing"
	// maxMetadata bounds names and values of a blob's metadata, "up to 8 KB in
	// total size" (learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources).
	maxMetadata = 8 << 10
	// asJSON and asDeflate are forms of the value. Only a value that would be too large is deflated.
	asJSON    = "1"
	asDeflate = "1z"
	// maxInflated is the largest accepted size of an inflated record. It is several times the
	// largest real size.
	maxInflated = 256 << 10
)

// encode makes the metadata of a blob from a record and the entries of other programs.
// If the value is too large, it drops the oldest ended IDs, down to the number that is
// always kept.
func encode(holder string, record []byte, others map[string]*string) (map[string]*string, error) {
	room := maxMetadata - len(metadataName)
	for name, value := range others {
		room -= len(name) + len(deref(value))
	}
	value := valueOf(holder, record, room)
	for len(value) > room {
		if record = withoutOldest(record); record == nil {
			return nil, &abstractions.InvalidError{
				Field: "Metadata", Value: fmt.Sprintf("%d bytes", len(value)),
				Want: fmt.Sprintf("no more than %d bytes when encoded with owner and ID: a blob's metadata has 8 KB", room),
			}
		}
		value = valueOf(holder, record, room)
	}
	metadata := map[string]*string{metadataName: &value}
	maps.Copy(metadata, others)
	return metadata, nil
}

func valueOf(holder string, record []byte, room int) string {
	value := asJSON + "." + holder + "." + base64.RawURLEncoding.EncodeToString(record)
	if len(value) <= room {
		return value
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression) // fails only for invalid levels
	_, _ = w.Write(record)                             // never fails in memory
	_ = w.Close()
	return asDeflate + "." + holder + "." + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// withoutOldest returns the record without the oldest ended ID, or nil if no more can
// be dropped.
func withoutOldest(record []byte) []byte {
	var fields map[string]json.RawMessage
	var ended providerkit.Ended
	if json.Unmarshal(record, &fields) != nil || json.Unmarshal(fields["ended"], &ended) != nil || len(ended) <= providerkit.EndedLeast {
		return nil
	}
	fields["ended"], _ = json.Marshal(ended[1:])
	shorter, _ := json.Marshal(fields)
	return shorter
}

var errRecord = errors.New("its metadata has an entry named leasing that this version can't read")

// decode splits a blob's metadata into the holder's ID, the record (nil if absent), and
// the entries of other programs.
func decode(metadata map[string]*string) (holder string, record []byte, others map[string]*string, err error) {
	for name, value := range metadata {
		if strings.EqualFold(name, metadataName) {
			holder, record, err = parse(deref(value))
			continue
		}
		if others == nil {
			others = make(map[string]*string, len(metadata))
		}
		others[name] = value
	}
	return holder, record, others, err
}

func parse(value string) (holder string, record []byte, err error) {
	parts := strings.Split(value, ".")
	if len(parts) != 3 || parts[0] != asJSON && parts[0] != asDeflate {
		return "", nil, errRecord
	}
	record, err = base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil && parts[0] == asDeflate {
		record, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(record)), maxInflated+1))
	}
	if err != nil || len(record) > maxInflated || !json.Valid(record) {
		return "", nil, errRecord
	}
	return parts[1], record, nil
}
