package fencing

import (
	_ "embed"
	"fmt"
	"strings"
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
	redisAdvance = NewRedisScript("")
	redisSet     = NewRedisScript(setLua)
	redisDelete  = NewRedisScript(deleteLua)
)

// RedisScript is a Lua script with the check of a token in front of it, run by
// Redis as one: nothing gets in between. It is immutable and safe for
// concurrent use; make one per script, once, as its text is what Redis caches.
type RedisScript struct{ text string }

// NewRedisScript puts the check in front of a script. The script is written as
// if it stood alone: KEYS and ARGV are its own, from 1, without the fence's,
// and what it returns is what Redis.Run returns. Its line numbers in error
// messages are its own, and a first line "#!lua ..." stays the first.
//
// If the script fails half-way, what it had written stays, as in any script of
// Redis, and the token counts as seen.
func NewRedisScript(body string) *RedisScript {
	shebang := ""
	if strings.HasPrefix(body, "#!") {
		end := strings.IndexByte(body+"\n", '\n')
		// Redis takes the line off and leaves its end, for the line numbers' sake.
		shebang, body = body[:end]+"\n", strings.TrimPrefix(body[end:], "\n")
	}
	// A new line before "end": the last line may be a comment.
	return &RedisScript{text: shebang + "local body = function(KEYS, ARGV) " + body + "\nend\n" + fenceLua}
}

// Text returns the whole script, for those who load it beforehand.
func (s *RedisScript) Text() string { return s.text }

// redisResult reads what scripts/fence.lua returns.
func redisResult(fence string, token int64, reply any) (any, error) {
	list, _ := reply.([]any)
	if len(list) < 1 || len(list) > 2 {
		return nil, fmt.Errorf("fencing: redis script for %q: unexpected reply, a %T; does RedisEval return the reply as it is?", fence, reply)
	}
	seen, err := redisToken(list[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("fencing: redis script for %q: unexpected reply: %w", fence, err)
	case seen == token && len(list) == 2:
		return list[1], nil
	case seen == token:
		return nil, nil
	case seen > token && len(list) == 1:
		return nil, Check(fence, token, seen)
	}
	return nil, fmt.Errorf("fencing: redis script for %q: unexpected reply: the answer is for token %d, not for %d", fence, seen, token)
}

// redisToken takes a bulk string the way clients return it.
func redisToken(value any) (int64, error) {
	switch text := value.(type) {
	case string:
		return ParseToken(text)
	case []byte:
		return ParseToken(string(text))
	}
	return 0, fmt.Errorf("a token of type %T", value)
}
