package redistest

import (
	"context"
	"crypto/sha1" //nolint:gosec // the scripts use it
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// Stored has the parts of the record of a name: see prelude.lua of package script. The
// zero value is a name without a record.
type Stored struct {
	Flag, State string
	Till        int64 // ms
	Token       int64
	ID          string
	Details     string
	Ended       string // words: digests, with "!" after those of broken IDs; String also accepts IDs
	Content     string // the remaining lines
}

// forever is the expiry of an infinite lease.
const forever = 9999999999999

// ReadStored reads the record of a name.
func ReadStored(t testing.TB, c redis.Cmdable, key string) (s Stored) {
	t.Helper()
	text, err := c.Get(context.Background(), key).Result()
	if errors.Is(err, redis.Nil) {
		return s
	}
	lines := strings.SplitN(text, "\n", 4)
	if err != nil || len(lines) < 3 || len(lines[0]) < 34 || text[0] != 'A' {
		t.Fatalf("%s has %q, %v", key, text, err)
	}
	head := lines[0]
	s = Stored{Flag: head[1:2], State: head[16:17], ID: head[34:], Details: lines[1], Ended: endedIDs(lines[2]), Content: strings.Join(lines[3:], "")}
	var bad error
	s.Till, err = strconv.ParseInt(head[2:15], 10, 64)
	s.Token, bad = strconv.ParseInt(head[17:33], 10, 64)
	if err = errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	return s
}

// WriteStored writes the record of a name, and keeps the expiry of its key, or sets one hour if the key has no expiry.
func WriteStored(t testing.TB, c redis.Cmdable, key string, s Stored) {
	t.Helper()
	keep := c.PTTL(context.Background(), key).Val()
	if keep < 0 {
		keep = time.Hour
	}
	if err := c.Set(context.Background(), key, s.String(), keep).Err(); err != nil {
		t.Fatal(err)
	}
}

// DropLease makes a server lose a lease, but no other data of the name.
func DropLease(t testing.TB, c redis.Cmdable, key string) {
	t.Helper()
	if s := ReadStored(t, c, key); s.Held() {
		s.State, s.Till, s.ID, s.Details, s.Content = "F", 0, "", "", ""
		WriteStored(t, c, key, s)
	}
}

// Free returns the record of a free name whose latest token is token.
func Free(token int64, ended ...string) Stored {
	return Stored{Flag: "-", State: "F", Token: token, Ended: strings.Join(ended, " ")}
}

// Reserved returns the record of a free name that is reserved for a waiter.
func Reserved(token int64, till time.Time, id string, ended ...string) Stored {
	s := Free(token, ended...)
	s.State, s.Till, s.ID = "R", till.UnixMilli(), id
	return s
}

// Voted returns a node's record of a claim with Redlock: see ballot.lua of package script.
func Voted(token int64, id string, promise, made, before int64) Stored {
	return Stored{
		Flag: "-", State: "H", Till: time.Now().Add(time.Minute).UnixMilli(), Token: token, ID: id,
		Details: fmt.Sprintf("60000 1 %d %d %016d %016d", promise, made, before, token), Content: "me\n",
	}
}

func (s Stored) String() string {
	text := fmt.Sprintf("A%s%013d %s%016d %s\n%s\n", s.Flag, s.Till, s.State, s.Token, s.ID, s.Details)
	for word := range strings.FieldsSeq(s.Ended) {
		id, broken := strings.CutSuffix(word, "!")
		if len(id) != digestLength {
			id = Digest(id)
		}
		if broken {
			text += "!" + id
		} else {
			text += " " + id
		}
	}
	if s.Details != "" {
		text += "\n" + s.Content
	}
	return text
}

// digestLength is the number of hexadecimal digits of a digest.
const digestLength = 14

// Digest returns the stored form of an ended ID.
func Digest(id string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(id)))[:digestLength] } //nolint:gosec // the scripts use it

// endedIDs returns the words of a line of digests.
func endedIDs(line string) string {
	var words []string
	for ; len(line) > digestLength; line = line[digestLength+1:] {
		word := line[1 : digestLength+1]
		if line[0] == '!' {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// Held reports whether the name is held.
func (s Stored) Held() bool {
	return (s.State == "H" || s.State == "B") && s.Till > time.Now().UnixMilli()
}

// Left returns the remaining time of the lease, which may be Infinite, or 0 if the name is free.
func (s Stored) Left() time.Duration {
	switch {
	case !s.Held():
		return 0
	case s.Till == forever:
		return abstractions.Infinite
	}
	return time.Until(time.UnixMilli(s.Till))
}
