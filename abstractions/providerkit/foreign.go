package providerkit

import (
	"encoding/json"
	"time"
)

// Foreign describes a lease that a client of another library has taken, without a record.
type Foreign struct {
	ID    string        // of the term, made up by the Store; "" if the name is free
	Owner string        // as they name themselves
	TTL   time.Duration // from their last write on
	Write string        // tells their writes apart
	// Terms is how often the name has changed hands since the record was written. Less than
	// one counts as one.
	Terms int64
	Now   time.Time // of the reply
}

// Record is data, the latest record of a name, as it had been if others kept it; nil where
// there is none, which takes the name of the lease. Their terms have tokens too, which nobody uses: so a token that was given
// before says that the lease was taken, and the next one is greater.
func (f Foreign) Record(name string, data []byte) ([]byte, error) {
	r := Record{Name: name}
	if data != nil {
		var err error
		if r, _, err = present.decode(data, ""); err != nil {
			return nil, err
		}
	}
	r.Now = f.Now
	if f.ID == "" || f.ID != r.ID { // else the record was written during this term
		r.runOut(&Change{})
		r.Token += max(1, f.Terms)
	}
	var d deadline
	if f.ID != "" {
		r.ID, r.Owner, r.TTL = f.ID, f.Owner, f.TTL
		d = deadline{Write: f.Write, Lasts: micros(f.TTL)}
	}
	return present.encode(&r, d)
}

// DeadlineOf is what a record that a Store puts says of the end of a lease, for one that
// shows it to others: how long it lasts from a write on, and what tells these writes apart.
func DeadlineOf(data []byte) (lasts time.Duration, write string) {
	var d deadline
	_ = json.Unmarshal(data, &d) // what is no record has none
	return fromMicros(d.Lasts), d.Write
}
