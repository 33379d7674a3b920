package redisfence

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

var (
	//go:embed scripts/fence.lua
	fenceLua string
	//go:embed scripts/set.lua
	setLua string
	//go:embed scripts/delete.lua
	deleteLua string
)

var (
	advance = NewScript("")
	set     = NewScript(setLua)
	del     = NewScript(deleteLua)
)

// Script is a Lua script whose body runs only after the check of a token.
// Redis runs check and body as one script, without other commands in between.
// It is immutable and safe for concurrent use. Make each Script once, since
// Redis caches a script by its text.
type Script struct{ text string }

// NewScript puts the check in front of a script. Write the script as if it
// stood alone: KEYS and ARGV are its own, numbered from 1, without the fence's
// key and arguments, and Fence.Run returns its result. Line numbers in error
// messages are those of the script, and a first line "#!lua ..." remains the
// first line.
//
// If the script fails half-way, its writes stay, as with any Redis script, and the token counts as
// seen.
func NewScript(body string) *Script {
	shebang := ""
	if strings.HasPrefix(body, "#!") {
		// Redis removes the line "#!..." but keeps its line break, to preserve the line numbers.
		shebang, body, _ = strings.Cut(body, "\n")
		shebang += "\n"
	}
	// "end" needs a line of its own, because the last line of the body may be a comment.
	return &Script{text: shebang + "local body = function(KEYS, ARGV) " + body + "\nend\n" + fenceLua}
}

// Text returns the whole script, for example to load it in advance.
func (s *Script) Text() string { return s.text }

// result reads the reply of scripts/fence.lua.
func result(fence string, token int64, reply any) (any, error) {
	list, _ := reply.([]any)
	if len(list) < 1 || len(list) > 2 {
		return nil, fmt.Errorf("redisfence: script for %q: unexpected reply, a %T; does Eval return the reply as it is?", fence, reply)
	}
	if len(list) == 1 && fmt.Sprintf("%s", list[0]) == "" {
		return nil, &leasing.InvalidError{Field: "fence", Value: fence, Want: "a key of its own: this key holds something other than a fencing token"}
	}
	seen, err := parseToken(list[0])
	switch {
	case err != nil: // not %w: the script may have run
		return nil, fmt.Errorf("redisfence: script for %q: unexpected reply: %v", fence, err)
	case seen == token && len(list) == 2:
		return list[1], nil
	case seen == token:
		return nil, nil
	case seen > token && len(list) == 1:
		return nil, fencing.Check(fence, token, seen)
	}
	return nil, fmt.Errorf("redisfence: script for %q: unexpected reply: the answer is for token %d, not for %d", fence, seen, token)
}

// parseToken parses a bulk string in each form that clients return.
func parseToken(value any) (int64, error) {
	switch text := value.(type) {
	case string:
		return fencing.ParseToken(text)
	case []byte:
		return fencing.ParseToken(string(text))
	}
	return 0, fmt.Errorf("a token of type %T", value)
}
