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
	of, room, has := make(map[string]string, len(partitions)), map[string]int{}, map[string]int{}
	assign := func(choose func(partition string) string) {
		for _, p := range partitions {
			if w := choose(p); of[p] == "" && room[w] > 0 {
				of[p] = w
				room[w]--
				has[w]++
			}
		}
	}
	holder := func(p string) string { return holders[p] }
	both := func(p string) string {
		if holders[p] != preferred(p) {
			return ""
		}
		return holders[p]
	}
	share, rest := len(partitions)/len(workers), len(partitions)%len(workers)
	wanted, keeps := map[string]int{}, map[string]int{}
	for _, p := range partitions {
		wanted[preferred(p)]++
	}
	oneMore := func(count map[string]int, atLeast int) {
		for _, w := range workers {
			if rest > 0 && room[w]+has[w] == share && count[w] >= atLeast {
				room[w]++
				rest--
			}
		}
	}
	for _, w := range workers {
		room[w] = share
	}
	oneMore(wanted, share+1)
	assign(both)
	assign(preferred)
	for _, p := range partitions {
		if of[p] == "" {
			keeps[holders[p]]++
		}
	}
	for _, w := range workers {
		keeps[w] += has[w]
	}
	oneMore(keeps, share+1)
	oneMore(keeps, 0)
	assign(holder)
	assign(func(string) string {
		for len(workers) > 1 && room[workers[0]] == 0 {
			workers = workers[1:]
		}
		return workers[0]
	})
	return of
}
