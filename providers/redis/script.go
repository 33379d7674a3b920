package redislease

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed scripts/*.lua
var files embed.FS

// source is the text of a script, and the name under which a server remembers it
// once it has run. A restart, a failover or SCRIPT FLUSH makes it forget.
type source struct {
	text, sha string
}

// program is a script of Redis.
type program struct {
	source
	// keys and args are how many of each an operation has.
	keys, args int
	rank       int // of its operations among others that are sent with them
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
}

// The scripts. Each file says what its keys, arguments and replies are.
var (
	undoScript    = compose(2, 4, outOfMemoryToo, "waiting", "ending", "ballot", "undo")
	releaseScript = compose(2, 2, outOfMemoryToo, "ending", "release")
	breakScript   = compose(2, 5, outOfMemoryToo, "ending", "ballot", "break")
	renewScript   = compose(1, 4, outOfMemoryToo, "renew")
	relockScript  = compose(1, 6, outOfMemoryToo, "ballot", "relock")
	confirmScript = compose(1, 4, outOfMemoryToo, "ballot", "confirm")
	acquireScript = compose(2, 5, "", "waiting", "acquire")
	voteScript    = compose(2, 7, "", "waiting", "ballot", "vote")
	leaveScript   = compose(2, 2, outOfMemoryToo, "ending", "leave")
	inspectScript = compose(1, 1, "", "inspect")
)

// outOfMemoryToo begins the scripts that work where the server's memory is full: a lease
// that is held goes on, and ends. Those that make new ones say OOM
// (redis.io/docs/latest/develop/programmability/lua-api, "Script flags").
const outOfMemoryToo = "#!lua flags=allow-oom\n"

func init() {
	for _, p := range []*program{acquireScript, renewScript, releaseScript, inspectScript} {
		p.repeatable = true
	}
}

// programs counts the scripts, which gives each its rank.
var programs int

// compose puts a script together from files, of which the last has the function run.
func compose(keys, args int, flags string, parts ...string) *program {
	var text strings.Builder
	text.WriteString(flags)
	for _, part := range append([]string{"prelude"}, parts...) {
		text.WriteString(read(part))
	}
	fmt.Fprintf(&text, "local KEYS_EACH, ARGS_EACH = %d, %d\n", keys, args)
	text.WriteString(read("coda"))
	programs++
	return &program{source: sourceOf(text.String()), keys: keys, args: args, rank: programs}
}

func read(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // a name above is wrong
	}
	return string(text)
}

func sourceOf(text string) source {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return source{text, hex.EncodeToString(sum[:])}
}

// forRun is the script as it is loaded into a run of a server: see member.
func (s source) forRun(id string) source { return sourceOf(s.text + "-- Run " + id + ".\n") }
