package main

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/usage"
)

// bill is what has been used up to a moment, and by subtraction between two.
type bill struct {
	at        time.Time
	elapsed   time.Duration
	clientCPU time.Duration
	serverCPU time.Duration // of all servers
	commands  int64
	mallocs   int64
}

func (s *site) bill(ctx context.Context) (bill, error) {
	server, err := serverCPU(ctx, s.servers)
	return bill{
		at:        time.Now(),
		clientCPU: usage.CPU(),
		serverCPU: server,
		commands:  s.counter.Commands(),
		mallocs:   usage.Mallocs(),
	}, err
}

// over runs something and bills it.
func (s *site) over(ctx context.Context, do func() error) (bill, error) {
	from, err := s.bill(ctx)
	if err != nil {
		return bill{}, err
	}
	if err := do(); err != nil {
		return bill{}, err
	}
	to, err := s.bill(ctx)
	return to.since(from), err
}

func (b bill) since(from bill) bill {
	return bill{
		at:        b.at,
		elapsed:   b.at.Sub(from.at),
		clientCPU: b.clientCPU - from.clientCPU,
		serverCPU: b.serverCPU - from.serverCPU,
		commands:  b.commands - from.commands,
		mallocs:   b.mallocs - from.mallocs,
	}
}

// per spreads the bill over n units.
func (b bill) per(n int64) metrics {
	return metrics{
		"commands":  float64(b.commands) / float64(n),
		"allocs":    float64(b.mallocs) / float64(n),
		"clientCPU": micros(b.clientCPU) / float64(n),
		"serverCPU": micros(b.serverCPU) / float64(n),
	}
}

// perMinute spreads it over time: CPU seconds per minute, commands per second.
func (b bill) perMinute() metrics {
	return metrics{
		"commands":  float64(b.commands) / b.elapsed.Seconds(),
		"clientCPU": b.clientCPU.Seconds() / b.elapsed.Minutes(),
		"serverCPU": b.serverCPU.Seconds() / b.elapsed.Minutes(),
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// serverCPU is the time that all servers have used.
func serverCPU(ctx context.Context, servers []*redis.Client) (time.Duration, error) {
	var sum time.Duration
	for _, server := range servers {
		info, err := server.Info(ctx, "cpu").Result()
		if err != nil {
			return 0, err
		}
		sum += parseCPU(info)
	}
	return sum, nil
}

// parseCPU adds the user and system time of the server itself, without its
// children (which save snapshots): see redis.io/docs/latest/commands/info.
func parseCPU(info string) time.Duration {
	var seconds float64
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if key == "used_cpu_user" || key == "used_cpu_sys" {
			n, _ := strconv.ParseFloat(value, 64) // 0 if it is none: then the column shows that
			seconds += n
		}
	}
	return time.Duration(seconds * float64(time.Second))
}
