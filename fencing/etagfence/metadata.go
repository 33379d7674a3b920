package etagfence

import (
	"maps"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// The metadata names of a condition's token and write ID. Azure requires C# identifiers, which have no
// hyphens. The names are sent as parts of header names, and nginx drops headers with an underscore by
// default (underscores_in_headers). Services also change their case. So the names consist of lowercase
// letters.
const (
	MetadataToken   = "leasingtoken"
	MetadataWriteID = "leasingwrite"
)

// Metadata returns the metadata to store with an object: the condition's token
// and write ID, and the entries of others. The map others is not changed, and
// may be the metadata that was read: entries of an earlier write are left out,
// whatever the case of their names.
//
// The value type is that of the store's client library: string, or *string
// with azblob. On Amazon S3, do not store token and write ID in metadata: see Object.ETag.
func Metadata[V string | *string](condition Condition, others map[string]V) map[string]V {
	metadata := maps.Clone(others)
	if metadata == nil {
		metadata = make(map[string]V, 2)
	}
	maps.DeleteFunc(metadata, func(name string, _ V) bool {
		return strings.EqualFold(name, MetadataToken) || strings.EqualFold(name, MetadataWriteID)
	})
	metadata[MetadataToken] = metadataValue[V](strconv.FormatInt(condition.Token, 10))
	metadata[MetadataWriteID] = metadataValue[V](condition.WriteID)
	return metadata
}

// ReadObject returns the Object of an ETag and the metadata that was read
// together with that ETag. Names match regardless of case. A value that is not a
// token, or a second token, is an error that matches leasing.ErrInvalid, since
// reading it as "no token" would admit every writer.
func ReadObject[V string | *string](etag string, metadata map[string]V) (Object, error) {
	object := Object{ETag: etag}
	text, found, err := lookUp(metadata, MetadataToken)
	if err != nil {
		return Object{}, err
	}
	if found {
		if object.Token, err = fencing.ParseToken(text); err != nil {
			return Object{}, &leasing.InvalidError{Field: "metadata " + MetadataToken, Value: text, Want: "decimal digits of a Lease.Token"}
		}
	}
	if object.WriteID, _, err = lookUp(metadata, MetadataWriteID); err != nil {
		return Object{}, err
	}
	return object, nil
}

// lookUp returns the value of a name, regardless of case, and whether the name exists.
func lookUp[V string | *string](metadata map[string]V, name string) (text string, found bool, err error) {
	for key, value := range metadata {
		if !strings.EqualFold(key, name) {
			continue
		}
		if found {
			return "", false, &leasing.InvalidError{Field: "metadata " + name, Value: text, Want: "one value, not several in names that differ in case"}
		}
		text, found = metadataText(value), true
	}
	return text, found, nil
}

func metadataText[V string | *string](value V) string {
	if pointer, ok := any(value).(*string); ok && pointer != nil {
		return *pointer
	}
	text, _ := any(value).(string)
	return text
}

func metadataValue[V string | *string](text string) V {
	if value, ok := any(&text).(V); ok {
		return value
	}
	return any(text).(V)
}
