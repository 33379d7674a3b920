package redislease

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed scripts/*.lua
var files embed.FS

// program is a script of Redis.
type program struct {
	text string
	// sha is the name under which a server remembers the script once it has
	// run. A restart, a failover or SCRIPT FLUSH makes it forget.
	sha string
	// keys and args are how many of each an operation has. A single script takes
	// one operation and has no preliminaries.
	keys, args int
	single     bool
	rank       int // of its operations among others that are sent with them
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
}

// The scripts. Each file says what its keys, arguments and replies are.
var (
	undoScript    = compose(3, 4, "prelude", "queueing", "ending", "ballot", "undo", "coda")
	releaseScript = compose(3, 2, "prelude", "ending", "release", "coda")
	breakScript   = compose(3, 4, "prelude", "ending", "break", "coda")
	renewScript   = compose(2, 3, "prelude", "extending", "renew", "coda")
	relockScript  = compose(2, 6, "prelude", "extending", "ballot", "relock", "coda")
	confirmScript = compose(2, 4, "prelude", "ballot", "confirm", "coda")
	acquireScript = compose(3, 5, "prelude", "queueing", "acquire", "coda")
	voteScript    = compose(3, 7, "prelude", "queueing", "ballot", "vote", "coda")
	leaveScript   = compose(3, 2, "prelude", "ending", "leave", "coda")
	inspectScript = compose(2, 1, "prelude", "inspect", "coda")
	markScript    = compose(0, 1, "mark")
)

func init() {
	for _, p := range []*program{acquireScript, renewScript, releaseScript, inspectScript} {
		p.repeatable = true
	}
}

// programs counts the scripts, which gives each its rank.
var programs int

func compose(keys, args int, names ...string) *program {
	programs++
	var text strings.Builder
	for _, name := range names {
		text.WriteString(read(name))
		text.WriteByte('\n')
	}
	return &program{
		text: text.String(), sha: sum(text.String()), keys: keys, args: args,
		single: len(names) == 1, rank: programs,
	}
}

func read(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // a name above is wrong
	}
	return string(text)
}

func sum(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}
