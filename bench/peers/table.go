package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeTables shows a report, a table for each workload and variant.
func (r report) writeTables(w io.Writer) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s/%s, %d CPUs, %s, Redis %s, rounds: %d\n", r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Go, r.Machine.Redis, r.Rounds)
	for rows := r.Results; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Workload == rows[0].Workload && rows[n].Variant == rows[0].Variant {
			n++
		}
		writeTable(text, rows[:n])
		rows = rows[n:]
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeTable shows one table, with the reasons below where a peer has failed.
func writeTable(w io.Writer, rows []result) {
	load, err := workloadByName(rows[0].Workload)
	if err != nil {
		return // a report has none but ours
	}
	head := []string{"peer"}
	for _, c := range load.columns {
		head = append(head, c.head)
	}
	head = append(head, "of leasing")
	if load.floor != "" {
		head = append(head, "of floor")
	}
	cells := [][]string{head}
	for _, row := range rows {
		cells = append(cells, load.cells(row, rows))
	}
	fmt.Fprintf(w, "\n%s: %s\n%s\n\n", load.name, load.title, rows[0].Variant)
	writeAligned(w, cells)
	for _, row := range rows {
		for _, text := range row.Errors {
			fmt.Fprintf(w, "FAILED %s: %s\n", row.Peer, text)
		}
	}
}

// cells are a row's, with its headline in relation to others of its table.
func (w workload) cells(row result, rows []result) []string {
	cells := []string{row.Peer}
	for _, c := range w.columns {
		cells = append(cells, number(row.Metrics, c.key, c.decimals))
	}
	ours := "leasing"
	if strings.HasSuffix(row.Peer, redlockSuffix) {
		ours += redlockSuffix
	}
	cells = append(cells, w.ratio(row, rows, ours))
	if w.floor != "" {
		cells = append(cells, w.ratio(row, rows, w.floor))
	}
	return cells
}

// redlockSuffix ends the names of the peers on three servers.
const redlockSuffix = "-redlock"

// ratio is the row's headline as a multiple of another peer's.
func (w workload) ratio(row result, rows []result, peer string) string {
	key := w.columns[0].key
	for _, other := range rows {
		if other.Peer == peer && other.Metrics[key] != 0 {
			if value, ok := row.Metrics[key]; ok {
				return multiple(value / other.Metrics[key])
			}
		}
	}
	return absent
}

// multiple shows a ratio with three digits or so.
func multiple(ratio float64) string {
	decimals := 2
	if ratio >= 100 {
		decimals = 0
	}
	return thousands(fmt.Sprintf("%.*f", decimals, ratio))
}

// absent is shown where there is nothing to show.
const absent = "-"

func number(m metrics, key string, decimals int) string {
	value, ok := m[key]
	if !ok {
		return absent
	}
	return thousands(fmt.Sprintf("%.*f", decimals, value))
}

// thousands sets commas into the whole part of a number.
func thousands(text string) string {
	whole, part, hasPart := strings.Cut(text, ".")
	sign := ""
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "-", rest
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if hasPart {
		whole += "." + part
	}
	return sign + whole
}

// writeAligned puts the first column to the left and the numbers to the right.
func writeAligned(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(w, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(w)
	}
}
