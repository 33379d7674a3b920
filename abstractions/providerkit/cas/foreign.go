package cas

import (
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Foreign describes a lease that a client of another library has acquired, and that has no record.
type Foreign struct {
	ID    string        // of the term, made up by the Store; "" if the name is free
	Owner string        // the name that the client gives itself
	TTL   time.Duration // from the client's last write on
	Write string        // distinguishes the client's writes
	// Terms is the number of times that the name has changed hands since the record was
	// written. A number below 1 counts as 1.
	Terms int64
	Now   time.Time // of the reply
}

// Record updates data, the latest record of a name, as if the other library kept records. If data is nil, the name has no
// record, and the result is a new one for the name. Each term of a foreign client gets a token too, although no client uses
// that token. So a renewal with an earlier token is refused as taken, and the next token is greater.
func (f Foreign) Record(name string, data []byte) ([]byte, error) {
	r := providerkit.Record{Name: name}
	if data != nil {
		var err error
		if r, _, err = currentFormat.decode(data, ""); err != nil {
			return nil, err
		}
	}
	r.Now = f.Now
	if f.ID == "" || f.ID != r.ID { // else the record was written during this term
		r.RunOut(&providerkit.Change{})
		r.Token += max(1, f.Terms)
	}
	var d deadline
	if f.ID != "" {
		r.ID, r.Owner, r.TTL = f.ID, f.Owner, f.TTL
		d = deadline{Write: f.Write, Lasts: micros(f.TTL)}
	}
	return currentFormat.encode(&r, d)
}

// DeadlineOf reads the end of the lease from an encoded record, for a Store that shows the end to other clients: lasts is the
// time from the write that set the end, and write is the ID of that write.
func DeadlineOf(data []byte) (lasts time.Duration, write string) {
	var d deadline
	_ = json.Unmarshal(data, &d) // data that is not a record has no deadline
	return fromMicros(d.Lasts), d.Write
}
