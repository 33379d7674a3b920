package redistest

import (
	"fmt"
	"strings"
)

// Options says what a server is like. The zero value is a server without
// password that forgets everything when it ends.
type Options struct {
	// Args go to redis-server after everything else, such as "--maxmemory",
	// "1mb"; see its redis.conf.
	Args []string
	// Password is what the default user has to give. Empty: nothing.
	Password string
	// Users are further users, each in the words of Redis' ACL, name first:
	// "reader on >secret ~lease:* +@read". A line for default replaces what
	// Password says.
	Users []string
	// TLS makes the server speak nothing but TLS, with a certificate for
	// 127.0.0.1; see [Server.TLSConfig].
	TLS bool
	// Persist makes the server keep what it has acknowledged, with an fsync
	// before each reply: it is there again after Kill and Restart.
	Persist bool
}

// harness is the user by whom this package looks after its servers, whatever
// the test does to the default user.
const harness = "redistest"

// configuration is the file that redis-server reads: nothing that is secret
// shows in the list of processes.
func (s *Server) configuration() string {
	lines := []string{
		"bind 127.0.0.1",
		"protected-mode yes",
		"daemonize no",
		`logfile ""`,
		"dir " + quoted(s.Dir),
		"user " + harness + " on >" + s.secret + " ~* &* +@all",
	}
	if s.options.Password != "" {
		lines = append(lines, "requirepass "+quoted(s.options.Password))
	}
	for _, user := range s.options.Users {
		lines = append(lines, "user "+user)
	}
	if s.node {
		lines = append(lines, "cluster-enabled yes", fmt.Sprintf("cluster-port %d", s.bus))
	}
	return strings.Join(append(lines, s.role...), "\n") + "\n"
}

// roleOf are the lines that a server has and a sentinel hasn't. A master begins
// to copy to a replica at once; by default it waits five seconds for others.
func roleOf(o Options) []string {
	lines := []string{`save ""`, "repl-diskless-sync-delay 0"}
	if !o.Persist {
		return append(lines, "appendonly no")
	}
	return append(lines, "appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0")
}

// quoted is a string as redis.conf takes it.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(text) + `"`
}
