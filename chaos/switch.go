package chaos

// Disable stops the rules with these names, or all if there are none: nothing
// happens any more and nothing is counted. What is on its way late still
// arrives: see Settle. A name that no rule has is an error.
func (p *Provider) Disable(rules ...string) error { return p.turn(true, rules) }

// Enable undoes Disable. Without names it lets those rules go on that were not
// disabled by name.
func (p *Provider) Enable(rules ...string) error { return p.turn(false, rules) }

func (p *Provider) turn(off bool, names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(names) == 0 {
		p.quiet.Store(off || len(p.rules) == 0)
		return nil
	}
	meant := make([]*rule, len(names))
	for i, name := range names {
		for _, r := range p.rules {
			if r.Name == name {
				meant[i] = r
			}
		}
		if meant[i] == nil {
			return invalid("rules", name, "the name of a rule of the plan")
		}
	}
	for _, r := range meant {
		r.disabled = off
	}
	return nil
}
