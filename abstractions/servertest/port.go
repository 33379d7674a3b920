package servertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// Ports are below the range that systems use for outgoing connections (from
// 32768 on Linux, 49152 elsewhere), so that no client occupies the port of a
// server that is about to be restarted.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// claims holds the ports that FreePort has returned. FreePort never returns a port twice, since a
// stopped server keeps its port. A claim is also a listener on another address of this machine, so
// that other processes do not use the port. The claim ends with the process. On systems with only
// one such address (macOS) there is no listener.
var claims sync.Map // int → net.Listener or nil

// FreePort returns a port of 127.0.0.1 on which nothing listens, and reserves the port: while this
// process lives, FreePort does not return it to another process (except on macOS: see claims). A
// program that chooses its ports in another way may still take the port before the caller has used
// the port.
func FreePort(ctx context.Context) (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if _, again := claims.LoadOrStore(port, nil); !again && claim(ctx, port) && isFree(ctx, port) {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port")
}

func claim(ctx context.Context, port int) bool {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		return errors.Is(err, syscall.EADDRNOTAVAIL)
	}
	claims.Store(port, listener) // otherwise the garbage collector would close it
	return true
}

func isFree(ctx context.Context, port int) bool {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
