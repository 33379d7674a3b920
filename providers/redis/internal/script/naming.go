package script

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Naming turns names into keys and back. All keys of a name have one hash tag,
// and so are on one node of a Cluster
// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Hash tags").
//
//	prefix:{name}        all that is known of it
//	prefix:{name}:queue  who waits
//	prefix:node          the marker of a node of Redlock
//	prefix:wake:instance the channel on which a process is woken
//
// A brace would end the tag, so "{", "}" and the sign of the escape, "%", are
// written as %7B, %7D and %25: different names never share a key.
type Naming struct {
	Prefix    string        // without the colon
	Retention time.Duration // of what outlives a lease; 0 for ever
}

const queueSuffix = ":queue"

// Keys are a name's.
type Keys struct {
	Name, Queue string
	retention   time.Duration
}

func (n Naming) Keys(name string) Keys {
	queue := n.Prefix + ":{" + escape(name) + "}" + queueSuffix
	return Keys{Name: queue[:len(queue)-len(queueSuffix)], Queue: queue, retention: n.Retention}
}

// KeysAt are those of the name whose text has this key.
func KeysAt(key string) Keys { return Keys{Name: key, Queue: key + queueSuffix} }

// keep is how long a name must be kept whose lease has that TTL, in milliseconds; "0" is
// for ever.
func (k Keys) keep(ttl time.Duration) string {
	if k.retention == 0 || ttl == abstractions.Infinite {
		return "0"
	}
	return Milliseconds(ttl + k.retention)
}

func (n Naming) Marker() string { return n.Prefix + ":node" }

func (n Naming) Channel(instance string) string { return n.Prefix + ":wake:" + instance }

// Pattern matches the keys of the names that begin with prefix, and not their queues.
func (n Naming) Pattern(prefix string) string {
	return glob(n.Prefix+":{"+escape(prefix)) + "*}"
}

// Name is the inverse of keys.
func (n Naming) Name(key string) (string, bool) {
	text, ok := strings.CutPrefix(key, n.Prefix+":{")
	if !ok {
		return "", false
	}
	if text, ok = strings.CutSuffix(text, "}"); !ok {
		return "", false
	}
	name := unescaper.Replace(text)
	return name, escape(name) == text
}

var (
	escaper   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
	globber   = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "^", `\^`)
)

func escape(name string) string {
	if !strings.ContainsAny(name, "%{}") {
		return name
	}
	return escaper.Replace(name)
}

// glob makes a pattern of MATCH that matches the text itself.
func glob(text string) string { return globber.Replace(text) }
