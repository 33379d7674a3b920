package cosmoslease

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxRanges bounds how many session tokens are kept, one for each physical
// partition of the container. Without them reads may be a little older.
const maxRanges = 64

// sessions carries session tokens from replies to reads, so that with session
// consistency the provider sees what it, or whoever refused it, has written
// (learn.microsoft.com/azure/cosmos-db/nosql/how-to-manage-consistency, "Utilize
// session tokens"). azcosmos leaves that to its users.
//
// No promise rests on it: a stale read leads to a refused write at worst.
type sessions struct {
	mu     sync.Mutex
	tokens map[string]string // by partition key range
}

// keep takes over what a reply says: range:token, several separated by commas.
func (s *sessions) keep(header string) {
	if header == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range strings.SplitSeq(header, ",") {
		id, token, ok := strings.Cut(part, ":")
		if !ok || !newer(token, s.tokens[id]) {
			continue
		}
		if s.tokens == nil || len(s.tokens) >= maxRanges && s.tokens[id] == "" {
			s.tokens = map[string]string{}
		}
		s.tokens[id] = token
	}
}

// all are the tokens as a request carries them; nil if there are none.
func (s *sessions) all() *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) == 0 {
		return nil
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s.tokens)) {
		parts = append(parts, id+":"+s.tokens[id])
	}
	text := strings.Join(parts, ",")
	return &text
}

// drop forgets all tokens: the service can't honour them, since the container was
// created anew, or a region that failed took what they tell of with it.
func (s *sessions) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = nil
}

// newer compares two tokens of a range: version#globalLSN#... or an LSN alone.
// One that is not understood is taken for newer.
func newer(token, than string) bool {
	v, lsn, ok := parseToken(token)
	oldV, oldLSN, oldOK := parseToken(than)
	if !ok || !oldOK || v != oldV {
		return !ok || !oldOK || v > oldV
	}
	return lsn >= oldLSN
}

func parseToken(token string) (version, lsn int64, ok bool) {
	first, rest, several := strings.Cut(token, "#")
	n, err := strconv.ParseInt(first, 10, 64)
	if !several {
		return 0, n, err == nil
	}
	second, _, _ := strings.Cut(rest, "#")
	m, err2 := strconv.ParseInt(second, 10, 64)
	return n, m, err == nil && err2 == nil
}
