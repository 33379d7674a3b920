package lockers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// Nodes returns how to reach the servers of a URL. Several independent ones
// stand in one URL with commas between, as this library takes them:
// redis://user:password@h1:p1,h2:p2/0?mode=redlock. net/url does not parse
// that, so it is taken apart by hand.
func Nodes(text string) ([]*redis.Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, fmt.Errorf("a URL like redis://:password@127.0.0.1:6379/0 is wanted") // without the text: it may hold a password
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, authority = authority[:i+1], authority[i+1:]
	}
	path = withoutOurs(path)
	var nodes []*redis.Options
	for host := range strings.SplitSeq(authority, ",") {
		options, err := redis.ParseURL(scheme + "://" + user + host + path)
		if err != nil {
			return nil, fmt.Errorf("the Redis URL for host %q is wrong", host) // err may quote the password
		}
		nodes = append(nodes, options)
	}
	return nodes, nil
}

// withoutOurs drops parameters that this library knows and go-redis doesn't.
func withoutOurs(path string) string {
	path, query, ok := strings.Cut(path, "?")
	if !ok {
		return path
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return path + "?" + query // go-redis will say what is wrong
	}
	values.Del("mode")
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Clients returns a go-redis client for each server of a URL, with defaults
// except that contexts are obeyed, and for what tune changes. What they send is
// counted unless counter is nil.
func Clients(text string, counter *wire.Counter, tune ...func(*redis.Options)) ([]*redis.Client, error) {
	nodes, err := Nodes(text)
	if err != nil {
		return nil, err
	}
	clients := make([]*redis.Client, len(nodes))
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

func closeAll(clients []*redis.Client) error {
	var failed error
	for _, client := range clients {
		failed = errors.Join(failed, client.Close())
	}
	return failed
}

// oneClient is Clients for a URL of one server.
func oneClient(config Config) (*redis.Client, error) {
	clients, err := Clients(config.URL, config.Counter)
	if err != nil {
		return nil, err
	}
	if len(clients) != 1 {
		return nil, fmt.Errorf("one Redis is wanted, not %d", len(clients))
	}
	return clients[0], nil
}

// freeIn returns when so many of the keys, each looked up on each server, will
// have expired that a majority of need is free.
func freeIn(ctx context.Context, servers []*redis.Client, keys []string, need int) (time.Duration, error) {
	var left []time.Duration
	for _, server := range servers {
		for _, key := range keys {
			ttl, err := server.PTTL(ctx, key).Result() // negative: no key, or one without expiry
			if err != nil {
				return 0, err
			}
			left = append(left, max(0, ttl))
		}
	}
	slices.Sort(left)
	return left[need-1], nil
}
