package authtest

import (
	_ "embed"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/auth"
)

//go:embed az.sh
var az string

// Development returns options of mode Development, and puts a program named az at the head of PATH.
// It sets environment variables of the test.
func (s *Server) Development() auth.Options {
	s.t.Helper()
	dir := s.t.TempDir()
	script := strings.NewReplacer("@TENANT@", TenantID, "@CLIENT@", ClientID, "@OBJECT@", s.object).Replace(az)
	if err := os.WriteFile(filepath.Join(dir, "az"), []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		s.t.Fatalf("authtest: %v", err)
	}
	s.t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range auth.EnvironmentVariables() {
		s.t.Setenv(name, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.azDir = dir
	s.configureAz()
	return auth.Options{Mode: auth.Development}
}

// configureAz writes the files that the program reads. Caller holds mu.
func (s *Server) configureAz() {
	if s.azDir == "" {
		return
	}
	failure := ""
	if s.status != 0 {
		failure = "ERROR: " + http.StatusText(s.status) + ". Please run 'az login' to setup account.\n"
	}
	s.write(filepath.Join(s.azDir, "lifetime"), strconv.Itoa(int(s.lifetime/time.Second))+"\n")
	s.write(filepath.Join(s.azDir, "failure"), failure)
}

// azLines reads a file that the program wrote. Caller holds mu.
func (s *Server) azLines(name string) []string {
	if s.azDir == "" {
		return nil
	}
	data, _ := os.ReadFile(filepath.Join(s.azDir, name)) // missing until the program has run
	return strings.Fields(string(data))
}
