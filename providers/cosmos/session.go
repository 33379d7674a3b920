package cosmoslease

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
)

// maxRanges bounds the number of session tokens, one for each physical partition of the
// container. Without these tokens, reads may return slightly older data.
const maxRanges = 64

// sessions copies session tokens from replies to later reads. With session
// consistency, the provider then reads its own writes, and the writes of others that
// caused conflicts
// (learn.microsoft.com/azure/cosmos-db/nosql/how-to-manage-consistency, "Utilize
// session tokens"). azcosmos leaves this to the application.
//
// No promise depends on session tokens: at worst, a stale read leads to a refused write.
type sessions struct {
	mu     sync.Mutex
	tokens map[string]string // by partition key range
}

// add stores the session tokens of a reply, which have the form range:token and are separated by commas.
func (s *sessions) add(header string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range strings.SplitSeq(header, ",") {
		id, token, ok := strings.Cut(part, ":")
		known := s.tokens[id]
		if !ok || known != "" && isOlder(token, known) {
			continue
		}
		if s.tokens == nil || len(s.tokens) >= maxRanges && known == "" {
			s.tokens = map[string]string{}
		}
		s.tokens[id] = token
	}
}

// header returns the tokens in the form of a request header, or nil.
func (s *sessions) header() *string {
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

// drop forgets all tokens when the service can't honour them: the container was created
// again, or a failed region has lost the writes of these tokens.
func (s *sessions) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = nil
}

// isOlder compares two tokens of a range: version#globalLSN#... or only an LSN.
func isOlder(token, than string) bool {
	version, lsn := parseToken(token)
	thanVersion, thanLSN := parseToken(than)
	return cmp.Or(cmp.Compare(version, thanVersion), cmp.Compare(lsn, thanLSN)) < 0
}

func parseToken(token string) (version, lsn int64) {
	parts := strings.Split(token, "#")
	if len(parts) == 1 {
		parts = []string{"", token}
	}
	version, _ = strconv.ParseInt(parts[0], 10, 64)
	lsn, _ = strconv.ParseInt(parts[1], 10, 64)
	return version, lsn
}
