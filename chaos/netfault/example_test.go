package netfault_test

import (
	"fmt"
	"net"
	"time"

	"github.com/distributedleasing/leasing/chaos/netfault"
)

// A client connects to a server through a proxy, which then resets the connection.
func Example() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	proxy, err := netfault.Start(server.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	client, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for proxy.Connections() == 0 { // until the proxy has connected to the server, too
		time.Sleep(time.Millisecond)
	}
	fmt.Println("connected")

	proxy.Reset()
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := client.Read(make([]byte, 1)); err != nil {
		fmt.Println("and not any more")
	}
	// Output:
	// connected
	// and not any more
}
