package waitqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

const (
	// heartbeat is how long a subscription may be silent before it is asked
	// whether it lives, and again until the answer must have come.
	heartbeat = 10 * time.Second
	// minReconnect and maxReconnect bound the jittered, doubling pause after a
	// subscription has failed.
	minReconnect, maxReconnect = 50 * time.Millisecond, 2 * time.Second
)

// subscription is the one channel on which a process listens. It begins with the
// first who waits, and is made again whenever it fails, until close.
type subscription struct {
	client    redis.UniversalClient
	channel   string
	message   func(text string)
	renewed   func()        // it listens, and may have missed messages before
	heartbeat time.Duration // how long it may be silent

	live atomic.Bool // it listens

	mu      sync.Mutex
	pubsub  *redis.PubSub
	ready   chan struct{} // closed once it listens, or may not; a new one when it fails
	denied  error         // Redis' answer, if this user may not listen
	started bool
	ctx     context.Context // ends with close
	end     context.CancelFunc
	done    sync.WaitGroup
}

// Listen begins to listen if that has not begun, and waits until it listens, or
// for as long as a silent server may take to be noticed.
func (s *subscription) Listen(ctx context.Context) error {
	if s.live.Load() {
		return nil
	}
	s.mu.Lock()
	ready, no := s.ready, s.denied
	if !s.started && s.ctx.Err() == nil {
		s.started = true
		s.done.Go(s.run)
	}
	s.mu.Unlock()
	if no != nil {
		return no
	}
	ctx, cancel := context.WithTimeout(ctx, s.heartbeat)
	defer cancel()
	select {
	case <-ready:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.denied
	case <-s.ctx.Done():
		return abstractions.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: no subscription to wake-ups yet: %w", abstractions.ErrUnavailable, ctx.Err())
	}
}

// run listens until close.
func (s *subscription) run() {
	pause := minReconnect
	for {
		if s.listen() {
			pause = minReconnect
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxReconnect)
	}
}

// listen subscribes and delivers messages until that fails. It reports whether
// it had listened.
func (s *subscription) listen() (listened bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.heartbeat)
	pubsub := s.client.Subscribe(ctx, s.channel)
	cancel()
	defer func() { _ = pubsub.Close() }() // a second time, after close
	if !s.open(pubsub) {
		return false
	}
	defer s.failed()
	asked := false // whether it lives
	for {
		received, err := pubsub.ReceiveTimeout(context.Background(), s.heartbeat)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
		case errors.As(err, &timeout) && timeout.Timeout() && !asked && listened:
			asked = true
			if pubsub.Ping(context.Background()) != nil {
				return listened
			}
			continue
		default:
			s.refused(err)
			return listened
		}
		switch m := received.(type) {
		case *redis.Subscription:
			listened = true
			s.listens()
		case *redis.Message:
			s.message(m.Payload)
		}
	}
}

// open lets close end the subscription. It is not ok after that.
func (s *subscription) open(pubsub *redis.PubSub) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pubsub = pubsub
	return s.ctx.Err() == nil
}

func (s *subscription) listens() {
	s.mu.Lock()
	s.denied = nil
	if !s.live.Swap(true) {
		close(s.ready)
	}
	s.mu.Unlock()
	s.renewed()
}

// refused lets those who wait know that this user may not listen. It is tried
// again all the same: rights can be given.
func (s *subscription) refused(err error) {
	if failure.ClassOf(err) != providerkit.Denied {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = failure.Of(err)
	if !s.live.Load() {
		close(s.ready)
		s.ready = make(chan struct{})
	}
}

func (s *subscription) failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pubsub = nil
	if s.live.Swap(false) {
		s.ready = make(chan struct{})
	}
}

// close ends the subscription and waits for its goroutine.
func (s *subscription) close() {
	s.mu.Lock()
	s.end()
	if s.pubsub != nil {
		_ = s.pubsub.Close() // ends the read
	}
	s.mu.Unlock()
	s.done.Wait()
}
