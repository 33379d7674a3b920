package lockers

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Sweep deletes the keys on all servers of a URL that have a text in them, which
// should be unique. A library may remember names for long, and the next one shall
// not carry them: Redis finds keys that have expired the later, the more keys with
// an expiry there are.
func Sweep(ctx context.Context, url, text string) (err error) {
	clients, err := Clients(url, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(clients)) }()
	for _, client := range clients {
		if err := sweepServer(ctx, client, "*"+text+"*"); err != nil {
			return err
		}
	}
	return nil
}

func sweepServer(ctx context.Context, client *redis.Client, pattern string) error {
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := client.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
