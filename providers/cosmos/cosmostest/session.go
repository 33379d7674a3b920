package cosmostest

import (
	"fmt"
	"strconv"
	"strings"
)

// rangeID is of the only partition that a container has here.
const rangeID = "0"

// inSession adds the session token, which has the form that the gateway gives it:
// range:version#globalLSN.
func (c *call) inSession(r reply) reply {
	r.header.Set("x-ms-session-token", fmt.Sprintf("%s:-1#%d", rangeID, c.account.lsn))
	return r
}

// sessionLSN is what the request says that it has seen. Tokens of several ranges
// are separated by commas.
func (c *call) sessionLSN() int64 {
	for token := range strings.SplitSeq(c.r.Header.Get("x-ms-session-token"), ",") {
		id, rest, _ := strings.Cut(token, ":")
		if id != rangeID {
			continue
		}
		_, lsn, _ := strings.Cut(rest, "#")
		if n, err := strconv.ParseInt(lsn, 10, 64); err == nil {
			return n
		}
	}
	return 0
}
