package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

//go:embed templates assets
var files embed.FS

// assets are the files of folder assets, and their types.
var assets = map[string]string{"console.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"inert":    providerkit.Visible,
	"duration": formatDuration,
	"exact":    func(d time.Duration) string { return d.Round(10 * time.Microsecond).String() },
	"count":    formatCount,
	"add":      func(a, b int) int { return a + b },
	"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"instant":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"machine":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).ParseFS(files, "templates/*.html"))

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	w.Header().Set("Content-Type", assets[name]+"; charset=utf-8")
	w.Header().Set("Cache-Control", "private, max-age=60")
	setWriteDeadline(w)
	http.ServeFileFS(w, r, files, "assets/"+name)
}

// page is the template data of all pages.
type page struct {
	Title    string
	User     string
	Provider string
	Clock    string
	ReadOnly bool
	Live     bool      // the page is kept up to date
	AsOf     time.Time // zero before the first answer
	Error    error     // the reason why the page shows old data; nil if the data are current
}

// Refused reports whether the backend answered with a refusal.
func (p page) Refused() bool {
	return abstractions.NotApplied(p.Error) && !errors.Is(p.Error, leasing.ErrUnavailable)
}

func (c *Console) page(user, title string) page {
	capabilities := c.manager.Capabilities()
	return page{Title: title, User: user, Provider: capabilities.Provider, Clock: capabilities.Clock, ReadOnly: !c.options.AllowBreak}
}

func render(w http.ResponseWriter, status int, name string, data any) {
	var html bytes.Buffer
	if err := pages.ExecuteTemplate(&html, name, data); err != nil {
		failRender(w)
		return
	}
	setWriteDeadline(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html.Bytes()) // fails only if the browser has gone
}

func failRender(w http.ResponseWriter) {
	http.Error(w, "the page could not be made", http.StatusInternalServerError)
}

// setWriteDeadline bounds the time for which writes may wait for the browser, if the server supports
// write deadlines.
func setWriteDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, status int, message string) {
	render(w, status, "error.html", struct {
		Title, Message string
		Status         int
	}{http.StatusText(status), message, status})
}

// formatDuration formats a time for people, with at most two units.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// formatCount formats a number for people.
func formatCount(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
