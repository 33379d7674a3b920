package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
)

const (
	// demoTTL is short, so that one needn't wait long for a dead holder's lease.
	demoTTL = 3 * time.Second
	// demoPace is quick work, so that there is something to see.
	demoPace = 700 * time.Millisecond
	// patience is for what takes no time but on a machine that is busy.
	patience = 30 * time.Second
)

// play is one run of the demo. It checks what it shows.
type play struct {
	*crew
	settings
	out     io.Writer
	began   time.Time
	backend leasing.Capabilities
	ttl     time.Duration

	terms  []report                  // acquired, in order
	items  map[int64]int             // done, by token
	shown  map[string]map[int64]bool // whom a worker has shown as the holder, by token
	killed string
}

// demo starts three workers, kills the one that works, and asks its successors to
// stop. It returns an error if anything went otherwise than it should.
func demo(ctx context.Context, s settings, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "leasing-worker-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	p, err := newPlay(ctx, s, folder, out)
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.perform(ctx); err != nil {
		return err
	}
	return p.judge(ctx)
}

// newPlay looks what the backend can do, and gives the run a name and a ledger of
// its own.
func newPlay(ctx context.Context, s settings, folder string, out io.Writer) (*play, error) {
	s.Name += "-" + strings.ToLower(rand.Text()[:8])
	s.Ledger = filepath.Join(folder, "ledger.db")
	s.Leasing.TTL = duration(demoTTL)
	provider, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	p := &play{settings: s, out: out, began: time.Now(), backend: provider.Capabilities(), items: map[int64]int{}, shown: map[string]map[int64]bool{}}
	p.ttl = s.ttlOn(p.backend)
	p.crew = newCrew(s.args(p.ttl), s.childEnv())
	return p, provider.Close()
}

// args are those of the workers. A URL is not among them: see urlVariable.
func (s settings) args(ttl time.Duration) []string {
	args := []string{
		"-name", s.Name, "-ledger", s.Ledger, "-ttl", demoTTL.String(),
		"-pace", max(demoPace, ttl/10).String(), "-show", max(time.Second, ttl/4).String(),
	}
	if s.file != "" {
		args = append(args, "-config", s.file)
	}
	return args
}

func (s settings) childEnv() []string {
	if s.url == "" {
		return s.vars
	}
	return append(s.vars, urlVariable+"="+s.url)
}

// perform is what happens.
func (p *play) perform(ctx context.Context) error {
	p.introduce()
	for _, name := range []string{"w1", "w2", "w3"} {
		if err := p.start(name); err != nil {
			return err
		}
	}
	if err := p.until(ctx, p.ttl, "a holder that renews, and two who show it", func(r report) bool {
		return r.Kind == renewed && r.Token == p.latest().Token && p.othersShow()
	}); err != nil {
		return err
	}
	if err := p.killTheHolder(ctx); err != nil {
		return err
	}
	for len(p.running) > 0 {
		if err := p.dismissTheHolder(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) introduce() {
	p.act("three workers compete for one lease of %v on %s; one works, two wait", p.ttl, p.backend.Provider)
	if p.ttl > demoTTL {
		p.act("%s has no leases shorter than %v, and that of a killed holder lives on for up to so long", p.backend.Provider, p.ttl)
	}
	if !p.backend.RemainingKnown {
		p.act("%s does not tell those who wait how long a lease still runs", p.backend.Provider)
	}
	if p.backend.Lateness.After(p.ttl) > time.Second {
		p.act("it may take %s up to %v more to free a lease that has run out", p.backend.Provider, p.backend.Lateness.After(p.ttl))
	}
}

// killTheHolder kills the holder and waits for its successor.
func (p *play) killTheHolder(ctx context.Context) error {
	holder := p.latest()
	p.act("kill -KILL %s: it can tell nobody, so its lease has to run out", holder.Worker)
	p.killed = holder.Worker
	at := time.Now()
	if err := p.kill(holder.Worker); err != nil {
		return err
	}
	return p.successor(ctx, holder, at)
}

// dismissTheHolder waits until the holder has worked, asks it to stop, and waits
// for its successor, if there is anyone left.
func (p *play) dismissTheHolder(ctx context.Context) error {
	if err := p.until(ctx, p.ttl, "the holder to do two items", func(r report) bool {
		return r.Kind == did && p.items[p.latest().Token] >= 2 && p.running[p.latest().Worker] && p.othersShow()
	}); err != nil {
		return err
	}
	holder := p.latest()
	p.act("kill -TERM %s: it may stop in order, and gives its lease up", holder.Worker)
	at := time.Now()
	if err := p.stop(holder.Worker); err != nil {
		return err
	}
	if len(p.running) > 1 {
		return p.successor(ctx, holder, at)
	}
	return p.until(ctx, 0, "the last worker to end", func(report) bool { return len(p.running) == 0 })
}

// successor waits for somebody to have the lease after the holder.
func (p *play) successor(ctx context.Context, holder report, since time.Time) error {
	err := p.until(ctx, p.ttl+p.backend.Lateness.After(p.ttl), "a successor of "+holder.Worker, func(r report) bool {
		return r.Kind == acquired && r.Token > holder.Token
	})
	if err == nil {
		p.act("%s took over after %.1fs, with a higher token", p.latest().Worker, time.Since(since).Seconds())
	}
	return err
}

// latest is the latest holder's report that it has the lease.
func (p *play) latest() report {
	if len(p.terms) == 0 {
		return report{}
	}
	return p.terms[len(p.terms)-1]
}

// until shows what the workers report until what is awaited is reported.
func (p *play) until(ctx context.Context, expected time.Duration, what string, awaited func(report) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, expected+patience, fmt.Errorf("waited %v for %s", expected+patience, what))
	defer cancel()
	for {
		r, err := p.next(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "%6.2fs  %-3s %s\n", r.Time.Sub(p.began).Seconds(), r.Worker, oneLine(r.line()))
		if err := p.see(r); err != nil {
			return err
		}
		if awaited(r) {
			return nil
		}
	}
}

// act prints what the demo does.
func (p *play) act(format string, args ...any) {
	fmt.Fprintf(p.out, "%6.2fs      ── %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
