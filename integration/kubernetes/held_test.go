package kubernetes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// BenchmarkHeld holds many names in one process for a minute, and reports the numbers of held and lost names, the time to get
// them all, the writes per second, and the costs for this process and the server.
func BenchmarkHeld(b *testing.B) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // otherwise 10,000 candidates log that they lead
	defer klog.ClearLogger()
	text, config := serverConfig(b)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	namespace := func(b *testing.B) string {
		name := "held-" + abstractions.NewID()
		_, err := client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(b, err)
		return name
	}
	u, err := url.Parse(text)
	require.NoError(b, err)
	programs := servers(b, u.Port())

	for _, leases := range []int{2_000, 5_000, 10_000} { // of 30 s, renewed after 17 s
		b.Run(fmt.Sprint("leasing-", leases), func(b *testing.B) {
			u.Path = "/" + namespace(b)
			m, err := leasing.NewManager(open(b, u.String()), leasing.Options{})
			require.NoError(b, err)
			var held sync.Map
			hold(b, leases, programs, func(i int) (<-chan struct{}, error) {
				lease, err := m.TryAcquire(b.Context(), fmt.Sprint("held-", i))
				if err != nil {
					return nil, err
				}
				held.Store(i, lease)
				return lease.Done(), nil
			}, func() (writes int64) {
				held.Range(func(_, lease any) bool {
					writes += int64(lease.(*leasing.Lease).Renewals())
					return true
				})
				return writes
			})
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Close(ended) // the leases run out
		})
	}
	for _, c := range []struct {
		name                         string
		leases                       int
		duration, deadline, interval time.Duration
	}{
		{"client-go-as-often-10000", 10_000, 30 * time.Second, 28 * time.Second, 17 * time.Second},
		{"client-go-by-default-1000", 1_000, 15 * time.Second, 10 * time.Second, 2 * time.Second},
		{"client-go-by-default-10000", 10_000, 15 * time.Second, 10 * time.Second, 2 * time.Second},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := namespace(b)
			var writes atomic.Int64
			counted := rest.CopyConfig(config)
			counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					response, err := next.RoundTrip(req)
					if err == nil && req.Method == http.MethodPut && response.StatusCode == http.StatusOK {
						writes.Add(1)
					}
					return response, err
				})
			})
			client, err := kubernetes.NewForConfig(counted)
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			hold(b, c.leases, programs, func(i int) (<-chan struct{}, error) {
				leads, stopped := make(chan struct{}), make(chan struct{})
				elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{
						LeaseMeta: metav1.ObjectMeta{Namespace: in, Name: fmt.Sprint("held-", i)}, Client: client.CoordinationV1(),
						LockConfig: resourcelock.ResourceLockConfig{Identity: "a"},
					},
					LeaseDuration: c.duration, RenewDeadline: c.deadline, RetryPeriod: c.interval,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { close(leads) },
						OnStoppedLeading: func() { close(stopped) },
					},
				})
				if err != nil {
					return nil, err
				}
				all.Go(func() { elector.Run(ctx) })
				select {
				case <-leads:
					return stopped, nil
				case <-time.After(10 * time.Second):
					return nil, errors.New("no lease within 10 s")
				}
			}, writes.Load)
			stop()
			all.Wait()
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// hold acquires names, until ten acquires have failed or two minutes have passed, and keeps the names for a minute.
func hold(b *testing.B, names int, servers []string, acquire func(i int) (lost <-chan struct{}, err error), writes func() int64) {
	const clients, during, timeout = 32, time.Minute, 2 * time.Minute
	for b.Loop() {
		var next, failed atomic.Int64
		var all sync.WaitGroup
		var mu sync.Mutex
		var first error
		var held []<-chan struct{}
		memory, begun := inUse(), time.Now()
		for range clients {
			all.Go(func() {
				for i := next.Add(1); i <= int64(names) && failed.Load() < 10 && time.Since(begun) < timeout; i = next.Add(1) {
					gone, err := acquire(int(i))
					mu.Lock()
					if err != nil {
						failed.Add(1)
						first = cmp.Or(first, err)
					} else {
						held = append(held, gone)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		b.ReportMetric(time.Since(begun).Seconds(), "s/acquire")
		client, server, before, from := cpuUsed(), cpuOf(servers), writes(), time.Now()
		<-time.After(during)
		seconds := time.Since(from).Seconds()
		b.ReportMetric(float64(writes()-before)/seconds, "renewals/s")
		b.ReportMetric((cpuUsed()-client).Seconds()/seconds, "client-cpus")
		b.ReportMetric((cpuOf(servers)-server).Seconds()/seconds, "server-cpus")
		lost := 0
		for _, gone := range held {
			select {
			case <-gone:
				lost++
			default:
			}
		}
		b.ReportMetric(float64(len(held)), "held")
		b.ReportMetric(float64(lost), "lost")
		b.ReportMetric(float64(inUse()-memory)/1e6, "MB")
		if first != nil {
			b.Log(first)
		}
	}
}

// inUse returns the memory in use, in bytes, including stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// cpuUsed returns the processor time of this process.
func cpuUsed() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// servers returns the folders in /proc of the API server on a port of this machine and of its etcd.
func servers(b *testing.B, port string) (folders []string) {
	find := func(argument string) (arguments []string) {
		paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(text), argument) {
				folders = append(folders, filepath.Dir(path))
				return strings.Split(string(text), "\x00")
			}
		}
		b.Log("a server that is not on this machine: its processor time is not known")
		return nil
	}
	server := find("\x00--secure-port\x00" + port + "\x00")
	if i := slices.Index(server, "--etcd-servers"); i > 0 {
		find("\x00--listen-client-urls\x00" + server[i+1] + "\x00")
	}
	return folders
}

// cpuOf returns the processor time of other processes, which /proc reports in hundredths of a second: proc_pid_stat(5).
func cpuOf(folders []string) (total time.Duration) {
	for _, folder := range folders {
		stat, _ := os.ReadFile(folder + "/stat")
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, field := range fields[min(11, len(fields)):min(13, len(fields))] {
			ticks, _ := strconv.Atoi(field)
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}
