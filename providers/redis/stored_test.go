package redislease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// stored is the text of a name in parts: see scripts/prelude.lua. The zero value is that of
// a name that is not known.
type stored struct {
	flag, state string
	till        int64 // ms
	token       int64
	id          string
	details     string
	ended       string // words
	content     string // the lines after that
}

func parseStored(t testing.TB, text string) stored {
	t.Helper()
	require.Greater(t, len(text), headLength, text)
	require.Equal(t, "1", text[:1])
	lines := strings.SplitN(text[headLength:], "\n", 3)
	require.Len(t, lines, 3, text)
	ended, content, _ := strings.Cut(lines[2], "\n")
	s := stored{flag: text[1:2], state: text[16:17], id: lines[0], details: lines[1], ended: strings.TrimSpace(ended), content: content}
	var err error
	s.till, err = strconv.ParseInt(text[2:15], 10, 64)
	require.NoError(t, err)
	s.token, err = strconv.ParseInt(text[17:33], 10, 64)
	require.NoError(t, err)
	return s
}

// free is a name that has had tokens up to this one.
func free(token int64, ended ...string) stored {
	return stored{flag: "-", state: "F", token: token, ended: strings.Join(ended, " ")}
}

// reserved is a free name that is kept for a waiter.
func reserved(token int64, till time.Time, id string, ended ...string) stored {
	s := free(token, ended...)
	s.state, s.till, s.id = "R", till.UnixMilli(), id
	return s
}

// voted is what a node of Redlock has of a claim: see scripts/ballot.lua.
func voted(token int64, id string, promise, made, won, before int64) stored {
	return stored{
		flag: "-", state: "H", till: time.Now().Add(time.Minute).UnixMilli(), token: token, id: id,
		details: fmt.Sprintf("60000 1 %d %d %d %s 0 %s", promise, made, won, tokenText(before), tokenText(token)), content: "me\n",
	}
}

func (s stored) String() string {
	ended := " "
	for _, word := range strings.Fields(s.ended) {
		ended += word + " "
	}
	text := fmt.Sprintf("1%s%013d %s%s %s\n%s\n%s", s.flag, s.till, s.state, tokenText(s.token), s.id, s.details, ended)
	if s.details != "" {
		text += "\n" + s.content
	}
	return text
}

// held says whether somebody holds the name.
func (s stored) held() bool {
	return (s.state == "H" || s.state == "B") && s.till > time.Now().UnixMilli()
}

// left is the time that the lease has: Infinite, or 0 if nobody holds the name.
func (s stored) left() time.Duration {
	switch {
	case !s.held():
		return 0
	case fmt.Sprint(s.till) == forever:
		return abstractions.Infinite
	}
	return time.Until(time.UnixMilli(s.till))
}

// look reads a name; the zero value if it is not known.
func look(t testing.TB, c redis.Cmdable, key string) stored {
	t.Helper()
	text, err := c.Get(context.Background(), key).Result()
	if errors.Is(err, redis.Nil) {
		return stored{}
	}
	require.NoError(t, err)
	return parseStored(t, text)
}

// put writes a name, which is kept for as long as it was or for an hour.
func put(t testing.TB, c redis.Cmdable, key string, s stored) {
	t.Helper()
	keep := c.PTTL(context.Background(), key).Val()
	if keep < 0 {
		keep = time.Hour
	}
	require.NoError(t, c.Set(context.Background(), key, s.String(), keep).Err())
}

// drop has a server lose a lease, and nothing else of the name.
func drop(t testing.TB, c redis.Cmdable, key string) {
	t.Helper()
	if s := look(t, c, key); s.held() {
		s.state, s.till, s.id, s.details, s.content = "F", 0, "", "", ""
		put(t, c, key, s)
	}
}
