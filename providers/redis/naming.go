package redislease

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// naming turns names into keys and back. All keys of a name have one hash tag,
// and so are on one node of a Cluster
// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Hash tags").
//
//	prefix:{name}        the lease
//	prefix:{name}:fence  what outlives it
//	prefix:{name}:queue  who waits
//	prefix:node          the marker of a node of Redlock
//	prefix:wake:instance the channel on which a process is woken
//
// A brace would end the tag, so "{", "}" and the sign of the escape, "%", are
// written as %7B, %7D and %25: different names never share a key.
type naming struct {
	prefix    string        // without the colon
	retention time.Duration // of what outlives a lease; 0 for ever
}

const (
	fenceSuffix = ":fence"
	queueSuffix = ":queue"
)

// keys are a name's.
type keys struct {
	lease, fence, queue string
	retention           time.Duration
}

func (n naming) keys(name string) keys {
	k := n.renewalKeys(name)
	k.queue = k.lease + queueSuffix
	return k
}

// renewalKeys makes the two keys that a renewal needs, in one piece of memory.
func (n naming) renewalKeys(name string) keys {
	fence := n.prefix + ":{" + escape(name) + "}" + fenceSuffix
	return keys{lease: fence[:len(fence)-len(fenceSuffix)], fence: fence, retention: n.retention}
}

// keep is how long the fence must be kept beside a lease of that TTL, in
// milliseconds; "0" is for ever. A new lease's is kept half as long again, so
// that few renewals have to extend it.
func (k keys) keep(ttl time.Duration, fresh bool) string {
	if k.retention == 0 || ttl == abstractions.Infinite {
		return "0"
	}
	keep := ttl + k.retention
	if fresh {
		keep += keep / 2
	}
	return milliseconds(keep)
}

func (n naming) node() string { return n.prefix + ":node" }

func (n naming) channel(instance string) string { return n.prefix + ":wake:" + instance }

// pattern matches the fences of the names that begin with prefix: each name that
// is known has one.
func (n naming) pattern(prefix string) string {
	return glob(n.prefix+":{"+escape(prefix)) + "*}" + fenceSuffix
}

// name is the inverse of keys for a fence.
func (n naming) name(fence string) (string, bool) {
	text, ok := strings.CutPrefix(fence, n.prefix+":{")
	if !ok {
		return "", false
	}
	if text, ok = strings.CutSuffix(text, "}"+fenceSuffix); !ok {
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
