package redistest

import (
	"fmt"
	"strings"
)

// Options describe a server. The zero value is a server without a password, which loses
// its data when it ends.
type Options struct {
	// Args are the last arguments of redis-server, such as "--maxmemory",
	// "1mb"; see its redis.conf.
	Args []string
	// Password is the default user's password. Empty: no password.
	Password string
	// Users are further users, each in the syntax of Redis' ACL, name first: "reader on
	// >secret ~lease:* +@read". A line for the user default replaces Password.
	Users []string
	// TLS makes the server accept only TLS, with a certificate for
	// 127.0.0.1; see [Server.TLSConfig].
	TLS bool
	// Persist makes the server keep all acknowledged writes, with an fsync
	// before each reply: they are back after Kill and Restart.
	Persist bool
}

// harness is the user with which this package manages its servers, whatever
// the test does to the default user.
const harness = "redistest"

// configuration returns the file that redis-server reads, so that no secret appears in
// the list of processes.
func (s *Server) configuration() string {
	lines := []string{
		"bind 127.0.0.1",
		"protected-mode yes",
		"daemonize no",
		`logfile ""`,
		"dir " + quote(s.Dir),
		"user " + harness + " on >" + s.secret + " ~* &* +@all",
	}
	if s.options.Password != "" {
		lines = append(lines, "requirepass "+quote(s.options.Password))
	}
	for _, user := range s.options.Users {
		lines = append(lines, "user "+user)
	}
	if s.node {
		lines = append(lines, "cluster-enabled yes", fmt.Sprintf("cluster-port %d", s.bus))
	}
	return strings.Join(append(lines, s.role...), "\n") + "\n"
}

// roleOf returns the lines for a server that is not a sentinel. A master begins to copy to
// a replica at once; by default it waits five seconds for other replicas.
func roleOf(o Options) []string {
	lines := []string{`save ""`, "repl-diskless-sync-delay 0"}
	if !o.Persist {
		return append(lines, "appendonly no")
	}
	return append(lines, "appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0")
}

// quote returns a string in the syntax of redis.conf.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(text) + `"`
}
