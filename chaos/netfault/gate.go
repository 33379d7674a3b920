package netfault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// gate is the toxic that all data passes, one for each direction. Toxiproxy makes
// toxics from JSON, so it finds its proxy by a number.
//
// It stands in the chain as long as the proxy lives. To add and remove toxiproxy's
// own toxics while data flows would drop a connection's bytes without closing it.
type gate struct {
	Number int64 `json:"number"`
	Reply  bool  `json:"reply"`
}

const gateType = "leasing_netfault_gate"

func init() { toxics.Register(gateType, new(gate)) }

// gates are the two of a proxy.
type gates struct {
	number int64
	pair   *pair // whose links are being started
}

var (
	gateNumbers atomic.Int64
	gatesOpen   sync.Map // number -> *gates
)

func (g *gates) install(collection *toxiproxy.ToxicCollection) error {
	g.number = gateNumbers.Add(1)
	gatesOpen.Store(g.number, g)
	for _, reply := range []bool{false, true} {
		direction := stream.Upstream
		if reply {
			direction = stream.Downstream
		}
		config, err := json.Marshal(map[string]any{
			"type": gateType, "stream": direction.String(), "attributes": gate{Number: g.number, Reply: reply},
		})
		if err != nil {
			return fmt.Errorf("netfault: %w", err)
		}
		if _, err := collection.AddToxicJson(bytes.NewReader(config)); err != nil {
			return fmt.Errorf("netfault: toxiproxy: %w", err)
		}
	}
	return nil
}

func (g *gates) remove() { gatesOpen.Delete(g.number) }

// next says whose links are started next. Needs the proxy's mutex until they are.
func (g *gates) next(p *pair) { g.pair = p }

// leg is one direction of a pair.
type leg struct {
	pair      *pair
	direction direction
}

// NewState is called by toxiproxy when a link starts.
func (g *gate) NewState() any {
	open, _ := gatesOpen.Load(g.Number)
	l := &leg{pair: open.(*gates).pair}
	if g.Reply {
		l.direction = reply
	}
	return l
}

// GetBufferSize lets chunks wait behind one that is delayed, so that latency does
// not limit throughput.
func (g *gate) GetBufferSize() int { return 1024 }

// Pipe is called by toxiproxy for each link. It reads its input to the end, so
// that the goroutines before it always get rid of theirs.
func (g *gate) Pipe(stub *toxics.ToxicStub) {
	l := stub.State.(*leg)
	defer l.pair.legs.Done()
	for chunk := range stub.Input {
		if chunk == nil {
			break
		}
		if l.pass(chunk.Timestamp) {
			select {
			case stub.Output <- chunk:
			case <-l.pair.ended:
			}
		}
	}
	if l.pair.orphaned.Load() && l.direction == reply {
		<-l.pair.ended
	}
	stub.Close()
}

// pass waits until what was sent at a time may go on, and says whether it does.
func (l *leg) pass(sent time.Time) bool {
	var delay time.Duration
	for decided := false; ; {
		conditions, changed := l.pair.proxy.now()
		switch {
		case l.pair.orphaned.Load():
			return false
		case conditions.loses(l.direction):
			l.pair.lost[l.direction].Store(true)
			return false
		case conditions.Partitioned:
			select {
			case <-changed:
				continue
			case <-l.pair.ended:
				return false
			}
		}
		if !decided {
			delay, decided = conditions.delay(l.direction), true
		}
		left := delay - time.Since(sent)
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.pair.ended:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}
