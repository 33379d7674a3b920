package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Floor returns a key that no name has, for Records.FloorKey.
func (n Naming) Floor() string { return n.Prefix + hashMark + "floor" }

// floorVersion is the version of the item under Records.FloorKey.
const floorVersion = 1

// storedFloor is the JSON of that item.
type storedFloor struct {
	Version int   `json:"v"`
	Floor   int64 `json:"floor"`
}

// aboveFloor reads a record for a call that may set a token. A record without a
// token gets the stored floor as its Floor: the name may have been forgotten.
func (s *Records) aboveFloor(ctx context.Context, name string) (*snapshot, error) {
	found, err := s.read(ctx, name)
	if err != nil || found.record.Token != 0 || s.FloorKey == "" {
		return found, err
	}
	_, floor, err := s.floor(ctx)
	found.record.Floor = max(found.record.Floor, floor)
	return found, err
}

// floor reads the highest forgotten token; 0 if nothing was forgotten.
func (s *Records) floor(ctx context.Context) (Item, int64, error) {
	item, err := s.Store.Get(ctx, s.FloorKey)
	if item.Key = s.FloorKey; err != nil || item.Version == "" {
		return item, 0, err
	}
	var stored storedFloor
	if err := json.Unmarshal(item.Data, &stored); err != nil || stored.Version != floorVersion || stored.Floor < 0 {
		return item, 0, fmt.Errorf("%w: the content of %q is not a highest token of forgotten names", abstractions.ErrNotSetUp, s.FloorKey)
	}
	return item, stored.Floor, nil
}

// raise stores a token as the floor, unless the floor is already as high.
func (s *Records) raise(ctx context.Context, token int64) error {
	for conflicts := range maxConflicts {
		if err := pauseAfter(ctx, conflicts); err != nil {
			return err
		}
		item, floor, err := s.floor(ctx)
		if err != nil || token <= floor {
			return err
		}
		data, err := json.Marshal(storedFloor{Version: floorVersion, Floor: token})
		if err != nil {
			return err
		}
		// Left is infinite, so that no service deletes the item by itself.
		if _, err = s.Store.Put(ctx, item, &providerkit.Record{Now: item.Now, Left: abstractions.Infinite}, data); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return errContended
}
