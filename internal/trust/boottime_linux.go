package trust

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Numbers of the Linux ABI that package syscall lacks: clock_gettime(2),
// timerfd_create(2).
const (
	clockBoottime = 7
	tfdNonblock   = syscall.O_NONBLOCK
	tfdCloexec    = syscall.O_CLOEXEC
)

// SystemClock returns a clock that also reads CLOCK_BOOTTIME, and whose alarm is a timerfd on the boot clock. In virtual time
// (testing/synctest) the clock uses neither: the boot clock would not follow virtual time, and a goroutine reading a file would
// stop virtual time.
func SystemClock() *Clock {
	if virtualTime() || bootTime() == 0 {
		return NewClock(nil, nil)
	}
	alarm, err := newTimerfd()
	if err != nil { // out of file descriptors, say: the clock alone still bounds trust
		return NewClock(bootTime, nil)
	}
	return NewClock(bootTime, alarm)
}

// virtualTime reports whether time.Now differs from the kernel's clock.
func virtualTime() bool {
	var tv syscall.Timeval
	if syscall.Gettimeofday(&tv) != nil {
		return false
	}
	return time.Since(time.Unix(tv.Unix())).Abs() > time.Hour
}

// bootTime reads CLOCK_BOOTTIME, or returns 0 where there is no such clock. A clock that has worked once can't fail later.
func bootTime() time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// timerfd is an Alarm. The file is in the runtime's poller, so the goroutine that reads it does not
// occupy a thread.
type timerfd struct {
	file   *os.File
	signal chan struct{}
	done   sync.WaitGroup
}

func newTimerfd() (*timerfd, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, uintptr(tfdNonblock|tfdCloexec), 0)
	if errno != 0 {
		return nil, errno
	}
	t := &timerfd{file: os.NewFile(fd, "timerfd"), signal: make(chan struct{}, 1)}
	t.done.Go(t.read)
	return t, nil
}

func (t *timerfd) read() {
	var expirations [8]byte
	for {
		if _, err := t.file.Read(expirations[:]); err != nil {
			return
		}
		select {
		case t.signal <- struct{}{}:
		default:
		}
	}
}

func (t *timerfd) Set(in time.Duration) {
	spec := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(max(int64(in), 1))}
	raw, err := t.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
}

func (t *timerfd) Fired() <-chan struct{} { return t.signal }

func (t *timerfd) Close() {
	_ = t.file.Close()
	t.done.Wait()
}
