package cosmoslease

import (
	"cmp"
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range strings.SplitSeq(header, ",") {
		id, token, ok := strings.Cut(part, ":")
		known := s.tokens[id]
		if !ok || known != "" && older(token, known) {
			continue
		}
		if s.tokens == nil || len(s.tokens) >= maxRanges && known == "" {
			s.tokens = map[string]string{}
		}
		s.tokens[id] = token
	}
}

// all are the tokens as a request carries them; nil if there are none.
func (s *sessions) all() *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	for id, token := range s.tokens {
		parts = append(parts, id+":"+token)
	}
	if parts == nil {
		return nil
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

// older compares two tokens of a range: version#globalLSN#... or an LSN alone.
func older(token, than string) bool {
	version, lsn := numbers(token)
	thanVersion, thanLSN := numbers(than)
	return cmp.Or(cmp.Compare(version, thanVersion), cmp.Compare(lsn, thanLSN)) < 0
}

func numbers(token string) (version, lsn int64) {
	parts := strings.Split(token, "#")
	if len(parts) == 1 {
		parts = []string{"", token}
	}
	version, _ = strconv.ParseInt(parts[0], 10, 64)
	lsn, _ = strconv.ParseInt(parts[1], 10, 64)
	return version, lsn
}
