package assign

// plan returns the worker for each partition. Partitions and workers are sorted, and there is
// at least one worker.
//
// Workers that read the same list make the same plan. Carrying out a part of the plan, in any
// order, does not change the plan: otherwise workers that list at different moments would move
// partitions that can stay. So a decision may depend only on facts that stay the same while a plan
// is carried out. If the partitions do not divide evenly, one extra partition each goes to workers
// that are preferred for more than an equal share, then to workers that can keep more, and then to
// the first workers by name.
func plan(partitions, workers []string, holders map[string]string, preferred func(partition string) string) map[string]string {
	assigned, capacity, count := make(map[string]string, len(partitions)), map[string]int{}, map[string]int{}
	assign := func(choose func(partition string) string) {
		for _, p := range partitions {
			if w := choose(p); assigned[p] == "" && capacity[w] > 0 {
				assigned[p] = w
				capacity[w]--
				count[w]++
			}
		}
	}
	currentHolder := func(p string) string { return holders[p] }
	preferredHolder := func(p string) string {
		if holders[p] != preferred(p) {
			return ""
		}
		return holders[p]
	}
	share, rest := len(partitions)/len(workers), len(partitions)%len(workers)
	wanted, kept := map[string]int{}, map[string]int{}
	for _, p := range partitions {
		wanted[preferred(p)]++
	}
	addCapacity := func(demand map[string]int, atLeast int) {
		for _, w := range workers {
			if rest > 0 && capacity[w]+count[w] == share && demand[w] >= atLeast {
				capacity[w]++
				rest--
			}
		}
	}
	for _, w := range workers {
		capacity[w] = share
	}
	addCapacity(wanted, share+1)
	assign(preferredHolder)
	assign(preferred)
	for _, p := range partitions {
		if assigned[p] == "" {
			kept[holders[p]]++
		}
	}
	for _, w := range workers {
		kept[w] += count[w]
	}
	addCapacity(kept, share+1)
	addCapacity(kept, 0)
	assign(currentHolder)
	assign(func(string) string {
		for len(workers) > 1 && capacity[workers[0]] == 0 {
			workers = workers[1:]
		}
		return workers[0]
	})
	return assigned
}
