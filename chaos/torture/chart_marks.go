package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mark is around violations that are too near each other to be marked one by one.
type mark struct {
	stretch
	Y, H    int
	Numbers []int
	Texts   []string
}

// Label is what the mark is called; it leaves out what there is no room for.
func (m mark) Label() string {
	const most = 22
	label := ranges(m.Numbers)
	if len(label) > most {
		return label[:strings.LastIndex(label[:most], ",")] + ", …"
	}
	return label
}

// Around is the width of its frame.
func (m mark) Around() float64 { return m.Width + 8 }

// First is the number of the first violation in the list.
func (m mark) First() int { return m.Numbers[0] }

// Title tells of the first violations.
func (m mark) Title() string {
	const most = 10
	if len(m.Texts) > most {
		return strings.Join(m.Texts[:most], "\n") + fmt.Sprintf("\nand %d more", len(m.Texts)-most)
	}
	return strings.Join(m.Texts, "\n")
}

// ends is where there is room for the next mark.
func (m mark) ends() float64 { return m.X + m.Width + 16 + 7*float64(len(m.Label())) }

// marks draws the violations: over their name's row, or over all.
func (c *chart) marks(findings []finding, names []string) {
	each(byName(findings, func(f finding) string { return f.Name }), func(name string, findings []finding) {
		y, height := c.Top, c.Bottom-c.Top
		if i, ok := slices.BinarySearch(names, name); ok {
			y, height = c.Rows[i].Y, c.Rows[i].Height-2
		}
		var marks []mark
		for _, f := range findings {
			marks = append(marks, mark{stretch{X: c.x(f.At)}, y, height, []int{f.Number}, []string{f.Violation.String()}})
		}
		c.Marks = append(c.Marks, merge(marks)...)
	})
}

// merge makes one of marks that would touch, or cover the number of another.
func merge(marks []mark) (merged []mark) {
	for _, m := range slices.SortedStableFunc(slices.Values(marks), func(a, b mark) int { return cmp.Compare(a.X, b.X) }) {
		if len(merged) == 0 || merged[len(merged)-1].ends() < m.X {
			merged = append(merged, m)
			continue
		}
		last := &merged[len(merged)-1]
		last.Width = round(m.X + m.Width - last.X)
		last.Numbers = append(last.Numbers, m.Numbers...)
		last.Texts = append(last.Texts, m.Texts...)
		slices.Sort(last.Numbers)
	}
	return merged
}

// ranges lists numbers in order, with "5-9" for those that follow each other.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i + 1
		for j < len(numbers) && numbers[j] == numbers[j-1]+1 {
			j++
		}
		switch {
		case j == i+1:
			parts = append(parts, fmt.Sprint(numbers[i]))
		case j == i+2:
			parts = append(parts, fmt.Sprint(numbers[i]), fmt.Sprint(numbers[i+1]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j-1]))
		}
		i = j
	}
	return strings.Join(parts, ", ")
}
