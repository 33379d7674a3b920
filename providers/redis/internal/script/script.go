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
	"slices"
	"strconv"
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
}

// The scripts. Each file says what its keys, arguments and replies are.
var (
	Undo    = compose(2, 4, outOfMemoryToo, "waiting", "ending", "ballot", "undo")
	Release = compose(2, 2, outOfMemoryToo, "ending", "release", "quick_release")
	Break   = compose(2, 4, outOfMemoryToo, "ending", "ballot", "break")
	Renew   = compose(1, 1, outOfMemoryToo, "renew", "quick_renew")
	Relock  = compose(1, 4, outOfMemoryToo, "ballot", "relock")
	Confirm = compose(1, 3, outOfMemoryToo, "ballot", "confirm")
	Acquire = compose(2, 4, "", "waiting", "acquire", "quick_acquire")
	Vote    = compose(2, 6, "", "waiting", "ballot", "vote", "quick_vote")
	Leave   = compose(2, 2, outOfMemoryToo, "ending", "leave")
	Inspect = compose(1, 1, "", "inspect")
	Waiting = compose(2, 1, "", "waiting", "who")
)

// outOfMemoryToo begins the scripts that work where the server's memory is full: a lease
// that is held goes on, and ends. Those that make new ones say OOM
// (redis.io/docs/latest/develop/programmability/lua-api, "Script flags").
const outOfMemoryToo = "#!lua flags=allow-oom\n"

// Programs lists the scripts by rank.
var Programs []*Program

// compose puts a script together from files, of which the last has the function run. A quick_*.lua
// behind that has the commonest case, and leaves the others to it.
func compose(keys, args int, flags string, parts ...string) *Program {
	quick := ""
	if last := len(parts) - 1; strings.HasPrefix(parts[last], "quick_") {
		quick = read(parts[last])
		parts = slices.Concat([]string{"rest", "name"}, parts[:last], []string{"coda", "rest_end"})
	} else {
		parts = slices.Concat([]string{"name"}, parts, []string{"coda"})
	}
	text := flags + read("prelude")
	for _, part := range parts {
		text += read(part)
	}
	text += strings.Replace(read("loop"), "  -- QUICK\n", quick, 1)
	text = strings.NewReplacer("KEYS_EACH", strconv.Itoa(keys), "ARGS_EACH", strconv.Itoa(args)).Replace(text)
	p := &Program{Source: SourceOf(text), Keys: keys, Args: args, Rank: len(Programs)}
	Programs = append(Programs, p)
	return p
}

func read(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // a name above is wrong
	}
	return string(text)
}

// SourceOf computes the name of a text.
func SourceOf(text string) Source {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return Source{text, hex.EncodeToString(sum[:])}
}

// ForRun are the scripts as they are loaded into a run of a server, by their ranks: see member of package node.
func ForRun(id string) []Source {
	sources := make([]Source, len(Programs))
	for i, p := range Programs {
		sources[i] = SourceOf(p.Text + "-- Run " + id + ".\n")
	}
	return sources
}
