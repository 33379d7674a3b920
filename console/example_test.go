package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// The console is mounted in the server of an application. Each request needs a token.
func ExampleNew() {
	provider := memlease.New(memlease.Options{})
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(context.Background())
	access, err := console.Token("a secret of 16 bytes or more")
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := console.New(manager, console.Options{Provider: provider, Hosts: []string{"ops.example.com"}, Access: access})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/leases/", http.StripPrefix("/leases", page))

	for _, password := range []string{"guessed", "a secret of 16 bytes or more"} {
		request := httptest.NewRequest(http.MethodGet, "http://ops.example.com/leases/", nil)
		request.SetBasicAuth("ann", password)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code, http.StatusText(answer.Code))
	}
	// Output:
	// 401 Unauthorized
	// 200 OK
}
