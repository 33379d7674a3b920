package etagfence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/etagfence"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

// objectStore is a store that holds one object with an ETag.
type objectStore struct {
	mu      sync.Mutex
	version int // 0: does not exist
	object  etagfence.Object
	content string
	writes  []int64 // tokens of the writes, in order
}

func (s *objectStore) read() (etagfence.Object, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.object, s.content
}

// write writes under the condition. Exactly one of the condition's fields must be set;
// otherwise the test itself is wrong.
func (s *objectStore) write(condition etagfence.Condition, content string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	exists := s.version > 0
	switch {
	case condition.IfMatch != "" && condition.IfNoneMatch == "":
		if !exists || condition.IfMatch != s.object.ETag {
			return fmt.Errorf("412: %w", etagfence.ErrPrecondition)
		}
	case condition.IfMatch == "" && condition.IfNoneMatch == "*":
		if exists {
			return fmt.Errorf("409: %w", etagfence.ErrPrecondition)
		}
	default:
		return fmt.Errorf("400: %+v", condition)
	}
	s.version++
	s.object = etagfence.Object{ETag: fmt.Sprintf("%q", fmt.Sprint(s.version)), Token: condition.Token, WriteID: condition.WriteID}
	s.content = content
	s.writes = append(s.writes, condition.Token)
	return nil
}

// add appends to the content.
func (s *objectStore) add(ctx context.Context, token int64, more string) error {
	var content string
	return etagfence.Replace(ctx, token, etagfence.Replacement{
		Resource: "report",
		Read: func(context.Context) (object etagfence.Object, err error) {
			object, content = s.read()
			return object, nil
		},
		Write: func(_ context.Context, condition etagfence.Condition) error {
			return s.write(condition, content+more)
		},
	})
}

func TestReplaceCreatesAndReplaces(t *testing.T) {
	store := &objectStore{}
	require.NoError(t, store.add(t.Context(), 7, "a"))
	require.NoError(t, store.add(t.Context(), 7, "b"))
	require.NoError(t, store.add(t.Context(), 8, "c"))
	require.Equal(t, &fencing.StaleError{Resource: "report", Token: 7, Seen: 8}, store.add(t.Context(), 7, "d"))
	object, content := store.read()
	require.Equal(t, "abc", content)
	require.EqualValues(t, 8, object.Token)
}

// interrupted runs Replace and, after Replace's first read and before its first write, calls the
// given function.
func interrupted(t *testing.T, store *objectStore, token int64, between func()) (turns int, err error) {
	t.Helper()
	var content string
	err = etagfence.Replace(t.Context(), token, etagfence.Replacement{
		Resource: "report",
		Read: func(context.Context) (object etagfence.Object, err error) {
			object, content = store.read()
			turns++
			if turns == 1 {
				between()
			}
			return object, nil
		},
		Write: func(_ context.Context, condition etagfence.Condition) error {
			return store.write(condition, content+"late ")
		},
	})
	return turns, err
}

// A lease can't protect against this pause: the check has passed, and the write has not been sent.
func TestReplaceRefusesAHolderThatWasPausedAfterTheCheck(t *testing.T) {
	store := &objectStore{}
	require.NoError(t, store.add(t.Context(), 33, "first "))
	turns, err := interrupted(t, store, 33, func() {
		require.NoError(t, store.add(t.Context(), 34, "second "))
	})
	require.Equal(t, &fencing.StaleError{Resource: "report", Token: 33, Seen: 34}, err)
	require.Equal(t, 2, turns)
	_, content := store.read()
	require.Equal(t, "first second ", content)
}

func TestReplaceRefusesThePausedCreatorToo(t *testing.T) {
	store := &objectStore{}
	_, err := interrupted(t, store, 33, func() {
		require.NoError(t, store.add(t.Context(), 34, "second "))
	})
	require.ErrorIs(t, err, leasing.ErrStale)
	_, content := store.read()
	require.Equal(t, "second ", content)
}

func TestReplaceTriesAgainForThePresentHolder(t *testing.T) {
	store := &objectStore{}
	require.NoError(t, store.add(t.Context(), 33, "first "))
	turns, err := interrupted(t, store, 34, func() {
		require.NoError(t, store.add(t.Context(), 33, "first again "))
	})
	require.NoError(t, err)
	require.Equal(t, 2, turns)
	_, content := store.read()
	require.Equal(t, "first first again late ", content, "computed from what it read last")
}

// A client library repeats a write after a lost reply, and the store refuses the repetition,
// because the first attempt was applied. Replace reports success.
func TestTrap_T14_ALostReplyIsNoConflict(t *testing.T) {
	for _, existing := range []bool{false, true} {
		store := &objectStore{}
		if existing {
			require.NoError(t, store.add(t.Context(), 33, "old "))
		}
		before := len(store.writes)
		err := etagfence.Replace(t.Context(), 34, etagfence.Replacement{
			Read: func(context.Context) (etagfence.Object, error) {
				object, _ := store.read()
				return object, nil
			},
			Write: func(_ context.Context, condition etagfence.Condition) error {
				require.NoError(t, store.write(condition, "new"))
				return store.write(condition, "new")
			},
		})
		require.NoError(t, err)
		require.Len(t, store.writes, before+1, "written once")
	}
}

// A caller that repeats Replace after an error, with the same write ID, does not write twice.
func TestReplaceUnderTheSameWriteIDWritesOnce(t *testing.T) {
	store := &objectStore{}
	broken := errors.New("connection reset")
	reset := broken
	post := func(token int64, id string) error {
		return etagfence.Replace(t.Context(), token, etagfence.Replacement{
			WriteID: id,
			Read: func(context.Context) (etagfence.Object, error) {
				object, _ := store.read()
				return object, nil
			},
			Write: func(_ context.Context, condition etagfence.Condition) error {
				return errors.Join(store.write(condition, "x"), reset)
			},
		})
	}
	require.ErrorIs(t, post(33, "job-1"), broken)
	reset = nil
	require.NoError(t, post(33, "job-1"))
	require.Equal(t, []int64{33}, store.writes)
	require.NoError(t, post(33, "job-2"))
	require.Equal(t, []int64{33, 33}, store.writes)

	// Another holder's token must be stored, regardless of the write ID.
	require.NoError(t, post(34, "job-2"))
	require.Equal(t, []int64{33, 33, 34}, store.writes)
	require.ErrorIs(t, post(33, "job-2"), leasing.ErrStale)
}

func TestReplaceReturnsOtherErrorsAndTriesNothingAgain(t *testing.T) {
	boom := errors.New("boom")
	store := &objectStore{}
	reads, writes := 0, 0
	run := func(readErr, writeErr error) error {
		reads, writes = 0, 0
		return etagfence.Replace(t.Context(), 7, etagfence.Replacement{
			Read: func(context.Context) (etagfence.Object, error) {
				reads++
				object, _ := store.read()
				return object, readErr
			},
			Write: func(context.Context, etagfence.Condition) error {
				writes++
				return writeErr
			},
		})
	}
	require.Equal(t, boom, run(boom, nil))
	require.Equal(t, 0, writes)
	require.Equal(t, etagfence.ErrPrecondition, run(etagfence.ErrPrecondition, nil), "a read has no condition")
	require.Equal(t, 1, reads)
	require.Equal(t, boom, run(nil, boom))
	require.Equal(t, 1, writes)
	require.Equal(t, 1, reads)

	for _, token := range fencingtest.BadTokens {
		require.ErrorIs(t, etagfence.Replace(t.Context(), token, etagfence.Replacement{
			Read:  func(context.Context) (etagfence.Object, error) { panic("read") },
			Write: func(context.Context, etagfence.Condition) error { panic("write") },
		}), leasing.ErrInvalid)
	}
	require.ErrorIs(t, etagfence.Replace(t.Context(), 7, etagfence.Replacement{}), leasing.ErrInvalid)
}

func TestReplaceEndsWithItsContext(t *testing.T) {
	lost := &leasing.LostError{Reason: leasing.LostTaken}
	ctx, cancel := context.WithCancelCause(t.Context())
	turns := 0
	replacement := etagfence.Replacement{
		Read: func(context.Context) (etagfence.Object, error) {
			turns++
			return etagfence.Object{ETag: fmt.Sprint(turns)}, nil
		},
		Write: func(context.Context, etagfence.Condition) error {
			if turns == 3 {
				cancel(lost)
			}
			return etagfence.ErrPrecondition
		},
	}
	require.Equal(t, lost, etagfence.Replace(ctx, 7, replacement))
	require.Equal(t, 3, turns)
	require.Equal(t, lost, etagfence.Replace(ctx, 7, replacement))
	require.Equal(t, 3, turns, "nothing is read once it has ended")

	ctx, cancel = context.WithCancelCause(t.Context())
	replacement.Read = func(ctx context.Context) (etagfence.Object, error) {
		cancel(lost)
		return etagfence.Object{}, ctx.Err()
	}
	require.ErrorIs(t, etagfence.Replace(ctx, 7, replacement), lost)
}

// Replace gives up if the store keeps refusing although nothing changes, for example because the
// condition is changed on its way to the store.
func TestReplaceGivesUpWhereNothingChanges(t *testing.T) {
	turns := 0
	err := etagfence.Replace(t.Context(), 7, etagfence.Replacement{
		Resource: "report",
		Read: func(context.Context) (etagfence.Object, error) {
			turns++
			return etagfence.Object{ETag: fmt.Sprint(turns / 15)}, nil // a version for 14 reads, then the next
		},
		Write: func(context.Context, etagfence.Condition) error { return etagfence.ErrPrecondition },
	})
	require.ErrorIs(t, err, etagfence.ErrPrecondition)
	require.ErrorContains(t, err, `"report" was refused 10 times`)
	require.Equal(t, 10, turns)

	turns = 0
	err = etagfence.Replace(t.Context(), 7, etagfence.Replacement{
		Read: func(context.Context) (etagfence.Object, error) {
			turns++
			return etagfence.Object{ETag: fmt.Sprint(turns / 8)}, nil
		},
		Write: func(context.Context, etagfence.Condition) error {
			if turns == 100 {
				return nil
			}
			return etagfence.ErrPrecondition
		},
	})
	require.NoError(t, err, "somebody else writes all the time: that is no reason")
}

// With many concurrent holders, the written tokens never fall, and no update is lost.
func TestReplaceConcurrentSafe(t *testing.T) {
	store := &objectStore{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for token := int64(1); token <= 8; token++ {
		wg.Go(func() {
			for range 20 {
				err := store.add(t.Context(), token, ".")
				if errors.Is(err, leasing.ErrStale) {
					continue
				}
				if assert.NoError(t, err) {
					mu.Lock()
					written++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	require.IsNonDecreasing(t, store.writes)
	require.EqualValues(t, 8, store.writes[len(store.writes)-1])
	_, content := store.read()
	require.Equal(t, strings.Repeat(".", written), content)
}
