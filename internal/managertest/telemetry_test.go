package managertest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/internal/instrument"
)

// recorder implements OpenTelemetry's API with nothing but maps. It has sums and counts by instrument and attributes, and the
// spans that were started. The integration module checks the same with the SDK.
type recorder struct {
	mu    sync.Mutex
	sums  map[string]float64
	least map[string]float64 // the smallest value of each histogram, by name
	spans []*span
	ended func(span string)
}

func newRecorder() *recorder {
	return &recorder{sums: map[string]float64{}, least: map[string]float64{}, ended: func(string) {}}
}

func (r *recorder) add(name string, value float64, set attribute.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums[name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] += value
}

// sum adds up an instrument over all attribute sets that contain the given text.
func (r *recorder) sum(name, with string) (total float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, value := range r.sums {
		if strings.HasPrefix(key, name+"{") && strings.Contains(key, with) {
			total += value
		}
	}
	return total
}

type meters struct {
	metricnoop.MeterProvider
	r *recorder
}

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return &meter{r: m.r} }

type tracers struct {
	tracenoop.TracerProvider
	r *recorder
}

func (t tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{r: t.r} }

type meter struct {
	metricnoop.Meter
	r *recorder
}

type histogram struct {
	metricnoop.Float64Histogram
	r    *recorder
	name string
}

func (h histogram) Enabled(context.Context) bool { return true }
func (h histogram) Record(_ context.Context, value float64, options ...metric.RecordOption) {
	h.r.add(h.name, 1, metric.NewRecordConfig(options).Attributes())
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	if least, ok := h.r.least[h.name]; !ok || value < least {
		h.r.least[h.name] = value
	}
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{r: m.r, name: name}, nil
}

type upCounter struct {
	metricnoop.Int64Counter
	r    *recorder
	name string
}

func (c upCounter) Enabled(context.Context) bool { return true }
func (c upCounter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.r.add(c.name, float64(n), metric.NewAddConfig(options).Attributes())
}

type upDownCounter struct {
	metricnoop.Int64UpDownCounter
	r    *recorder
	name string
}

func (c upDownCounter) Enabled(context.Context) bool { return true }
func (c upDownCounter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.r.add(c.name, float64(n), metric.NewAddConfig(options).Attributes())
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return upCounter{r: m.r, name: name}, nil
}

func (m *meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDownCounter{r: m.r, name: name}, nil
}

type span struct {
	tracenoop.Span
	r          *recorder
	name       string
	parent     trace.SpanContext
	links      []trace.Link
	attributes map[attribute.Key]attribute.Value
	status     codes.Code
	err        error
	context    trace.SpanContext
}

type tracer struct {
	tracenoop.Tracer
	r *recorder
}

func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	id := byte(len(t.r.spans) + 1)
	config := trace.NewSpanStartConfig(options...)
	s := &span{
		r: t.r, name: name, parent: trace.SpanContextFromContext(ctx), links: config.Links(),
		attributes: map[attribute.Key]attribute.Value{},
		context:    trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{id}}),
	}
	t.r.spans = append(t.r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) IsRecording() bool                           { return true }
func (s *span) End(...trace.SpanEndOption)                  { s.r.ended(s.name) }
func (s *span) SpanContext() trace.SpanContext              { return s.context }
func (s *span) SetStatus(code codes.Code, _ string)         { s.status = code }
func (s *span) RecordError(e error, _ ...trace.EventOption) { s.err = e }
func (s *span) SetAttributes(kvs ...attribute.KeyValue) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	for _, kv := range kvs {
		s.attributes[kv.Key] = kv.Value
	}
}

func (r *recorder) named(name string) (spans []*span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func measured(t *testing.T, options leasing.Options, test func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder)) {
	r := newRecorder()
	options.MeterProvider, options.TracerProvider = meters{r: r}, tracers{r: r}
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) { test(t, m, p, r) })
}

// A lease is removed from the count, however it ends.
func TestTrap_T37_ActiveCountReturnsToZero(t *testing.T) {
	measured(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		take := func(name string) *leasing.Lease {
			l, err := m.With(leasing.AcquireOptions{TTL: time.Second}).Acquire(t.Context(), name)
			require.NoError(t, err)
			require.EqualValues(t, 1, r.sum("leasing.active.count", ""))
			return l
		}
		ends := map[string]func(l *leasing.Lease){
			"released": func(l *leasing.Lease) { require.NoError(t, l.Release(t.Context())) },
			"expired":  func(l *leasing.Lease) { time.Sleep(2 * time.Second) },
			"taken":    func(l *leasing.Lease) { leasingtest.Lose(t, p, l, leasing.LostTaken) },
			"release unanswered": func(l *leasing.Lease) {
				defer p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))()
				require.Error(t, l.Release(t.Context()))
			},
			"released twice": func(l *leasing.Lease) {
				require.NoError(t, l.Release(t.Context()))
				require.NoError(t, l.Release(t.Context()))
			},
			"lost, then released": func(l *leasing.Lease) {
				leasingtest.Lose(t, p, l, leasing.LostBroken)
				require.Error(t, l.Release(t.Context()))
			},
		}
		for how, end := range ends {
			end(take("a/" + how))
			require.Zero(t, r.sum("leasing.active.count", ""), how)
		}
		require.EqualValues(t, len(ends), r.sum("leasing.acquire.success", ""))
		require.EqualValues(t, len(ends), r.sum("leasing.held.duration", ""))
		require.EqualValues(t, 3, r.sum("leasing.lost", ""))
		require.EqualValues(t, 1, r.sum("leasing.lost", "leasing.lost.reason=expired"))
		require.EqualValues(t, 3, r.sum("leasing.release.duration", ""))
		require.EqualValues(t, 1, r.sum("leasing.release.duration", "error.type=unavailable"))

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		l := take("a/forsaken")
		require.Error(t, m.Close(ctx))
		require.Zero(t, r.sum("leasing.active.count", ""), "left in use at Close")
		require.ErrorIs(t, l.Err(), leasing.ErrClosed)
	})
}

func TestMetrics(t *testing.T) {
	measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		l := acquire(t, m, nil)
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		p.Use(leasingtest.Fail(leasingtest.Renew, 2, errNetwork))
		time.Sleep(30 * time.Second)

		waiting := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go func() {
				_, err := m.Acquire(ctx, name)
				waiting <- err
			}()
		}
		synctest.Wait()
		require.EqualValues(t, 3, r.sum("leasing.waiters", "leasing.scope=jobs"))
		cancel()
		for range 3 {
			require.Error(t, <-waiting)
		}
		require.Zero(t, r.sum("leasing.waiters", ""))
		require.NoError(t, l.Release(t.Context()))

		const scope = "leasing.provider=memory,leasing.scope=jobs"
		for sum, want := range map[string]float64{
			"leasing.acquire.duration{leasing.provider=memory,leasing.scope=jobs}":                        1,
			"leasing.acquire.duration{error.type=held,leasing.provider=memory,leasing.scope=jobs}":        2,
			"leasing.acquire.success{" + scope + "}":                                                      1,
			"leasing.acquire.failure{error.type=held," + scope + "}":                                      2, // one of them the head of the queue
			"leasing.acquire.failure{error.type=canceled," + scope + "}":                                  2,
			"leasing.renewal.failure{error.type=unavailable," + scope + "}":                               2,
			"leasing.renewal.success{" + scope + "}":                                                      1,
			"leasing.renewal.margin{" + scope + "}":                                                       1,
			"leasing.renewal.duration{error.type=unavailable,leasing.provider=memory,leasing.scope=jobs}": 2,
			"leasing.release.duration{leasing.provider=memory,leasing.scope=jobs}":                        1,
			"leasing.held.duration{" + scope + "}":                                                        1,
		} {
			require.EqualValues(t, want, r.sums[sum], sum)
		}
	})
}

// Renewals that share a request are counted one by one, and measured once for each scope.
func TestABatchRecordsTheLeastMargin(t *testing.T) {
	exactly := func() float64 { return 0 }
	measured(t, leasing.Options{TTL: 30 * time.Second, Tuning: leasing.Tuning{Random: exactly}}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider, r *recorder) {
		for _, name := range []string{"reports/1", "reports/2", "reports/3", "others/1"} {
			l, err := m.Acquire(t.Context(), name)
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 4, r.sum("leasing.renewal.success", ""))
		for _, histogram := range []string{"leasing.renewal.margin", "leasing.renewal.duration"} {
			require.EqualValues(t, 1, r.sum(histogram, "leasing.scope=reports"), histogram)
			require.EqualValues(t, 1, r.sum(histogram, "leasing.scope=others"), histogram)
		}
		require.InDelta(t, (window(30*time.Second) - 18*time.Second).Seconds(), r.least["leasing.renewal.margin"], 1e-9)
	})
}

func TestScopesAreBounded(t *testing.T) {
	require.Equal(t, "_none", instrument.FirstPart("a"))
	require.Equal(t, "a", instrument.FirstPart("a/b"))
	require.Equal(t, "a", instrument.FirstPart("a/b/c/d"))
	require.Empty(t, instrument.FirstPart("//"))
	whole := func(name string) string { return name }
	measured(t, leasing.Options{Scope: whole}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider, r *recorder) {
		for i := range instrument.MaxScopes + 100 {
			l, err := m.TryAcquire(t.Context(), fmt.Sprintf("reply/%d", i))
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		require.EqualValues(t, 1, r.sum("leasing.acquire.success", "leasing.scope=reply/0}"))
		require.EqualValues(t, 100, r.sum("leasing.acquire.success", "leasing.scope=_other"))
	})
}

// The first increase of a counter is visible only if the counter had a value of 0 before.
func TestCountersAreThereBeforeTheirFirstEvent(t *testing.T) {
	measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider, r *recorder) {
		l := acquire(t, m, nil)
		const scope = "leasing.provider=memory,leasing.scope=jobs}"
		for _, key := range []string{
			"leasing.cleanups{leasing.provider=memory}",
			"leasing.observer.panics{leasing.provider=memory}",
			"leasing.renewal.failure{error.type=unavailable," + scope,
			"leasing.lost{leasing.lost.reason=expired," + scope,
			"leasing.lost{leasing.lost.reason=taken," + scope,
			"leasing.lost{leasing.lost.reason=broken," + scope,
		} {
			n, there := r.sums[key]
			require.True(t, there, key)
			require.Zero(t, n, key)
		}
		require.NoError(t, l.Release(t.Context()))
	})
}

// An instrument may acquire a lease with a new scope.
func TestTrap_T67_InstrumentsMayAcquire(t *testing.T) {
	var m *leasing.Manager
	nested := 0
	meters := hooked{hook: func(instrument string) {
		if m == nil || instrument != "leasing.lost" || nested > 0 {
			return
		}
		nested++
		l, err := m.TryAcquire(context.Background(), "others/1")
		require.NoError(t, err)
		require.NoError(t, l.Release(context.Background()))
	}}
	virtual(t, leasing.Options{MeterProvider: meters}, func(t *testing.T, of *leasing.Manager, _ *leasingtest.Provider) {
		m = of
		l := acquire(t, m, nil)
		require.Equal(t, 1, nested)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A clean-up counts until it is settled.
func TestCleanUpsAreCounted(t *testing.T) {
	measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		stop := p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, errNetwork))
		_, err := m.TryAcquire(t.Context(), name)
		require.Error(t, err)
		stop()
		require.EqualValues(t, 1, r.sum("leasing.cleanups", ""))
		time.Sleep(time.Minute)
		require.Zero(t, r.sum("leasing.cleanups", ""))
	})
}

func TestSpans(t *testing.T) {
	measured(t, leasing.Options{Tuning: leasing.Tuning{RenewBatch: 1}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		ctx, caller := tracer{r: r}.Start(t.Context(), "caller")
		l, err := m.Acquire(ctx, name)
		require.NoError(t, err)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
		time.Sleep(25 * time.Second)
		_, err = m.Break(t.Context(), name, leasing.BreakOptions{IfToken: 1})
		require.ErrorIs(t, err, leasing.ErrStale)
		require.NoError(t, l.Release(t.Context()))

		acquired := r.named("leasing.acquire")
		require.Len(t, acquired, 1)
		require.Equal(t, caller.SpanContext(), acquired[0].parent)
		require.Equal(t, name, acquired[0].attributes["leasing.name"].AsString())
		require.Equal(t, leasing.FingerprintOf(l.ID()).String(), acquired[0].attributes["leasing.fingerprint"].AsString())
		require.Equal(t, l.Token(), acquired[0].attributes["leasing.token"].AsInt64())
		require.InDelta(t, 30, acquired[0].attributes["leasing.ttl"].AsFloat64(), 0)
		renewed := r.named("leasing.renew")
		require.Len(t, renewed, 2)
		require.Equal(t, codes.Error, renewed[0].status)
		require.ErrorIs(t, renewed[0].err, leasing.ErrUnavailable)
		require.Equal(t, codes.Unset, renewed[1].status)
		for _, s := range append(renewed, r.named("leasing.release")...) {
			require.Len(t, s.links, 1, s.name)
			require.Equal(t, caller.SpanContext(), s.links[0].SpanContext, s.name)
		}
		require.Len(t, r.named("leasing.break"), 1)
	})
}

// OpenTelemetry's SimpleSpanProcessor exports a span within End, which may take long. Ending the span of one lost lease must not
// delay the loss of another lease.
func TestTrap_T280_AnExportDelaysNoLoss(t *testing.T) {
	measured(t, leasing.Options{TTL: 10 * time.Second, NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider, r *recorder) {
		r.ended = func(span string) {
			if span == "leasing.lost" {
				time.Sleep(time.Hour)
			}
		}
		first, err := m.TryAcquire(t.Context(), "first")
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := m.TryAcquire(t.Context(), "second")
		require.NoError(t, err)
		for _, l := range []*leasing.Lease{first, second} {
			acquired := l.AcquiredAt()
			<-l.Done()
			require.LessOrEqual(t, time.Since(acquired), 10*time.Second)
			require.ErrorIs(t, l.Err(), leasing.ErrLost)
		}
		time.Sleep(2 * time.Hour)
	})
}

// A trace shows how many requests an operation took, and why each lease was lost, even if no renewal has failed.
func TestTrap_T267_SpansRecordAttemptsAndLosses(t *testing.T) {
	attempts := func(spans []*span) (all []int64) {
		for _, s := range spans {
			all = append(all, s.attributes["leasing.attempts"].AsInt64())
		}
		return all
	}
	for reason, lose := range map[leasing.LostReason]func(t *testing.T, p *leasingtest.Provider, l *leasing.Lease){
		leasing.LostTaken: func(t *testing.T, p *leasingtest.Provider, l *leasing.Lease) {
			leasingtest.Lose(t, p, l, leasing.LostTaken)
		},
		leasing.LostExpired: func(t *testing.T, p *leasingtest.Provider, l *leasing.Lease) {
			p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
			time.Sleep(time.Minute)
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
				ctx, caller := tracer{r: r}.Start(t.Context(), "caller")
				p.Use(leasingtest.Fail(leasingtest.Acquire, 2, errNetwork))
				l, err := m.Acquire(ctx, name)
				require.NoError(t, err)
				require.Equal(t, []int64{3}, attempts(r.named("leasing.acquire")))
				p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
				require.Error(t, l.Renew(ctx))
				require.NoError(t, l.Renew(ctx))
				require.NoError(t, l.Renew(ctx))
				synctest.Wait() // Renew returns before its span ends
				require.Equal(t, []int64{1, 2, 1}, attempts(r.named("leasing.renew")))
				require.Empty(t, r.named("leasing.lost"))

				lose(t, p, l)
				synctest.Wait()
				lost := r.named("leasing.lost")
				require.Len(t, lost, 1)
				require.Equal(t, string(reason), lost[0].attributes["leasing.lost.reason"].AsString())
				require.Equal(t, leasing.FingerprintOf(l.ID()).String(), lost[0].attributes["leasing.fingerprint"].AsString())
				require.Equal(t, "lost", lost[0].attributes["error.type"].AsString())
				require.Equal(t, caller.SpanContext(), lost[0].links[0].SpanContext)
				for _, s := range append(r.named("leasing.renew"), r.named("leasing.acquire")...) {
					if s.attributes["error.type"].AsString() == "lost" {
						require.Equal(t, string(reason), s.attributes["leasing.lost.reason"].AsString())
					} else {
						require.NotContains(t, s.attributes, attribute.Key("leasing.lost.reason"))
					}
				}
				p.Clear()
				p.Use(leasingtest.Fail(leasingtest.Release, 2, errNetwork))
				again, err := m.Acquire(ctx, "another")
				require.NoError(t, err)
				require.NoError(t, again.Release(ctx))
				require.Equal(t, []int64{3}, attempts(r.named("leasing.release")))
			})
		})
	}
}

func TestSpanOfABatch(t *testing.T) {
	measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		ctx, caller := tracer{r: r}.Start(t.Context(), "caller")
		for i := range 10 {
			l, err := m.With(leasing.AcquireOptions{RenewCadence: 10 * time.Second}).Acquire(ctx, fmt.Sprint("a/b/", i))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(t.Context())) }()
		}
		time.Sleep(10*time.Second + 1)
		for _, s := range r.named("leasing.renew") {
			require.NotEmpty(t, s.links)
			require.Equal(t, caller.SpanContext(), s.links[0].SpanContext)
			if count := s.attributes["leasing.count"].AsInt64(); count > 1 {
				return
			}
		}
		require.Fail(t, "no renewals shared a request")
	})
}
