// Package script defines the data that Redis stores for a name, and the scripts that read and change the
// data: their texts, keys, arguments and replies. It sends nothing.
//
// Each script is composed of files in the folder scripts, and runs one or more operations. The
// folder scripts/redlock has the parts that only Redlock uses. scripts/prelude.lua describes the
// composition and the stored data. testdata has the scripts in the form that servers receive.
package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"embed"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed scripts/*.lua scripts/redlock/*.lua
var files embed.FS

// Source is the text of a script, and the name under which a server remembers the script
// after a run. A restart, a failover or SCRIPT FLUSH makes the server forget its scripts.
type Source struct {
	Text, SHA string
}

// Program is a Redis script.
type Program struct {
	Source
	// Keys and Args are the numbers of keys and arguments of an operation.
	Keys, Args int
	Rank       int // order of its operations among others in the same call
}

// The scripts. Each file describes its keys, arguments and replies.
var (
	Undo    = compose(2, 4, outOfMemoryToo, "waiting", "ending", "ballot", "redlock/undo")
	Release = compose(2, 2, outOfMemoryToo, "ending", "release", "quick_release")
	Break   = compose(2, 4, outOfMemoryToo, "ending", "ballot", "break")
	Renew   = compose(1, 1, outOfMemoryToo, "renew", "quick_renew")
	Relock  = compose(1, 4, outOfMemoryToo, "ballot", "redlock/relock")
	Confirm = compose(1, 3, outOfMemoryToo, "ballot", "redlock/confirm")
	Acquire = compose(2, 4, "", "waiting", "acquire", "quick_acquire")
	Vote    = compose(2, 6, "", "waiting", "ballot", "redlock/vote", "redlock/quick_vote")
	Leave   = compose(2, 2, outOfMemoryToo, "ending", "leave")
	Inspect = compose(1, 1, "", "inspect")
	Waiting = compose(2, 1, "", "waiting", "who")
)

// outOfMemoryToo is the first line of the scripts that run even while the server's memory is full,
// so that a held lease can be renewed and released. Scripts that make new leases fail with OOM
// (redis.io/docs/latest/develop/programmability/lua-api, "Script flags").
const outOfMemoryToo = "#!lua flags=allow-oom\n"

// Programs lists the scripts by rank.
var Programs []*Program

// compose puts a script together from files, the last of which defines the Lua function run. If a
// quick_*.lua follows that file, it handles the most common case, and run handles the other cases.
func compose(keys, args int, flags string, parts ...string) *Program {
	quick := ""
	if last := len(parts) - 1; strings.HasPrefix(path.Base(parts[last]), "quick_") {
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

// SourceOf returns a text with its SHA-1.
func SourceOf(text string) Source {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return Source{text, hex.EncodeToString(sum[:])}
}

// ForRun returns the scripts in the form loaded for one run of a server, by rank: see member in package node.
func ForRun(id string) []Source {
	sources := make([]Source, len(Programs))
	for i, p := range Programs {
		sources[i] = SourceOf(p.Text + "-- Run " + id + ".\n")
	}
	return sources
}
