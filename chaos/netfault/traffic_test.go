package netfault_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos/netfault"
)

func TestPartitionKeepsWhatAClientSentBeforeItGaveUp(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	proxy, err := netfault.Start(server.Addr().String())
	require.NoError(t, err)
	defer proxy.Close()
	client, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	at, err := server.Accept()
	require.NoError(t, err)
	defer at.Close()
	require.NoError(t, proxy.Set(netfault.Conditions{Partitioned: true}))
	_, err = client.Write([]byte("late"))
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, client.Close()) // a client whose request has timed out drops the connection
	_ = at.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	_, err = at.Read(make([]byte, 10))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "no FIN gets through a cut")
	require.NoError(t, proxy.Heal())
	_ = at.SetReadDeadline(time.Now().Add(time.Second))
	text, _ := io.ReadAll(at)
	assert.Equal(t, "late", string(text), "arrives late, as TCP sends it again")
}

// writing writes to a connection until stop is closed or a write fails, and then closes gone.
func writing(c net.Conn, stop <-chan struct{}) (gone <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for chunk := make([]byte, 4096); ; {
			select {
			case <-stop:
				return
			default:
			}
			_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := c.Write(chunk); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
		}
	}()
	return ended
}

func TestHalfOpenConnectionIsNotClosedUnderTraffic(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	proxy, err := netfault.Start(server.Addr().String())
	require.NoError(t, err)
	defer proxy.Close()
	for range 60 {
		client, err := net.Dial("tcp", proxy.Addr())
		require.NoError(t, err)
		stop := make(chan struct{})
		gone := writing(client, stop)
		time.Sleep(5 * time.Millisecond)
		proxy.HalfOpen()
		_ = client.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		close(stop)
		<-gone
		require.NoError(t, client.Close())
	}
}
