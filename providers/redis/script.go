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
	undoScript    = compose(3, 4, "", "queueing", "ending", "ballot", "undo")
	releaseScript = compose(3, 2, "quick_release", "ending", "release")
	breakScript   = compose(3, 5, "", "ending", "break")
	renewScript   = compose(2, 4, "quick_renew", "extending", "renew")
	relockScript  = compose(2, 7, "", "extending", "ballot", "relock")
	confirmScript = compose(2, 4, "", "ballot", "confirm")
	acquireScript = compose(3, 5, "quick_acquire", "queueing", "acquire")
	voteScript    = compose(3, 7, "", "queueing", "ballot", "vote")
	leaveScript   = compose(3, 2, "", "ending", "leave")
	inspectScript = compose(2, 1, "", "inspect")
)

func init() {
	for _, p := range []*program{acquireScript, renewScript, releaseScript, inspectScript} {
		p.repeatable = true
	}
}

// programs counts the scripts, which gives each its rank.
var programs int

// compose puts a script together from files: the common case, if quick is not
// empty, and inside of a function, so that they are made when they are needed, the
// parts of which the last has the function run.
func compose(keys, args int, quick string, parts ...string) *program {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nlocal KEYS_EACH, ARGS_EACH = %d, %d\n", read("prelude"), keys, args)
	if quick == "" {
		text.WriteString("local quick\n")
	} else {
		text.WriteString(read(quick))
	}
	text.WriteString("local function make()\n")
	for _, part := range append([]string{"common"}, parts...) {
		text.WriteString(read(part))
	}
	text.WriteString("return run, reason\nend\n")
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
