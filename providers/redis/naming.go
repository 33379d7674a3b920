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
//	prefix:{name}        all that is known of it
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

const queueSuffix = ":queue"

// keys are a name's.
type keys struct {
	name, queue string
	retention   time.Duration
}

func (n naming) keys(name string) keys {
	queue := n.prefix + ":{" + escape(name) + "}" + queueSuffix
	return keys{name: queue[:len(queue)-len(queueSuffix)], queue: queue, retention: n.retention}
}

// keep is how long a name must be kept whose lease has that TTL, in milliseconds; "0" is
// for ever.
func (k keys) keep(ttl time.Duration) string {
	if k.retention == 0 || ttl == abstractions.Infinite {
		return "0"
	}
	return milliseconds(ttl + k.retention)
}

func (n naming) node() string { return n.prefix + ":node" }

func (n naming) channel(instance string) string { return n.prefix + ":wake:" + instance }

// pattern matches the keys of the names that begin with prefix, and not their queues.
func (n naming) pattern(prefix string) string {
	return glob(n.prefix+":{"+escape(prefix)) + "*}"
}

// name is the inverse of keys.
func (n naming) name(key string) (string, bool) {
	text, ok := strings.CutPrefix(key, n.prefix+":{")
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
