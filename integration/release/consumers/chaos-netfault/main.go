// The first program of a user of chaos/netfault: a server, and a network that
// loses its replies. It prints what a client sees of each.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/distributedleasing/leasing/chaos/netfault"
)

func main() {
	applied := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { applied <- r.URL.Path }))
	defer server.Close()
	proxy, err := netfault.Start(server.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("good network:", ask(proxy, "/first"), <-applied)
	if err := proxy.Set(netfault.Conditions{RepliesLost: true}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reply lost:", ask(proxy, "/second"), <-applied)
	if err := proxy.Close(); err != nil {
		log.Fatal(err)
	}
}

// ask returns what the client is told.
func ask(proxy *netfault.Proxy, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxy.Addr()+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
