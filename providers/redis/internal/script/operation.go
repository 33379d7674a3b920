package script

import (
	"crypto/sha1" //nolint:gosec // see Digest
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// MaxTTL keeps instants within the range of Go's times.
const MaxTTL = 100 * 365 * 24 * time.Hour

// Naming turns names into keys and back. All keys of a name have one hash tag,
// and so are on one node of a Cluster
// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Hash tags").
//
// A brace would end the tag, so "{", "}" and the escape character "%" are written as %7B, %7D and
// %25. Different names never share a key.
type Naming struct {
	Prefix    string        // without the colon
	Retention time.Duration // of the records that outlive a lease; 0 means forever
}

const queueSuffix = ":queue"

// Keys are the keys of a name.
type Keys struct {
	Name, Queue string
	retention   time.Duration
}

func (n Naming) Keys(name string) Keys {
	queue := n.Prefix + ":{" + escaper.Replace(name) + "}" + queueSuffix
	return Keys{Name: queue[:len(queue)-len(queueSuffix)], Queue: queue, retention: n.Retention}
}

// KeysAt returns the keys of the name whose record is at this key.
func KeysAt(key string) Keys { return Keys{Name: key, Queue: key + queueSuffix} }

// span returns the span of a lease with a TTL; a TTL of 0 gives the span of a free name.
func (k Keys) span(ttl time.Duration) Span {
	s := Span{TTL: Milliseconds(ttl)}
	if k.retention != 0 && ttl != abstractions.Infinite {
		s.Keep = Milliseconds(ttl + k.retention)
	}
	return s
}

func (n Naming) Marker() string { return n.Prefix + ":node" }

func (n Naming) Channel(instance string) string { return n.Prefix + ":wake:" + instance }

// Pattern matches the keys of the names that begin with prefix, and not their queues.
func (n Naming) Pattern(prefix string) string {
	return globber.Replace(n.Prefix+":{"+escaper.Replace(prefix)) + "*}"
}

// Name is the inverse of Keys.
func (n Naming) Name(key string) (string, bool) {
	text, ours := strings.CutPrefix(key, n.Prefix+":{")
	text, whole := strings.CutSuffix(text, "}")
	name := unescaper.Replace(text)
	return name, ours && whole && escaper.Replace(name) == text
}

var (
	escaper   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
	globber   = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "^", `\^`)
)

// Operation is one operation: its script, and its keys and arguments in the order of
// the script's head.
type Operation struct {
	Script *Program
	Keys   [2]string
	Args   [6]string
	Span   Span

	Reply Reply // after the call
}

// Span has the times that all operations of a call share, in milliseconds: the TTL, and the time
// for which to keep the name; 0 means forever.
type Span struct{ TTL, Keep int64 }

// Reply is a script's reply to one operation: an integer if all went well, otherwise a list of a
// status and its details. If Err is set, it is the error of the whole call, and Value has no
// meaning.
type Reply struct {
	Value any
	Err   error
}

// Claim is the part of an acquire that the scripts store.
type Claim struct {
	ID  string
	TTL time.Duration
	Content
	// Place is a waiter's entry in the queue, or empty.
	Place string
}

// Place returns the text that follows a waiter's ID in the queue.
func Place(channel, owner string) string { return channel + "\n" + owner }

// Content is the readable part of a lease, as it is stored.
type Content struct{ Owner, Metadata string }

// NewClaim returns the claim of a request that does not wait.
func NewClaim(req abstractions.AcquireRequest) Claim {
	c := Claim{ID: req.ID, TTL: req.TTL, Content: Content{Owner: req.Owner}}
	if len(req.Metadata) > 0 {
		c.Metadata = EncodeMetadata(req.Metadata)
	}
	return c
}

func (c Content) Text() string { return "\n" + c.Owner + "\n" + c.Metadata }

// Digest returns the stored form of an ID that was released or broken.
func Digest(id string) string {
	var text [64]byte                        // most IDs, without an allocation
	sum := sha1.Sum(append(text[:0], id...)) //nolint:gosec // the scripts have no other hash
	return string(hex.AppendEncode(text[:0], sum[:7]))
}

func (k Keys) Acquire(c Claim) Operation {
	return Operation{Script: Acquire, Keys: [2]string{k.Name, k.Queue}, Args: [6]string{Digest(c.ID), c.ID, c.Text(), c.Place}, Span: k.span(c.TTL)}
}

// Renew extends a lease. Renew appends its texts to those of the batch, so that all texts need
// one allocation.
func (n Naming) Renew(texts *strings.Builder, r *abstractions.RenewRequest) Operation {
	s := Keys{retention: n.Retention}.span(r.TTL)
	from := texts.Len()
	for _, part := range [...]string{n.Prefix, ":{", escaper.Replace(r.Name), "}"} {
		texts.WriteString(part)
	}
	key := texts.Len()
	var head [128]byte // long enough for most
	texts.Write(append(strconv.AppendInt(appendHead(head[:0], r.ID, r.Token), s.TTL, 10), '\n'))
	texts.WriteString(EncodeMetadata(r.Metadata))
	text := texts.String()
	return Operation{Script: Renew, Keys: [2]string{text[from:key]}, Args: [6]string{text[key:]}, Span: s}
}

func (k Keys) Release(id string) Operation {
	return Operation{Script: Release, Keys: [2]string{k.Name, k.Queue}, Args: [6]string{Digest(id), id}, Span: k.span(0)}
}

func (k Keys) Break(r abstractions.BreakRequest) Operation {
	immediate := "0"
	if r.Immediate {
		immediate = "1"
	}
	grace := min(max(r.Grace, time.Millisecond), MaxTTL) // with 0 the name would be free at once
	return Operation{Script: Break, Keys: [2]string{k.Name, k.Queue}, Args: [6]string{formatInt(r.IfToken), immediate, formatInt(Milliseconds(grace)), r.Actor + "\n" + r.Reason}, Span: k.span(0)}
}

func (k Keys) Inspect() Operation { return Operation{Script: Inspect, Keys: [2]string{k.Name}} }

func (k Keys) Waiting() Operation {
	return Operation{Script: Waiting, Keys: [2]string{k.Name, k.Queue}}
}

// Leave removes a waiter's entry from the queue.
func (k Keys) Leave(id, place string) Operation {
	return Operation{Script: Leave, Keys: [2]string{k.Name, k.Queue}, Args: [6]string{id, place}}
}

// Vote is an acquire at one node of Redlock. floor is the token that the caller proposes.
func (k Keys) Vote(c Claim, try, floor int64) Operation {
	op := k.Acquire(c)
	op.Script, op.Args[4], op.Args[5] = Vote, formatInt(try), formatInt(floor)
	return op
}

// WaitAt gives the claim an entry in the node's queue; an empty place means no entry.
func (op *Operation) WaitAt(place string) { op.Args[3] = place }

// Confirm makes a node of Redlock store the settled token of an attempt.
func (k Keys) Confirm(c Claim, token, try int64) Operation {
	return Operation{Script: Confirm, Keys: [2]string{k.Name}, Args: [6]string{c.ID, tokenText(token), formatInt(try)}, Span: k.span(c.TTL)}
}

// Undo takes back the votes of all attempts numbered from since up to try. It puts the claim back
// into the queue at its place.
func (k Keys) Undo(c Claim, try, since int64) Operation {
	return Operation{Script: Undo, Keys: [2]string{k.Name, k.Queue}, Args: [6]string{c.ID, formatInt(try), formatInt(since), c.Place}}
}

// Relock is a renewal at one node of Redlock. The lease's content, and the attempt try that
// got the lease, let a node restore a lease that it has lost.
func (k Keys) Relock(r *abstractions.RenewRequest, content string, try int64) Operation {
	return Operation{Script: Relock, Keys: [2]string{k.Name}, Args: [6]string{
		string(appendHead(nil, r.ID, r.Token)), content, formatInt(try), EncodeMetadata(r.Metadata),
	}, Span: k.span(r.TTL)}
}

// appendHead appends the text of a held name, from its state on.
func appendHead(to []byte, id string, token int64) []byte {
	to = append(appendToken(append(to, 'H'), token), ' ')
	return append(append(to, id...), '\n')
}

// tokenText returns a token as it is stored: texts of 16 digits compare like numbers. A token below 0
// belongs to no lease, and is stored like 0.
func tokenText(token int64) string { return string(appendToken(nil, token)) }

func appendToken(to []byte, token int64) []byte {
	var text [20]byte
	digits := strconv.AppendInt(text[:0], max(token, 0), 10)
	return append(append(to, "0000000000000000"[min(len(digits), 16):]...), digits...)
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// Milliseconds converts a duration for the scripts, rounded up; it returns 0 for abstractions.Infinite.
func Milliseconds(d time.Duration) int64 {
	if d == abstractions.Infinite {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// millis converts a duration in a script's reply.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Repeatable reports whether two runs of the operation have the effect of a single run.
func (op *Operation) Repeatable() bool {
	return op.Script == Acquire || op.Script == Renew || op.Script == Release || op.Script == Inspect || op.Script == Waiting
}

// Err returns the reason why the operation has no reply.
func (op *Operation) Err() error { return op.Reply.Err }

// Fail ends the operation without a reply.
func (op *Operation) Fail(err error) { op.Reply = Reply{Err: err} }
