// Package script is what Redis stores of a name, and the scripts that read and change it:
// their texts, keys and arguments, and how their replies are read. It sends nothing.
//
// Each script is composed of some files of the folder scripts, and works on one operation or
// several: scripts/prelude.lua says how, and what is stored. testdata has the scripts as
// servers get them.
package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed scripts/*.lua
var files embed.FS

// Source is the text of a script, and the name under which a server remembers it
// once it has run. A restart, a failover or SCRIPT FLUSH makes it forget.
type Source struct {
	Text, SHA string
}

// Program is a script of Redis.
type Program struct {
	Source
	// Keys and args are how many of each an operation has.
	Keys, Args int
	Rank       int // of its operations among others that are sent with them
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
}

// The scripts. Each file says what its keys, arguments and replies are.
var (
	Undo    = compose(2, 4, outOfMemoryToo, "waiting", "ending", "ballot", "undo")
	Release = compose(2, 2, outOfMemoryToo, "rest", "name", "ending", "release", "quick_release")
	Break   = compose(2, 5, outOfMemoryToo, "ending", "ballot", "break")
	Renew   = compose(1, 4, outOfMemoryToo, "renew")
	Relock  = compose(1, 6, outOfMemoryToo, "ballot", "relock")
	Confirm = compose(1, 4, outOfMemoryToo, "ballot", "confirm")
	Acquire = compose(2, 5, "", "rest", "name", "waiting", "acquire", "quick_acquire")
	Vote    = compose(2, 7, "", "waiting", "ballot", "vote")
	Leave   = compose(2, 2, outOfMemoryToo, "ending", "leave")
	Inspect = compose(1, 1, "", "inspect")
)

// outOfMemoryToo begins the scripts that work where the server's memory is full: a lease
// that is held goes on, and ends. Those that make new ones say OOM
// (redis.io/docs/latest/develop/programmability/lua-api, "Script flags").
const outOfMemoryToo = "#!lua flags=allow-oom\n"

func init() {
	for _, p := range []*Program{Acquire, Renew, Release, Inspect} {
		p.repeatable = true
	}
}

// programs counts the scripts, which gives each its rank.
var programs int

// compose puts a script together from files, of which the last has the function run. Those
// between rest and a quick_*.lua are for what that leaves to them.
func compose(keys, args int, flags string, parts ...string) *Program {
	first := []string{"prelude", "name"}
	if parts[0] == "rest" {
		first = first[:1]
	}
	var text strings.Builder
	text.WriteString(flags)
	for _, part := range append(first, parts...) {
		text.WriteString(read(part))
	}
	fmt.Fprintf(&text, "local KEYS_EACH, ARGS_EACH = %d, %d\n", keys, args)
	text.WriteString(read("coda"))
	programs++
	return &Program{Source: sourceOf(text.String()), Keys: keys, Args: args, Rank: programs}
}

func read(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // a name above is wrong
	}
	return string(text)
}

func sourceOf(text string) Source {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return Source{text, hex.EncodeToString(sum[:])}
}

// ForRun is the script as it is loaded into a run of a server: see member.
func (s Source) ForRun(id string) Source { return sourceOf(s.Text + "-- Run " + id + ".\n") }

// Redlock are the scripts that a Redlock sends.
var Redlock = []*Program{
	Vote, Confirm, Undo, Relock, Release, Break, Inspect, Leave,
}
