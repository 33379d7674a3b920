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

// Script is a Lua script with the check of a token in front of it, run by
// Redis as one: nothing gets in between. It is immutable and safe for
// concurrent use; make one per script, once, as its text is what Redis caches.
type Script struct{ text string }

// NewScript puts the check in front of a script. The script is written as
// if it stood alone: KEYS and ARGV are its own, from 1, without the fence's,
// and Fence.Run returns its result. Its line numbers in error
// messages are its own, and a first line "#!lua ..." stays the first.
//
// If the script fails half-way, its writes stay, as those of any script of
// Redis, and the token counts as seen.
func NewScript(body string) *Script {
	shebang := ""
	if strings.HasPrefix(body, "#!") {
		// Redis takes the line off and leaves its end, for the line numbers' sake.
		shebang, body, _ = strings.Cut(body, "\n")
		shebang += "\n"
	}
	// A new line before "end": the last line may be a comment.
	return &Script{text: shebang + "local body = function(KEYS, ARGV) " + body + "\nend\n" + fenceLua}
}

// Text returns the whole script, for those who load it beforehand.
func (s *Script) Text() string { return s.text }

// result reads what scripts/fence.lua returns.
func result(fence string, token int64, reply any) (any, error) {
	list, _ := reply.([]any)
	if len(list) < 1 || len(list) > 2 {
		return nil, fmt.Errorf("redisfence: script for %q: unexpected reply, a %T; does Eval return the reply as it is?", fence, reply)
	}
	if len(list) == 1 && fmt.Sprintf("%s", list[0]) == "" {
		return nil, &leasing.InvalidError{Field: "fence", Value: fence, Want: "a key of its own: this one holds something else than a fencing token"}
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

// parseToken takes a bulk string the way clients return it.
func parseToken(value any) (int64, error) {
	switch text := value.(type) {
	case string:
		return fencing.ParseToken(text)
	case []byte:
		return fencing.ParseToken(string(text))
	}
	return 0, fmt.Errorf("a token of type %T", value)
}
