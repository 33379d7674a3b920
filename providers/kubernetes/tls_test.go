package kuberneteslease

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// fakeAPI is the part of an API server that a lease needs. It accepts requests with its token.
type fakeAPI struct {
	mu     sync.Mutex
	token  string
	number int
	leases map[string]map[string]any
}

func (i *fakeAPI) trust(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token = token
}

func (i *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer "+i.token {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	name := path.Base(r.URL.Path)
	answer := i.leases[name]
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		var sent map[string]any
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		meta := sent["metadata"].(map[string]any)
		if before, _ := i.leases[meta["name"].(string)]["metadata"].(map[string]any); before["resourceVersion"] != meta["resourceVersion"] {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(statusAnswer(http.StatusConflict, "leases")))
			return
		}
		i.number++
		meta["resourceVersion"], meta["uid"] = strconv.Itoa(i.number), "uid"
		meta["managedFields"] = []map[string]any{{"manager": manager, "time": time.Now().UTC().Format(time.RFC3339)}}
		i.leases[meta["name"].(string)], answer = sent, sent
	}
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notFoundAnswer))
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// T122: connections use the newest ca.crt of a pod, and an unreadable or empty token is not sent
// to the server.
func TestTrap_T122_FilesAreReadAgain(t *testing.T) {
	file, server := filepath.Join(t.TempDir(), "token"), &fakeAPI{leases: map[string]map[string]any{}}
	write := func(text string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	turn := func(text string) {
		write(text + "\n")
		server.trust(text)
	}
	turn("token-1")
	plain := httptest.NewServer(server)
	t.Cleanup(plain.Close)
	credentialtest.OutlivesNewAuthority(t, plain.Listener.Addr().String(), "http/1.1", func(addr string, files servertest.Pair) abstractions.Provider {
		p := open(t, Options{
			Address: "https://" + addr, Namespace: "default", CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key, TokenFile: file,
		})
		credentialtest.OutlivesRotation(t, p, func() { turn("token-2") })
		credentialtest.OutlivesRotation(t, p, func() { write("") })
		credentialtest.OutlivesRotation(t, p, func() { require.NoError(t, os.Remove(file)) })
		turn("token-3")
		return p
	})
}
