package redislease

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
)

// serveRedirects serves connections like a Redis server that directs clients to other hosts: a member of a
// Cluster, a sentinel that names a master and another sentinel, and a server that announces a move.
func serveRedirects(master, other string) func(net.Conn) {
	split := func(addr string) (host, port string) { host, port, _ = net.SplitHostPort(addr); return host, port }
	text := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	masterHost, masterPort := split(master)
	otherHost, otherPort := split(other)
	return func(conn net.Conn) {
		requests := bufio.NewReader(conn)
		for {
			words, err := readRequest(requests)
			if err != nil {
				return
			}
			var answer string
			switch command := strings.ToLower(strings.Join(words[:min(2, len(words))], " ")); {
			case strings.HasPrefix(command, "hello"):
				answer = "%1\r\n+proto\r\n:3\r\n"
			case strings.HasPrefix(command, "auth"), strings.HasPrefix(command, "client"), strings.HasPrefix(command, "select"), strings.HasPrefix(command, "readonly"):
				answer = "+OK\r\n"
			case command == "sentinel get-master-addr-by-name":
				answer = "*2\r\n" + text(masterHost) + text(masterPort)
			case command == "sentinel sentinels":
				answer = "*1\r\n*6\r\n" + text("name") + text("s2") + text("ip") + text(otherHost) + text("port") + text(otherPort)
			case command == "cluster slots":
				answer = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n" + text(otherHost) + ":" + otherPort + "\r\n"
			case strings.HasSuffix(command, "subscribe"), strings.HasPrefix(command, "subscribe "):
				answer = ">3\r\n" + text("subscribe") + text(words[1]) + ":1\r\n"
			default:
				answer = fmt.Sprintf(">4\r\n+MOVING\r\n:1\r\n:1\r\n%s-MOVED 1 %s\r\n", text(other), other)
			}
			if _, err = io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

// readRequest reads an array of strings.
func readRequest(from *bufio.Reader) (words []string, err error) {
	number := func(mark string) (n int, err error) {
		line, err := from.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(line), mark))
	}
	n, err := number("*")
	for range n {
		var length int
		if length, err = number("$"); err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err = io.ReadFull(from, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:length]))
	}
	if err == nil && len(words) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return words, err
}

// T118: passwords go only to the hosts of the URL, and to hosts that these name by the protocol: a Cluster's
// members name each other, and sentinels name the master and each other. A password of Redis never goes to a sentinel, and
// a password of sentinels never goes to a master.
func TestTrap_T118_PasswordsGoToTheirHosts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query         string
		hosts         int
		sentinel      string   // the password of sentinels
		named, master []string // the passwords sent to a host that an answer names, and to the sentinels' master
		credentials   auth.StreamingCredentialsProvider
	}{
		"single":                {hosts: 1},
		"single, Credentials":   {hosts: 1, credentials: signIn{password: "s3cret"}},
		"redlock":               {hosts: 3, query: "?mode=redlock"},
		"redlock, Credentials":  {hosts: 3, query: "?mode=redlock", credentials: signIn{password: "s3cret"}},
		"sentinel":              {hosts: 1, query: "?master=m", sentinel: "s3ntinel", named: []string{"s3ntinel"}, master: []string{"s3cret"}},
		"sentinel, Credentials": {hosts: 1, query: "?master=m", sentinel: "s3ntinel", named: []string{"s3ntinel"}, master: []string{"s3cret"}, credentials: signIn{password: "s3cret"}},
		"cluster":               {hosts: 1, query: "?mode=cluster", named: []string{"s3cret"}},
		"cluster, Credentials":  {hosts: 1, query: "?mode=cluster", named: []string{"s3cret"}, credentials: signIn{password: "s3cret"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own, master, named, beyond credentialtest.Recorder
			last := beyond.Listen(t, nil)
			to := named.Listen(t, serveRedirects(last, last))
			masterAt := master.Listen(t, serveRedirects(to, to))
			hosts := make([]string, test.hosts)
			for i := range hosts {
				hosts[i] = own.Listen(t, serveRedirects(masterAt, to))
			}
			user := ":s3cret@"
			if test.credentials != nil {
				user = ""
			}
			s := new(credentialtest.Shown)
			p, err := Open(t.Context(), Options{URL: "redis://" + user + strings.Join(hosts, ",") + test.query, SentinelPassword: test.sentinel, Credentials: test.credentials, Timeout: 300 * time.Millisecond})
			require.NoError(t, err)
			calls := everyCall(p)
			delete(calls, "wait")
			for verb, call := range calls {
				err := call(t.Context())
				require.Error(t, err, verb)
				require.NotErrorIs(t, err, abstractions.ErrLost, verb)
				s.Show(err)
			}
			require.NoError(t, p.Close())
			s.Hides(t, "s3cret", "s3ntinel")
			sent := func(r *credentialtest.Recorder) (has []string) {
				for _, secret := range []string{"s3cret", "s3ntinel"} {
					if strings.Contains(r.String(), secret) {
						has = append(has, secret)
					}
				}
				return has
			}
			require.Equal(t, test.master, sent(&master))
			if test.sentinel != "" {
				require.Equal(t, []string{"s3ntinel"}, sent(&own))
			} else {
				require.Equal(t, []string{"s3cret"}, sent(&own))
			}
			require.True(t, sent(&named) == nil || slices.Equal(test.named, sent(&named)), sent(&named))
			if test.named == nil {
				require.Empty(t, named.String())
			}
			if !strings.HasPrefix(name, "cluster") {
				require.Empty(t, beyond.String())
			}
		})
	}
}
