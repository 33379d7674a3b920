package torture

// releases finds leases that were given up at the backend while their holder was still at
// work: its context lived, or Do's function had not returned.
func (n *named) releases() {
	for _, o := range n.operations {
		if o.Early {
			n.violated(o.Call, "claim %s of worker %d was released while its holder was at work", o.Claim, o.Worker)
		}
	}
}
