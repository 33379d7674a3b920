package assign

// plan returns the worker for each partition. Partitions and workers are sorted, and there is
// at least one worker.
//
// All workers make the same plan of the same list. Carrying out a part of the plan, in
// any order, does not change the plan: otherwise workers that list at different moments
// would move partitions that can stay. So the facts that decide must not change while
// the plan is carried out. A worker gets one partition more than the others if it is
// preferred for that many, or may keep that many.
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
