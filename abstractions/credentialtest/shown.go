package credentialtest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Shown collects a program's output, so that a test can check that it contains no secret. The zero value is empty. Its methods
// may be called concurrently.
type Shown struct {
	mu   sync.Mutex
	text strings.Builder
}

// Show formats values with the common fmt verbs, logs them and marshals them to JSON.
func (s *Shown) Show(values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	logger := slog.New(slog.NewJSONHandler(&s.text, nil))
	for _, value := range values {
		fmt.Fprintf(&s.text, "%v %+v %#v %s %q\n", value, value, value, value, value)
		logger.Info("opening", "value", value)
		if text, err := json.Marshal(value); err == nil {
			s.text.Write(text)
		}
	}
}

// String returns all the collected output.
func (s *Shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Hides fails the test if nothing was shown, or if a secret was shown.
func (s *Shown) Hides(t testing.TB, secrets ...string) {
	t.Helper()
	text := s.String()
	for _, secret := range secrets {
		if at := strings.Index(text, secret); at >= 0 || secret == "" {
			t.Errorf("%q is shown: ...%q", secret, text[max(0, at-300):max(0, at)])
		}
	}
	if text == "" {
		t.Error("nothing was shown")
	}
}
