package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// TortureOptions set the length and the load of a Torture run.
type TortureOptions struct {
	For      time.Duration
	Writers  int
	Cleaners int
	Readers  int
	// Lease is the duration of leases and claims. Most faults are aimed at their ends.
	Lease time.Duration
	// Pause is the longest time for which some writes stop and ignore their context, like those of a paused process. 0
	// means no pauses.
	Pause time.Duration
	// Rounds is the number of rounds into which the run is divided. A Restorer is backed up after one round, and restored after
	// the next. 0 means 1.
	Rounds int
	Seed   uint64
	// Beside, unless nil, runs beside the writers until ctx ends. For example, it may run writers in other processes,
	// and restart the server. It calls acknowledge for each commit that was reported to these writers.
	Beside func(ctx context.Context, acknowledge Acknowledge)
}

// Refuser is a Database that can refuse a transaction at COMMIT.
type Refuser[Tx any] interface {
	Refuse(ctx context.Context, tx Tx) error
}

// Stepper is a Database whose clock can be stepped away from this process's clock, forward or back.
type Stepper interface {
	Step(ahead time.Duration) error
}

// Restorer is a Database that can be backed up and restored while no writer runs.
type Restorer interface {
	Backup() (restore func() error, err error)
}

// Acknowledge records that an operation was reported as committed under a number.
type Acknowledge func(op string, seq int64)

// History is everything that the participants have seen, and the final content of the store.
type History struct {
	Entries      []sequence.Entry // all, in order
	Last         int64            // the last number that was issued
	Rows         []string         // of the application's table: "PAYLOAD SEQ"
	Acknowledged map[string]int64 // by operation, the number under which it was reported as committed
	Saved        map[string]bool  // operations whose completed work was reported as saved
	Claims       []Claimed
	Events       []sequence.Event // the store's audit
	Readers      [][]string       // the entries that each reader has read, up to the seal

	Late, Stale int64         // requests that were refused
	Refused     int64         // by the database, at COMMIT
	Misplaced   int64         // readers that got a CheckpointError
	Stood       time.Duration // the longest time for which the watermark stood still while a number was open
	StoodBy     string        // the number that was open during that time, and its states
	Limit       time.Duration // of Stood; 0: none
	Stepped     bool          // the store's clock was stepped, so its times say nothing about the order
}

// Claimed is a claim that was granted and reported to a cleaner. At is the store's time.
type Claimed struct {
	Seq, Token int64
	At         time.Time
}

// torture is one run of Torture, Write or Clean.
type torture[Tx any] struct {
	insert      func(ctx context.Context, tx Tx, row string) error
	store       sequence.Store[Tx]
	o           TortureOptions
	name        string // begins the IDs of operations
	acknowledge Acknowledge

	mu           sync.Mutex
	acknowledged map[string]int64
	saved        map[string]bool
	claims       []Claimed
	refuse       func(ctx context.Context, tx Tx) error // nil: the database can't
	started      atomic.Int64                           // operations
	open         atomic.Int64                           // numbers, as last seen by the watcher
	late         atomic.Int64
	stale        atomic.Int64
	refused      atomic.Int64
}

// Torture runs writers, cleaners and readers on one stream. The writers crash, pause, and commit at the moment at
// which their leases run out. The cleaners stall and fail. Then Torture lets a cleaner finish, seals the stream, and
// returns the history, for Check. It opens the stores with open, which may return broken ones, or with db.Open if open is nil.
func Torture[Tx any](t testing.TB, db Database[Tx], o TortureOptions, open func() sequence.Store[Tx]) *History {
	if open == nil {
		open = func() sequence.Store[Tx] { return db.Open(t) }
	}
	x := &torture[Tx]{insert: db.Insert, store: open(), o: o, name: "op", acknowledged: map[string]int64{}, saved: map[string]bool{}}
	x.acknowledge = func(op string, seq int64) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.acknowledged[op] = seq
	}
	setup := context.Background()
	if r, ok := db.(Refuser[Tx]); ok {
		x.refuse = r.Refuse
	}
	require.NoError(t, x.store.CreateStream(setup, stream))
	following, stopReaders := context.WithCancel(setup)
	defer stopReaders()

	var work, reading sync.WaitGroup
	var misplaced atomic.Int64
	seen, read := make([][]string, o.Readers), make([]*atomic.Int64, o.Readers)
	for i := range o.Readers {
		read[i] = new(atomic.Int64)
		reading.Go(func() { seen[i] = follow(following, x.store, i, read[i], &misplaced) })
	}
	rounds, restore := max(o.Rounds, 1), func() error { return nil }
	var backup torture[Tx] // as of the backup
	stepper, steps := db.(Stepper)
	var stood time.Duration
	var stoodBy string
	for round := range rounds {
		ctx, stop := context.WithTimeout(setup, o.For/time.Duration(rounds))
		for i := range o.Writers {
			work.Go(func() { x.write(ctx, rand.New(rand.NewPCG(o.Seed, uint64(10_000*round+i)))) })
		}
		for i := range o.Cleaners {
			work.Go(func() { x.runStallingCleaner(ctx, rand.New(rand.NewPCG(o.Seed, uint64(10_000*round+1000+i)))) })
		}
		work.Go(func() { x.runCleaner(ctx, rand.New(rand.NewPCG(o.Seed, uint64(10_000*round+2000)))) })
		work.Go(func() { x.seal(ctx) })
		work.Go(func() {
			if d, by := x.watch(ctx); d > stood {
				stood, stoodBy = d, by
			}
		})
		if steps {
			work.Go(func() { step(ctx, stepper, o.Lease, rand.New(rand.NewPCG(o.Seed, uint64(10_000*round+3000)))) })
		}
		if o.Beside != nil {
			work.Go(func() { o.Beside(ctx, x.acknowledge) })
		}
		work.Wait()
		stop()
		if r, ok := db.(Restorer); ok && rounds > 1 {
			switch round % 3 {
			case 0:
				var err error
				restore, err = r.Backup()
				require.NoError(t, err)
				backup.acknowledged, backup.saved, backup.claims = maps.Clone(x.acknowledged), maps.Clone(x.saved), slices.Clone(x.claims)
			case 1:
				require.NoError(t, restore())
				_, err := x.store.NewEpoch(setup, stream)
				require.NoError(t, err)
				x.mu.Lock()
				x.acknowledged, x.saved, x.claims = backup.acknowledged, backup.saved, backup.claims
				x.mu.Unlock()
			}
		}
	}

	h := &History{
		Acknowledged: x.acknowledged, Saved: x.saved, Claims: x.claims, Late: x.late.Load(), Stale: x.stale.Load(), Refused: x.refused.Load(),
		Stood: stood, StoodBy: stoodBy, Limit: 2*o.Lease + 10*time.Second, Stepped: steps, // recovery mode doubles leases
	}
	last, err := sequence.NewCleaner(x.store, stream, sequence.CleanerOptions[Tx]{Write: x.row, RetryAfter: time.Millisecond})
	require.NoError(t, err)
	watermark := int64(-1)
	for deadline := time.Now().Add(2 * time.Minute); ; sleep(10 * time.Millisecond) {
		sweeping, cancel := context.WithTimeout(setup, 10*time.Second)
		_, _ = last.Sweep(sweeping) // on a broken store it may always fail
		cancel()
		status, err := x.store.Status(setup, stream)
		if err == nil && status.Watermark > watermark {
			watermark, deadline = status.Watermark, time.Now().Add(2*time.Minute)
		}
		if h.Last = status.Last; err == nil && status.Open == 0 || time.Now().After(deadline) {
			require.NoError(t, err)
			break
		}
	}
	require.NoError(t, last.Close(setup))
	if _, err := x.store.Seal(setup, stream, 0); err == nil {
		behind := func() bool {
			return slices.ContainsFunc(read, func(r *atomic.Int64) bool { return r.Load() < h.Last })
		}
		for deadline := time.Now().Add(2 * time.Minute); behind() && time.Now().Before(deadline); {
			sleep(10 * time.Millisecond)
		}
	}
	stopReaders()
	reading.Wait()
	h.Readers, h.Misplaced = seen, misplaced.Load()
	page, err := x.store.Read(setup, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 1 << 30, States: []sequence.State{
		sequence.Leased, sequence.Recovering, sequence.Committed, sequence.Recovered, sequence.Gap, sequence.Filled, sequence.Sealed,
	}})
	require.NoError(t, err)
	h.Entries, h.Rows = page.Entries, db.Rows(t)
	h.Events, err = x.store.Events(setup, stream, 1, h.Last)
	require.NoError(t, err)
	return h
}

// Write runs one writer of a torture run until ctx ends, in a process other than Torture's. The name
// must be unique to the writer: the IDs of its operations begin with that name.
func Write[Tx any](ctx context.Context, store sequence.Store[Tx], insert func(context.Context, Tx, string) error, o TortureOptions, name string, acknowledge Acknowledge) {
	x := &torture[Tx]{insert: insert, store: store, o: o, name: name, acknowledge: acknowledge, saved: map[string]bool{}}
	x.write(ctx, rand.New(rand.NewPCG(o.Seed, 0)))
}

// row is the application's own write. Some writes pause and ignore their context, and some are refused at COMMIT.
func (x *torture[Tx]) row(ctx context.Context, tx Tx, e sequence.Entry) error {
	err := x.insert(ctx, tx, fmt.Sprintf("%s %d", e.Payload, e.Seq))
	switch draw := rand.IntN(40); {
	case err != nil:
	case draw == 0 && x.o.Pause > 0:
		sleep(rand.N(x.o.Pause))
	case draw < 4 && x.o.Pause > 0:
		sleep(rand.N(x.o.Lease / 4))
	case draw == 4 && x.refuse != nil && e.Origin == 0:
		err = x.refuse(ctx, tx)
	}
	return err
}

// step steps the store's clock at random, and corrects the clock at the end.
func step(ctx context.Context, s Stepper, lease time.Duration, random *rand.Rand) {
	defer func() { _ = s.Step(0) }()
	for ctx.Err() == nil {
		sleep(time.Duration(random.Int64N(int64(6 * lease))))
		_ = s.Step(pick(random, 0, 0, time.Hour, -time.Hour, time.Minute, 10*lease, -lease, lease/2))
	}
}

// watch returns the longest time for which the watermark stood still while a number was open, and the number and
// its states.
func (x *torture[Tx]) watch(ctx context.Context) (stood time.Duration, by string) {
	var watermark int64
	var states []string
	since, seen := time.Now(), ""
	for ctx.Err() == nil {
		sleep(x.o.Lease / 10)
		status, err := x.store.Status(ctx, stream)
		if x.open.Store(int64(status.Open)); err == nil && (status.Watermark != watermark || status.Open == 0) {
			watermark, since, states = status.Watermark, time.Now(), nil
		}
		standing := time.Since(since)
		if standing > 5*x.o.Lease {
			state := fmt.Sprint(err)
			page, err := x.store.Read(ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 1, States: []sequence.State{sequence.Leased, sequence.Recovering}})
			if err == nil && len(page.Entries) > 0 {
				e := page.Entries[0]
				state = fmt.Sprintf("%d %s under %d by %q, renewed %d, failed %d (%s), open %d", e.Seq, e.State, e.Token, e.ClaimOwner, e.Renewals, e.Attempts, e.LastError, status.Open)
			}
			if state != seen {
				states, seen = append(states, fmt.Sprintf("%.1fs: %s", standing.Seconds(), state)), state
			}
		}
		if standing > stood {
			stood, by = standing, strings.Join(states, "; ")
		}
	}
	return stood, by
}

// runCleaner runs a Cleaner like an application's, with callbacks that panic at random.
func (x *torture[Tx]) runCleaner(ctx context.Context, random *rand.Rand) {
	var mu sync.Mutex
	panics := func(one int) {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(one) == 0 {
			panic("bad luck")
		}
	}
	c, err := sequence.NewCleaner(x.store, stream, sequence.CleanerOptions[Tx]{
		ClaimFor: x.o.Lease, Interval: x.o.Lease / 4, RetryAfter: time.Millisecond, MaxAttempts: 1 << 30,
		Write: func(ctx context.Context, tx Tx, e sequence.Entry) error { panics(5); return x.row(ctx, tx, e) },
		Select: func(_ context.Context, _ sequence.Entry, steps []sequence.Step) []sequence.Step {
			panics(10)
			return steps
		},
		OnMode: func(context.Context, bool) { panics(2) },
		Hooks:  []sequence.Hook{func(context.Context, sequence.Entry) error { panics(2); return nil }},
	})
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		_, _ = c.Sweep(ctx)
		sleep(x.o.Lease / 4)
	}
	closing, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(closing)
}

// Clean runs a Cleaner until ctx ends, in a process other than Torture's.
func Clean[Tx any](ctx context.Context, store sequence.Store[Tx], insert func(context.Context, Tx, string) error, o TortureOptions) {
	x := &torture[Tx]{insert: insert, store: store, o: o}
	x.runCleaner(ctx, rand.New(rand.NewPCG(o.Seed, 0)))
}

// follow runs a reader. After a CheckpointError the reader begins again at number 1.
func follow(ctx context.Context, records sequence.Records, i int, read, misplaced *atomic.Int64) (seen []string) {
	r := sequence.Reader{Records: records, Stream: stream, Sealed: true, Page: 16 + i}
	for next := int64(1); ctx.Err() == nil; sleep(10 * time.Millisecond) {
		for e, err := range r.Follow(ctx, next) {
			if errors.Is(err, sequence.ErrCheckpoint) {
				misplaced.Add(1)
				read.Store(0)
				seen, next, r.After = nil, 1, ""
			}
			if err != nil {
				break
			}
			seen = append(seen, fmt.Sprintf("%d %s %s %d", e.Seq, e.State, e.Payload, e.Origin))
			next, r.After = e.Seq+1, e.Mark()
			read.Store(e.Seq)
		}
	}
	return seen
}

// recordCommit records that an operation was reported as committed to its writer.
func (x *torture[Tx]) recordCommit(op string, seq int64, err error) {
	switch {
	case err == nil:
		x.acknowledge(op, seq)
	case errors.Is(err, sequence.ErrRefused):
		x.refused.Add(1)
	case errors.Is(err, sequence.ErrLate):
		x.late.Add(1)
		if late, is := errors.AsType[*sequence.LateCommitError](err); is && late.Settled == sequence.SettledSaved {
			x.recordSaved(op)
		}
	}
}

// recordSaved records that an operation's completed work was reported as saved.
func (x *torture[Tx]) recordSaved(op string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.saved[op] = true
}

// backlog is the number of open numbers above which the writers of this process wait.
const backlog = 100

// write runs a writer.
func (x *torture[Tx]) write(ctx context.Context, random *rand.Rand) {
	s, err := sequence.NewStream(x.store, stream, sequence.Options[Tx]{Write: x.row, Lease: leasing.Options{Tuning: leasing.Tuning{Random: func() float64 { return .5 }}}})
	if err != nil {
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(closing)
	}()
	var unsettled []sequence.Unsettled // late results that are still to be settled
	defer func() {
		for _, late := range unsettled {
			x.settle(s, late)
		}
	}()
	for ctx.Err() == nil {
		if x.open.Load() > backlog { // the machine is too slow
			sleep(x.o.Lease)
			continue
		}
		if len(unsettled) > 0 && random.IntN(4) == 0 {
			x.settle(s, unsettled[0])
			unsettled = unsettled[1:]
		}
		op := fmt.Sprintf("%s-%d", x.name, x.started.Add(1))
		switch random.IntN(6) {
		case 0:
			x.do(ctx, s, op, random)
			continue
		case 1:
			x.doAll(ctx, s, op, random)
			continue
		}
		e, err := x.store.Lease(ctx, seqstore.LeaseRequest{Stream: stream, Op: op, Kind: "torture", Duration: x.o.Lease})
		if err != nil {
			sleep(10 * time.Millisecond)
			continue
		}
		began := time.Now()
		req := seqstore.CommitRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Payload: []byte(op)}
		switch random.IntN(10) {
		case 0: // crashes
			continue
		case 1: // crashes with work done
			if err := x.store.Save(ctx, seqstore.SaveRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Work: sequence.Work{Phase: sequence.Completed, Data: []byte(op)}}); err == nil {
				x.recordSaved(op)
			}
			if random.IntN(4) == 0 {
				_ = x.store.Release(ctx, seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: e.Token})
			}
			continue
		case 2: // gives up
			_ = x.store.Release(ctx, seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: e.Token})
			continue
		case 3, 4: // is paused until long after the end of its lease
			sleep(x.o.Lease + time.Duration(random.Int64N(int64(x.o.Lease))))
		case 5, 6, 7: // commits when its lease is about to run out, or just has
			sleep(max(0, x.o.Lease-time.Since(began)+time.Duration(random.Int64N(int64(x.o.Lease/5)))-x.o.Lease/10))
		default:
			sleep(time.Duration(random.Int64N(int64(x.o.Lease / 2))))
		}
		_, err = x.store.Commit(context.Background(), req, x.row)
		x.recordCommit(op, e.Seq, err)
		if errors.Is(err, sequence.ErrLate) {
			late := sequence.Unsettled{Seq: e.Seq, Op: op, Token: e.Token, Payload: []byte(op)}
			if random.IntN(2) == 0 {
				x.settle(s, late)
			} else {
				unsettled = append(unsettled, late)
			}
		}
	}
}

func (x *torture[Tx]) settle(s *sequence.Stream[Tx], late sequence.Unsettled) {
	settled, e, err := s.Settle(context.Background(), late, nil)
	switch {
	case err == nil && settled == sequence.SettledCommitted:
		x.recordCommit(late.Op, e.Seq, nil)
	case err == nil && settled == sequence.SettledSaved:
		x.recordSaved(late.Op)
	}
}

// do runs an operation with Stream.Do, like an application.
func (x *torture[Tx]) do(ctx context.Context, s *sequence.Stream[Tx], op string, random *rand.Rand) {
	var seq int64
	err := s.Do(ctx, sequence.Operation{ID: op, Kind: "torture", Duration: x.o.Lease}, func(ctx context.Context, n *sequence.Number[Tx]) error {
		seq = n.Seq()
		return x.work(ctx, n, random)
	})
	x.recordCommit(op, seq, err)
}

// doAll runs several operations with Stream.DoAll. Some of them fail.
func (x *torture[Tx]) doAll(ctx context.Context, s *sequence.Stream[Tx], op string, random *rand.Rand) {
	var ops []sequence.Operation
	for i := range 2 + random.IntN(6) {
		ops = append(ops, sequence.Operation{ID: fmt.Sprintf("%s.%d", op, i), Kind: "torture", Duration: x.o.Lease})
	}
	seqs := map[string]int64{}
	done, _ := s.DoAll(ctx, ops, func(ctx context.Context, n *sequence.Number[Tx]) error {
		seqs[n.Op()] = n.Seq()
		if random.IntN(12) == 0 {
			return errors.New("bad luck")
		}
		return x.work(ctx, n, random)
	})
	for _, op := range ops[:done] {
		x.acknowledge(op.ID, seqs[op.ID])
	}
}

func (x *torture[Tx]) work(ctx context.Context, n *sequence.Number[Tx], random *rand.Rand) error {
	if random.IntN(2) == 0 {
		waiting, cancel := context.WithTimeout(ctx, x.o.Lease)
		defer cancel()
		_ = n.Wait(waiting)
	}
	return n.Commit(ctx, []byte(n.Op()), nil)
}

// runStallingCleaner runs a cleaner that is slow, and sometimes stalls past the end of its claim.
func (x *torture[Tx]) runStallingCleaner(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		sleep(time.Duration(random.Int64N(int64(x.o.Lease / 4))))
		e, ok, err := x.store.Claim(ctx, seqstore.ClaimRequest{Stream: stream, Owner: "cleaner", Duration: x.o.Lease})
		if err != nil || !ok {
			continue
		}
		x.mu.Lock()
		x.claims = append(x.claims, Claimed{e.Seq, e.Token, e.ClaimUntil.Add(-x.o.Lease)})
		x.mu.Unlock()
		switch random.IntN(8) {
		case 0:
			sleep(x.o.Lease + time.Duration(random.Int64N(int64(x.o.Lease))))
		case 1, 2, 3: // its steps take a while
			sleep(time.Duration(random.Int64N(int64(x.o.Lease / 2))))
		}
		req := seqstore.ResolveRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Owner: "cleaner", Outcome: sequence.OutcomeGap, RetryAfter: time.Millisecond, MaxAttempts: 5}
		switch {
		case random.IntN(6) == 0:
			req.Outcome, req.Reason = seqstore.OutcomeFailed, "bad luck"
			if e.Work.Phase == sequence.Completed {
				req.MaxAttempts = 0 // a Cleaner would put the work into the manual queue
			}
		case e.Work.Phase == sequence.Completed:
			req.Outcome, req.Payload = sequence.OutcomeRecovered, e.Work.Data
		case random.IntN(2) == 0: // recovers in its own way
			req.Outcome, req.Payload = sequence.OutcomeRecovered, []byte(e.Op)
		}
		if _, err := x.store.Resolve(context.Background(), req, x.row); errors.Is(err, sequence.ErrLate) {
			x.stale.Add(1)
		}
	}
}

// seal seals the stream at intervals, so that some fills of gaps succeed and others are refused.
func (x *torture[Tx]) seal(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(4 * x.o.Lease)
		_, _ = x.store.Seal(ctx, stream, 0)
	}
}
