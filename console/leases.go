package console

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
)

// pageSize is the number of leases on a page.
const pageSize = 100

// listing has the held leases, sorted by name.
type listing struct {
	leases    []lease
	truncated bool // there are more than MaxNames
}

func (c *Console) listHeld(ctx context.Context) (l listing, err error) {
	for record, err := range c.manager.List(ctx, leasing.ListOptions{Prefix: c.options.Prefix, HeldOnly: true}) {
		if err != nil {
			return listing{}, err
		}
		if l.truncated = len(l.leases) == MaxNames; l.truncated {
			break
		}
		l.leases = append(l.leases, lease{&record, time.Now()})
	}
	slices.SortFunc(l.leases, func(a, b lease) int { return cmp.Compare(a.Name, b.Name) })
	return l, nil
}

// The filters by state, and the sort orders. The first of each is the zero value.
const (
	showAll, showLow, showBreaking         = "", "low", "breaking"
	byName, byOwner, byTimeLeft, byLongest = "", "owner", "left", "held"
)

// query is a user's selection from the list.
type query struct {
	Text  string // part of the name or the owner
	Show  string
	Order string
	Page  int // from 1
}

func queryOf(r *http.Request) query {
	q := query{Text: r.FormValue("q"), Show: r.FormValue("show"), Order: r.FormValue("sort")}
	q.Page, _ = strconv.Atoi(r.FormValue("page"))
	q.Page = max(1, q.Page)
	return q
}

// Link returns the link to the query. The other methods return links to a query that differs in one
// field.
func (q query) Link() template.URL {
	values := url.Values{}
	for key, value := range map[string]string{"q": q.Text, "show": q.Show, "sort": q.Order} {
		if value != "" {
			values.Set(key, value)
		}
	}
	if q.Page > 1 {
		values.Set("page", strconv.Itoa(q.Page))
	}
	return template.URL("?" + values.Encode()) //nolint:gosec // encoded
}

func (q query) ByText(text string) template.URL   { return query{text, q.Show, q.Order, 1}.Link() }
func (q query) ByShow(show string) template.URL   { return query{q.Text, show, q.Order, 1}.Link() }
func (q query) ByOrder(order string) template.URL { return query{q.Text, q.Show, order, 1}.Link() }
func (q query) ByPage(page int) template.URL      { return query{q.Text, q.Show, q.Order, page}.Link() }

// leasesPage is the template data of the list.
type leasesPage struct {
	page
	query
	Rows                 []lease
	All, Low, Breaking   int // numbers of leases that match the text
	Matching             int // the number of those that also match the state
	First, Last, Pages   int // the rows on this page, counted from 1; the number of pages
	Cut                  bool
	Unsupported, Nothing bool // the backend cannot list; no list has been read yet
	Part                 template.HTML
}

// leasesPage selects the leases of a query from a reading. err is the reason why there is no newer
// reading.
func (c *Console) leasesPage(q query, from *reading, err error) *leasesPage {
	p := &leasesPage{page: c.page("", "Leases"), query: q}
	if from == nil {
		from = &reading{}
	}
	p.Nothing, p.Live = from.at.IsZero(), true
	if err == nil {
		err = from.err
	}
	p.Cut, p.AsOf = from.truncated, from.at
	if p.Unsupported = errors.Is(err, leasing.ErrUnsupported); !p.Unsupported {
		p.Error = err
	}
	text := strings.ToLower(p.Text)
	var matching []lease
	for _, l := range from.leases {
		if text != "" && !strings.Contains(strings.ToLower(l.Name), text) && !strings.Contains(strings.ToLower(l.Owner), text) {
			continue
		}
		state := l.State()
		p.All++
		switch state {
		case stateLow:
			p.Low++
		case stateBreaking:
			p.Breaking++
		}
		if p.Show == showAll || p.Show == state {
			matching = append(matching, l)
		}
	}
	sortLeases(matching, p.Order)
	p.Matching = len(matching)
	p.Pages = max(1, (p.Matching+pageSize-1)/pageSize)
	p.query.Page = min(p.query.Page, p.Pages)
	p.First, p.Last = (p.query.Page-1)*pageSize+1, min(p.query.Page*pageSize, p.Matching)
	p.Rows = matching[p.First-1 : p.Last]
	return p
}

// sortLeases orders leases. Leases that compare equal keep their order by name.
func sortLeases(leases []lease, order string) {
	switch order {
	case byOwner:
		slices.SortStableFunc(leases, func(a, b lease) int { return cmp.Compare(a.Owner, b.Owner) })
	case byTimeLeft:
		slices.SortStableFunc(leases, func(a, b lease) int { return cmp.Compare(a.left(), b.left()) })
	case byLongest:
		slices.SortStableFunc(leases, func(a, b lease) int { return a.AcquiredAt.Compare(b.AcquiredAt) })
	}
}

// maxPartAge bounds the age of a rendering of the list, because the times left in a rendering do not change.
const maxPartAge = time.Second

// leasesPart returns the part of the list that a query selects, and the time of the next read. It returns nil if
// ctx ends before the part is ready.
func (c *Console) leasesPart(ctx context.Context, q query) (p *part, next time.Time) {
	from, err := c.list.get(ctx)
	if ctx.Err() != nil {
		return nil, time.Time{}
	}
	key := partKey{template: "leases-live", subject: string(q.Link()), reading: from}
	if err != nil {
		key.problem = err.Error()
	}
	p = c.parts.get(ctx, key, func(any) (func() any, time.Time) {
		return func() any { return c.leasesPage(q, from, err) }, time.Now().Add(maxPartAge)
	})
	if from == nil {
		return p, time.Now().Add(c.options.Refresh)
	}
	return p, from.next
}

func (c *Console) serveLeases(w http.ResponseWriter, r *http.Request) {
	part, _ := c.leasesPart(r.Context(), queryOf(r))
	if part == nil {
		return // the browser has gone
	}
	shared, ok := part.data.(*leasesPage)
	if !ok || part.html == "" {
		failRender(w)
		return
	}
	p := *shared
	p.User, p.Part = userOf(r), part.html
	render(w, http.StatusOK, "leases.html", &p)
}

func (c *Console) streamLeases(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	c.stream(w, r, func(ctx context.Context) (*part, time.Time) { return c.leasesPart(ctx, q) })
}
