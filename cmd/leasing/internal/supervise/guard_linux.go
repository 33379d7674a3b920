package supervise

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self returns the path of this program, even if its file was replaced after the start.
func self() string { return "/proc/self/exe" }

// diesWithGuard makes the kernel kill the command when the guard has died for any reason.
func diesWithGuard() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL} }

// bootTime reads a clock that all processes of the machine share, and that continues while
// the machine is suspended.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // can't fail for this clock
	return time.Duration(now.Nano())
}

// alarm is a timer on the boot clock: the time of poll's own timeout does not advance
// while the machine is suspended.
type alarm struct{ fd int }

// set makes file readable at the time at, and returns the timeout for poll, in ms.
func (a *alarm) set(file *unix.PollFd, at time.Duration) int {
	if a.fd == 0 {
		a.fd, _ = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	if at == never {
		return -1
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))}
	if unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil) != nil {
		return int(min(at-bootTime(), time.Second)/time.Millisecond) + 1
	}
	file.Fd = int32(a.fd)
	return -1
}

// Check returns the reason why no command can be run here, or nil.
func Check() error {
	if _, err := os.Stat(self()); err != nil {
		return fmt.Errorf("/proc is not mounted, and leasing finds the processes of a command there: %w", err)
	}
	return nil
}
