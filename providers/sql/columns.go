package sqllease

import (
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

func encodeMetadata(metadata map[string]string) string {
	if len(metadata) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(metadata) // strings always encode
	return string(text)
}

// decodeMetadata returns nil for none, and for what somebody else wrote there.
func decodeMetadata(text string) map[string]string {
	if text == "{}" {
		return nil
	}
	var metadata map[string]string
	if json.Unmarshal([]byte(text), &metadata) != nil || len(metadata) == 0 {
		return nil
	}
	return metadata
}

// micros is d in the unit of the databases, rounded up: never early. nil
// stands for an infinite lease.
func micros(d time.Duration) *int64 {
	if d == abstractions.Infinite {
		return nil
	}
	us := int64((d + time.Microsecond - 1) / time.Microsecond)
	return &us
}

func fromMicros(us *int64) time.Duration {
	if us == nil || *us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(*us) * time.Microsecond
}
