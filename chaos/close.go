package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// closeTimeout bounds how long Close waits for goroutines.
const closeTimeout = 10 * time.Second

// Close drops pending late deliveries, ends calls that hang, and waits for the
// wrapper's goroutines for up to 10 s. Then it closes the wrapped provider,
// unless Options.KeepOpen is set. A second Close returns the same error.
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

// spawn starts a goroutine that Close waits for. It reports false after Close.
func (p *Provider) spawn(work func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return false
	}
	p.workers.Go(work)
	return true
}

// Disable stops the named rules, or without names the whole plan, which then
// also counts nothing. Pending late deliveries still arrive: see Settle. An
// unknown name is an error.
func (p *Provider) Disable(rules ...string) error { return p.setDisabled(true, rules) }

// Enable undoes Disable. Without names it restarts the plan, except for rules
// that were disabled by name.
func (p *Provider) Enable(rules ...string) error { return p.setDisabled(false, rules) }

func (p *Provider) setDisabled(disabled bool, names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(names) == 0 {
		p.inactive.Store(disabled || len(p.rules) == 0)
		return nil
	}
	chosen := make([]*rule, len(names))
	for i, name := range names {
		at := slices.IndexFunc(p.rules, func(r *rule) bool { return r.Name == name })
		if at < 0 {
			return invalid("rules", name, "the name of a rule of the plan")
		}
		chosen[i] = p.rules[at]
	}
	for _, r := range chosen {
		r.disabled = disabled
	}
	return nil
}
