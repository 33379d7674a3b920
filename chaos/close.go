package chaos

import (
	"errors"
	"fmt"
	"time"
)

// closeTimeout bounds how long Close waits for goroutines.
const closeTimeout = 10 * time.Second

// Close drops what is on its way late, ends calls that hang, and waits for the
// wrapper's goroutines for up to 10 s. Then it closes the wrapped provider,
// unless Options.KeepOpen is set. Closing again returns the same.
func (p *Provider) Close() error { return p.close() }

func (p *Provider) shutDown() error {
	p.closed.Store(true)
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	p.end()
	err := p.join()
	if !p.options.KeepOpen {
		err = errors.Join(err, p.inner.Close())
	}
	return err
}

func (p *Provider) join() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.workers.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("chaos: close: late requests to the provider have not ended within %v", closeTimeout)
	}
}

// spawn starts a goroutine that Close waits for. It reports whether it could.
func (p *Provider) spawn(work func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return false
	}
	p.workers.Go(work)
	return true
}
