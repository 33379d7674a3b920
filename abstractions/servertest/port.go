package servertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below those that systems give to outgoing connections
// (from 32768 on Linux, 49152 elsewhere), so that no client of anybody sits on
// the port of a server that is about to be restarted.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// tried are the ports that were handed out, or were somebody's: each is handed out once,
// since a server that is down keeps its own.
var tried sync.Map

// FreePort is a loopback port on which nobody listens. Another process may
// still be faster to take it.
func FreePort(ctx context.Context) (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if _, again := tried.LoadOrStore(port, true); !again && vacant(ctx, port) {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port")
}

func vacant(ctx context.Context, port int) bool {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
