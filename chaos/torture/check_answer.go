package torture

// answers finds grants of something that was not asked for.
func (n *named) answers() {
	for _, o := range n.operations {
		if o.Stray != "" {
			n.violated(o.Return, "%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s",
				o.Verb, o.Claim, o.Worker, o.Layer, o.Stray, o.StrayClaim)
		}
	}
}
