package redislease

import (
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// operation is one operation: its script, keys and arguments, in the order in
// which the head of that script has them.
type operation struct {
	script *program
	keys   [2]string
	args   [7]string

	reply reply // once it is done
}

// reply is what a script says of one operation: an integer if all went well, a
// list of a status and its particulars otherwise. An error is the whole call's:
// then nothing is known of the operation but what the error tells.
type reply struct {
	value any
	err   error
}

// claim is what the scripts store of an acquire.
type claim struct {
	id  string
	ttl time.Duration
	content
	// channel is where to wake it if it waits; or empty.
	channel string
}

// content is what people read of a lease, as it is stored.
type content struct{ owner, metadata string }

func newClaim(req abstractions.AcquireRequest) claim {
	c := claim{id: req.ID, ttl: req.TTL, content: content{owner: req.Owner}}
	if len(req.Metadata) > 0 {
		c.metadata = encodeMetadata(req.Metadata)
	}
	return c
}

func (c content) text() string { return c.owner + "\n" + c.metadata }

func acquireOp(k keys, c claim) operation {
	return operation{script: acquireScript, keys: [2]string{k.name, k.queue}, args: [7]string{c.id, milliseconds(c.ttl), k.keep(c.ttl), c.text(), c.channel}}
}

func renewOp(n naming, r abstractions.RenewRequest) operation {
	k := n.keys(r.Name)
	return operation{script: renewScript, keys: [2]string{k.name}, args: [7]string{head(r.ID, r.Token), milliseconds(r.TTL), k.keep(r.TTL), encodeMetadata(r.Metadata)}}
}

func releaseOp(k keys, id string) operation {
	return operation{script: releaseScript, keys: [2]string{k.name, k.queue}, args: [7]string{id, k.keep(0)}}
}

func breakOp(k keys, r abstractions.BreakRequest) operation {
	immediate := "0"
	if r.Immediate {
		immediate = "1"
	}
	grace := min(max(r.Grace, time.Millisecond), maxTTL) // PEXPIRE with 0 would free it now
	return operation{script: breakScript, keys: [2]string{k.name, k.queue}, args: [7]string{digits(r.IfToken), immediate, milliseconds(grace), k.keep(0), r.Actor + "\n" + r.Reason}}
}

func inspectOp(k keys) operation {
	return operation{script: inspectScript, keys: [2]string{k.name}}
}

func leaveOp(k keys, id, channel string) operation {
	return operation{script: leaveScript, keys: [2]string{k.name, k.queue}, args: [7]string{id, channel}}
}

// head is how the text of a name goes on at its state if a claim holds it.
func head(id string, token int64) string { return "H" + tokenText(token) + " " + id + "\n" }

// tokenText is a token as it is stored: texts of 16 digits compare as numbers do.
func tokenText(token int64) string {
	const zeros = "0000000000000000"
	text := digits(token)
	return zeros[min(len(text), len(zeros)):] + text
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

// milliseconds is a duration as the scripts want it, rounded up; "0" is for ever.
func milliseconds(d time.Duration) string {
	if d == abstractions.Infinite {
		return "0"
	}
	return digits(int64((d-1)/time.Millisecond) + 1)
}

// millis is a duration as the scripts tell it.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
