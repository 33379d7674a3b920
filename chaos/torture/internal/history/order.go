package history

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// label replaces each claim's ID, which its manager chose at random, with its worker's number
// and its own number among that worker's claims.
func (h *History) label() {
	inOrder(h.Operations, func(o *Operation) place { return place{at: o.Call, worker: o.Worker, number: o.Number} })
	labels, claims := map[string]string{}, map[int]int{}
	for _, o := range h.Operations {
		if o.Claim != "" && labels[o.Claim] == "" {
			claims[o.Worker]++
			labels[o.Claim] = fmt.Sprintf("%d.%d", o.Worker, claims[o.Worker])
		}
	}
	relabel(reflect.ValueOf(h).Elem(), labels)
}

// relabel replaces each string that has a label with that label. Only IDs have labels.
func relabel(v reflect.Value, labels map[string]string) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			relabel(field, labels)
		}
	case reflect.Slice:
		for i := range v.Len() {
			relabel(v.Index(i), labels)
		}
	case reflect.String:
		if label, ok := labels[v.String()]; ok {
			v.SetString(label)
		}
	}
}

// place is the sort key of an item of a history.
type place struct {
	at          time.Duration
	worker      int
	name, claim string
	number      int
}

func inOrder[T any](all []T, of func(*T) place) {
	slices.SortStableFunc(all, func(one, other T) int {
		a, b := of(&one), of(&other)
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.worker, b.worker), cmp.Compare(a.name, b.name),
			cmp.Compare(a.claim, b.claim), cmp.Compare(a.number, b.number))
	})
}

// sort sorts the history, so that its order does not depend on the order in which
// goroutines wrote their items.
func (h *History) sort() {
	inOrder(h.Operations, func(o *Operation) place { return place{o.Call, o.Worker, o.Name, o.Claim, o.Number} })
	inOrder(h.Holds, func(t *Hold) place { return place{t.From, t.Worker, "", t.Claim, 0} })
	inOrder(h.Waits, func(w *Wait) place { return place{w.From, w.Worker, w.Name, "", w.Number} })
	inOrder(h.Readings, func(s *Reading) place { return place{s.Call, s.Worker, "", s.Claim, 0} })
	inOrder(h.Answers, func(w *Answer) place { return place{w.Call, w.Worker, w.Verb, w.Claim, 0} })
	inOrder(h.Observed, func(e *Observation) place {
		p := place{worker: e.Worker, claim: e.Claim}
		if e.Own {
			p.number = 1
		}
		return p
	})
	inOrder(h.Writes, func(w *Write) place { return place{number: w.Order} })
	inOrder(h.Faults, func(f *Fault) place { return place{f.At, f.Worker, f.Verb + f.Name, f.Kind + f.Rule, 0} })
}

// Names returns the names in the history, sorted.
func (h *History) Names() []string {
	all := slices.Concat(
		namesOf(h.Free, func(f FreeAt) string { return f.Name }), namesOf(h.Holds, func(t Hold) string { return t.Name }),
		namesOf(h.Operations, func(o Operation) string { return o.Name }), namesOf(h.Writes, func(w Write) string { return w.Name }),
		namesOf(h.Waits, func(w Wait) string { return w.Name }), namesOf(h.Readings, func(s Reading) string { return s.Name }),
	)
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf[T any](all []T, name func(T) string) (names []string) {
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

// End returns the time of the last event.
func (h *History) End() time.Duration {
	end := max(h.FaultsEnd, h.Closed)
	for _, o := range h.Operations {
		end = max(end, o.Call, o.Return)
	}
	for _, t := range h.Holds {
		end = max(end, t.From, t.End, t.Noticed)
	}
	for _, f := range h.Free {
		end = max(end, f.At)
	}
	return end
}
