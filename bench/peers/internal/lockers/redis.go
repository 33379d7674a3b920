package lockers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// nodes returns the options of a client for each server of a URL. Commas separate
// several independent servers, as in this library's URLs:
// redis://user:password@h1:p1,h2:p2/0?mode=redlock. Errors omit the URL, which may
// contain a password.
func nodes(url string) (nodes []*redis.Options, err error) {
	url, _, _ = strings.Cut(url, "?")
	scheme, rest, _ := strings.Cut(url, "://")
	at := strings.LastIndex(rest, "@") + 1
	hosts, database, _ := strings.Cut(rest[at:], "/")
	for host := range strings.SplitSeq(hosts, ",") {
		options, err := redis.ParseURL(scheme + "://" + rest[:at] + host + "/" + database)
		if err != nil {
			return nil, errors.New("want a URL like redis://:password@127.0.0.1:6379/0")
		}
		nodes = append(nodes, options)
	}
	return nodes, nil
}

// clients returns a go-redis client for each server of a URL. The options are the defaults,
// except that contexts are obeyed and that tune may change options. A client connects with
// its first command. The commands are counted unless counter is nil.
func clients(url string, counter *wire.Counter, tune ...func(*redis.Options)) (Servers, error) {
	nodes, err := nodes(url)
	if err != nil {
		return nil, err
	}
	clients := make(Servers, len(nodes))
	for i, options := range nodes {
		options.ContextTimeoutEnabled = true
		for _, change := range tune {
			change(options)
		}
		if counter != nil {
			options.Dialer = counter.Dial(redis.NewDialer(options))
		}
		clients[i] = redis.NewClient(options)
	}
	return clients, nil
}

// Servers are clients of the servers of a URL, for a peer's locks, or for requests that are
// not part of a measurement.
type Servers []*redis.Client

// Close closes the connections.
func (s Servers) Close() (err error) {
	for _, client := range s {
		err = errors.Join(err, client.Close())
	}
	return err
}

// FreeIn returns the time until a key has expired on the majority of the servers.
func (s Servers) FreeIn(ctx context.Context, key string) (time.Duration, error) {
	var left []time.Duration
	for _, server := range s {
		ttl, err := server.PTTL(ctx, key).Result() // negative: no key, or a key without expiry
		if err != nil {
			return 0, err
		}
		left = append(left, max(0, ttl))
	}
	slices.Sort(left)
	return left[len(left)/2], nil
}

// CPU returns the user and system time that all servers have used, without their children, which
// save snapshots.
func (s Servers) CPU(ctx context.Context) (time.Duration, error) {
	seconds, err := s.sum(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), err
}

// Log returns 0: the figure is not known.
func (Servers) Log(context.Context) (int64, error) { return 0, nil }

// Memory returns the number of bytes that all servers have allocated.
func (s Servers) Memory(ctx context.Context) (float64, error) {
	return s.sum(ctx, "memory", "used_memory")
}

// Version returns the version of the first server.
func (s Servers) Version(ctx context.Context) (string, error) {
	info, err := s[0].Info(ctx, "server").Result()
	return "Redis " + infoField(info, "redis_version"), err
}

// sum adds fields of a section of INFO: redis.io/docs/latest/commands/info.
func (s Servers) sum(ctx context.Context, section string, fields ...string) (sum float64, err error) {
	for _, server := range s {
		info, err := server.Info(ctx, section).Result()
		if err != nil {
			return 0, err
		}
		for _, field := range fields {
			value, err := strconv.ParseFloat(infoField(info, field), 64)
			if err != nil {
				return 0, fmt.Errorf("INFO has no number %s: %w", field, err)
			}
			sum += value
		}
	}
	return sum, nil
}

func infoField(info, field string) string {
	_, after, _ := strings.Cut("\n"+info, "\n"+field+":")
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

// Sweep deletes the keys that contain a text, which should be unique. The more keys
// with an expiry a server has, the later it finds the expired ones, so each peer
// begins without the previous peer's keys.
func (s Servers) Sweep(ctx context.Context, text string) error {
	for _, client := range s {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			keys, next, err := client.Scan(ctx, cursor, "*"+text+"*", 1000).Result()
			if err == nil && len(keys) > 0 {
				err = client.Unlink(ctx, keys...).Err()
			}
			if err != nil {
				return err
			}
			cursor = next
		}
	}
	return nil
}
