package providertest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// abilityFlaws are about the optional interfaces.
var abilityFlaws = []flaw{
	{
		name: "a batch stops at the first failure",
		apply: func(f *fake) {
			f.renewBatch = func(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
				var results []abstractions.RenewResult
				for _, req := range reqs {
					grant, err := f.server.Renew(ctx, req)
					if err != nil {
						return results, err
					}
					results = append(results, abstractions.RenewResult{Grant: grant})
				}
				return results, nil
			}
		},
		failing: []string{"Trap_T66_ItemIsNeitherSuccessNorLossByAccident"},
	},
	{
		name: "a batch answers for what was renewed only",
		apply: func(f *fake) {
			f.onBatch(func(results []abstractions.RenewResult) []abstractions.RenewResult {
				return slices.DeleteFunc(results, func(result abstractions.RenewResult) bool { return result.Err != nil })
			})
		},
		failing: []string{"Trap_T66_ItemIsNeitherSuccessNorLossByAccident"},
	},
	{
		name: "an item that is missing in a batch's answer is a success",
		apply: func(f *fake) {
			f.onBatch(func(results []abstractions.RenewResult) []abstractions.RenewResult {
				for i := range results {
					results[i].Err = nil
				}
				return results
			})
		},
		failing: []string{"Trap_T66_ItemIsNeitherSuccessNorLossByAccident"},
	},
	{
		name: "an item that is missing in a batch's answer is lost",
		apply: func(f *fake) {
			f.onBatch(func(results []abstractions.RenewResult) []abstractions.RenewResult {
				results[len(results)-1] = abstractions.RenewResult{Err: &abstractions.LostError{Reason: abstractions.LostGone}}
				return results
			})
		},
		failing: []string{"Trap_T66_ItemIsNeitherSuccessNorLossByAccident", "Batch_RenewsAll", "Batch_SameClaimTwice"},
	},
	{
		name: "a batch answers in an order of its own",
		apply: func(f *fake) {
			f.onBatch(func(results []abstractions.RenewResult) []abstractions.RenewResult {
				slices.Reverse(results)
				return results
			})
		},
		failing: []string{"Batch_RenewsAll"},
	},
	{
		name: "an empty batch is an error",
		apply: func(f *fake) {
			f.renewBatch = func(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
				if len(reqs) == 0 {
					return nil, abstractions.ErrInvalid
				}
				return f.server.RenewBatch(ctx, reqs)
			}
		},
		failing: []string{"Batch_RenewsAll"},
	},
	{
		name: "no waiter is woken",
		apply: func(f *fake) {
			f.wait = func(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error) {
				return abstractions.Wakeups{C: make(chan struct{}, 1)}, nil
			}
		},
		failing: []string{"Wait_ReleaseWakesAWaiter", "Wait_BreakWakesAWaiter", "Trap_T32_NothingIsMissedAfterRegistration"},
	},
	{
		name: "a name is reserved for the first waiter, come what may",
		apply: func(f *fake) {
			f.wait = func(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
				queue, _ := shared.LoadOrStore(f.server, new(sync.Map))
				queue.(*sync.Map).LoadOrStore(req.Name, req.ID)
				return f.server.Wait(ctx, req)
			}
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				if queue, ok := shared.Load(f.server); ok {
					if head, ok := queue.(*sync.Map).Load(req.Name); ok && head != req.ID {
						return abstractions.Grant{}, &abstractions.HeldError{}
					}
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Trap_T78_HungWaiterBlocksNobody", "Wait_ManyAreServedOneAfterTheOther", "Wait_ALeavingWaiterBlocksNobody"},
	},
	{
		name: "it keeps no queue, and says that it does",
		apply: func(f *fake) {
			f.claimQueues()
		},
		failing: []string{"Queue_AFreeNameIsKeptForTheFirst", "Queue_WhoLeavesPassesItsTurnOn", "Trap_T78_AHungWaiterCostsItsReservation"},
	},
	{
		name:    "a release wakes all who wait",
		apply:   func(f *fake) { f.wakeOnRelease(func(all []chan struct{}) []chan struct{} { return all }) },
		failing: []string{"Queue_OneIsWoken"},
	},
	{
		name: "the first waiter gets every wake-up, taken or not",
		apply: func(f *fake) {
			f.wakeOnRelease(func(all []chan struct{}) []chan struct{} { return all[:min(1, len(all))] })
		},
		failing: []string{"Trap_T93_AWaiterThatIgnoresItsWakeupIsPassedOver"},
	},
	{
		name: "who came last is served first",
		apply: func(f *fake) {
			f.wakeOnRelease(func(all []chan struct{}) []chan struct{} { return all[max(0, len(all)-1):] })
		},
		failing: []string{"Queue_WhoComesIsServedInOrder", "Wait_NobodyIsPassedOverForEver"},
	},
	{
		name:    "who waits is listed the wrong way round",
		apply:   func(f *fake) { f.onWaiters(func(_ string, list *[]abstractions.Waiting) { slices.Reverse(*list) }) },
		failing: []string{"Waiters_AreListedInOrder"},
	},
	{
		name: "who waits is listed without its owner",
		apply: func(f *fake) {
			f.onWaiters(func(_ string, list *[]abstractions.Waiting) {
				for i := range *list {
					(*list)[i].Owner = "somebody"
				}
			})
		},
		failing: []string{"Waiters_AreListedInOrder"},
	},
	{
		name: "who waits has waited since it was asked about",
		apply: func(f *fake) {
			f.onWaiters(func(_ string, list *[]abstractions.Waiting) {
				for i := range *list {
					(*list)[i].Since = (*list)[i].Now
				}
			})
		},
		failing: []string{"Waiters_AreListedInOrder"},
	},
	{
		name: "who leaves or is served is still listed",
		apply: func(f *fake) {
			known, _ := shared.LoadOrStore(f.server, new(sync.Map))
			f.onWaiters(func(name string, list *[]abstractions.Waiting) {
				before, _ := known.(*sync.Map).LoadOrStore(name, *list)
				if before := before.([]abstractions.Waiting); len(before) > len(*list) {
					*list = before
				}
			})
		},
		failing: []string{"Waiters_OneThatLeavesIsNotListed"},
	},
	{
		name: "the holder is listed while its registration lasts",
		apply: func(f *fake) {
			f.onWaiters(func(name string, list *[]abstractions.Waiting) {
				if r, _ := f.server.Inspect(context.Background(), abstractions.InspectRequest{Name: name}); r.Held {
					*list = append([]abstractions.Waiting{{Fingerprint: r.Fingerprint, Owner: r.Owner}}, *list...)
				}
			})
		},
		failing: []string{"Waiters_OneThatIsServedIsNotListed", "Waiters_NobodyWaits"},
	},
	{
		name: "whose turn it is, is not listed",
		apply: func(f *fake) {
			f.claimQueues()
			f.onWaiters(func(name string, list *[]abstractions.Waiting) {
				if r, _ := f.server.Inspect(context.Background(), abstractions.InspectRequest{Name: name}); !r.Held && len(*list) > 0 {
					*list = (*list)[1:]
				}
			})
		},
		failing: []string{"Waiters_OneWhoseTurnItIsIsListed"},
	},
	{
		name:    "who has let its turn pass is listed for ever",
		apply:   func(f *fake) { f.claimQueues() },
		failing: []string{"Waiters_AHungOneIsDroppedAfterItsTurn"},
	},
	{
		name: "a wake-up closes the channel",
		apply: func(f *fake) {
			f.wait = func(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
				wakeups, err := f.server.Wait(ctx, req)
				once := make(chan struct{}, 1)
				go func() {
					select {
					case <-wakeups.C:
						close(once)
					case <-ctx.Done():
					}
				}()
				return abstractions.Wakeups{C: once}, err
			}
		},
		failing: []string{"Wait_ReleaseWakesAWaiter"},
	},
	{
		name: "a page begins where the one before ended, counted",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				all, err := f.server.List(ctx, abstractions.ListRequest{Prefix: req.Prefix, HeldOnly: req.HeldOnly, Limit: 1000})
				slices.SortFunc(all.Records, func(a, b abstractions.Record) int { return strings.Compare(a.Name, b.Name) })
				from, _ := strconv.Atoi(req.After)
				from = min(from, len(all.Records))
				to := min(from+req.PageLimit(), len(all.Records))
				page := abstractions.ListResult{Records: all.Records[from:to]}
				if to < len(all.Records) {
					page.Next = strconv.Itoa(to)
				}
				return page, err
			}
		},
		failing: []string{"List_OthersComeAndGoMeanwhile"},
	},
	{
		name: "the last name of a page is lost",
		apply: func(f *fake) {
			f.onList(func(req abstractions.ListRequest, page *abstractions.ListResult) {
				if page.Next != "" {
					page.Records = page.Records[:len(page.Records)-1]
				}
			})
		},
		failing: []string{"List_EachNameOnceOverAllPages", "List_HeldOnlyLeavesOutFreeNames"},
	},
	{
		name: "free names are always left out",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				req.HeldOnly = true
				return f.server.List(ctx, req)
			}
		},
		failing: []string{"List_HeldOnlyLeavesOutFreeNames", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "free names are never left out",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				req.HeldOnly = false
				return f.server.List(ctx, req)
			}
		},
		failing: []string{"List_HeldOnlyLeavesOutFreeNames"},
	},
	{
		name: "a listing does not show metadata",
		apply: func(f *fake) {
			f.onList(func(_ abstractions.ListRequest, page *abstractions.ListResult) {
				for i := range page.Records {
					page.Records[i].Metadata = nil
				}
			})
		},
		failing: []string{"Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "a page has no bound",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				all, err := f.server.List(ctx, abstractions.ListRequest{Limit: 1000})
				all.Records = slices.DeleteFunc(all.Records, func(r abstractions.Record) bool { return req.After != "" })
				return all, err
			}
		},
		failing: []string{"List_PagesAreBounded", "List_EachNameOnceOverAllPages"},
	},
	{
		name: "a prefix is a pattern",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				prefix := req.Prefix
				req.Prefix = prefix[:strings.LastIndex(prefix, "/")+1]
				page, err := f.server.List(ctx, req)
				page.Records = slices.DeleteFunc(page.Records, func(r abstractions.Record) bool { return !like(r.Name, prefix+"%") })
				return page, err
			}
		},
		failing: []string{"Trap_T25_PrefixIsNoPattern"},
	},
	{
		name: "a prefix is in any case",
		apply: func(f *fake) {
			f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
				prefix := req.Prefix
				req.Prefix = ""
				page, err := f.server.List(ctx, req)
				page.Records = slices.DeleteFunc(page.Records, func(r abstractions.Record) bool {
					return len(r.Name) < len(prefix) || !strings.EqualFold(r.Name[:len(prefix)], prefix)
				})
				return page, err
			}
		},
		failing: []string{"Trap_T25_PrefixIsNoPattern"},
	},
	{
		name: "history is listed backwards",
		apply: func(f *fake) {
			f.onHistory(func(page *abstractions.HistoryResult) { slices.Reverse(page.Entries) })
		},
		failing: []string{"History_RecordsWhenALeaseRanOut", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "an expiry is recorded when it is found",
		apply: func(f *fake) {
			f.onHistory(func(page *abstractions.HistoryResult) {
				for i := range page.Entries {
					if page.Entries[i].Kind == abstractions.HistoryExpired {
						page.Entries[i].Time = page.Entries[i].Time.Add(time.Second)
					}
				}
			})
		},
		failing: []string{"History_RecordsWhenALeaseRanOut", "Model_RandomRequestsMeetTheRules"},
	},
	{
		name: "the first entry of a page of history is lost",
		apply: func(f *fake) {
			f.onHistory(func(page *abstractions.HistoryResult) {
				if page.Next != "" {
					page.Entries = page.Entries[1:]
				}
			})
		},
		failing: []string{"History_IsReadInPages"},
	},
	{
		name: "history is listed from its beginning only",
		apply: func(f *fake) {
			f.history = func(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
				req.NewestFirst = false
				return f.server.History(ctx, req)
			}
		},
		failing: []string{"History_IsReadInPages"},
	},
	{
		name: "a full history takes no more",
		apply: func(f *fake) {
			f.onHistory(func(page *abstractions.HistoryResult) {
				if page.Next == "" && len(page.Entries) > 0 {
					page.Entries = page.Entries[:len(page.Entries)-1]
				}
			})
		},
		failing: []string{"History_HasTheLatest"},
	},
}

func (f *fake) onBatch(change func(results []abstractions.RenewResult) []abstractions.RenewResult) {
	f.renewBatch = func(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
		results, err := f.server.RenewBatch(ctx, reqs)
		if len(results) > 0 {
			results = change(results)
		}
		return results, err
	}
}

func (f *fake) onList(change func(req abstractions.ListRequest, page *abstractions.ListResult)) {
	f.list = func(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
		page, err := f.server.List(ctx, req)
		if err == nil {
			change(req, &page)
		}
		return page, err
	}
}

func (f *fake) onHistory(change func(page *abstractions.HistoryResult)) {
	f.history = func(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
		page, err := f.server.History(ctx, req)
		change(&page)
		return page, err
	}
}

// like matches an SQL LIKE pattern: % is any text and _ any character.
func like(text, pattern string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '%':
		for i := range len(text) + 1 {
			if like(text[i:], pattern[1:]) {
				return true
			}
		}
		return false
	default:
		return text != "" && (pattern[0] == '_' || pattern[0] == text[0]) && like(text[1:], pattern[1:])
	}
}

// onWaiters changes the list of a name's waiters.
func (f *fake) onWaiters(change func(name string, list *[]abstractions.Waiting)) {
	f.waiters = func(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
		list, err := f.server.Waiters(ctx, req)
		change(req.Name, &list)
		return list, err
	}
}

// claimQueues makes the provider's Capabilities report a queue of waiters.
func (f *fake) claimQueues() {
	f.capabilities = func() abstractions.Capabilities {
		c := f.server.Capabilities()
		c.Queues = true
		return c
	}
}

// wakeOnRelease makes a release wake the waiters for a name that the function pick returns.
func (f *fake) wakeOnRelease(pick func(all []chan struct{}) []chan struct{}) {
	type queue struct {
		mu     sync.Mutex
		byName map[string][]chan struct{}
	}
	f.claimQueues()
	q := func() *queue {
		q, _ := shared.LoadOrStore(f.server, &queue{byName: map[string][]chan struct{}{}})
		return q.(*queue)
	}
	f.wait = func(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
		q, wakeups := q(), make(chan struct{}, 1)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.byName[req.Name] = append(q.byName[req.Name], wakeups)
		context.AfterFunc(ctx, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.byName[req.Name] = slices.DeleteFunc(q.byName[req.Name], func(c chan struct{}) bool { return c == wakeups })
		})
		return abstractions.Wakeups{C: wakeups}, nil
	}
	f.release = func(ctx context.Context, req abstractions.ReleaseRequest) error {
		err := f.server.Release(ctx, req)
		q := q()
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, wakeups := range pick(q.byName[req.Name]) {
			select {
			case wakeups <- struct{}{}:
			default:
			}
		}
		return err
	}
}
