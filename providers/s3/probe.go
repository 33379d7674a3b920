package s3lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

const (
	probe     = "This object shows whether the store honours the conditions of writes. It holds no lease.\n"
	wrongETag = `"00000000000000000000000000000000"`
	racers    = 4
)

// probeKey returns the key of the probe's object, which belongs to no name.
func (s *store) probeKey() string { return s.naming.Prefix + "~~probe" }

var errIgnored = fmt.Errorf("%w: the store takes writes whose conditions don't hold (If-None-Match, If-Match): two clients could hold a name", abstractions.ErrNotSetUp)

// probe checks that the store refuses writes whose conditions don't hold, and accepts a write whose
// condition holds. It always writes the same content, so that probes don't conflict where the ETag
// depends on the content.
func (s *store) probe(ctx context.Context) error {
	item, err := s.Get(ctx, s.probeKey())
	if err == nil && item.Version == "" {
		if err = s.race(ctx); err == nil {
			item, err = s.Get(ctx, s.probeKey())
		}
	}
	if err != nil {
		return err
	}
	write := func(version string) error {
		_, err := s.Put(ctx, cas.Item{Key: item.Key, Version: version}, nil, []byte(probe))
		return err
	}
	for _, version := range []string{"", wrongETag} {
		switch err = write(version); {
		case err == nil:
			return errIgnored
		case !errors.Is(err, cas.ErrConflict):
			return err
		}
	}
	if err = write(item.Version); errors.Is(err, cas.ErrConflict) {
		s.unquoted = true
		err = write(item.Version)
	}
	s.checker.ids = !s.checker.idMissing.Load()
	if errors.Is(err, cas.ErrConflict) {
		return fmt.Errorf("%w: the store does not replace an object under its ETag, or another process has replaced the object", abstractions.ErrUnavailable)
	}
	return err
}

// race makes several writers create the object at once. Only one of them may succeed.
func (s *store) race(ctx context.Context) (err error) {
	answers, created := make(chan error, racers), 0
	for range racers {
		providerkit.Go(func() error {
			_, err := s.Put(ctx, cas.Item{Key: s.probeKey()}, nil, []byte(probe))
			return err
		}, func(err error) { answers <- err })
	}
	for range racers {
		switch answer := <-answers; {
		case answer == nil:
			created++
		case !errors.Is(answer, cas.ErrConflict):
			err = answer
		}
	}
	switch {
	case created > 1:
		return errIgnored
	case created == 1: // a throttled writer does not matter
		return nil
	}
	return err
}
